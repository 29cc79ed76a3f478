package faults

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"golang.org/x/sync/errgroup"

	"relapse/topologies"
	"relapse/topologies/relay"
)

func init() {
	Register(Kind{
		Name:    "jitter",
		Group:   GroupLink,
		Summary: "Answers come late by a time that varies",
		Doc: `Every piece of data that the server sends over the link is delayed by latency plus a
draw between minus and plus jitter, evenly distributed. Data of one connection keeps its
order, as a byte stream must, so a piece that drew less than the one before it waits for
that. The draws come from the play's seed, one sequence for each connection. As with
latency, opening a connection is not delayed.`,
		Seen: `of eight exchanges at once over the link none is faster than latency less jitter, and
the fastest and the slowest are at least half of jitter apart, while eight straight to the
server are not. Where the server itself varies as much, what the relay reads back decides.`,
		Example: `links: ["client -> server"]
latency: 100ms
jitter: 60ms`,
	}, func() Fault { return &jitter{} })
}

type jitter struct {
	Links   `yaml:",inline"`
	Latency time.Duration `yaml:"latency" doc:"the middle of the delay; no less than jitter"`
	Jitter  time.Duration `yaml:"jitter" doc:"how far the delay may be from the middle, 5ms or more"`
}

func (f *jitter) Validate() error {
	if err := f.validate(); err != nil {
		return err
	}
	if err := visibleDelay("jitter", f.Jitter); err != nil {
		return err
	}
	if f.Latency < f.Jitter {
		return &FieldError{"latency", fmt.Sprintf("is %s, less than the jitter of %s: a delay cannot be below zero", f.Latency, f.Jitter), fmt.Sprintf("write latency: %s or more", f.Jitter)}
	}
	return nil
}

type armedJitter struct {
	*onLinks
	latency, jitter time.Duration
}

func (f *jitter) Arm(ctx context.Context, sys *topologies.System, rng *rand.Rand) (Armed, error) {
	a, name, err := f.arm(sys, "jitter", rng)
	if err != nil {
		return nil, err
	}
	if err := a.needAnswers(); err != nil {
		return nil, err
	}
	a.change.toxics = []relay.Toxic{{
		Name: name, Type: "delay", Stream: relay.Downstream,
		Attributes: struct {
			Latency float64 `json:"latency_ms"`
			Jitter  float64 `json:"jitter_ms"`
			Seed    uint64  `json:"seed"`
		}{milliseconds(f.Latency), milliseconds(f.Jitter), rng.Uint64()},
	}}
	armed := &armedJitter{a, f.Latency, f.Jitter}
	a.look = armed.varies
	return armed, nil
}

// SeenWithin leaves room for a few looks, each as long as the longest delay.
func (a *armedJitter) SeenWithin() time.Duration {
	return time.Second + 3*(a.latency+a.jitter)
}

func (a *armedJitter) varies(ctx context.Context, p *probe) (bool, error) {
	least, most, err := spread(ctx, p.over, p.ask, a.latency+a.jitter+straightWithin)
	switch {
	case unanswered(err):
		return a.held(ctx, p)
	case err != nil:
		return false, fmt.Errorf("link %s: %w", p.link, err)
	case least < a.latency-a.jitter || most-least < a.jitter/2:
		return false, nil
	}
	least, most, err = spread(ctx, p.straight, p.ask, straightWithin)
	if err != nil || most-least > a.jitter/4 {
		return a.held(ctx, p)
	}
	return true, nil
}

// spread makes eight exchanges at once and gives the shortest and the longest.
// Draws as even as the ones looked for are that close together in one look of
// some 2500.
func spread(ctx context.Context, dial dialer, ask topologies.Probe, patience time.Duration) (least, most time.Duration, err error) {
	var took [8]time.Duration
	var group errgroup.Group
	for i := range took {
		group.Go(func() (err error) {
			took[i], err = exchange(ctx, dial, ask, patience)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return 0, 0, err
	}
	least = took[0]
	for _, t := range took {
		least, most = min(least, t), max(most, t)
	}
	return least, most, nil
}
