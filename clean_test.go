package main

import (
	"testing"

	"relapse/topologies"
)

func TestRemoved(t *testing.T) {
	for _, tc := range []struct {
		have topologies.Swept
		want string
	}{
		{topologies.Swept{}, "removed 0 containers, 0 networks, 0 processes and 0 parent cgroups of nodes"},
		{topologies.Swept{Runs: []string{"a"}, Containers: 7, Networks: 1, Hosts: 3}, "removed 7 containers, 1 network, 0 processes and 3 parent cgroups of nodes"},
		{topologies.Swept{Containers: 1, Networks: 2, Processes: 1, Hosts: 1}, "removed 1 container, 2 networks, 1 process and 1 parent cgroup of nodes"},
	} {
		if have := removed(tc.have); have != tc.want {
			t.Errorf("%+v: have %q, want %q", tc.have, have, tc.want)
		}
	}
}
