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
		Name:    "blackhole",
		Group:   GroupLink,
		Summary: "Packets vanish in both directions",
		Doc: `The packet filter loses every packet of the link, of open connections and of new ones,
and tells nobody. When it ends the link heals as a network does: connections that neither
side has given up go on where they were, after the sender's next retransmission, which
the kernel puts off for longer the longer the hole lasted.`,
		Seen: `a connection over the link is not accepted within 200 ms while one straight to the
server is. Where the server itself accepts none, what the relay reads back decides.`,
		Example: `links: ["client -> server"]`,
	}, func() Fault { return &blackhole{} })
}

type blackhole struct {
	Links `yaml:",inline"`
}

func (f *blackhole) Validate() error { return f.validate() }

func (f *blackhole) Arm(ctx context.Context, sys *topologies.System, rng *rand.Rand) (Armed, error) {
	a, name, err := f.arm(sys, "blackhole", rng)
	if err != nil {
		return nil, err
	}
	if err := a.vanish(ctx, name); err != nil {
		return nil, err
	}
	return a, nil
}

// vanish makes the fault one that loses all packets.
func (a *onLinks) vanish(ctx context.Context, name string) error {
	if err := a.needRule(ctx, relay.Drop); err != nil {
		return err
	}
	a.change.rules = []relay.Rule{{Name: name, Action: relay.Drop}}
	a.look = a.vanished
	return nil
}

// vanished compares the link with the way straight to its server.
func (a *onLinks) vanished(ctx context.Context, p *probe) (bool, error) {
	err := connect(ctx, p.over, straightWithin)
	switch {
	case err == nil:
		return false, nil
	case !unanswered(err):
		return false, fmt.Errorf("link %s: %w", p.link, err)
	case connect(ctx, p.straight, straightWithin) == nil:
		return true, nil
	}
	return a.held(ctx, p)
}
