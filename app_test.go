package main

import (
	"errors"
	"fmt"
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
