package faults

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"relapse/topologies"
)

// validate checks the patterns of a fault on nodes.
func (n Nodes) validate() error {
	return patternError("nodes", `"memcached-*"`, n.Nodes, func(p string) bool {
		_, err := path.Match(p, "")
		return err == nil
	})
}

// target is a node of a fault, and where to look at it from outside.
type target struct {
	*topologies.Instance
	dial    dialer // nil for a node that answers nobody
	touched bool   // may hold some of the fault; guarded by onNodes.mu
}

// onNodes is a fault on nodes: the same act on each of them, what takes it
// back, and one way to look at a node from outside.
type onNodes struct {
	inject, undo func(context.Context, *target) error
	look         func(context.Context, *target) (bool, error)

	mu      sync.Mutex
	targets []*target
}

// arm finds the nodes of the patterns, which must all be running.
func (n Nodes) arm(ctx context.Context, sys *topologies.System) (*onNodes, error) {
	a := &onNodes{}
	var names []string
	for _, pattern := range n.Nodes {
		matched := sys.Topology().MatchNodes(pattern)
		if len(matched) == 0 {
			var all []string
			for _, node := range sys.Topology().Nodes {
				all = append(all, node.Name)
			}
			return nil, fmt.Errorf("nodes: %q matches no node of topology %s; it has %s", pattern, sys.Topology().Name, strings.Join(all, ", "))
		}
		names = append(names, matched...)
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		instance, err := sys.Instance(name)
		if err != nil {
			return nil, err
		}
		state, err := instance.State(ctx)
		if err != nil {
			return nil, err
		}
		if !state.Running || state.Paused {
			return nil, fmt.Errorf("node %s: it is not running, so that no fault can be put on it", name)
		}
		t := &target{Instance: instance}
		if port := instance.Node().Probe.Port; port != 0 {
			t.dial = straightTo(instance, port)
		}
		a.targets = append(a.targets, t)
	}
	return a, nil
}

// Inject acts on every node at once.
func (a *onNodes) Inject(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	ctx, cancel := settled(ctx)
	defer cancel()
	return a.each(func(t *target) error {
		// Noted first: a call whose answer is lost may have been obeyed.
		a.mu.Lock()
		t.touched = true
		a.mu.Unlock()
		return a.inject(ctx, t)
	})
}

// Undo takes the act back on the nodes that may hold it. The error says which
// ones still may.
func (a *onNodes) Undo(ctx context.Context) error {
	return a.each(func(t *target) error {
		a.mu.Lock()
		touched := t.touched
		a.mu.Unlock()
		if !touched {
			return nil
		}
		if err := a.undo(ctx, t); err != nil {
			return fmt.Errorf("node %s may still hold the fault: %w", t.Name(), err)
		}
		a.mu.Lock()
		t.touched = false
		a.mu.Unlock()
		return nil
	})
}

// InEffect looks at every node at once. All must show the fault, or none.
func (a *onNodes) InEffect(ctx context.Context) (bool, error) {
	var mu sync.Mutex
	var seen tally
	err := a.each(func(t *target) error {
		yes, err := a.look(ctx, t)
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		seen.add(t.Name(), yes)
		return nil
	})
	if err != nil {
		return false, err
	}
	return seen.verdict()
}

func (a *onNodes) each(do func(*target) error) error {
	errs := make([]error, len(a.targets))
	var group errgroup.Group
	for i, t := range a.targets {
		group.Go(func() error {
			errs[i] = do(t)
			return nil
		})
	}
	_ = group.Wait() // each error is in its place
	return errors.Join(errs...)
}

// tally is which targets show a fault. All must, or none: in between, there is
// no answer but an error that names the targets on either side.
type tally struct{ with, without []string }

func (t *tally) add(name string, seen bool) {
	if seen {
		t.with = append(t.with, name)
	} else {
		t.without = append(t.without, name)
	}
}

func (t *tally) verdict() (bool, error) {
	if len(t.with) > 0 && len(t.without) > 0 {
		slices.Sort(t.with)
		slices.Sort(t.without)
		return false, fmt.Errorf("seen on %s but not on %s", strings.Join(t.with, ", "), strings.Join(t.without, ", "))
	}
	return len(t.with) > 0, nil
}

// accepts says whether the node takes a connection. One that answers nobody is
// taken at the engine's word.
func (t *target) accepts(ctx context.Context) (bool, error) {
	if t.dial == nil {
		state, err := t.State(ctx)
		return state.Running && !state.Paused, err
	}
	err := connect(ctx, t.dial, straightWithin)
	if err != nil && ctx.Err() != nil {
		return false, err
	}
	return err == nil, nil
}

// works says whether the node's processes do anything: they answer, or use CPU
// time. A node too busy to answer in time is not one that stands still.
func (t *target) works(ctx context.Context) (bool, error) {
	before, usageErr := t.Usage()
	if t.asks() {
		_, err := exchange(ctx, t.dial, t.Node().Probe, straightWithin)
		if err == nil {
			return true, nil
		}
		if ctx.Err() != nil {
			return false, err
		}
	}
	if usageErr != nil {
		return false, usageErr
	}
	after, err := t.Usage()
	return after.CPUSeconds > before.CPUSeconds, err
}

// asks says whether the node's protocol has a question for it.
func (t *target) asks() bool {
	protocol := t.Node().Probe.Protocol
	return t.dial != nil && protocol != "" && protocol != "tcp"
}
