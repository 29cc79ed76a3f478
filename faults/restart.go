package faults

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
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
	After time.Duration `yaml:"after" doc:"how long the node stays dead; at once if not given"`
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

// Stops says that the node does not answer, on purpose.
func (f *restarts) Stops() bool { return true }

// armedRestart remembers which process ran before, by the time of its start.
type armedRestart struct {
	*onNodes
	after time.Duration

	mu     sync.Mutex
	before map[string]time.Time // nodes that were killed and not undone
	cancel context.CancelFunc   // of the starts that are to come
	starts sync.WaitGroup
	failed error // of the starts
}

func (f *restarts) Arm(ctx context.Context, sys *topologies.System, _ *rand.Rand) (Armed, error) {
	nodes, err := f.arm(ctx, sys)
	if err != nil {
		return nil, err
	}
	a := &armedRestart{onNodes: nodes, after: f.After, before: map[string]time.Time{}}
	nodes.inject = a.kill
	nodes.undo = func(ctx context.Context, t *target) error { return t.Start(ctx) }
	nodes.look = a.restarted
	return a, nil
}

// Inject kills the nodes and has them started in time. The starts outlive the
// call and end with Undo.
func (a *armedRestart) Inject(ctx context.Context) error {
	if err := a.onNodes.Inject(ctx); err != nil {
		return err
	}
	starting, cancel := context.WithCancel(context.WithoutCancel(ctx))
	a.mu.Lock()
	a.cancel, a.failed = cancel, nil
	a.mu.Unlock()
	a.starts.Go(func() {
		if a.after > 0 && !pause(starting, a.after) {
			return
		}
		if err := a.each(func(t *target) error { return t.Start(starting) }); err != nil && starting.Err() == nil {
			a.mu.Lock()
			a.failed = errors.Join(a.failed, err)
			a.mu.Unlock()
		}
	})
	return nil
}

// Undo ends the starts that are to come and has every node running.
func (a *armedRestart) Undo(ctx context.Context) error {
	a.mu.Lock()
	cancel := a.cancel
	a.mu.Unlock()
	if cancel != nil {
		cancel()
	}
	a.starts.Wait()
	if err := a.onNodes.Undo(ctx); err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	clear(a.before)
	return nil
}

func (a *armedRestart) kill(ctx context.Context, t *target) error {
	state, err := t.State(ctx)
	if err != nil {
		return err
	}
	a.mu.Lock()
	a.before[t.Name()] = state.StartedAt
	a.mu.Unlock()
	return t.Kill(ctx)
}

func (a *armedRestart) restarted(ctx context.Context, t *target) (bool, error) {
	state, err := t.State(ctx)
	if err != nil {
		return false, err
	}
	a.mu.Lock()
	before, killed := a.before[t.Name()]
	failed := a.failed
	a.mu.Unlock()
	switch {
	case failed != nil:
		return false, fmt.Errorf("starting again: %w", failed)
	case killed:
		return !state.Running || state.StartedAt.After(before), nil
	case !state.Running:
		return false, fmt.Errorf("node %s: it is dead", t.Name())
	}
	accepts, err := t.accepts(ctx)
	if err == nil && !accepts {
		err = fmt.Errorf("node %s: it runs, but it does not accept connections yet", t.Name())
	}
	return false, err
}
