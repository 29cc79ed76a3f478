package samples

import (
	"context"
	"fmt"
	"math"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/util/annotations"
)

// promqlParser is the one dialect that checks, curves and rules are read in:
// PromQL without experimental functions.
var promqlParser = sync.OnceValue(func() parser.Parser { return parser.NewParser(parser.Options{}) })

var engine = sync.OnceValue(func() *promql.Engine {
	return promql.NewEngine(promql.EngineOpts{
		MaxSamples:           50e6,
		Timeout:              time.Minute,
		LookbackDelta:        Lookback,
		EnableAtModifier:     true,
		EnableNegativeOffset: true,
		Parser:               promqlParser(),
		NoStepSubqueryIntervalFn: func(int64) int64 {
			return Period.Milliseconds() // a subquery without a step looks at every scrape
		},
	})
})

// evaluate gives an expression's value at every step of [from, to]. An instant
// is a range of one step, so that there is one way to be right.
func evaluate(q storage.Queryable, expr string, from, to time.Time, step time.Duration) (promql.Matrix, error) {
	ctx := context.Background() // the engine's own time limit ends it
	query, err := engine().NewRangeQuery(ctx, q, nil, expr, from, to, max(step, time.Millisecond))
	if err != nil {
		return nil, fmt.Errorf("evaluating %s: %w", expr, err)
	}
	defer query.Close()
	m, err := query.Exec(ctx).Matrix()
	if err != nil {
		return nil, fmt.Errorf("evaluating %s: %w", expr, err)
	}
	// Close gives the points back to a pool of the engine's.
	out := make(promql.Matrix, len(m))
	for i, x := range m {
		out[i] = promql.Series{Metric: x.Metric, Floats: append([]promql.FPoint(nil), x.Floats...)}
	}
	return out, nil
}

// layers is a storage.Queryable over several stores, as if they were one. Where
// empty is set it is told of every selector that found no samples.
type layers struct {
	stores []*Store
	empty  func(reason string)
}

// Querier implements storage.Queryable.
func (l layers) Querier(from, to int64) (storage.Querier, error) {
	return &querier{layers: l, from: from, to: to}, nil
}

type querier struct {
	layers
	from, to int64
}

// Select implements storage.Querier. What it gives is always sorted.
func (q *querier) Select(_ context.Context, _ bool, hints *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
	from, to := q.from, q.to
	if hints != nil {
		from, to = hints.Start, hints.End
	}
	set := &seriesSet{at: -1}
	newest, known := int64(0), false
	for _, s := range q.stores {
		for _, x := range s.snapshot(matchers...) {
			if points := between(x.points, from, to); len(points) > 0 {
				set.series = append(set.series, series{x.labels, points})
			}
			if earlier := between(x.points, math.MinInt64, to); len(earlier) > 0 {
				newest = max(newest, earlier[len(earlier)-1].t)
			}
			known = true
		}
	}
	if len(q.stores) > 1 {
		sort.Slice(set.series, func(i, j int) bool {
			return labels.Compare(set.series[i].labels, set.series[j].labels) < 0
		})
	}
	if q.empty != nil && len(set.series) == 0 {
		switch name := selectorName(matchers); {
		case !known:
			q.empty("no samples match " + name)
		case newest == 0:
			q.empty(fmt.Sprintf("no samples match %s yet: all of them are later", name))
		default:
			age := time.Duration(to-newest) * time.Millisecond
			q.empty(fmt.Sprintf("no samples match %s in its window: the newest is %s old", name, age))
		}
	}
	return set
}

// LabelValues implements storage.Querier; no query that is evaluated asks it.
func (*querier) LabelValues(context.Context, string, *storage.LabelHints, ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	return nil, nil, fmt.Errorf("label values: not kept by this store")
}

// LabelNames implements storage.Querier; no query that is evaluated asks it.
func (*querier) LabelNames(context.Context, *storage.LabelHints, ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	return nil, nil, fmt.Errorf("label names: not kept by this store")
}

// Close implements storage.Querier.
func (*querier) Close() error { return nil }

// selectorName writes matchers as a selector in PromQL.
func selectorName(matchers []*labels.Matcher) string {
	name := ""
	var rest []string
	for _, m := range matchers {
		if m.Name == labels.MetricName && m.Type == labels.MatchEqual && name == "" {
			name = m.Value
			continue
		}
		rest = append(rest, m.String())
	}
	if len(rest) == 0 {
		return name
	}
	return name + "{" + strings.Join(rest, ",") + "}"
}

type seriesSet struct {
	series []series
	at     int
}

func (s *seriesSet) Next() bool                        { s.at++; return s.at < len(s.series) }
func (s *seriesSet) At() storage.Series                { return &s.series[s.at] }
func (s *seriesSet) Err() error                        { return nil }
func (s *seriesSet) Warnings() annotations.Annotations { return nil }

// Labels implements storage.Series.
func (x *series) Labels() labels.Labels { return x.labels }

// Iterator implements storage.Series.
func (x *series) Iterator(chunkenc.Iterator) chunkenc.Iterator {
	return storage.NewListSeriesIterator(points(x.points))
}

// points is a storage.Samples that hands out pointers into its own array, so
// that reading a point allocates nothing.
type points []point

func (p points) Get(i int) chunks.Sample { return &p[i] }
func (p points) Len() int                { return len(p) }

// point is one sample; it implements chunks.Sample for a plain number.
type point struct {
	t int64 // milliseconds since 1970
	v float64
}

func (p *point) T() int64                      { return p.t }
func (p *point) ST() int64                     { return 0 }
func (p *point) F() float64                    { return p.v }
func (p *point) H() *histogram.Histogram       { return nil }
func (p *point) FH() *histogram.FloatHistogram { return nil }
func (p *point) Type() chunkenc.ValueType      { return chunkenc.ValFloat }
func (p *point) Copy() chunks.Sample           { c := *p; return &c }
