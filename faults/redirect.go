package faults

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"relapse/topologies"
)

func init() {
	Register(Kind{
		Name:    "redirect",
		Group:   GroupTraffic,
		Summary: "Players who go to one node are sent to another one",
		Doc: `All requests of a load generator that would go to one of its targets go to another one: an
operator moves load by hand. The connections of its sessions to the first are reset, and
each session opens its connection again at the second as the players' retries say: the
wave of reconnects that such a move costs. Connections that wait for a request are given
up; requests that are on their way are left alone. The second may be a target of the
generator already, or one of its spares, which get nothing else. When the fault ends,
requests go to the first again, but sessions stay where they are until their connection
breaks, as after a move back that is done with care. A target has one redirect at a time,
and none leads to a target that has one: leave a phase between moves there and back.`,
		Seen: `the generator has no session connected to the first node and has sent it nothing over the
last half second, while requests that this fault moved went to the second, or sessions
that it moved are connected there, by what the generator itself measured. It is gone when
requests reach the first node again, or when there are none that could be moved. A node
that gets nothing cannot be moved away from, and the fault is not injected.`,
		Example: `node: players
from: control
to: spare`,
	}, func() Fault { return &redirect{} })
}

type redirect struct {
	Node string `yaml:"node" doc:"the load generator"`
	From string `yaml:"from" doc:"the node whose load is moved; the host of one of the generator's targets"`
	To   string `yaml:"to" doc:"the node that gets it; the host of another target, or of a spare"`
}

func (f *redirect) Validate() error {
	switch {
	case f.Node == "":
		return &FieldError{"node", "is missing", "write node: players"}
	case f.From == "":
		return &FieldError{"from", "is missing", "write from: edge-1"}
	case f.To == "":
		return &FieldError{"to", "is missing", "write to: edge-2"}
	case f.From == f.To:
		return &FieldError{"to", fmt.Sprintf("is %s, as from is: nothing would move", f.To), "name another target or a spare of the load generator"}
	}
	return nil
}

// TrafficTarget gives the load generator; all its operations are moved.
func (f *redirect) TrafficTarget() (node, operation string) { return f.Node, "" }

// TrafficFactor is 1: no rate changes.
func (f *redirect) TrafficFactor() float64 { return 1 }

// Ways gives the two nodes.
func (f *redirect) Ways() (from, to string) { return f.From, f.To }

type armedRedirect struct {
	redirect
	generator
}

func (f *redirect) Arm(ctx context.Context, sys *topologies.System, rng *rand.Rand) (Armed, error) {
	generator, err := findGenerator(sys, f.Node, "redirect", rng)
	if err != nil {
		return nil, err
	}
	for _, host := range []string{f.From, f.To} {
		if _, err := generator.players.Target(ctx, host); err != nil {
			return nil, err
		}
	}
	return &armedRedirect{*f, generator}, nil
}

// Inject moves the load.
func (a *armedRedirect) Inject(ctx context.Context) error {
	from, err := a.players.Target(ctx, a.From)
	if err != nil {
		return err
	}
	if from.Sent == 0 && from.Sessions == 0 {
		return fmt.Errorf("node %s: no session is connected to %s and no request went there over the last half second, so that there is nothing to move; "+
			"give its operations a higher rate in traffic", a.Node, a.From)
	}
	ctx, cancel := settled(ctx)
	defer cancel()
	return a.players.Redirect(ctx, a.name, a.From, a.To)
}

// InEffect asks the generator where requests went and sessions are. What this
// fault itself moved is asked for, since a node that gets little looks like one
// that gets nothing.
func (a *armedRedirect) InEffect(ctx context.Context) (bool, error) {
	routing, err := a.players.Routing(ctx)
	if err != nil {
		return false, err
	}
	moved, there := routing.Redirects[a.name]
	if !there {
		return false, nil
	}
	from := routing.Targets[moved.From]
	return from.Sent == 0 && from.Sessions == 0 && (moved.Moved > 0 || moved.Sessions > 0), nil
}

// SeenWithin leaves time for the half second that is measured, and for sessions
// whose retries put them off.
func (a *armedRedirect) SeenWithin() time.Duration { return 3 * time.Second }

// Undo has requests go where they are meant to. A generator that died has taken
// the redirect along.
func (a *armedRedirect) Undo(ctx context.Context) error {
	return a.released(ctx, a.players.EndRedirect(ctx, a.name), fmt.Sprintf("send to %s what is meant for %s", a.To, a.From))
}
