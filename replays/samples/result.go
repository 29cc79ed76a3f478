package samples

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/prometheus/model/labels"
)

// State is what became of a check.
type State int

const (
	NoData  State = iota // it could not be seen; never to be taken for either of the others
	NotHeld              // at least one series on the left violates the comparison
	Held                 // every series on the left satisfies it
)

func (s State) String() string {
	switch s {
	case Held:
		return "held"
	case NotHeld:
		return "not held"
	}
	return "no data"
}

// Result is a check's outcome at one moment.
type Result struct {
	At     time.Time
	State  State
	Got    string // the left side on its own; empty where it gave nothing
	Want   string // the comparison and its right side: ">= 0.99"
	Margin *float64
	// Nearest is the series that decides it; nil where there is no data, or where
	// the limit is not one number and every series satisfies the comparison.
	Nearest *Nearest
	Reason  string // why there is no data
}

// Margin is the distance to the limit as a share of the limit (or, with a limit
// of zero, the distance itself); negative where the check does not hold. It is
// nil where either side is not one finite number. See replays.Finding.
func margin(op string, got, limit float64) *float64 {
	d := got - limit
	switch op {
	case "<", "<=":
		d = -d
	case "==":
		d = -math.Abs(d)
	case "!=":
		d = math.Abs(d)
	}
	if limit != 0 {
		d /= math.Abs(limit)
	}
	if math.IsNaN(d) || math.IsInf(d, 0) {
		return nil
	}
	if d == 0 {
		d = 0 // no negative zero
	}
	return &d
}

func compare(op string, got, limit float64) bool {
	switch op {
	case "==":
		return got == limit
	case "!=":
		return got != limit
	case ">":
		return got > limit
	case ">=":
		return got >= limit
	case "<":
		return got < limit
	}
	return got <= limit
}

// Instant evaluates the check at one moment, over a phase of the given length
// that ends there.
func (q *Query) Instant(s *Store, at time.Time, phase time.Duration) Result {
	return q.Range(s, at, at, time.Millisecond, phase)[0]
}

// Range evaluates the check at from and at every step after it up to to: at
// least once, in order of time.
func (q *Query) Range(s *Store, from, to time.Time, step, phase time.Duration) []Result {
	step = max(step, time.Millisecond)
	n := 1
	if to.After(from) {
		n += int(to.Sub(from) / step)
	}
	results := make([]Result, n)
	for i := range results {
		results[i] = Result{At: from.Add(time.Duration(i) * step), Want: strings.TrimSpace(q.op + " " + q.limit)}
	}
	fail := func(reason string) []Result {
		for i := range results {
			results[i].Reason = reason
		}
		return results
	}
	if missing := s.missing(q.left, q.right); len(missing) > 0 {
		return fail("no samples match " + strings.Join(missing, " or ") + ": there is no series of that name")
	}
	b, err := q.bind(phase)
	if err != nil {
		return fail(err.Error())
	}
	var sides [3][][]value // left, right, comparison
	for i, expr := range []string{b.left, b.right, b.both} {
		if expr == "" {
			continue
		}
		if sides[i], err = s.values(expr, from, step, n); err != nil {
			return fail(err.Error())
		}
	}
	for i := range results {
		var judged []value
		if b.both != "" {
			judged = sides[2][i]
		}
		q.judge(&results[i], sides[0][i], sides[1][i], judged, b.both == "")
		if results[i].State == NoData {
			if reason := s.emptySelectors(b, results[i].At); reason != "" {
				results[i].Reason = reason
			}
		}
	}
	return results
}

// judge fills in a result. Of a right side that is one number judged is not
// looked at; otherwise it holds 1 or 0 for every pair that the comparison made.
func (q *Query) judge(r *Result, left, right, judged []value, number bool) {
	limit := math.NaN()
	if len(right) == 1 {
		limit = right[0].v
	}
	if q.limit == "" {
		r.Want = strings.TrimSpace(q.op + " " + format(right, nil))
	}
	r.Got = format(left, func(v float64) bool { return !number || compare(q.op, v, limit) }, limit)
	violated, unseen := false, false
	for _, v := range left {
		if math.IsNaN(v.v) {
			unseen = true
		} else if number && !math.IsNaN(limit) && !compare(q.op, v.v, limit) {
			violated = true
		}
	}
	for _, v := range judged {
		violated = violated || v.v == 0
	}
	badLimit := len(right) == 0 || slices.ContainsFunc(right, func(v value) bool { return math.IsNaN(v.v) })
	switch {
	case len(left) == 0:
		r.Reason = "the left side gives no series although its selectors match samples: " +
			"if none means zero, say so with ... or vector(0)"
	case len(right) == 0:
		r.Reason = "the right side gives no series although its selectors match samples"
	case badLimit:
		r.Reason = "the right side is not a number: nothing divided by nothing"
	case !number && unseen, unseen && !violated:
		r.Reason = "the left side is not a number: nothing divided by nothing"
	case violated:
		r.State = NotHeld
	case !number && len(judged) < len(left):
		r.Reason = fmt.Sprintf("%d of %d series on the left have no partner on the right: compare on(...) the labels that both share",
			len(left)-len(judged), len(left))
	default:
		r.State = Held
	}
	if r.State == NoData {
		return
	}
	if len(left) == 1 && len(right) == 1 {
		r.Margin = margin(q.op, left[0].v, limit)
	}
	r.Nearest = q.nearest(left, judged, limit, number)
}

