package faults_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"relapse/faults"
)

var errRefused = errors.New("refused")

// fake is a fault in memory, whose script says what goes wrong. It checks what
// Hold owes every fault.
type fake struct {
	injectError  bool          // Inject fails, half-way: the effect is there
	injectHangs  bool          // Inject ends only with its context
	injectPanics bool          // a mistake in a kind
	bitesAfter   time.Duration // from Inject until the effect is seen; negative: never
	blind        int           // so many looks fail first
	undoFails    int           // so many Undos fail first; negative: all
	healsAfter   time.Duration // from Undo until the effect is gone; negative: never

	injected, undone time.Time // of the last call that took effect
	undos            int
	undoEnded        bool // the first Undo was given a context that had ended
	slow             time.Duration
}

func (f *fake) Inject(ctx context.Context) error {
	f.injected = time.Now()
	switch {
	case f.injectPanics:
		panic("a mistake in a kind")
	case f.injectHangs:
		<-ctx.Done()
		return ctx.Err()
	case f.injectError:
		return errRefused
	}
	return nil
}

func (f *fake) InEffect(context.Context) (bool, error) {
	if f.blind > 0 {
		f.blind--
		return false, errRefused
	}
	switch {
	case f.injected.IsZero():
		return false, nil
	case !f.undone.IsZero():
		return f.healsAfter < 0 || time.Since(f.undone) < f.healsAfter, nil
	}
	return f.bitesAfter >= 0 && time.Since(f.injected) >= f.bitesAfter, nil
}

func (f *fake) Undo(ctx context.Context) error {
	f.undos++
	f.undoEnded = f.undoEnded || f.undos == 1 && ctx.Err() != nil
	if f.undoFails != 0 {
		f.undoFails = max(f.undoFails-1, -1)
		return errRefused
	}
	f.undone = time.Now()
	return nil
}

func (f *fake) SeenWithin() time.Duration { return f.slow }

const all = "injecting injected in-effect undoing undone gone"

func TestHold(t *testing.T) {
	for _, tc := range []struct {
		name   string
		have   fake
		lasts  time.Duration // until the phase ends
		cancel time.Duration // until the context ends; 0: never
		want   string        // steps
		fails  bool
		within time.Duration // Hold returns by then
	}{
		{name: "as it should be", lasts: time.Second, want: all, within: 1100 * time.Millisecond},
		{name: "bites and heals late", have: fake{bitesAfter: time.Second, healsAfter: time.Second}, lasts: 3 * time.Second, want: all, within: 4100 * time.Millisecond},
		{name: "looks fail at first", have: fake{blind: 20}, lasts: time.Second, want: all, within: 1100 * time.Millisecond},
		{name: "inject fails half-way", have: fake{injectError: true}, lasts: time.Second, want: "injecting undoing undone gone", fails: true, within: 100 * time.Millisecond},
		{name: "inject hangs", have: fake{injectHangs: true}, lasts: time.Minute, want: "injecting undoing undone gone", fails: true, within: 2100 * time.Millisecond},
		{name: "never bites", have: fake{bitesAfter: -1}, lasts: time.Minute, want: "injecting injected undoing undone gone", fails: true, within: 2100 * time.Millisecond},
		{name: "bites later than the default, as it says", have: fake{bitesAfter: 3 * time.Second, slow: 4 * time.Second}, lasts: 5 * time.Second, want: all, within: 5100 * time.Millisecond},
		{name: "the phase ends before it bites", have: fake{bitesAfter: time.Second}, lasts: 500 * time.Millisecond, want: "injecting injected undoing undone gone", fails: true, within: 600 * time.Millisecond},
		{name: "no look succeeds", have: fake{blind: 1 << 20}, lasts: time.Minute, want: "injecting injected undoing undone", fails: true, within: 7100 * time.Millisecond},
		{name: "interrupted while held", lasts: time.Minute, cancel: time.Second, want: all, fails: true, within: 1100 * time.Millisecond},
		{name: "interrupted before it bites", have: fake{bitesAfter: 1500 * time.Millisecond}, lasts: time.Minute, cancel: time.Second, want: "injecting injected undoing undone gone", fails: true, within: 1100 * time.Millisecond},
		{name: "undo fails twice", have: fake{undoFails: 2}, lasts: time.Second, want: all, within: 1300 * time.Millisecond},
		{name: "undo always fails", have: fake{undoFails: -1}, lasts: time.Second, want: "injecting injected in-effect undoing", fails: true, within: 6100 * time.Millisecond},
		{name: "never heals", have: fake{healsAfter: -1}, lasts: time.Second, want: "injecting injected in-effect undoing undone", fails: true, within: 6100 * time.Millisecond},
		{name: "interrupted, and undo fails twice", have: fake{undoFails: 2, healsAfter: time.Second}, lasts: time.Minute, cancel: time.Second, want: all, fails: true, within: 2400 * time.Millisecond},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := tc.have
				begin := time.Now()
				got, steps := held(t, &f, tc.lasts, tc.cancel)
				if took := time.Since(begin); took > tc.within {
					t.Errorf("returned after %s, want within %s", took, tc.within)
				}
				if have := fmt.Sprint(steps); have != "["+tc.want+"]" {
					t.Errorf("steps %s, want [%s]", have, tc.want)
				}
				if (got.Err != nil) != tc.fails {
					t.Errorf("error %v, want one: %t", got.Err, tc.fails)
				}
			})
		})
	}
}

