// Package faults holds how a topology is broken: one file per kind.
//
// A kind is a yaml-tagged struct whose fields are its parameters; it registers
// itself in its own file with an example, which drives the contract suite, and
// its documentation, which makes the reference page. [Hold] is the only code
// that runs a fault's life:
//
//	Arm ── Inject ── poll until InEffect ── hold ── Undo ── poll until not InEffect
//	 │        │                                       ▲
//	 │        └── any error, a cancelled context ─────┘  Undo runs on every path,
//	 └── changes nothing; an error means that the fault    on a deadline of its own
//	     cannot bite here, before anything is broken
package faults

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"relapse/topologies"
)

// Fault is a fault as an incident file states it: a struct whose yaml-tagged
// fields are its parameters.
type Fault interface {
	// Validate says what is wrong with the parameters, as a [FieldError]. It is
	// pure: a bad file is refused before anything starts.
	Validate() error
	// Arm finds the fault's targets in a running system and checks that it can
	// bite there. It changes nothing.
	Arm(ctx context.Context, sys *topologies.System, rng *rand.Rand) (Armed, error)
}

// Armed is a fault that has its targets.
type Armed interface {
	// Inject makes the fault happen.
	Inject(ctx context.Context) error
	// InEffect says whether the fault is seen from outside: false before
	// Inject and after Undo. An error means that it could not be seen either
	// way.
	InEffect(ctx context.Context) (bool, error)
	// Undo removes exactly what Inject added. It is idempotent and legal in any
	// state.
	Undo(ctx context.Context) error
}

// Links are the link patterns of a fault on links, such as
// "nginx-* -> memcached". Kinds on links embed it.
type Links struct {
	Links []string `yaml:"links" doc:"patterns such as nginx-* -> memcached; each must match a link"`
}

// LinkPatterns gives the patterns; the loader checks that each matches a link
// of the topology and has those links proxied.
func (l Links) LinkPatterns() []string { return l.Links }

// Nodes are the node patterns of a fault on nodes. Kinds on nodes embed it.
type Nodes struct {
	Nodes []string `yaml:"nodes" doc:"patterns such as nginx-*; each must match a node"`
}

// NodePatterns gives the patterns; the loader checks that each matches a node
// of the topology.
func (n Nodes) NodePatterns() []string { return n.Nodes }

// Hosts are the host patterns of a fault on hosts. Kinds on hosts embed it.
type Hosts struct {
	Hosts []string `yaml:"hosts" doc:"patterns such as host-*; each must match a host"`
}

// HostPatterns gives the patterns; the loader checks that each matches a host of
// the topology.
func (h Hosts) HostPatterns() []string { return h.Hosts }

// LinkFault is a fault on links.
type LinkFault interface{ LinkPatterns() []string }

// NodeFault is a fault on nodes.
type NodeFault interface{ NodePatterns() []string }

// DividingFault is a fault on the links between two groups of nodes. Of its link
// patterns, which go from each side to the other, one must match a link.
type DividingFault interface {
	LinkFault
	// NodeSides gives the node patterns of the two groups; the loader checks that
	// each matches a node, and no node is on both sides.
	NodeSides() [2][]string
}

// HostFault is a fault on hosts. What it says of its nodes, as a [Stopper], it
// says of all nodes on its hosts.
type HostFault interface {
	HostPatterns() []string
	// Lacks says what a host would need for the fault to bite and does not have, by
	// its topology alone, so that a file is refused before anything starts: the
	// problem without the host's name, and what would be right. It is nil where
	// nothing is missing.
	Lacks(t *topologies.Topology, host topologies.Host) *FieldError
}

// TrafficFault is a fault in what players ask for.
type TrafficFault interface {
	// TrafficTarget gives the load generator's node and the operation, "" for a
	// fault of no single one.
	TrafficTarget() (node, operation string)
	// TrafficFactor is what the operation's rate is multiplied by while the
	// fault holds: the load gate expects no less of the generator. It is 1 for a
	// fault that changes no rate.
	TrafficFactor() float64
}

// RedirectingFault is a traffic fault that leads load from one node to another.
type RedirectingFault interface {
	TrafficFault
	// Ways gives the two nodes; the loader checks that the load generator is linked
	// to each.
	Ways() (from, to string)
}

// FrontFault is a fault in how a front spreads what players ask for. It changes no
// rate.
type FrontFault interface {
	// Front gives the front's node and the node behind it that the fault is about;
	// the loader checks that the first is a front and linked to the second.
	Front() (node, to string)
}

// FleetFault is a fault in what servers a fleet has. Its node goes on answering.
type FleetFault interface {
	// Fleet gives the fleet's node; the loader checks that it is one.
	Fleet() (node string)
}

// ForeseeableFault is a fault whose file, and its topology's, can tell that it cannot
// bite where it is held. What only a running system knows is left to Arm.
type ForeseeableFault interface {
	// NeverBites says why the fault cannot bite in a topology while it is held for so
	// long at a stretch, so that a file is refused before anything starts. It is nil
	// where it may bite.
	NeverBites(t *topologies.Topology, held time.Duration) *FieldError
}

// Stopper is a fault that stops nodes answering on purpose. The validity gate
// for dead or silent nodes asks it which ones.
type Stopper interface{ Stops() bool }

// FieldError is what is wrong with one parameter.
type FieldError struct {
	Field   string // yaml name
	Problem string // "must be above zero"
	Hint    string // what would be right: `write latency: 100ms`
}

func (e *FieldError) Error() string {
	if e.Hint == "" {
		return fmt.Sprintf("%s %s", e.Field, e.Problem)
	}
	return fmt.Sprintf("%s %s: %s", e.Field, e.Problem, e.Hint)
}
