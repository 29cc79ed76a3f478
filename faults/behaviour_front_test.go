package faults_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"relapse/topologies"
)

func routed(t *testing.T, sys *topologies.System, node string) topologies.Routed {
	t.Helper()
	front, err := sys.Front("front")
	if err != nil {
		t.Fatal(err)
	}
	r, err := front.Routed(t.Context(), node)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// share says whether a node gets a share of the front's requests, which come at
// their plain rate.
func share(t *testing.T, sys *topologies.System, node string, want float64) func() error {
	return func() error {
		return near(func() (float64, error) {
			r := routed(t, sys, node)
			if r.Of < 0.8*plainRate {
				return 0, fmt.Errorf("%g requests a second in all, want %d", r.Of, plainRate)
			}
			return r.Sent / r.Of, nil
		}, want, 0.05)()
	}
}

func TestASkewTakesItsShareAndNoMore(t *testing.T) {
	sys := system(t)
	eventually(t, 3*time.Second, "the front is even", share(t, sys, "node-1", 0.5))
	a := injected(t, sys, "skew", "{node: front, to: node-1, share: 80%}")
	eventually(t, 3*time.Second, "four of five go to the node", share(t, sys, "node-1", 0.8))
	always(t, 500*time.Millisecond, "one of five goes to the other", share(t, sys, "node-2", 0.2))
	second := armed(t, sys, "skew", "{node: front, to: node-2, share: 80%}")
	if err := second.Inject(t.Context()); err == nil {
		t.Error("a second skew on the same route was injected")
	}
	undo(t, second, "undo the second")
	always(t, 500*time.Millisecond, "the first one stays", share(t, sys, "node-1", 0.8))
	undo(t, a, "undo")
	eventually(t, 3*time.Second, "the front is even again", share(t, sys, "node-1", 0.5))
}

func TestSkewsThatCannotBeArmed(t *testing.T) {
	sys := system(t)
	for _, tc := range []struct{ name, have string }{
		{"an unknown node", "{node: frnt, to: node-1, share: 80%}"},
		{"a node that is no front", "{node: queue, to: front, share: 80%}"},
		{"a node that is in no route", "{node: front, to: control, share: 80%}"},
		{"a share that is even", "{node: front, to: node-1, share: 50%}"},
		{"a share that is nearly even", "{node: front, to: node-1, share: 54%}"},
	} {
		if _, err := decoded(t, "skew", tc.have).Arm(t.Context(), sys, draws); err == nil {
			t.Errorf("%s: no error", tc.name)
		}
	}
}

func TestASkewNeedsRequests(t *testing.T) {
	sys := system(t)
	queue := players(t, sys, "queue")
	rate := func(ctx context.Context, match float64) {
		t.Helper()
		if err := queue.SetRates(ctx, map[string]float64{"match": match}); err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(func() { rate(context.Background(), plainRate) })
	for _, few := range []float64{0, 8} { // it takes 20
		rate(t.Context(), few)
		eventually(t, 3*time.Second, "few requests come", func() error {
			if r := routed(t, sys, "node-1"); r.Of > 10 {
				return fmt.Errorf("have %g a second", r.Of)
			}
			return nil
		})
		a := armed(t, sys, "skew", "{node: front, to: node-1, share: 90%}")
		always(t, 700*time.Millisecond, "few requests show no skew", seen(t.Context(), a, false))
		if err := a.Inject(t.Context()); err == nil {
			t.Errorf("at %g requests a second: injected, want an error", few)
		}
	}
	rate(t.Context(), plainRate)
	eventually(t, 3*time.Second, "the front is even", share(t, sys, "node-1", 0.5))
}
