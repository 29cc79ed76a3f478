package samples

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
)

// Query is a check: one comparison in PromQL. In it $phase stands for the
// length of the phase that it is evaluated over, as in rate(x[$phase]).
type Query struct {
	expr  string
	marks []int  // where $phase stands, as byte offsets
	op    string // of the comparison
	// limit is the right side as written where it is plain numbers; otherwise
	// it is empty, and the side is evaluated to be shown.
	limit string
	left  []string // names of the metrics that the left side reads
	right []string // and the right side
}

// QueryError says why an expression is no check.
type QueryError struct {
	Column  int // of the expression, from 1, in characters
	Problem string
	Hint    string // what to do next
}

func (e *QueryError) Error() string {
	return fmt.Sprintf("column %d: %s: %s", e.Column, e.Problem, e.Hint)
}

const (
	placeholder = "$phase"
	// standIn takes the placeholder's place while an expression is parsed only
	// to be looked at. It is as long, so that every column stays right.
	standIn = "10000s"

	checkHint = `a check is a comparison such as sum(rate(relapse_requests_total{outcome="ok"}[$phase])) >= 0.99`
)

// ParseQuery parses a check. Anything but one comparison whose left side reads
// samples is refused with a *[QueryError].
func ParseQuery(expr string) (*Query, error) {
	q := &Query{expr: expr}
	if err := q.checkLength(); err != nil {
		return nil, err
	}
	if err := q.findPlaceholders(); err != nil {
		return nil, err
	}
	tree, err := promqlParser().ParseExpr(q.substitute(standIn))
	if top, ok := comparison(tree); ok && top.LHS.Type() == parser.ValueTypeScalar && top.RHS.Type() == parser.ValueTypeScalar {
		// The parser refuses these too, but it proposes the bool modifier.
		if len(metricNames(top)) == 0 {
			return nil, q.refuse(0, "this reads no samples: it cannot fail", checkHint)
		}
		return nil, q.refuse(int(top.LHS.PositionRange().Start), "this compares two scalars",
			"leave scalar() out on the left: a check compares series")
	}
	if err != nil {
		return nil, q.explain(err, checkHint)
	}
	top, ok := comparison(tree)
	if !ok {
		return nil, q.refuseTop(tree)
	}
	q.op = top.Op.String()
	q.left, q.right = metricNames(top.LHS), metricNames(top.RHS)
	left, right := top.LHS.PositionRange(), top.RHS.PositionRange()
	switch {
	case top.ReturnBool:
		return nil, q.refuse(int(left.End), "the bool modifier makes this a number and no comparison", "leave bool out")
	case !readsSamples(top.LHS) && !readsSamples(top.RHS):
		return nil, q.refuse(0, "this reads no samples: it cannot fail", checkHint)
	case !readsSamples(top.LHS):
		return nil, q.refuse(int(left.Start), "the left side reads no samples",
			fmt.Sprintf("what is measured stands on the left: %s %s %s", expr[right.Start:right.End], mirrored(top.Op), expr[left.Start:left.End]))
	case top.VectorMatching != nil && top.VectorMatching.Card == parser.CardOneToMany:
		return nil, q.refuse(int(left.End), "group_right gives one series on the left several limits",
			"put the side with more series on the left and use group_left")
	}
	if plainNumber(top.RHS) {
		q.limit = expr[right.Start:right.End]
	}
	return q, nil
}

// longestQuery bounds an expression, in bytes: what is nested deeper and deeper in a
// long one takes the square of its length.
const longestQuery = 16 << 10

func (q *Query) checkLength() error {
	if len(q.expr) > longestQuery {
		return q.refuse(0, fmt.Sprintf("this has more than %d KiB", longestQuery>>10), "write a shorter expression, or several checks")
	}
	return nil
}

// String gives the check as it was written.
func (q *Query) String() string { return q.expr }

// findPlaceholders notes where $phase stands outside of strings and comments;
// any other use of $ is refused.
func (q *Query) findPlaceholders() error {
	quote := byte(0)
	for i := 0; i < len(q.expr); i++ {
		c := q.expr[i]
		switch {
		case quote == '#':
			if c == '\n' {
				quote = 0
			}
		case quote != 0:
			if c == '\\' && quote != '`' {
				i++
			} else if c == quote {
				quote = 0
			}
		case c == '"' || c == '\'' || c == '`' || c == '#':
			quote = c
		case c == '$':
			word := q.expr[i : i+1+identifier(q.expr[i+1:])]
			if word != placeholder {
				return q.refuse(i, fmt.Sprintf("there is no placeholder %s", word),
					"the only one is $phase, the length of the phase, as in [$phase]")
			}
			q.marks = append(q.marks, i)
			i += len(placeholder) - 1
		}
	}
	return nil
}

func identifier(s string) int {
	for i, c := range s {
		if c != '_' && (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') {
			return i
		}
	}
	return len(s)
}

func (q *Query) substitute(with string) string {
	if len(q.marks) == 0 {
		return q.expr
	}
	var b strings.Builder
	from := 0
	for _, at := range q.marks {
		b.WriteString(q.expr[from:at])
		b.WriteString(with)
		from = at + len(placeholder)
	}
	b.WriteString(q.expr[from:])
	return b.String()
}

// bound is a query with a phase's length put in: the texts to evaluate.
type bound struct {
	left, right string
	both        string // the comparison giving 1 or 0 a series; empty if the right side is one number
}

