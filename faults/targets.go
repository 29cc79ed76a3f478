package faults

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"
)

// onEach is a fault on nodes or on hosts: the same act on each of them, what
// takes it back, and one way to look at one from outside.
type onEach[T interface{ Name() string }] struct {
	what         string // "node" or "host", for errors
	inject, undo func(context.Context, T) error
	look         func(context.Context, T) (bool, error)

	mu      sync.Mutex
	targets []T
	touched map[string]bool // may hold some of the fault, by name
}

// Inject acts on every target at once.
func (a *onEach[T]) Inject(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	ctx, cancel := settled(ctx)
	defer cancel()
	return a.each(func(t T) error {
		// Noted first: a call whose answer is lost may have been obeyed.
		a.mu.Lock()
		if a.touched == nil {
			a.touched = map[string]bool{}
		}
		a.touched[t.Name()] = true
		a.mu.Unlock()
		return a.inject(ctx, t)
	})
}

// Undo takes the act back on the targets that may hold it. The error says which
// ones still may.
func (a *onEach[T]) Undo(ctx context.Context) error {
	return a.each(func(t T) error {
		a.mu.Lock()
		touched := a.touched[t.Name()]
		a.mu.Unlock()
		if !touched {
			return nil
		}
		if err := a.undo(ctx, t); err != nil {
			return fmt.Errorf("%s %s may still hold the fault: %w", a.what, t.Name(), err)
		}
		a.mu.Lock()
		delete(a.touched, t.Name())
		a.mu.Unlock()
		return nil
	})
}

// InEffect looks at every target at once. All must show the fault, or none.
func (a *onEach[T]) InEffect(ctx context.Context) (bool, error) {
	var mu sync.Mutex
	var seen tally
	err := a.each(func(t T) error {
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

func (a *onEach[T]) each(do func(T) error) error {
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
