package faults_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"relapse/faults"
)

// TestContract holds every registered kind, as its example states it, to what
// package faults promises of all of them. Kinds share one running topology and
// come in a shuffled order: one that leaves something behind can neither hide
// nor help another twice.
func TestContract(t *testing.T) {
	sys := system(t)
	seed := uint64(time.Now().UnixNano())
	t.Logf("order of seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	kinds := faults.Kinds()
	rng.Shuffle(len(kinds), func(i, j int) { kinds[i], kinds[j] = kinds[j], kinds[i] })
	for _, kind := range kinds {
		t.Run(kind.Name, func(t *testing.T) {
			needHosts(t, kind)
			ctx := t.Context()
			arm := func(example string) faults.Armed {
				t.Helper()
				var armed faults.Armed
				// Players that have just been set to their rates, or set back,
				// need half a second until they have been measured.
				eventually(t, 5*time.Second, "the fault can be armed", func() (err error) {
					armed, err = decoded(t, kind.Name, example).Arm(ctx, sys, rng)
					return err
				})
				return armed
			}
			armed, control := arm(kind.Example), arm(elsewhere(t, kind.Example))
			t.Cleanup(func() {
				// What a failed test leaves would fail the ones after it.
				ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
				defer cancel()
				if err := armed.Undo(ctx); err != nil {
					t.Error(err)
				}
			})

			always(t, time.Second, "not in effect before Inject", seen(ctx, armed, false))
			undo(t, armed, "Undo before Inject")

			if err := armed.Inject(ctx); err != nil {
				t.Fatal(err)
			}
			within := 2 * time.Second
			if slow, ok := armed.(faults.Slow); ok {
				within = max(within, slow.SeenWithin())
			}
			began := time.Now()
			eventually(t, within, "in effect after Inject", seen(ctx, armed, true))
			t.Logf("seen after %s", time.Since(began).Round(time.Millisecond))
			always(t, 500*time.Millisecond, "the control is not affected", seen(ctx, control, false))

			undo(t, armed, "Undo")
			began = time.Now()
			eventually(t, 5*time.Second, "not in effect after Undo", seen(ctx, armed, false))
			t.Logf("gone after %s", time.Since(began).Round(time.Millisecond))
			undo(t, armed, "Undo again")
			always(t, 300*time.Millisecond, "still not in effect after Undo", seen(ctx, armed, false))

			// Once more in the hands of Hold, which is interrupted.
			holding, interrupt := context.WithCancel(ctx)
			defer interrupt()
			result := faults.Hold(holding, armed, nil, faults.HoldOptions{Observe: func(s faults.Step) {
				if s == faults.InEffect {
					interrupt()
				}
			}})
			if !result.InEffect || !result.Undone || !result.Gone || !errors.Is(result.Err, context.Canceled) {
				t.Errorf("interrupted while held: %+v, want in effect, undone and gone", result)
			}
		})
	}
}

// elsewhere gives the example with another target, which must not notice.
func elsewhere(t *testing.T, example string) string {
	t.Helper()
	out := strings.NewReplacer("server", "control", "host-1", "host-2", "operation: get", "operation: other",
		"node: players\nevery", "node: bystanders\nevery", "node: players\nfrom", "node: bystanders\nfrom", "node-1", "node-2",
		"node: fleet", "node: other-fleet").Replace(example)
	if out == example {
		t.Fatalf("example %q names nothing that the control replaces", example)
	}
	return out
}

func seen(ctx context.Context, a faults.Armed, want bool) func() error {
	return func() error {
		got, err := a.InEffect(ctx)
		if err == nil && got != want {
			err = fmt.Errorf("in effect: %t, want %t", got, want)
		}
		return err
	}
}

func undo(t *testing.T, a faults.Armed, what string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := a.Undo(ctx); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}
