package faults

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"relapse/topologies"
)

func init() {
	Register(Kind{
		Name:    "skew",
		Group:   GroupTraffic,
		Summary: "One node behind a front gets more than its share of the requests",
		Doc: `A share of all requests of the modes that go to a node goes to that node, and the others go
to the other nodes of their mode, evenly. Each region meets the share exactly at all
times; nothing is drawn. No rate changes, and requests that are on their way are left alone. A route has
one skew at a time: leave a phase between two of them.`,
		Seen: `the share of its route's requests that went to the node, which the front itself measured over
the last half second, is nearer to the ordered one than to an even one. It is gone when it
is nearer to the even one, or when fewer requests come than tell the two apart: 16 a
second over the difference of the shares, so 36 where a quarter is even and 70% is ordered.
Where fewer come when it should begin, the fault is not injected.`,
		Example: `node: front
to: node-1
share: 90%`,
	}, func() Fault { return &skew{} })
}

type skew struct {
	Node  string  `yaml:"node" doc:"the front"`
	To    string  `yaml:"to" doc:"the node behind it that gets more"`
	Share Percent `yaml:"share" doc:"of the requests of its modes, 5 percentage points or more above what it would get evenly"`
}

func (f *skew) Validate() error {
	const hint = "write share: 70%"
	switch {
	case f.Node == "":
		return &FieldError{"node", "is missing", "write node: front"}
	case f.To == "":
		return &FieldError{"to", "is missing", "write to: mms-1"}
	case f.Share == 0:
		return &FieldError{"share", "is missing or zero", hint}
	case f.Share < 0:
		return &FieldError{"share", fmt.Sprintf("is %s: it cannot be less than none", f.Share), hint}
	case f.Share > 100:
		return &FieldError{"share", fmt.Sprintf("is %s: it cannot be more than all of them", f.Share), "write share: 100% or less"}
	}
	return nil
}

// Front gives the front and the node that gets more.
func (f *skew) Front() (node, to string) { return f.Node, f.To }

func (f *skew) share() float64 { return float64(f.Share) / 100 }

// NeverBites says that the share is not above the even one of all nodes that the
// front is linked to. A route of fewer has a higher one, which only the front knows.
func (f *skew) NeverBites(t *topologies.Topology, _ time.Duration) *FieldError {
	var behind []string
	for _, l := range t.Links {
		if l.Client == f.Node && !slices.Contains(behind, l.Server) {
			behind = append(behind, l.Server)
		}
	}
	if len(behind) == 0 {
		return nil
	}
	even := 1 / float64(len(behind))
	switch {
	case f.share() >= even+leastSkew:
		return nil
	case len(behind) == 1:
		return &FieldError{"share", fmt.Sprintf("is %s: %s is the only node that %s is linked to, and gets all requests without a skew", f.Share, f.To, f.Node),
			"link " + f.Node + " to a second node, in a route with the first"}
	}
	return &FieldError{"share", fmt.Sprintf("is %s: %s is linked to %d nodes, so that %s gets %.4g%% or more without a skew, and less than %.4g%% could not be told from that",
		f.Share, f.Node, len(behind), f.To, 100*even, 100*(even+leastSkew)), fmt.Sprintf("write share: %.4g%% or more", math.Ceil(100*(even+leastSkew)-1e-9))}
}

const (
	// leastSkew is the smallest difference from an even share that a skew may make.
	leastSkew = 0.05
	// leastTold is how many requests there must be between two shares, within the
	// half second that a front measures, to tell them apart: each region of each
	// mode that goes to the node can be one request off.
	leastTold = 8
)

type armedSkew struct {
	skew
	name     string // of the order, by which it is taken back
	instance *topologies.Instance
	front    *topologies.Front
}

func (f *skew) Arm(ctx context.Context, sys *topologies.System, rng *rand.Rand) (Armed, error) {
	instance, err := sys.Instance(f.Node)
	if err != nil {
		return nil, err
	}
	front, err := sys.Front(f.Node)
	if err != nil {
		return nil, err
	}
	routed, err := front.Routed(ctx, f.To)
	if err != nil {
		return nil, err
	}
	if f.share() < routed.Even+leastSkew {
		return nil, fmt.Errorf("node %s: %s gets %.4g%% of the requests without a skew; a share of %s could not be told from that: order %.4g%% or more",
			f.Node, f.To, 100*routed.Even, f.Share, 100*(routed.Even+leastSkew))
	}
	return &armedSkew{*f, fmt.Sprintf("skew-%08x", rng.Uint32()), instance, front}, nil
}

// leastRate is how many requests a second it takes to tell the ordered share from
// an even one.
func (a *armedSkew) leastRate(r topologies.Routed) float64 {
	const perSecond = 2 // half seconds
	return leastTold * perSecond / (a.share() - r.Even)
}

// Inject skews the front.
func (a *armedSkew) Inject(ctx context.Context) error {
	routed, err := a.front.Routed(ctx, a.To)
	if err != nil {
		return err
	}
	if least := a.leastRate(routed); routed.Of < least {
		return fmt.Errorf("node %s: %.3g requests a second went by the routes of %s over the last half second, too few to see where they go; it takes %.3g: "+
			"give what asks the front a higher rate in traffic", a.Node, routed.Of, a.To, least)
	}
	ctx, cancel := settled(ctx)
	defer cancel()
	return a.front.Skew(ctx, a.name, a.To, a.share())
}

// InEffect asks the front where requests went.
func (a *armedSkew) InEffect(ctx context.Context) (bool, error) {
	routed, err := a.front.Routed(ctx, a.To)
	if err != nil || routed.Of < a.leastRate(routed) {
		return false, err
	}
	return routed.Sent/routed.Of > (routed.Even+a.share())/2, nil
}

// Undo has requests spread evenly. A front that died has taken the skew along.
func (a *armedSkew) Undo(ctx context.Context) error {
	err := a.front.EndSkew(ctx, a.name)
	if err == nil {
		return nil
	}
	if state, asked := a.instance.State(ctx); asked == nil && !state.Running {
		return nil
	}
	return fmt.Errorf("node %s may still send %s of the requests to %s: %w", a.Node, a.Share, a.To, err)
}
