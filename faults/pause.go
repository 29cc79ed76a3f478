package faults

import (
	"context"
	"fmt"
	"math/rand/v2"

	"relapse/topologies"
)

func init() {
	Register(Kind{
		Name:    "pause",
		Group:   GroupNode,
		Summary: "The node stands still",
		Doc: `All processes of the node are frozen and go on afterwards where they were: a long garbage
collection, a stalled disk, a virtual machine that is being moved. Its kernel lives, so
that connections stay open and new ones are accepted until the backlog is full.`,
		Seen: `the engine says that the node is paused, and an exchange straight with it gets no answer
within 200 ms. It is gone when the engine says so and the node answers or uses CPU time.
For a node without a question to ask, the engine's word and CPU time have to do.`,
		Example: `nodes: [server]`,
	}, func() Fault { return &pauses{} })
}

type pauses struct {
	Nodes `yaml:",inline"`
}

func (f *pauses) Validate() error { return f.validate() }

// Stops says that the node does not answer, on purpose.
func (f *pauses) Stops() bool { return true }

func (f *pauses) Arm(ctx context.Context, sys *topologies.System, _ *rand.Rand) (Armed, error) {
	a, err := f.arm(ctx, sys)
	if err != nil {
		return nil, err
	}
	a.inject = func(ctx context.Context, t *target) error { return t.Pause(ctx) }
	// A node that has died meanwhile is not paused any more: nothing is left.
	a.undo = func(ctx context.Context, t *target) error { return t.Resume(ctx) }
	a.look = paused
	return a, nil
}

func paused(ctx context.Context, t *target) (bool, error) {
	state, err := t.State(ctx)
	if err != nil {
		return false, err
	}
	if !state.Paused && !t.asks() {
		// An idle node uses no CPU time, and there is nothing to ask.
		return false, nil
	}
	works, err := t.works(ctx)
	if err != nil {
		return false, err
	}
	switch {
	case state.Paused && works:
		return false, fmt.Errorf("node %s: the engine says that it is paused, but it works", t.Name())
	case !state.Paused && !works && state.Running:
		return false, fmt.Errorf("node %s: it is not paused, but it neither answers nor uses CPU time", t.Name())
	}
	return state.Paused, nil
}