// value is one series' value at one moment.
type value struct {
	labels labels.Labels
	v      float64
}

// values evaluates an expression at n steps.
func (s *Store) values(expr string, from time.Time, step time.Duration, n int) ([][]value, error) {
	m, err := evaluate(layers{stores: []*Store{s}}, expr, from, from.Add(time.Duration(n-1)*step), step)
	if err != nil {
		return nil, err
	}
	out := make([][]value, n)
	start, ms := from.UnixMilli(), step.Milliseconds()
	for _, x := range m {
		for _, p := range x.Floats {
			if i := int((p.T - start) / ms); i >= 0 && i < n {
				out[i] = append(out[i], value{x.Metric, p.F})
			}
		}
	}
	for _, step := range out {
		slices.SortFunc(step, func(a, b value) int { return labels.Compare(a.labels, b.labels) })
	}
	return out, nil
}

// missing gives the metrics of which the store holds no series at all. A check
// that names one is not judged, whatever the rest of it makes of an empty
// selector: a misspelt name in `x or vector(0)` would hold for ever.
func (s *Store) missing(lists ...[]string) []string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var out []string
	for _, names := range lists {
		for _, name := range names {
			if len(s.byName[name]) == 0 && !slices.Contains(out, name) {
				out = append(out, name)
			}
		}
	}
	return out
}

// emptySelectors names the selectors that found no samples at a moment.
func (s *Store) emptySelectors(b bound, at time.Time) string {
	var reasons []string
	l := layers{stores: []*Store{s}, empty: func(reason string) {
		if !slices.Contains(reasons, reason) {
			reasons = append(reasons, reason)
		}
	}}
	for _, expr := range []string{b.left, b.right} {
		if _, err := evaluate(l, expr, at, at, 0); err != nil {
			return err.Error()
		}
	}
	return strings.Join(reasons, "; ")
}

// shown is how many series are written out before the rest are only counted.
const shown = 3

// format writes values: one as its number, several as {labels} number, in order
// of their labels. If not all can be shown, those that violate come first, and
// then those that are nearest to the limit.
func format(values []value, satisfies func(float64) bool, limits ...float64) string {
	if len(values) == 1 {
		return number(values[0].v, limits...)
	}
	if len(values) > shown && satisfies != nil {
		values = slices.Clone(values)
		slices.SortStableFunc(values, func(a, b value) int {
			switch x, y := satisfies(a.v), satisfies(b.v); {
			case x == y && len(limits) == 1:
				return cmp.Compare(math.Abs(a.v-limits[0]), math.Abs(b.v-limits[0]))
			case x == y:
				return 0
			case y:
				return -1
			}
			return 1
		})
	}
	named := false // whether the names tell the series apart
	for _, v := range values {
		named = named || v.labels.Get(labels.MetricName) != values[0].labels.Get(labels.MetricName)
	}
	var parts []string
	for i, v := range values {
		if i == shown {
			parts = append(parts, fmt.Sprintf("and %d more", len(values)-shown))
			break
		}
		name := v.labels.DropMetricName().String()
		if named {
			name = seriesName(v.labels)
		}
		parts = append(parts, name+" "+number(v.v, limits...))
	}
	return strings.Join(parts, ", ")
}

// number writes a number with four significant digits, or with as many as it
// takes to tell it from a limit on the same side that it is on: 0.98996 is not
// written as 0.99 where 0.99 is owed.
func number(v float64, limits ...float64) string {
	if v == math.Trunc(v) && math.Abs(v) < 1e15 {
		return strconv.FormatFloat(v, 'f', -1, 64)
	}
	for digits := 4; digits < 17; digits++ {
		s := strconv.FormatFloat(v, 'g', digits, 64)
		short, err := strconv.ParseFloat(s, 64)
		if err != nil {
			break
		}
		same := func(limit float64) bool { return (short < limit) == (v < limit) && (short > limit) == (v > limit) }
		if !slices.ContainsFunc(limits, func(l float64) bool { return !same(l) }) {
			if abs := math.Abs(short); abs >= 1e-4 && abs < 1e15 {
				return strconv.FormatFloat(short, 'f', -1, 64)
			}
			return strconv.FormatFloat(short, 'g', -1, 64)
		}
	}
	return strconv.FormatFloat(v, 'g', -1, 64)
}
