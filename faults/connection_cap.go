package faults

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"

	"relapse/topologies"
	"relapse/topologies/relay"
)

func init() {
	Register(Kind{
		Name:    "connection-cap",
		Group:   GroupLink,
		Summary: "No more than so many connections at once",
		Doc: `New connections over the link are refused while as many as given are open: what a server
does at its limit of clients. Connections that are open already live on, also above the
limit.`,
		Seen: `connections are opened over the link until one is refused, or reset at once, which must
happen with one more than the limit at the latest; then all of them are closed. A look
takes some milliseconds, in which clients may find the limit reached.`,
		Example: `links: ["client -> server"]
connections: 8`,
	}, func() Fault { return &connectionCap{} })
}

type connectionCap struct {
	Links       `yaml:",inline"`
	Connections int `yaml:"connections" doc:"at once, from 1 to 1000"`
}

// mostConnections bounds the connections that a look opens.
const mostConnections = 1000

func (f *connectionCap) Validate() error {
	if err := f.validate(); err != nil {
		return err
	}
	switch {
	case f.Connections == 0:
		return &FieldError{"connections", "is missing or zero", "write connections: 20, or use the kind refuse to let none in"}
	case f.Connections < 0:
		return &FieldError{"connections", "must be above zero", "write connections: 20"}
	case f.Connections > mostConnections:
		return &FieldError{"connections", fmt.Sprintf("is %d: a look would have to open more than %d connections", f.Connections, mostConnections), "write connections: 1000 or less"}
	}
	return nil
}

func (f *connectionCap) Arm(ctx context.Context, sys *topologies.System, rng *rand.Rand) (Armed, error) {
	a, name, err := f.arm(sys, "connection-cap", rng)
	if err != nil {
		return nil, err
	}
	if err := a.needRule(ctx, relay.Cap); err != nil {
		return nil, err
	}
	a.change.rules = []relay.Rule{{Name: name, Action: relay.Cap, Limit: f.Connections}}
	a.look = func(ctx context.Context, p *probe) (bool, error) { return capped(ctx, p, f.Connections) }
	return a, nil
}

func capped(ctx context.Context, p *probe, limit int) (bool, error) {
	var open []net.Conn
	defer func() {
		for _, conn := range open {
			_ = conn.Close()
		}
	}()
	for range limit + 1 {
		conn, err := p.over(ctx)
		switch {
		case refused(err), reset(err): // a reset can be there before the dial returns
			return true, nil
		case err != nil:
			return false, outer(ctx, fmt.Errorf("link %s: connection %d: %w", p.link, len(open)+1, err))
		}
		open = append(open, conn)
	}
	// One that waited to be accepted when the limit was reached is reset.
	err := firstEnd(ctx, open[limit], resetWithin)
	if ctx.Err() != nil {
		return false, outer(ctx, err)
	}
	return reset(err), nil
}
