package faults

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"relapse/topologies"
	"relapse/topologies/relay"
)

func init() {
	Register(Kind{
		Name:    "bandwidth",
		Group:   GroupLink,
		Summary: "The links carry no more than a rate",
		Doc: `The data of all connections over all links of the fault passes at no more than the rate
together, in each direction on its own, as through one network card. What was sent to a
receiver that is gone by then has used its share all the same. With shared: false each
connection has the rate to itself, as under a limit that a server sets for each client.
After a pause, what passes in 50 ms (at most 8 kB) passes at once.`,
		Seen: `questions are sent over the links as fast as they are taken, for a quarter of a second.
The answers come back at no more than one and a quarter of the rate, while straight to the
server they come at more than one and a half. Where the server itself gives no more, what
the relay reads back decides. (Such a look uses up the rate while it lasts.) A rate that
the links do not reach without the fault cannot bite, and is refused before anything is
broken.`,
		Example: `links: ["client -> server"]
rate: 2.5Mbit`,
	}, func() Fault { return &bandwidth{Shared: true} })
}

type bandwidth struct {
	Links  `yaml:",inline"`
	Rate   Rate `yaml:"rate" doc:"in each direction, from 8kbit (1kB) to 100Gbit"`
	Shared bool `yaml:"shared" doc:"whether all connections of all the links share the rate; true if not given"`
}

const (
	leastRate = Rate(1000)
	// mostRate is more than any link between two containers carries.
	mostRate   = Rate(100e9 / 8)
	floodLasts = 250 * time.Millisecond
	// floodsToArm is how many floods may be too slow before a rate counts as one
	// that cannot bite.
	floodsToArm = 3
	// A flood that gets less than atMost of the rate has met it; one that gets
	// more than unlimited has not.
	atMost    = 1.25
	unlimited = 1.5
)

func (f *bandwidth) Validate() error {
	if err := f.validate(); err != nil {
		return err
	}
	switch {
	case f.Rate == 0:
		return &FieldError{"rate", "is missing or zero", "write rate: 2.5Mbit, or use the kind blackhole to let nothing through"}
	case f.Rate < leastRate:
		return &FieldError{"rate", fmt.Sprintf("is %s: it must be 1kB (8kbit) or more", f.Rate), "write rate: 2.5Mbit"}
	case f.Rate > mostRate:
		return &FieldError{"rate", fmt.Sprintf("is %s: no link here carries %s, so that it could not bite", f.Rate, mostRate), "write rate: 2.5Mbit"}
	}
	return nil
}

// burst in bytes: what passes in 50 ms, but no more than some packets.
func (f *bandwidth) burst() float64 { return min(8192, float64(f.Rate)/20) }

type armedBandwidth struct {
	*onLinks
	shared bool
	fits   float64 // bytes that the rate lets through while a flood lasts
}

func (f *bandwidth) Arm(ctx context.Context, sys *topologies.System, rng *rand.Rand) (Armed, error) {
	a, name, err := f.arm(sys, "bandwidth", rng)
	if err != nil {
		return nil, err
	}
	for _, p := range a.probes {
		if _, ok := question(p.ask); !ok {
			return nil, fmt.Errorf("link %s: a rate cannot be seen on it, as %s is not probed by memcached, redis or http; give the node a label relapse.probe", p.link, p.link.Server)
		}
	}
	for _, stream := range []string{relay.Upstream, relay.Downstream} {
		t := relay.Toxic{Name: name + "-" + stream, Stream: stream}
		if f.Shared {
			t.Type = "shaped"
			t.Attributes = map[string]any{"bucket": t.Name, "rate": float64(f.Rate), "burst": f.burst()}
		} else {
			t.Type = "throttled"
			t.Attributes = map[string]any{"rate": float64(f.Rate), "burst": f.burst()}
		}
		a.change.toxics = append(a.change.toxics, t)
	}
	armed := &armedBandwidth{a, f.Shared, float64(f.Rate)*floodLasts.Seconds() + f.burst()}
	a.look = armed.limited
	// A pause of the machine takes a flood's whole time: the best of some counts.
	got := 0.0
	for range floodsToArm {
		n, err := armed.through(ctx)
		if err != nil {
			return nil, err
		}
		if got = max(got, n); got >= unlimited*armed.fits {
			break
		}
	}
	if got < unlimited*armed.fits {
		return nil, fmt.Errorf("the rate of %s cannot bite: without it the links carry %s, and less than %v of the rate cannot be told from it; take a lower rate, or let relapse.probe ask for a longer answer",
			f.Rate, Rate(got/floodLasts.Seconds()), unlimited)
	}
	return armed, nil
}

