package topologies_test

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"testing"

	"relapse/topologies"
)

// TestASweepThatFailsIsToldInOneLine holds that what is left of other runs, which
// may be dozens of cgroups, does not fill the screen of this one.
func TestASweepThatFailsIsToldInOneLine(t *testing.T) {
	var busy []error
	for n := range 30 {
		busy = append(busy, fmt.Errorf("remove c%d: %w", n, syscall.EBUSY))
	}
	hosts := topologies.NotRemoved("a", busy, context.DeadlineExceeded)
	const told = "remove hosts of run a: 30 cgroups are left (context deadline exceeded), the first: remove c0: device or resource busy"
	for _, tc := range []struct {
		name string
		have error
		want string
	}{
		{"one", errors.New("list networks: no"), "list networks: no"},
		{"cgroups of a run", errors.Join(nil, hosts), told},
		{"of two runs", errors.Join(hosts, hosts), "2 errors, the first: " + told},
		{"a join in a join", errors.Join(errors.Join(busy...), hosts), "31 errors, the first: remove c0: device or resource busy"},
		{"several lines", errors.New("no\nmore"), "no; more"},
		{"no cgroup any more", topologies.NotRemoved("a", nil, context.Canceled), "remove hosts of run a: context canceled"},
	} {
		if have := topologies.InOneLine(tc.have); have != tc.want {
			t.Errorf("%s: have %q, want %q", tc.name, have, tc.want)
		}
	}
	if !errors.Is(hosts, syscall.EBUSY) || !errors.Is(hosts, context.DeadlineExceeded) {
		t.Error("the reasons are lost")
	}
}
