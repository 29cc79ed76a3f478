package faults

import (
	"context"
	"fmt"
	"math/rand/v2"

	"relapse/topologies"
	"relapse/topologies/relay"
)

func init() {
	Register(Kind{
		Name:    "refuse",
		Group:   GroupLink,
		Summary: "New connections are refused",
		Doc: `Connection requests over the link are answered with a reset, which a client sees as
"connection refused": what a host does whose process has ended. Open connections live on.`,
		Seen: `a new connection over the link is refused. (A server that is dead cannot be mistaken
for that: the relay accepts for it and resets afterwards.)`,
		Example: `links: ["client -> server"]`,
	}, func() Fault { return &refuse{} })
}

type refuse struct {
	Links `yaml:",inline"`
}

func (f *refuse) Validate() error { return f.validate() }

func (f *refuse) Arm(ctx context.Context, sys *topologies.System, rng *rand.Rand) (Armed, error) {
	a, name, err := f.arm(sys, "refuse", rng)
	if err != nil {
		return nil, err
	}
	if err := a.needRule(ctx, relay.Refuse); err != nil {
		return nil, err
	}
	a.change.rules = []relay.Rule{{Name: name, Action: relay.Refuse}}
	a.look = a.refuses
	return a, nil
}

// refuses looks whether a new connection over the link is refused.
func (a *onLinks) refuses(ctx context.Context, p *probe) (bool, error) {
	err := connect(ctx, p.over, straightWithin)
	switch {
	case err == nil:
		return false, nil
	case refused(err):
		return true, nil
	case unanswered(err):
		return a.held(ctx, p)
	}
	return false, fmt.Errorf("link %s: %w", p.link, err)
}
