package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"

	"relapse/faults"
	"relapse/replays"
	"relapse/topologies"
)

// A rig that cannot be had must never read as a system that failed.
func TestRigExitCodes(t *testing.T) {
	for _, tc := range []struct {
		name string
		err  error
		want int
	}{
		{"no engine", fmt.Errorf("start: %w", topologies.ErrNoEngine), exitRig},
		{"no image", fmt.Errorf("start: %w", topologies.ErrNoImage), exitRig},
		{"no hosts", fmt.Errorf("host host-1: %w: making a parent cgroup needs root", topologies.ErrNoHosts), exitRig},
		{"anything else", errors.New("something else"), exitRig},
		{"a bad file", fmt.Errorf("load: %w", &topologies.FileError{}), exitBadInput},
		{"no such arm", &replays.UnknownArmError{}, exitBadInput},
		{"no such kind", &faults.UnknownKindError{}, exitBadInput},
		{"a code of its own", &exitError{exitUnknown, nil}, exitUnknown},
	} {
		var exit *exitError
		if err := rig(tc.err); !errors.As(err, &exit) || exit.code != tc.want {
			t.Errorf("%s: %v, want exit code %d", tc.name, err, tc.want)
		}
	}
	if err := rig(nil); err != nil {
		t.Errorf("no error: %v", err)
	}
}

// TestMain has the test's own program do what the tool's does where it starts itself
// again.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "namespaces" {
		os.Exit(run(context.Background(), os.Args[1:]))
	}
	os.Exit(m.Run())
}

// TestLoadingEndsWhenInterrupted holds that a load that does not come back keeps
// nobody from ending the tool, and that one that does is not taken for it.
func TestLoadingEndsWhenInterrupted(t *testing.T) {
	signalled := errors.New("interrupt signal received")
	interrupted, cancel := context.WithCancelCause(t.Context())
	cancel(signalled)
	small := &replays.Incident{Name: "small"}
	for _, tc := range []struct {
		name string
		ctx  context.Context
		load func() (*replays.Incident, error)
		inc  *replays.Incident
		code int // 0 for no error
		is   error
	}{
		{"a load that never ends", interrupted, func() (*replays.Incident, error) { select {} }, nil, exitRig, signalled},
		{"a load that has ended", interrupted, func() (*replays.Incident, error) { return small, nil }, nil, exitRig, signalled},
		{"nobody interrupts", t.Context(), func() (*replays.Incident, error) { return small, nil }, small, 0, nil},
		{"a bad file", t.Context(), func() (*replays.Incident, error) { return nil, &exitError{exitBadInput, os.ErrNotExist} }, nil, exitBadInput, os.ErrNotExist},
	} {
		inc, err := loading(tc.ctx, "the incident was loaded", tc.load)
		code := 0
		if exit := (*exitError)(nil); errors.As(err, &exit) {
			code = exit.code
		}
		if inc != tc.inc || code != tc.code || !errors.Is(err, tc.is) {
			t.Errorf("%s: incident %v, error %v, exit code %d; want %v, %v, %d", tc.name, inc, err, code, tc.inc, tc.is, tc.code)
		}
	}
}

// TestCommandsHeedInterruptsWhileLoading holds that every command that loads an
// incident ends as an interrupted run does, and that nothing of a run is there.
func TestCommandsHeedInterruptsWhileLoading(t *testing.T) {
	t.Chdir(t.TempDir())
	interrupted, cancel := context.WithCancel(t.Context())
	cancel()
	name := replays.LibraryNames()[0]
	for _, args := range [][]string{{"replay", name}, {"verify", name}, {"verify", name, "--resume", "runs/none"}, {"show", name}, {"list"}} {
		if code := run(interrupted, args); code != exitRig {
			t.Errorf("%v: exit code %d, want %d", args, code, exitRig)
		}
	}
	if left, err := os.ReadDir("."); err != nil || len(left) > 0 {
		t.Errorf("it left %v, %v; want nothing", left, err)
	}
}

// TestVersion holds that the tool tells its build as doctor does.
func TestVersion(t *testing.T) {
	if code, out := printed(t, "--version"); code != exitAsExpected || string(out) != "relapse "+build()+"\n" {
		t.Errorf("have %q, exit code %d", out, code)
	}
}
