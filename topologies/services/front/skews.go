package front

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
)

var (
	// ErrUnknownNode says that an order names a node that is in no route.
	ErrUnknownNode = errors.New("unknown node")
	// ErrSkewed says that an order would skew a route that another one skews.
	ErrSkewed = errors.New("the route is skewed already")
	// ErrAlone says that an order would skew a route that has one node only.
	ErrAlone = errors.New("the route has no other node")
)

// skew is a share of all requests that goes to one node.
type skew struct {
	name string
	to   string
	of   float64
}

// SkewState is what a front says of a skew.
type SkewState struct {
	To    string  `json:"to"`
	Share float64 `json:"share"` // as ordered, 0 to 1
}

// NodeState is what a front says of one of its nodes.
type NodeState struct {
	// Sent is what went to the node over the last half second, per second.
	Sent float64 `json:"requests_per_second"`
	// Of is what went by all routes that hold the node over the last half second,
	// per second: what Sent is a share of.
	Of float64 `json:"of_requests_per_second"`
	// Even is the share of them that the node gets while nothing is skewed, 0 to 1;
	// that of its shortest route if it is in several.
	Even float64 `json:"even_share"`
}

// State is where requests go.
type State struct {
	Nodes map[string]NodeState `json:"nodes"` // by name
	Skews map[string]SkewState `json:"skews"` // those in force, by name
}

// Skew has a share of all requests whose route holds a node go to that node from
// now on, and the others evenly to the other nodes of their route, under a name,
// in place of what the name stood for before. A share of 0 leaves the node
// nothing. On an error nothing has changed.
//
// A route has one skew at most: what two of them would make of each other is
// anyone's guess.
func (f *Front) Skew(name, to string, of float64) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if math.IsNaN(of) || of < 0 || of > 1 {
		return fmt.Errorf("skew %s: a share of %v: want 0 to 1", name, of)
	}
	held := f.holding(to)
	if len(held) == 0 {
		return fmt.Errorf("skew %s: to: %w %q; known: %q", name, ErrUnknownNode, to, slices.Sorted(maps.Keys(f.state().Nodes)))
	}
	for _, r := range held {
		switch {
		case len(r.nodes) == 1:
			return fmt.Errorf("skew %s: mode %s goes to %s alone: %w that the rest could go to", name, r.mode, to, ErrAlone)
		case r.skew != nil && r.skew.name != name:
			return fmt.Errorf("skew %s: mode %s goes to %s by skew %s: %w; end that one first", name, r.mode, r.skew.to, r.skew.name, ErrSkewed)
		}
	}
	f.drop(name)
	s := &skew{name, to, of}
	f.skews[name] = s
	for _, r := range held {
		r.setSkew(s)
	}
	return nil
}

// DropSkew has each mode go round its nodes evenly again; a skew that is not there
// is no error.
func (f *Front) DropSkew(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.drop(name)
}

func (f *Front) drop(name string) {
	delete(f.skews, name)
	for _, r := range f.routes {
		if r.skew != nil && r.skew.name == name {
			r.setSkew(nil)
		}
	}
}

// holding gives the routes that hold a node, sorted by mode.
func (f *Front) holding(node string) []*route {
	var out []*route
	for _, mode := range f.modes {
		if r := f.routes[mode]; r.place(node) >= 0 {
			out = append(out, r)
		}
	}
	return out
}

// State says where requests go.
func (f *Front) State() State {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.state()
}

func (f *Front) state() State {
	now := f.now()
	out := State{map[string]NodeState{}, map[string]SkewState{}}
	for _, r := range f.routes {
		all := 0.0
		for at := range r.sent {
			all += r.sent[at].PerSecond(now)
		}
		for at, n := range r.nodes {
			state := out.Nodes[n.Name]
			state.Sent += r.sent[at].PerSecond(now)
			state.Of += all
			state.Even = max(state.Even, 1/float64(len(r.nodes)))
			out.Nodes[n.Name] = state
		}
	}
	for name, s := range f.skews {
		out.Skews[name] = SkewState{s.to, s.of}
	}
	return out
}
