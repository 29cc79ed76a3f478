package faults

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"relapse/topologies"
)

func init() {
	Register(Kind{
		Name:    "restart",
		Group:   GroupNode,
		Summary: "The node dies and is started again",
		Doc: `The node's processes are ended with SIGKILL and started again at once, or after the
given time, while the fault is held: a crash under a supervisor, or a cache that comes
back empty. Undoing starts the node if it is not running yet.`,
		Seen: `the node is not running, or what runs was started later than what ran when the fault was
injected. It is gone when, after undoing, the node runs and accepts a connection.`,
		Example: `nodes: [server]
after: 300ms`,
	}, func() Fault { return &restarts{} })
}

type restarts struct {
	Nodes `yaml:",inline"`
	After time.Duration `yaml:"after" doc:"how long the node stays dead, less than what the fault is held for; at once if not given"`
}

func (f *restarts) Validate() error {
	if err := f.validate(); err != nil {
		return err
	}
	if f.After < 0 {
		return &FieldError{"after", "must not be below zero", "write after: 500ms, or leave it out to start at once"}
	}
	return nil
}

// NeverBites says that the node is not started again while the fault is held.
func (f *restarts) NeverBites(_ *topologies.Topology, held time.Duration) *FieldError {
	if f.After < held {
		return nil
	}
	return &FieldError{"after", fmt.Sprintf("is %s: the fault is held for %s, in which the node is not started again", f.After, held),
		fmt.Sprintf("write after: with less than %s, hold the fault for longer, or use the kind kill for a node that stays dead", held)}
}

// Stops says that the node does not answer, on purpose.
func (f *restarts) Stops() bool { return true }

func (f *restarts) Arm(ctx context.Context, sys *topologies.System, _ *rand.Rand) (Armed, error) {
	nodes, err := f.arm(ctx, sys)
	if err != nil {
		return nil, err
	}
	return newRestarting(nodes, f.After, 0), nil
}

// restarting is nodes that are killed and started again, once or in a loop.
//
//	killed --down--> started --up--> killed --down--> started ...
//
// It remembers which processes it killed, by the time of their start.
type restarting struct {
	*onNodes
	background
	down time.Duration // from a death to the start after it
	up   time.Duration // from a start to the death after it; 0 for none

	mu     sync.Mutex
	killed map[string][]time.Time // starts of the processes killed since Inject, by node
}

func newRestarting(nodes *onNodes, down, up time.Duration) *restarting {
	a := &restarting{onNodes: nodes, down: down, up: up, killed: map[string][]time.Time{}}
	nodes.inject = a.kill
	nodes.undo = func(ctx context.Context, t *target) error { return t.Start(ctx) }
	nodes.look = a.restarted
	return a
}

// Inject kills the nodes and has the rest happen in time.
func (a *restarting) Inject(ctx context.Context) error {
	if err := a.onNodes.Inject(ctx); err != nil {
		return err
	}
	a.begin(ctx, a.run)
	return nil
}

func (a *restarting) run(ctx context.Context) error {
	for {
		if a.down > 0 && !pause(ctx, a.down) {
			return nil
		}
		if err := a.each(func(t *target) error { return t.Start(ctx) }); err != nil {
			return fmt.Errorf("starting again: %w", err)
		}
		if a.up == 0 || !pause(ctx, a.up) {
			return nil
		}
		// A kill that is given up may still be obeyed, after Undo.
		settling, cancel := settled(ctx)
		err := a.each(func(t *target) error { return a.kill(settling, t) })
		cancel()
		if err != nil {
			return fmt.Errorf("killing again: %w", err)
		}
	}
}

// Undo ends what is to come and has every node running.
func (a *restarting) Undo(ctx context.Context) error {
	if err := a.end(ctx, "killed or started"); err != nil {
		return err
	}
	if err := a.onNodes.Undo(ctx); err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	clear(a.killed)
	return nil
}

func (a *restarting) kill(ctx context.Context, t *target) error {
	state, err := t.State(ctx)
	if err != nil {
		return err
	}
	a.mu.Lock()
	a.killed[t.Name()] = append(a.killed[t.Name()], state.StartedAt)
	a.mu.Unlock()
	return t.Kill(ctx)
}

// restarted says whether the process that was to be killed is dead: the one from
// before, or in a loop the one after it, which tells a loop from a restart.
func (a *restarting) restarted(ctx context.Context, t *target) (bool, error) {
	state, err := t.State(ctx)
	if err != nil {
		return false, err
	}
	a.mu.Lock()
	killed, failed := slices.Clone(a.killed[t.Name()]), a.err()
	a.mu.Unlock()
	victim := 0
	if a.up > 0 {
		victim = 1
	}
	switch {
	case failed != nil:
		return false, failed
	case len(killed) > victim:
		return !state.Running || state.StartedAt.After(killed[victim]), nil
	case len(killed) > 0:
		return false, nil // has not died again yet
	case !state.Running:
		return false, fmt.Errorf("node %s: it is dead", t.Name())
	}
	accepts, err := t.accepts(ctx)
	if err == nil && !accepts {
		err = fmt.Errorf("node %s: it runs, but it does not accept connections yet", t.Name())
	}
	return false, err
}
