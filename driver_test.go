package main

import (
	"context"
	"errors"
	"testing"

	"relapse/replays"
	"relapse/topologies"
)

// TestChooseDriver holds that a machine without an engine plays by processes, and that
// one who asks for containers is told why there are none.
func TestChooseDriver(t *testing.T) {
	t.Setenv("DOCKER_HOST", "unix:///nonexistent/engine.sock")
	t.Chdir(t.TempDir())
	incident := replays.LibraryNames()[0]
	const again = 77 // exit code of the tool in its own namespaces
	for _, tc := range []struct {
		name    string
		args    []string
		err     error // of making namespaces
		code    int
		entered bool
	}{
		{"no engine", []string{"replay", incident}, nil, again, true},
		{"no engine, all arms", []string{"verify", incident}, nil, again, true},
		{"processes were asked for", []string{"replay", incident, "--driver", "process"}, nil, again, true},
		{"an engine was asked for", []string{"replay", incident, "--driver", "docker"}, nil, exitRig, false},
		{"no engine and no namespaces", []string{"replay", incident}, topologies.ErrNoNamespaces, exitRig, true},
		{"no such driver", []string{"replay", incident, "--driver", "podman"}, nil, exitBadInput, false},
		{"nodes that are to be kept", []string{"replay", incident, "--keep"}, nil, exitBadInput, false},
	} {
		entered := false
		enterNamespaces = func(context.Context) (int, error) {
			entered = true
			return again, tc.err
		}
		if code, _ := printed(t, tc.args...); code != tc.code || entered != tc.entered {
			t.Errorf("%s: exit code %d, entered %t; want %d, %t", tc.name, code, entered, tc.code, tc.entered)
		}
	}
	enterNamespaces = nil
	// What came out of it is what this one ends with, also a pass.
	enterNamespaces = func(context.Context) (int, error) { return exitAsExpected, nil }
	defer func() { enterNamespaces = nil }()
	if code, _ := printed(t, "replay", incident, "--driver", "process"); code != exitAsExpected {
		t.Errorf("exit code %d, want %d", code, exitAsExpected)
	}
	if err := rig(errors.Join(topologies.ErrNoNamespaces, topologies.ErrNoEngine)); !errors.Is(err, topologies.ErrNoEngine) {
		t.Errorf("one of two reasons is lost: %v", err)
	}
}
