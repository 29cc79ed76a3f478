package faults

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"relapse/topologies"
)

func init() {
	Register(Kind{
		Name:    "pause-loop",
		Group:   GroupNode,
		Summary: "The node stands still again and again",
		Doc: `All processes of the node are frozen for pause, go on for run, are frozen again, and so on
while the fault is held: a collector of garbage that stops the world, a neighbour that takes
the machine, a disk that stalls. Whatever the node does often enough is met in the middle.
Nodes of one fault stand still together. Undoing has the node go on.`,
		Seen: `the node is paused, as for the kind pause, for a second time at least, so that what is seen
is a loop and no single pause: that takes pause and run together. It is gone when the
engine says that the node is not paused, and it answers or uses CPU time.`,
		Example: `nodes: [server]
pause: 600ms
run: 300ms`,
	}, func() Fault { return &pauseLoop{Pause: time.Second, Run: 2 * time.Second} })
}

type pauseLoop struct {
	Nodes `yaml:",inline"`
	Pause time.Duration `yaml:"pause" doc:"how long the node stands still, 500ms or more, which is what it takes to see it; 1s if not given. Pause and run together are less than what the fault is held for"`
	Run   time.Duration `yaml:"run" doc:"how long it goes on in between, 100ms or more; 2s if not given"`
}

const (
	// shortestPause is about what an exchange that gets no answer takes, with the
	// engine's word before and after it.
	shortestPause = 500 * time.Millisecond
	// shortestRun lets a node answer between two pauses.
	shortestRun = 100 * time.Millisecond
)

func (f *pauseLoop) Validate() error {
	if err := f.validate(); err != nil {
		return err
	}
	switch {
	case f.Pause < shortestPause:
		return &FieldError{"pause", fmt.Sprintf("is %s: less than %s cannot be seen from outside", f.Pause, shortestPause), "write pause: 1s"}
	case f.Run < shortestRun:
		return &FieldError{"run", fmt.Sprintf("is %s: less than %s is one long pause", f.Run, shortestRun), "write run: 2s, or use the kind pause for a node that stands still all the time"}
	}
	return nil
}

// NeverBites says that there is no second pause while the loop is held: one that is
// seen stands still twice.
func (f *pauseLoop) NeverBites(_ *topologies.Topology, held time.Duration) *FieldError {
	field, of := "pause", f.Pause
	if f.Pause < held {
		field, of = "run", f.Run
	}
	if f.Pause < held && f.Run < held && f.Pause+f.Run < held {
		return nil
	}
	return &FieldError{field, fmt.Sprintf("is %s: the fault is held for %s, in which no node stands still twice", of, held),
		fmt.Sprintf("write pause: and run: that come to less than %s together, hold the fault for longer, or use the kind pause for a single one", held)}
}

// Stops says that the node does not answer, on purpose.
func (f *pauseLoop) Stops() bool { return true }

func (f *pauseLoop) Arm(ctx context.Context, sys *topologies.System, _ *rand.Rand) (Armed, error) {
	nodes, err := f.arm(ctx, sys)
	if err != nil {
		return nil, err
	}
	a := &armedPauseLoop{onNodes: nodes, still: f.Pause, run: f.Run}
	nodes.inject = func(ctx context.Context, t *target) error { return t.Pause(ctx) }
	nodes.undo = func(ctx context.Context, t *target) error { return t.Resume(ctx) }
	nodes.look = a.pausedAgain
	return a, nil
}

type armedPauseLoop struct {
	*onNodes
	background
	still, run time.Duration // in a pause, and between two

	count  sync.Mutex
	pauses int // since Inject
}

// Inject pauses the nodes and has the rest happen in time.
func (a *armedPauseLoop) Inject(ctx context.Context) error {
	if err := a.onNodes.Inject(ctx); err != nil {
		return err
	}
	a.counted(1)
	a.begin(ctx, a.goOn)
	return nil
}

func (a *armedPauseLoop) goOn(ctx context.Context) error {
	for pause(ctx, a.still) {
		if err := a.each(func(t *target) error { return t.Resume(ctx) }); err != nil {
			return fmt.Errorf("going on: %w", err)
		}
		if !pause(ctx, a.run) {
			return nil
		}
		// A pause that is given up may still be obeyed, after Undo.
		settling, cancel := settled(ctx)
		err := a.each(func(t *target) error { return t.Pause(settling) })
		cancel()
		if err != nil {
			return fmt.Errorf("pausing again: %w", err)
		}
		a.counted(1)
	}
	return nil
}

// counted adds to the pauses and gives how many there are.
func (a *armedPauseLoop) counted(more int) int {
	a.count.Lock()
	defer a.count.Unlock()
	a.pauses += more
	return a.pauses
}

// Undo ends what is to come and has every node go on.
func (a *armedPauseLoop) Undo(ctx context.Context) error {
	if err := a.end(ctx, "paused"); err != nil {
		return err
	}
	if err := a.onNodes.Undo(ctx); err != nil {
		return err
	}
	a.count.Lock()
	defer a.count.Unlock()
	a.pauses = 0
	return nil
}

// SeenWithin is the time until the second pause, and what it takes to see it.
func (a *armedPauseLoop) SeenWithin() time.Duration { return a.still + a.run + 3*time.Second }

func (a *armedPauseLoop) pausedAgain(ctx context.Context, t *target) (bool, error) {
	if err := a.err(); err != nil {
		return false, err
	}
	if a.counted(0) == 1 {
		return false, nil // has not stood still again yet
	}
	return paused(ctx, t)
}
