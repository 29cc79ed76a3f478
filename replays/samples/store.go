// Package samples holds what was measured during a play: series of timestamped
// values, scraped from nodes, written to and read from disk as OpenMetrics, and
// asked questions in PromQL.
//
// A [Store] is filled by a [Scraper] or by [Read]; a [Query] is one check over
// it, and [Rules] are ordinary Prometheus rules over it. All that is known of
// Prometheus' own Go packages is known here and nowhere else: they promise no
// stable interface.
package samples

import (
	"slices"
	"sort"
	"sync"
	"time"

	"github.com/prometheus/prometheus/model/labels"
)

// Lookback is how long a sample counts as a series' current value. Prometheus'
// own five minutes would hide every gap of a play that is shorter than that;
// four missed scrapes in a row are taken for silence here.
const Lookback = time.Second

// Store is an in-memory set of series. All its methods may be called from many
// goroutines at once. Times are kept in whole milliseconds.
type Store struct {
	mu     sync.RWMutex
	byHash map[uint64][]*series
	byName map[string][]*series
	all    []*series // in order of first appearance
}

// series is one labelled sequence of points in order of time. Its labels never
// change; its points are guarded by the store's lock. Readers keep sub-slices
// of points beyond the lock, so that what lies below len(points) is never
// written again: a point that comes late makes a new array.
type series struct {
	labels labels.Labels
	points []point
}

// NewStore gives an empty store.
func NewStore() *Store {
	return &Store{byHash: map[uint64][]*series{}, byName: map[string][]*series{}}
}

// Append adds one sample. Of two samples of one series in the same millisecond
// the later call wins. An empty label value means that the label is absent, as
// in PromQL.
func (s *Store) Append(name string, lset map[string]string, at time.Time, v float64) {
	b := labels.NewScratchBuilder(len(lset) + 1)
	b.Add(labels.MetricName, name)
	for k, v := range lset {
		if v != "" && k != labels.MetricName {
			b.Add(k, v)
		}
	}
	b.Sort()
	l := b.Labels()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.find(l).append(point{at.UnixMilli(), v})
}

// find gives the series with these labels, made if there is none. The lock must
// be held for writing.
func (s *Store) find(l labels.Labels) *series {
	h := l.Hash()
	for _, x := range s.byHash[h] {
		if labels.Equal(x.labels, l) {
			return x
		}
	}
	x := &series{labels: l}
	s.byHash[h] = append(s.byHash[h], x)
	name := l.Get(labels.MetricName)
	s.byName[name] = append(s.byName[name], x)
	s.all = append(s.all, x)
	return x
}

func (x *series) append(p point) {
	n := len(x.points)
	if n == 0 || x.points[n-1].t < p.t {
		x.points = append(x.points, p)
		return
	}
	i := sort.Search(n, func(i int) bool { return x.points[i].t >= p.t })
	x.points = slices.Clone(x.points)
	if x.points[i].t == p.t {
		x.points[i] = p
		return
	}
	x.points = slices.Insert(x.points, i, p)
}

// between gives the points of [from, to], both in milliseconds and inclusive.
func between(points []point, from, to int64) []point {
	i := sort.Search(len(points), func(i int) bool { return points[i].t >= from })
	j := i + sort.Search(len(points)-i, func(j int) bool { return points[i+j].t > to })
	return points[i:j:j]
}

// snapshot gives the series that match, sorted by their labels, as they are now.
func (s *Store) snapshot(matchers ...*labels.Matcher) []series {
	s.mu.RLock()
	defer s.mu.RUnlock()
	candidates := s.all
	for _, m := range matchers {
		if m.Name == labels.MetricName && m.Type == labels.MatchEqual {
			candidates = s.byName[m.Value]
			break
		}
	}
	var out []series
next:
	for _, x := range candidates {
		for _, m := range matchers {
			if !m.Matches(x.labels.Get(m.Name)) {
				continue next
			}
		}
		if n := len(x.points); n > 0 {
			out = append(out, series{x.labels, x.points[:n:n]})
		}
	}
	slices.SortFunc(out, func(a, b series) int { return labels.Compare(a.labels, b.labels) })
	return out
}

// SeriesInfo says what a store holds of one series.
type SeriesInfo struct {
	Name    string
	Labels  map[string]string // without the name
	Samples int
	First   time.Time
	Last    time.Time
}

// Series lists what the store holds, sorted by name and labels.
func (s *Store) Series() []SeriesInfo {
	snapshot := s.snapshot()
	out := make([]SeriesInfo, 0, len(snapshot))
	for _, x := range snapshot {
		n := len(x.points)
		out = append(out, SeriesInfo{
			Name: x.labels.Get(labels.MetricName), Labels: nameless(x.labels), Samples: n,
			First: time.UnixMilli(x.points[0].t), Last: time.UnixMilli(x.points[n-1].t),
		})
	}
	return out
}

func nameless(l labels.Labels) map[string]string {
	m := l.Map()
	delete(m, labels.MetricName)
	return m
}

// seriesName writes labels as PromQL does: name{label="value"}.
func seriesName(l labels.Labels) string {
	name := l.Get(labels.MetricName)
	if rest := l.DropMetricName(); rest.Len() > 0 {
		return name + rest.String()
	}
	return name
}
