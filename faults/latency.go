package faults

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"relapse/topologies"
	"relapse/topologies/relay"
)

func init() {
	Register(Kind{
		Name:    "latency",
		Group:   GroupLink,
		Summary: "Answers come late",
		Doc: `Everything that the server sends over the link arrives later by the given time, on
open connections and on new ones. Requests reach the server at once, and opening a
connection takes no longer than before: a proxy cannot delay the handshake. When the
fault ends, what was on its way is delivered at once and connections live on.`,
		Seen: `an exchange over the link takes at least that long (the look ends after 200 ms)
while one straight to the server takes less than half. Where the server itself is that
slow, what the relay reads back decides.`,
		Example: `links: ["client -> server"]
latency: 150ms`,
	}, func() Fault { return &latency{} })
}

type latency struct {
	Links   `yaml:",inline"`
	Latency time.Duration `yaml:"latency" doc:"added to every answer, 5ms or more"`
}

func (f *latency) Validate() error {
	if err := f.validate(); err != nil {
		return err
	}
	return visibleDelay("latency", f.Latency)
}

// leastDelay is the shortest delay that a look can tell from the noise of a
// busy machine.
const leastDelay = 5 * time.Millisecond

func visibleDelay(field string, d time.Duration) error {
	hint := fmt.Sprintf("write %s: 100ms", field)
	switch {
	case d == 0:
		return &FieldError{field, "is missing or zero", hint}
	case d < leastDelay:
		return &FieldError{field, fmt.Sprintf("is %s: below %s it could not be told from noise", d, leastDelay), hint}
	}
	return nil
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func (f *latency) Arm(ctx context.Context, sys *topologies.System, rng *rand.Rand) (Armed, error) {
	a, name, err := f.arm(sys, "latency", rng)
	if err != nil {
		return nil, err
	}
	if err := a.needAnswers(); err != nil {
		return nil, err
	}
	a.change.toxics = []relay.Toxic{{
		Name: name, Type: "delay", Stream: relay.Downstream,
		Attributes: map[string]float64{"latency_ms": milliseconds(f.Latency)},
	}}
	a.look = a.slower(min(f.Latency, straightWithin))
	return a, nil
}

// slower looks whether a link makes exchanges longer.
func (a *onLinks) slower(by time.Duration) func(context.Context, *probe) (bool, error) {
	return func(ctx context.Context, p *probe) (bool, error) {
		slow, known, err := p.slower(ctx, by)
		if err != nil || known {
			return slow, err
		}
		return a.held(ctx, p)
	}
}
