package topologies_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"relapse/topologies"
)

// answersWithin probes once.
func answersWithin(t *testing.T, i *topologies.Instance, within time.Duration) bool {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	_, err := i.Probe(ctx)
	return err == nil
}

func TestPauseAndResume(t *testing.T) {
	system := start(t, pair(), topologies.Options{})
	store := instance(t, system, "store")
	ctx := t.Context()
	for range 2 { // again is no error
		if err := store.Pause(ctx); err != nil {
			t.Fatal(err)
		}
	}
	if state, err := store.State(ctx); err != nil || !state.Paused {
		t.Errorf("state %+v, %v", state, err)
	}
	if answersWithin(t, store, 300*time.Millisecond) {
		t.Error("a paused node answers")
	}
	for range 2 {
		if err := store.Resume(ctx); err != nil {
			t.Fatal(err)
		}
	}
	if !answersWithin(t, store, 2*time.Second) {
		t.Error("a resumed node does not answer")
	}
}

func TestKillAndStart(t *testing.T) {
	system := start(t, pair(), topologies.Options{})
	store := instance(t, system, "store")
	ctx := t.Context()
	before, err := store.State(ctx)
	if err != nil || !before.Running || before.Pid == 0 {
		t.Fatalf("state %+v, %v", before, err)
	}
	if err := store.Pause(ctx); err != nil { // a paused one can be killed too
		t.Fatal(err)
	}
	for range 2 {
		if err := store.Kill(ctx); err != nil {
			t.Fatal(err)
		}
	}
	state, err := store.State(ctx)
	if err != nil || state.Running || state.ExitCode != 137 {
		t.Errorf("state %+v, %v", state, err)
	}
	if answersWithin(t, store, 300*time.Millisecond) {
		t.Error("a dead node answers")
	}
	if _, err := store.Usage(); !errors.Is(err, topologies.ErrNotRunning) {
		t.Errorf("usage of a dead node: %v", err)
	}
	if err := store.Pause(ctx); !errors.Is(err, topologies.ErrNotRunning) {
		t.Errorf("pausing a dead node: %v", err)
	}
	for range 2 {
		if err := store.Start(ctx); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "the node answers after its start", 5*time.Second, func() bool {
		return answersWithin(t, store, 300*time.Millisecond)
	})
	after, err := store.State(ctx)
	if err != nil || !after.StartedAt.After(before.StartedAt) {
		t.Errorf("started at %s, before at %s, %v", after.StartedAt, before.StartedAt, err)
	}
	if _, err := store.Usage(); err != nil {
		t.Error(err)
	}
	if err := store.Stop(ctx); err != nil {
		t.Fatal(err)
	}
	if state, err := store.State(ctx); err != nil || state.Running || state.ExitCode != 0 {
		t.Errorf("state after Stop %+v, %v", state, err)
	}
}

// A tmpfs on a folder that the image does not have is its user's in every life.
func TestTmpfsOfASecondLife(t *testing.T) {
	topology := pair()
	topology.Nodes[1].Tmpfs = []string{"/scratch:size=1m", "/others:uid=1,mode=0700"}
	system := start(t, topology, topologies.Options{})
	store := instance(t, system, "store")
	for life := range 2 {
		for path, want := range map[string]string{"/scratch/new": "<nil>", "/others/new": "permission denied"} {
			if got := get(t, store, "/write", "path", path); !strings.Contains(got, want) {
				t.Errorf("life %d: writing to %s: %s, want %s", life+1, path, got, want)
			}
		}
		if err := errors.Join(store.Kill(t.Context()), store.Start(t.Context())); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the node answers after its start", 5*time.Second, func() bool {
			return answersWithin(t, store, 300*time.Millisecond)
		})
	}
}

func TestSetCPUs(t *testing.T) {
	system := start(t, pair(), topologies.Options{})
	tests := []struct {
		name string
		node string
		set  float64
		want float64
	}{
		{"less than the file says", "store", 0.25, 0.25},
		{"more", "store", 1.5, 1.5},
		{"back to the file's", "store", 0, 0.5},
		{"a limit where the file has none", "front", 0.2, 0.2},
		{"back to none", "front", 0, 0},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			i := instance(t, system, test.node)
			if err := i.SetCPUs(t.Context(), test.set); err != nil {
				t.Fatal(err)
			}
			if got, err := i.CPUs(t.Context()); err != nil || math.Abs(got-test.want) > 0.001 {
				t.Errorf("got %g, %v, want %g", got, err, test.want)
			}
		})
	}
}

func TestUsageSeesWorkAndThrottling(t *testing.T) {
	system := start(t, pair(), topologies.Options{})
	store := instance(t, system, "store")
	if err := store.SetCPUs(t.Context(), 0.1); err != nil {
		t.Fatal(err)
	}
	before, err := store.Usage()
	if err != nil {
		t.Fatal(err)
	}
	get(t, store, "/burn", "for", "600ms")
	began := time.Now()
	after, err := store.Usage()
	if err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took > 50*time.Millisecond {
		t.Errorf("a look at the usage took %s", took)
	}
	if used := after.CPUSeconds - before.CPUSeconds; used < 0.02 || used > 0.4 {
		t.Errorf("used %g s of CPU in 0.6 s at a tenth of a core", used)
	}
	if held := after.ThrottledSeconds - before.ThrottledSeconds; held <= 0 {
		t.Errorf("held back for %g s", held)
	}
	if after.MemoryBytes < 1<<20 || after.MemoryBytes > 64<<20 {
		t.Errorf("memory %d", after.MemoryBytes)
	}
}