func held(t *testing.T, f *fake, lasts, cancelAfter time.Duration) (faults.HoldResult, []faults.Step) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	until := make(chan struct{})
	phase := time.AfterFunc(lasts, func() { close(until) })
	defer phase.Stop()
	if cancelAfter > 0 {
		interrupt := time.AfterFunc(cancelAfter, cancel)
		defer interrupt.Stop()
	}
	var steps []faults.Step
	got := faults.Hold(ctx, f, until, faults.HoldOptions{Observe: func(s faults.Step) { steps = append(steps, s) }})
	return got, steps
}

// A kind with a mistake must not leave the topology broken either.
func TestHoldUndoesAfterAPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{injectPanics: true}
		defer func() {
			if recover() == nil {
				t.Error("the panic was swallowed")
			}
			if f.undos != 1 {
				t.Errorf("undone %d times, want once", f.undos)
			}
		}()
		held(t, f, time.Second, 0)
	})
}

// TestHoldRandomly plays random scripts and holds each result against a model
// of what Hold promises: a few lines that know the script and not the code.
func TestHoldRandomly(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	const rounds = 10_000
	kinds := map[string]int{}
	synctest.Test(t, func(t *testing.T) {
		for round := range rounds {
			script := randomScript(rng)
			lasts := time.Duration(1+rng.IntN(300)) * 10 * time.Millisecond
			var cancel time.Duration
			if rng.IntN(4) == 0 {
				cancel = time.Duration(1+rng.IntN(300))*10*time.Millisecond + time.Millisecond
			}
			f := script
			got, steps := held(t, &f, lasts, cancel)
			kinds[fmt.Sprint(steps)]++
			for _, wrong := range violations(script, f, got, steps, lasts, cancel) {
				t.Errorf("round %d: %s\nscript %+v lasts %s cancel %s\nresult %+v steps %v", round, wrong, script, lasts, cancel, got, steps)
			}
			if t.Failed() {
				return
			}
		}
	})
	// The scripts must have met every end, or the model has proved little.
	if len(kinds) < 8 {
		t.Errorf("only %d different ends were met: %v", len(kinds), kinds)
	}
}

func randomScript(rng *rand.Rand) fake {
	delay := func() time.Duration {
		switch rng.IntN(5) {
		case 0:
			return time.Duration(rng.IntN(400))*10*time.Millisecond + 3*time.Millisecond
		case 1:
			return -1
		}
		return 0
	}
	f := fake{bitesAfter: delay(), healsAfter: delay()}
	switch rng.IntN(10) {
	case 0:
		f.injectError = true
	case 1:
		f.injectHangs = true
	}
	if rng.IntN(5) == 0 {
		f.blind = rng.IntN(30)
	}
	if rng.IntN(5) == 0 {
		// Not near 50, where the last try and the deadline coincide.
		f.undoFails = []int{-1, 1, 5, 40, 60}[rng.IntN(5)]
	}
	return f
}

func violations(script, after fake, got faults.HoldResult, steps []faults.Step, lasts, cancel time.Duration) []string {
	var out []string
	promise := func(ok bool, what string) {
		if !ok {
			out = append(out, what)
		}
	}
	has := func(s faults.Step) bool { return slices.Contains(steps, s) }
	order := []faults.Step{faults.Injecting, faults.Injected, faults.InEffect, faults.Undoing, faults.Undone, faults.Gone}
	last := -1
	for _, s := range steps {
		at := slices.Index(order, s)
		promise(at > last, "steps are in order and happen once")
		last = at
	}
	promise(after.undos >= 1, "undo is tried on every path")
	promise(!after.undoEnded, "undo gets a context that has not ended")
	promise(got.Injected == has(faults.Injected) && got.InEffect == has(faults.InEffect) && got.Undone == has(faults.Undone) && got.Gone == has(faults.Gone), "result and steps agree")
	promise((got.Err == nil) == (got.Injected && got.InEffect && got.Undone && got.Gone && (cancel == 0 || cancel > lasts)), "no error exactly if all went well")
	promise(got.Injected == (!script.injectError && !script.injectHangs), "injected iff Inject succeeded")
	promise(!got.InEffect || got.Injected, "only what was injected is in effect")
	promise(!got.InEffect || script.bitesAfter >= 0, "what never bites is never in effect")
	promise(got.Undone == !after.undone.IsZero(), "undone iff Undo succeeded")
	promise(got.Undone == (script.undoFails >= 0 && script.undoFails < 50), "undo is repeated every 100 ms for 5 s")
	promise(!got.Gone || got.Undone, "gone only after undo")
	if got.Undone {
		bitten := !after.injected.IsZero()
		promise(got.Gone == (!bitten || script.healsAfter >= 0), "gone iff it heals within 5 s")
	}
	return out
}
