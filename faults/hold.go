package faults

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Step is a moment in a fault's life, in the order in which they happen.
type Step string

// The steps. Injected follows a successful Inject, InEffect the first look that
// saw the fault, Gone the first look after Undo that did not.
const (
	Injecting Step = "injecting"
	Injected  Step = "injected"
	InEffect  Step = "in-effect"
	Undoing   Step = "undoing"
	Undone    Step = "undone"
	Gone      Step = "gone"
)

// HoldOptions bounds the steps of [Hold]. Zero values mean the defaults.
type HoldOptions struct {
	// EffectWithin bounds Inject, and then the time until the fault is seen;
	// 2 s by default, or what the fault says as a [Slow] one if that is longer.
	EffectWithin time.Duration
	UndoWithin   time.Duration // bounds Undo with its repetitions; 5 s by default
	GoneWithin   time.Duration // bounds the time until the fault is no longer seen; 5 s by default
	// Observe is told of each step as it happens; it may be nil.
	Observe func(Step)
}

// HoldResult says how far a fault came. Only a result with all four and no
// error is a fault that was there for as long as it should be.
type HoldResult struct {
	Injected bool
	InEffect bool
	Undone   bool
	Gone     bool
	Err      error // all that went wrong, each naming its step
}

// Slow is an armed fault that takes long to be seen from outside.
type Slow interface {
	// SeenWithin is how long after Inject the fault may need to be seen.
	SeenWithin() time.Duration
}

const (
	pollEvery = 20 * time.Millisecond
	undoEvery = 100 * time.Millisecond
)

// Hold runs the life of an armed fault: it injects, looks until the fault is
// seen from outside, waits for until to close, undoes, and looks until the
// fault is no longer seen. It returns early if the fault cannot be injected, is
// never seen, or the context ends.
//
// Undo runs on every path, also when a kind panics, on a context that does not
// end with ctx. It is tried again until its deadline, since it is idempotent
// and what it leaves behind would break what comes after.
func Hold(ctx context.Context, a Armed, until <-chan struct{}, o HoldOptions) (result HoldResult) {
	h := &hold{armed: a, options: o.withDefaults(a), result: &result}
	defer h.end(context.WithoutCancel(ctx))
	if h.inject(ctx) && h.seen(ctx, until) {
		select {
		case <-until:
		case <-ctx.Done():
			h.fail("interrupted while the fault was held", context.Cause(ctx))
		}
	}
	return result
}

func (o HoldOptions) withDefaults(a Armed) HoldOptions {
	if o.EffectWithin == 0 {
		o.EffectWithin = 2 * time.Second
		if s, slow := a.(Slow); slow {
			o.EffectWithin = max(o.EffectWithin, s.SeenWithin())
		}
	}
	if o.UndoWithin == 0 {
		o.UndoWithin = 5 * time.Second
	}
	if o.GoneWithin == 0 {
		o.GoneWithin = 5 * time.Second
	}
	if o.Observe == nil {
		o.Observe = func(Step) {}
	}
	return o
}

type hold struct {
	armed   Armed
	options HoldOptions
	result  *HoldResult
}

func (h *hold) fail(step string, err error) {
	h.result.Err = errors.Join(h.result.Err, fmt.Errorf("%s: %w", step, err))
}

func (h *hold) inject(ctx context.Context) bool {
	h.options.Observe(Injecting)
	ctx, cancel := context.WithTimeout(ctx, h.options.EffectWithin)
	defer cancel()
	if err := h.armed.Inject(ctx); err != nil {
		h.fail("inject", err)
		return false
	}
	h.result.Injected = true
	h.options.Observe(Injected)
	return true
}

// seen waits until the fault is seen in effect.
func (h *hold) seen(ctx context.Context, until <-chan struct{}) bool {
	ended := func() error {
		select {
		case <-until:
			return errPhaseEnded
		default:
			return nil
		}
	}
	if err := h.look(ctx, true, h.options.EffectWithin, ended); err != nil {
		h.fail("fault not seen in effect", err)
		return false
	}
	h.result.InEffect = true
	h.options.Observe(InEffect)
	return true
}

var errPhaseEnded = errors.New("its time ended first")

// end undoes the fault and looks until it is gone.
func (h *hold) end(ctx context.Context) {
	h.options.Observe(Undoing)
	if err := h.undo(ctx); err != nil {
		h.fail("undo", err)
		return
	}
	h.result.Undone = true
	h.options.Observe(Undone)
	if err := h.look(ctx, false, h.options.GoneWithin, func() error { return nil }); err != nil {
		h.fail("fault still seen after undo", err)
		return
	}
	h.result.Gone = true
	h.options.Observe(Gone)
}

func (h *hold) undo(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, h.options.UndoWithin)
	defer cancel()
	for {
		err := h.armed.Undo(ctx)
		if err == nil {
			return nil
		}
		if !pause(ctx, undoEvery) {
			return fmt.Errorf("not done within %s: %w", h.options.UndoWithin, err)
		}
	}
}

// look asks until the answer is want. A question that fails is asked again: it
// says nothing either way.
func (h *hold) look(parent context.Context, want bool, within time.Duration, ended func() error) error {
	ctx, cancel := context.WithTimeout(parent, within)
	defer cancel()
	for {
		seen, err := h.armed.InEffect(ctx)
		if err == nil && seen == want {
			return nil
		}
		if end := ended(); end != nil {
			return errors.Join(end, err)
		}
		if pause(ctx, pollEvery) {
			continue
		}
		switch {
		case parent.Err() != nil:
			return fmt.Errorf("interrupted: %w", context.Cause(parent))
		case err != nil:
			return fmt.Errorf("not within %s; the last look failed: %w", within, err)
		}
		return fmt.Errorf("not within %s", within)
	}
}

// pause waits between two looks; it gives false if the context ends first.
func pause(ctx context.Context, d time.Duration) bool {
	if ctx.Err() != nil {
		return false
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}
