package samples

import (
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
)

// Curve is one series over time, to be drawn.
type Curve struct {
	Name   string // of the metric, "" where an operation took it away
	Labels map[string]string
	Points []Point
}

// Point is one value of a curve.
type Point struct {
	At    time.Time
	Value float64
}

// Curves evaluates any PromQL expression at every step of [from, to]; $phase is
// not known to it. Steps at which a series has no value are left out. The
// curves are sorted by name and labels; none at all is no error.
func (s *Store) Curves(expr string, from, to time.Time, step time.Duration) ([]Curve, error) {
	tree, err := promqlParser().ParseExpr(expr)
	if err != nil {
		return nil, fmt.Errorf("curve %s: %w", expr, err)
	}
	if t := tree.Type(); t != parser.ValueTypeVector && t != parser.ValueTypeScalar {
		return nil, fmt.Errorf("curve %s: %w, got a %s", expr, errNoCurve, parser.DocumentedType(t))
	}
	m, err := evaluate(layers{stores: []*Store{s}}, expr, from, to, step)
	if err != nil {
		return nil, err
	}
	curves := make([]Curve, 0, len(m))
	for _, x := range m {
		c := Curve{Name: x.Metric.Get(labels.MetricName), Labels: nameless(x.Metric), Points: make([]Point, len(x.Floats))}
		for i, p := range x.Floats {
			c.Points[i] = Point{time.UnixMilli(p.T), p.F}
		}
		curves = append(curves, c)
	}
	return curves, nil
}

// Absent gives the metrics that an expression names and of which the store holds
// no series at all: x or vector(0) of a misspelt x would be zero for ever.
func (s *Store) Absent(expr string) []string {
	tree, err := promqlParser().ParseExpr(expr)
	if err != nil {
		return nil // Curves says so
	}
	return s.missing(metricNames(tree))
}

// CheckCurve says what is wrong with an expression for [Store.Curves], as a
// *[QueryError].
func CheckCurve(expr string) error {
	q := &Query{expr: expr}
	if err := q.checkLength(); err != nil {
		return err
	}
	tree, err := promqlParser().ParseExpr(expr)
	if err != nil {
		return q.explain(err, "write PromQL such as sum(rate(relapse_requests_total[1s])), without $phase")
	}
	if t := tree.Type(); t != parser.ValueTypeVector && t != parser.ValueTypeScalar {
		return q.refuse(0, fmt.Sprintf("this gives a %s and no curve", parser.DocumentedType(t)), "write rate(x[1s]) rather than x[1s]")
	}
	return nil
}

var errNoCurve = errors.New("want an expression that gives one value a series: write rate(x[1s]) rather than x[1s]")
