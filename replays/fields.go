package replays

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
)

// Named is one entry of an [Ordered] mapping.
type Named[T any] struct {
	Name  string
	Value T
}

// Ordered is a mapping that keeps the file's order, since people read arms and
// reports in the order in which the author told them.
type Ordered[T any] []Named[T]

// Get finds an entry.
func (o Ordered[T]) Get(name string) (T, bool) {
	for _, e := range o {
		if e.Name == name {
			return e.Value, true
		}
	}
	var none T
	return none, false
}

// Names gives the entries' names in order.
func (o Ordered[T]) Names() []string {
	out := make([]string, len(o))
	for i, e := range o {
		out[i] = e.Name
	}
	return out
}

// UnmarshalYAML decodes the mapping strictly, entry by entry.
func (o *Ordered[T]) UnmarshalYAML(node ast.Node) error {
	values, err := mappingValues(node)
	if err != nil {
		return err
	}
	for _, v := range values {
		var value T
		if err := decodeStrict(v.Value, &value); err != nil {
			return err
		}
		*o = append(*o, Named[T]{v.Key.GetToken().Value, value})
	}
	return nil
}

func mappingValues(node ast.Node) ([]*ast.MappingValueNode, error) {
	switch n := node.(type) {
	case *ast.MappingNode:
		return n.Values, nil
	case *ast.MappingValueNode:
		return []*ast.MappingValueNode{n}, nil
	case *ast.NullNode:
		return nil, nil
	}
	return nil, &placedError{node: node, problem: "is not a mapping", hint: "write name: {…} lines below it"}
}

func decodeStrict(node ast.Node, into any) error {
	return yaml.NodeToValue(node, into, yaml.Strict())
}

// Names is a list of names; a single name may stand without brackets.
type Names []string

// UnmarshalYAML takes a name or a list of names.
func (n *Names) UnmarshalYAML(node ast.Node) error {
	if s, ok := node.(*ast.StringNode); ok {
		*n = Names{s.Value}
		return nil
	}
	return decodeStrict(node, (*[]string)(n))
}

// Rate is a number of arrivals per second, written 750/s or 45/m.
type Rate float64

// UnmarshalYAML reads a rate.
func (r *Rate) UnmarshalYAML(node ast.Node) error {
	text := node.GetToken().Value
	value, err := ParseRate(text)
	if err != nil {
		return &placedError{node: node, problem: err.Error(), hint: rateHint}
	}
	*r = Rate(value)
	return nil
}

const rateHint = "write a number per second or minute: 750/s, 90/m"

// mostRate is far over what one machine can send, and what players refuse to set.
const mostRate = 100_000

// ParseRate reads arrivals per second from "750/s" or "45/m".
func ParseRate(text string) (float64, error) {
	number, unit, ok := strings.Cut(text, "/")
	value, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if !ok || err != nil || !(value >= 0) || math.IsInf(value, 0) {
		return 0, fmt.Errorf("rate %q is not a rate", text)
	}
	if value > mostRate {
		return 0, fmt.Errorf("rate %q is more than %d, which no load generator makes", text, mostRate)
	}
	switch strings.TrimSpace(unit) {
	case "s":
		return value, nil
	case "m":
		return value / 60, nil
	}
	return 0, fmt.Errorf("rate %q has an unknown unit", text)
}

// Holds says how a check reads its phase.
//
//	over                    once, at the phase's end, over the whole phase
//	always                  at every sample of the phase
//	eventually within 5s    at some sample not later than that after the phase's
//	                        start, and not before what the query reads there (1 s,
//	                        or its longest range) lies in the phase
type Holds struct {
	Mode   string // over, always, eventually
	Within time.Duration
}

// The modes of [Holds].
const (
	HoldsOver       = "over"
	HoldsAlways     = "always"
	HoldsEventually = "eventually"
)

// UnmarshalYAML reads the mode.
func (h *Holds) UnmarshalYAML(node ast.Node) error {
	text := node.GetToken().Value
	fields := strings.Fields(text)
	switch {
	case len(fields) == 1 && (fields[0] == HoldsOver || fields[0] == HoldsAlways):
		*h = Holds{Mode: fields[0]}
		return nil
	case len(fields) == 3 && fields[0] == HoldsEventually && fields[1] == "within":
		if within, err := time.ParseDuration(fields[2]); err == nil && within > 0 {
			*h = Holds{HoldsEventually, within}
			return nil
		}
	}
	return &placedError{node: node, problem: fmt.Sprintf("holds %q is not a way to read a phase", text), hint: "write over, always, or eventually within 5s"}
}

func (h Holds) String() string {
	switch h.Mode {
	case HoldsEventually:
		return fmt.Sprintf("eventually within %s", h.Within)
	case "":
		return HoldsOver
	}
	return h.Mode
}

// UnmarshalYAML keeps a fault's parameters for the kind to decode; see
// (*loader).faults.
func (f *FaultSpec) UnmarshalYAML(node ast.Node) error {
	if _, err := mappingValues(node); err != nil {
		return err
	}
	f.node = node
	return nil
}

// placedError is a problem with a node of the file; the loader turns it into a
// [topologies.FileError].
type placedError struct {
	node    ast.Node
	problem string
	hint    string
}

func (e *placedError) Error() string { return e.problem }
