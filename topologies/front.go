package topologies

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// Front drives a front: the node that spreads what players ask for over the nodes
// behind it.
type Front struct {
	node string
	control
}

func newFront(node, address string) *Front {
	return &Front{node: node, control: newControl("front "+node, address)}
}

// Skew has a share of all requests whose route holds a node, from 0 to 1, go to that
// node under a name, until [Front.EndSkew]. The others go to the other nodes of
// their route. A route that another skew is on is an error.
func (f *Front) Skew(ctx context.Context, name, to string, share float64) error {
	body := struct {
		To    string  `json:"to"`
		Share float64 `json:"share"`
	}{to, share}
	return f.do(ctx, http.MethodPut, "/skews/"+url.PathEscape(name), body, nil)
}

// EndSkew has requests spread evenly again. A skew that is not there is no error.
func (f *Front) EndSkew(ctx context.Context, name string) error {
	return f.do(ctx, http.MethodDelete, "/skews/"+url.PathEscape(name), nil, nil)
}

// Routed is what a front says of one of its nodes.
type Routed struct {
	Sent float64 `json:"requests_per_second"`    // to the node over the last 500 ms
	Of   float64 `json:"of_requests_per_second"` // by all routes that hold the node over the last 500 ms
	Even float64 `json:"even_share"`             // the node's share of them while nothing is skewed, at most
}

// Routed asks what goes to a node. One that is in none of its routes is an error.
func (f *Front) Routed(ctx context.Context, node string) (Routed, error) {
	var state struct {
		Nodes map[string]Routed `json:"nodes"`
	}
	if err := f.do(ctx, http.MethodGet, "/routes", nil, &state); err != nil {
		return Routed{}, err
	}
	routed, known := state.Nodes[node]
	if !known {
		return Routed{}, &UnroutedError{f.node, node, slices.Sorted(maps.Keys(state.Nodes))}
	}
	return routed, nil
}

// UnroutedError is a node that is in none of a front's routes.
type UnroutedError struct {
	Front, Node string
	Known       []string // nodes that are in one, sorted
}

func (e *UnroutedError) Error() string {
	return fmt.Sprintf("front %s: no node %s in its routes; there are: %s: name it in a --route of its command or settings",
		e.Front, e.Node, strings.Join(e.Known, ", "))
}