// SeenWithin leaves room for a few looks.
func (a *armedBandwidth) SeenWithin() time.Duration { return 4 * time.Second }

// InEffect looks at all links at once if they share the rate: one after the
// other, each would have it to itself.
func (a *armedBandwidth) InEffect(ctx context.Context) (bool, error) {
	if !a.shared {
		return a.onLinks.InEffect(ctx)
	}
	got, err := a.through(ctx)
	if err != nil {
		return false, err
	}
	if got > atMost*a.fits {
		return a.noneHeld(ctx)
	}
	able := true
	for _, p := range a.probes {
		can, err := a.able(ctx, p)
		if err != nil {
			return false, err
		}
		able = able && can
	}
	if able {
		return true, nil
	}
	return a.allHeld(ctx)
}

// noneHeld confirms that links that carry more than the rate together are all
// free of it: one that still holds it could hide behind the others.
func (a *armedBandwidth) noneHeld(ctx context.Context) (bool, error) {
	if len(a.probes) == 1 {
		return false, nil
	}
	return a.withLook(a.held).InEffect(ctx)
}

func (a *armedBandwidth) allHeld(ctx context.Context) (bool, error) {
	return a.withLook(a.held).InEffect(ctx)
}

func (a *armedBandwidth) withLook(look func(context.Context, *probe) (bool, error)) *onLinks {
	return &onLinks{relay: a.relay, change: a.change, probes: a.probes, look: look}
}

// through floods the links and gives the bytes that came back: over all links
// together if they share the rate, else over the link that gave the least.
func (a *armedBandwidth) through(ctx context.Context) (float64, error) {
	var sum, least atomic.Int64
	least.Store(1 << 62)
	enough := int(2*unlimited*a.fits) + 1
	err := a.each(func(p *probe) error {
		n, err := flood(ctx, p.over, p.ask, enough, floodLasts)
		if err != nil {
			return fmt.Errorf("link %s: %w", p.link, err)
		}
		sum.Add(int64(n))
		for {
			old := least.Load()
			if int64(n) >= old || least.CompareAndSwap(old, int64(n)) {
				return nil
			}
		}
	})
	if a.shared {
		return float64(sum.Load()), err
	}
	return float64(least.Load()), err
}

// limited looks at one link, whose connections each have the rate.
func (a *armedBandwidth) limited(ctx context.Context, p *probe) (bool, error) {
	n, err := flood(ctx, p.over, p.ask, int(2*unlimited*a.fits)+1, floodLasts)
	if err != nil {
		return false, fmt.Errorf("link %s: %w", p.link, err)
	}
	if float64(n) > atMost*a.fits {
		return false, nil
	}
	can, err := a.able(ctx, p)
	if err != nil || can {
		return can, err
	}
	return a.held(ctx, p)
}

// able says whether the server itself gives more than the rate.
func (a *armedBandwidth) able(ctx context.Context, p *probe) (bool, error) {
	enough := unlimited * a.fits
	n, err := flood(ctx, p.straight, p.ask, int(enough)+1, floodLasts)
	if err != nil {
		if ctx.Err() != nil {
			return false, err
		}
		return false, nil // a server that does not answer gives nothing
	}
	return float64(n) > enough, nil
}
