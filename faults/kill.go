package faults

import (
	"context"
	"fmt"
	"math/rand/v2"

	"relapse/topologies"
)

func init() {
	Register(Kind{
		Name:    "kill",
		Group:   GroupNode,
		Summary: "The node dies and stays dead",
		Doc: `The node's processes are ended with SIGKILL and nothing starts them again while the
fault is held, whatever the node's restart policy says; what they had in memory is lost.
Undoing starts the node again, at its old address, with what is on its file system.
Clients on a proxied link see connections that are accepted and reset; clients on a direct
one get no answer, since the address is gone with the node.`,
		Seen: `the engine says that the node is not running, and it accepts no connection straight to
it. It is gone when the node runs and accepts one.`,
		Example: `nodes: [server]`,
	}, func() Fault { return &kills{} })
}

type kills struct {
	Nodes `yaml:",inline"`
}

func (f *kills) Validate() error { return f.validate() }

// Stops says that the node does not answer, on purpose.
func (f *kills) Stops() bool { return true }

func (f *kills) Arm(ctx context.Context, sys *topologies.System, _ *rand.Rand) (Armed, error) {
	a, err := f.arm(ctx, sys)
	if err != nil {
		return nil, err
	}
	a.inject = func(ctx context.Context, t *target) error { return t.Kill(ctx) }
	a.undo = func(ctx context.Context, t *target) error { return t.Start(ctx) }
	a.look = dead
	return a, nil
}

func dead(ctx context.Context, t *target) (bool, error) {
	state, err := t.State(ctx)
	if err != nil {
		return false, err
	}
	accepts, err := t.accepts(ctx)
	switch {
	case err != nil:
		return false, err
	case state.Restarting:
		return false, fmt.Errorf("node %s: it is dead, but the engine is about to start it again", t.Name())
	case !state.Running && accepts:
		return false, fmt.Errorf("node %s: the engine says that it is dead, but it accepts connections", t.Name())
	case state.Running && !accepts:
		return false, fmt.Errorf("node %s: it runs, but it does not accept connections yet", t.Name())
	}
	return !state.Running, nil
}
