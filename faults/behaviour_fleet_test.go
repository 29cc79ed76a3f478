package faults_test

import (
	"fmt"
	"testing"
	"time"

	"relapse/topologies"
)

// fleetServers is how many servers each fleet of the rig has, none of them in a
// match.
const fleetServers = 40

// gone says whether so many of a fleet's servers are gone.
func gone(t *testing.T, sys *topologies.System, node string, want int) func() error {
	t.Helper()
	fleet, err := sys.Fleet(node)
	if err != nil {
		t.Fatal(err)
	}
	return func() error {
		have, err := fleet.Servers(t.Context(), "")
		if want := (topologies.Servers{All: fleetServers, Gone: want}); err == nil && have != want {
			err = fmt.Errorf("%s has %+v, want %+v", node, have, want)
		}
		return err
	}
}

func TestACapacityLossTakesItsShareAndNoMore(t *testing.T) {
	sys := system(t)
	eventually(t, 3*time.Second, "all servers are there", gone(t, sys, "fleet", 0))
	a := injected(t, sys, "capacity-loss", "{node: fleet, share: 40%, cluster: main}")
	always(t, 500*time.Millisecond, "two of five are gone", gone(t, sys, "fleet", fleetServers*2/5))
	always(t, 100*time.Millisecond, "the other fleet has all", gone(t, sys, "other-fleet", 0))
	second := armed(t, sys, "capacity-loss", "{node: fleet, share: 80%}")
	if err := second.Inject(t.Context()); err == nil {
		t.Error("more servers were ordered away than are left")
	}
	undo(t, second, "undo the second")
	always(t, 500*time.Millisecond, "the first one stays", gone(t, sys, "fleet", fleetServers*2/5))
	undo(t, a, "undo")
	eventually(t, 3*time.Second, "all servers are there again", gone(t, sys, "fleet", 0))
}

func TestCapacityLossesThatCannotBeArmed(t *testing.T) {
	sys := system(t)
	for _, tc := range []struct{ name, have string }{
		{"an unknown node", "{node: flet, share: 40%}"},
		{"a node that is no fleet", "{node: front, share: 40%}"},
		{"a cluster that it does not have", "{node: fleet, share: 40%, cluster: side}"},
		{"less than one server", "{node: fleet, share: 1%}"},
	} {
		if _, err := decoded(t, "capacity-loss", tc.have).Arm(t.Context(), sys, draws); err == nil {
			t.Errorf("%s: no error", tc.name)
		}
	}
}
