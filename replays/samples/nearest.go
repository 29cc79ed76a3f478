package samples

import (
	"math"
	"slices"
	"time"

	"github.com/prometheus/prometheus/promql/parser"
)

// Nearest is the one series of a check that decides it: the furthest beyond the
// limit where any is, else the one with the least room.
type Nearest struct {
	Labels map[string]string // of what stands on the left, as far as it keeps them
	Got    string            // its value; "" where the limit is not one number
	Margin *float64          // as in a [Result]; nil where the limit is not one number, or one of both is infinite
}

// nearest looks through a result that has data. Of a limit that is not one number
// only the first pair that violates is known, by the labels that the comparison
// leaves.
func (q *Query) nearest(left, judged []value, limit float64, single bool) *Nearest {
	if !single {
		for _, v := range judged {
			if v.v == 0 {
				return &Nearest{Labels: nameless(v.labels)}
			}
		}
		return nil
	}
	var found *Nearest
	least, violated := math.Inf(1), false
	for _, v := range left {
		if math.IsNaN(v.v) {
			continue
		}
		room, violates := math.Inf(1), !compare(q.op, v.v, limit)
		m := margin(q.op, v.v, limit)
		switch {
		case m != nil:
			room = *m
		case violates:
			room = math.Inf(-1)
		}
		if found != nil && (violated && !violates || violated == violates && room >= least) {
			continue
		}
		least, violated = room, violates
		found = &Nearest{Labels: nameless(v.labels), Got: number(v.v, limit), Margin: m}
	}
	return found
}

// Nodes gives the nodes whose samples the left side of the check reads, sorted:
// the values of the label node among all series that its selectors match.
func (q *Query) Nodes(s *Store) []string {
	b, err := q.bind(time.Second) // whichever: a selector's matchers do not depend on it
	if err != nil {
		return nil
	}
	tree, err := promqlParser().ParseExpr(b.left)
	if err != nil {
		return nil
	}
	var out []string
	parser.Inspect(tree, func(n parser.Node, _ []parser.Node) error {
		selector, ok := n.(*parser.VectorSelector)
		if !ok {
			return nil
		}
		for _, x := range s.snapshot(selector.LabelMatchers...) {
			if node := x.labels.Get("node"); node != "" && !slices.Contains(out, node) {
				out = append(out, node)
			}
		}
		return nil
	})
	slices.Sort(out)
	return out
}