func (q *Query) bind(phase time.Duration) (bound, error) {
	phase = phase.Round(time.Millisecond)
	if len(q.marks) > 0 && phase <= 0 {
		return bound{}, fmt.Errorf("$phase is %s: the phase leaves nothing to look at", phase)
	}
	tree, err := promqlParser().ParseExpr(q.substitute(model.Duration(phase).String()))
	if err != nil {
		return bound{}, fmt.Errorf("with $phase = %s: %w", phase, err)
	}
	top, _ := comparison(tree) // as ParseQuery saw
	b := bound{left: top.LHS.String(), right: top.RHS.String()}
	if top.RHS.Type() != parser.ValueTypeScalar {
		top.ReturnBool = true
		b.both = top.String()
	}
	return b, nil
}

// LooksBack is how far before its moment the check reads, with a phase of the
// given length: the range of a selector, or [Lookback] for one without, with its
// offset, and on top of that the subqueries around it. It is never less than
// Lookback.
func (q *Query) LooksBack(phase time.Duration) time.Duration {
	return max(Lookback, q.reach(phase, Lookback))
}

// Spans is how far before its moment the check reaches by ranges, subqueries and
// offsets alone, with a phase of the given length: 0 for one of current values.
func (q *Query) Spans(phase time.Duration) time.Duration { return q.reach(phase, 0) }

// reach is how far back the check reads where a selector without a range reads as
// far as current.
func (q *Query) reach(phase, current time.Duration) time.Duration {
	back := current
	tree, err := promqlParser().ParseExpr(q.substitute(model.Duration(phase.Round(time.Millisecond)).String()))
	if err != nil {
		return back // evaluating it says so
	}
	parser.Inspect(tree, func(n parser.Node, path []parser.Node) error {
		selector, ok := n.(*parser.VectorSelector)
		if !ok {
			return nil
		}
		reach, own := selector.OriginalOffset, current
		for _, above := range path {
			switch x := above.(type) {
			case *parser.MatrixSelector:
				own = x.Range
			case *parser.SubqueryExpr:
				reach += x.Range + x.OriginalOffset
			}
		}
		back = max(back, reach+own)
		return nil
	})
	return back
}

// refuse makes an error at a byte offset of the expression.
func (q *Query) refuse(offset int, problem, hint string) error {
	offset = min(max(offset, 0), len(q.expr))
	for offset < len(q.expr) && (q.expr[offset] == ' ' || q.expr[offset] == '\n' || q.expr[offset] == '\t') {
		offset++
	}
	return &QueryError{Column: utf8.RuneCountInString(q.expr[:offset]) + 1, Problem: problem, Hint: hint}
}

// explain places what the parser refuses.
func (q *Query) explain(err error, hint string) error {
	if all, ok := errors.AsType[parser.ParseErrors](err); ok && len(all) > 0 {
		problem := strings.ReplaceAll(all[0].Err.Error(), standIn, placeholder)
		return q.refuse(int(all[0].PositionRange.Start), problem, hint)
	}
	return q.refuse(0, err.Error(), hint)
}

// refuseTop says why something other than a comparison is no check.
func (q *Query) refuseTop(tree parser.Expr) error {
	for {
		p, ok := tree.(*parser.ParenExpr)
		if !ok {
			break
		}
		tree = p.Expr
	}
	if b, ok := tree.(*parser.BinaryExpr); ok {
		at := int(b.LHS.PositionRange().End)
		if b.Op.IsSetOperator() {
			return q.refuse(at, fmt.Sprintf("%q stands above the comparison", b.Op),
				"make it two checks, or put parentheses around the whole left side of the comparison")
		}
		return q.refuse(at, fmt.Sprintf("%q gives a number and compares nothing", b.Op), checkHint)
	}
	return q.refuse(int(tree.PositionRange().Start), "this compares nothing", checkHint)
}

// comparison gives the comparison that an expression is, parentheses aside.
func comparison(e parser.Expr) (*parser.BinaryExpr, bool) {
	switch x := e.(type) {
	case *parser.ParenExpr:
		return comparison(x.Expr)
	case *parser.BinaryExpr:
		return x, x.Op.IsComparisonOperator() && x.LHS != nil && x.RHS != nil
	}
	return nil, false
}

func readsSamples(e parser.Expr) bool {
	found := false
	parser.Inspect(e, func(n parser.Node, _ []parser.Node) error {
		if _, ok := n.(*parser.VectorSelector); ok {
			found = true
		}
		return nil
	})
	return found
}

// metricNames gives the metrics that an expression names, sorted.
func metricNames(e parser.Expr) []string {
	var names []string
	parser.Inspect(e, func(n parser.Node, _ []parser.Node) error {
		if v, ok := n.(*parser.VectorSelector); ok {
			for _, m := range v.LabelMatchers {
				if m.Name == labels.MetricName && m.Type == labels.MatchEqual {
					names = append(names, m.Value)
				}
			}
		}
		return nil
	})
	slices.Sort(names)
	return slices.Compact(names)
}

// plainNumber says whether an expression is a number as a person writes it.
func plainNumber(e parser.Expr) bool {
	switch x := e.(type) {
	case *parser.NumberLiteral:
		return true
	case *parser.UnaryExpr:
		return plainNumber(x.Expr)
	}
	return false
}

// mirrored gives the operator that says the same with the sides exchanged.
func mirrored(op parser.ItemType) string {
	switch op {
	case parser.GTE:
		return "<="
	case parser.GTR:
		return "<"
	case parser.LTE:
		return ">="
	case parser.LSS:
		return ">"
	}
	return op.String()
}
