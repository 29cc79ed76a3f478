package samples

import (
	"fmt"
	"math"
	"time"

	"github.com/prometheus/prometheus/model/labels"
)

// Span is a stretch of time.
type Span struct{ From, To time.Time }

// Length gives how long the span is.
func (s Span) Length() time.Duration { return s.To.Sub(s.From) }

// Health is how the scraping of one target went. It keeps apart what the target
// owes (it did not answer) and what the scraper owes (it did not ask), since
// only the second is certain to be trouble of the rig.
type Health struct {
	Node, Kind string
	Ticks      int // scrapes made, with whatever result
	Failed     int // scrapes that the target did not answer in time or in form
	Missed     int // ticks at which the scraper made no scrape
	WorstGap   time.Duration
	WorstMiss  time.Duration
	Gaps       []Span // without a successful scrape
	Misses     []Span // without any scrape
}

// Health tells of every target that ever was scraped, sorted by kind and node,
// how its scraping went within [from, to]. Gaps and Misses list the stretches
// longer than limit; they count from the window's edges, so that a target that
// was not scraped within it at all has one miss as long as the window. No
// target at all gives an empty list, which is for the caller to refuse.
func (s *Store) Health(from, to time.Time, limit time.Duration) []Health {
	a, b := from.UnixMilli(), to.UnixMilli()
	missed := map[string][]point{}
	key := func(l labels.Labels) string { return l.Get("kind") + "\xff" + l.Get("node") }
	for _, x := range s.snapshot(named(scrapeMissed)) {
		missed[key(x.labels)] = x.points
	}
	var out []Health
	for _, x := range s.snapshot(named(scrapeSuccess)) {
		h := Health{Node: x.labels.Get("node"), Kind: x.labels.Get("kind")}
		var asked, answered []point
		for _, p := range between(x.points, a, b) {
			h.Ticks++
			asked = append(asked, p)
			if p.v == 0 {
				h.Failed++
				continue
			}
			answered = append(answered, p)
		}
		h.Gaps, h.WorstGap = apart(answered, a, b, limit)
		h.Misses, h.WorstMiss = apart(asked, a, b, limit)
		counter := missed[key(x.labels)]
		h.Missed = int(last(between(counter, math.MinInt64, b)) - last(between(counter, math.MinInt64, a)))
		out = append(out, h)
	}
	return out
}

// Gap is a stretch without samples of one series.
type Gap struct {
	Series string
	Span
}

// Gaps lists the stretches longer than limit, within [from, to] and counted from
// its edges, in which a series that a PromQL selector matches has no sample. A
// selector that matches no series has one gap as long as the window, under its
// own name.
func (s *Store) Gaps(selector string, from, to time.Time, limit time.Duration) ([]Gap, error) {
	matchers, err := promqlParser().ParseMetricSelector(selector)
	if err != nil {
		return nil, fmt.Errorf("selector %s: %w", selector, err)
	}
	snapshot := s.snapshot(matchers...)
	if len(snapshot) == 0 {
		return []Gap{{Series: selector, Span: Span{from, to}}}, nil
	}
	var out []Gap
	a, b := from.UnixMilli(), to.UnixMilli()
	for _, x := range snapshot {
		spans, _ := apart(between(x.points, a, b), a, b, limit)
		for _, span := range spans {
			out = append(out, Gap{Series: seriesName(x.labels), Span: span})
		}
	}
	return out, nil
}

func named(name string) *labels.Matcher {
	return labels.MustNewMatcher(labels.MatchEqual, labels.MetricName, name)
}

func last(points []point) float64 {
	if len(points) == 0 {
		return 0
	}
	return points[len(points)-1].v
}

// apart gives the stretches between points longer than limit, and the longest
// of all. The edges a and b count as points.
func apart(points []point, a, b int64, limit time.Duration) (over []Span, worst time.Duration) {
	before := a
	look := func(t int64) {
		d := time.Duration(t-before) * time.Millisecond
		worst = max(worst, d)
		if d > limit {
			over = append(over, Span{time.UnixMilli(before), time.UnixMilli(t)})
		}
		before = t
	}
	for _, p := range points {
		look(p.t)
	}
	look(b)
	return over, worst
}
