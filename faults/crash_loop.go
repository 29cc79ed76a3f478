package faults

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"relapse/topologies"
)

func init() {
	Register(Kind{
		Name:    "crash-loop",
		Group:   GroupNode,
		Summary: "The node dies again and again",
		Doc: `The node's processes are ended with SIGKILL, started again after down, ended again after up,
and so on while the fault is held: a program with a defect that it meets soon after each
start, under a supervisor. What it had in memory is lost every time. Nodes of one fault die
together. Undoing starts the node if it is not running and leaves it so. A load generator
comes back without rates, which it has again from the next phase on.`,
		Seen: `a process that was started after the fault was injected is not running any more, by the
engine's times of start, so that what is seen is a loop and no single restart: that takes
up and down together. It is gone when, after undoing, the node runs and accepts a
connection.`,
		Example: `nodes: [server]
up: 500ms
down: 300ms`,
	}, func() Fault { return &crashLoop{Up: 2 * time.Second, Down: time.Second} })
}

type crashLoop struct {
	Nodes `yaml:",inline"`
	Up    time.Duration `yaml:"up" doc:"from a start to the death after it, 100ms or more; 2s if not given. Up and down together are less than what the fault is held for"`
	Down  time.Duration `yaml:"down" doc:"from a death to the start after it; 1s if not given"`
}

// shortestLife is about what the engine needs to start a container.
const shortestLife = 100 * time.Millisecond

func (f *crashLoop) Validate() error {
	if err := f.validate(); err != nil {
		return err
	}
	switch {
	case f.Up < shortestLife:
		return &FieldError{"up", fmt.Sprintf("is %s: a life of less than %s is none", f.Up, shortestLife), "write up: 2s, or use the kind kill for a node that stays dead"}
	case f.Down < 0:
		return &FieldError{"down", "must not be below zero", "write down: 1s, or down: 0s to start at once"}
	}
	return nil
}

// NeverBites says that there is no second death while the loop is held: one that is
// seen dies twice.
func (f *crashLoop) NeverBites(_ *topologies.Topology, held time.Duration) *FieldError {
	const hint = "write up: and down: that come to less than %s together, hold the fault for longer, or use the kind restart for a single death"
	switch {
	case f.Up >= held:
		return &FieldError{"up", fmt.Sprintf("is %s: the fault is held for %s, in which no node dies twice", f.Up, held), fmt.Sprintf(hint, held)}
	case f.Down >= held:
		return &FieldError{"down", fmt.Sprintf("is %s: the fault is held for %s, in which no node dies twice", f.Down, held), fmt.Sprintf(hint, held)}
	case f.Up+f.Down >= held:
		return &FieldError{"up", fmt.Sprintf("is %s, with %s from a death to a start: the fault is held for %s, in which no node dies twice", f.Up, f.Down, held), fmt.Sprintf(hint, held)}
	}
	return nil
}

// Stops says that the node does not answer, on purpose.
func (f *crashLoop) Stops() bool { return true }

func (f *crashLoop) Arm(ctx context.Context, sys *topologies.System, _ *rand.Rand) (Armed, error) {
	nodes, err := f.arm(ctx, sys)
	if err != nil {
		return nil, err
	}
	return &armedLoop{newRestarting(nodes, f.Down, f.Up)}, nil
}

type armedLoop struct{ *restarting }

// SeenWithin is the time until the second death, and what the engine takes for
// it.
func (a *armedLoop) SeenWithin() time.Duration { return a.down + a.up + 3*time.Second }
