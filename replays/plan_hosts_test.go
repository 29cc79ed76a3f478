package replays_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"relapse/replays"
	"relapse/topologies"
)

// machines is the small incident on two hosts, with one more fault.
func machines(t *testing.T, fault string) fstest.MapFS {
	t.Helper()
	fsys := small(strings.NewReplacer(
		"faults: [slow, more]", "faults: [slow, more, trouble]",
		"faults:\n", "faults:\n  trouble: "+fault+"\n",
	).Replace(smallText(t))).(fstest.MapFS)
	compose, err := os.ReadFile(filepath.Join("testdata", "small", "line", "compose.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	text := strings.NewReplacer(
		"services:\n", `x-hosts:
  host-1: {memory: 128m}
  host-2: {memory: 128m}

services:
  host-1-agent:
    image: relapse
    command: [service, host]
    cgroup_parent: host-1
    tmpfs: ["/leak:size=64m"]
    labels: {relapse.agent: "9092", relapse.probe: "http:9092/health"}
`,
		"    image: memcached:1.6.18\n", "    image: memcached:1.6.18\n    cgroup_parent: host-1\n    restart: always\n",
		"command: [service, account]\n", "command: [service, account]\n    cgroup_parent: host-2\n",
	).Replace(string(compose))
	fsys["line/compose.yaml"] = &fstest.MapFile{Data: []byte(text)}
	return fsys
}

// A fault that kills on a host may kill any node on it, and no other.
func TestHostFaultsStopTheirNodes(t *testing.T) {
	for _, tc := range []struct {
		fault string
		want  []string
	}{
		{"{kind: memory-leak, hosts: [host-1], per_second: 4MB}", []string{"store"}},
		{"{kind: memory-limit, hosts: ['host-*'], memory: 64m}", []string{"store", "server"}},
		{"{kind: memory-limit, nodes: [server], memory: 64m}", []string{"server"}},
		{"{kind: cpu-hog, hosts: [host-1], cores: 0.3}", []string{}},
	} {
		inc, err := replays.Load(machines(t, tc.fault), ".")
		if err != nil {
			t.Errorf("%s: %v", tc.fault, err)
			continue
		}
		if got := plan(t, inc, "unfixed").Stopped; !slices.Equal(got, tc.want) {
			t.Errorf("%s: stopped %v, want %v", tc.fault, got, tc.want)
		}
		if got := plan(t, inc, "healthy").Stopped; len(got) != 0 {
			t.Errorf("%s: stopped %v in the healthy arm", tc.fault, got)
		}
	}
}

func TestNeedsHosts(t *testing.T) {
	if loadSmall(t).NeedsHosts() {
		t.Error("an incident without hosts needs some")
	}
	inc, err := replays.Load(machines(t, "{kind: cpu-hog, hosts: [host-1], cores: 0.3}"), ".")
	if err != nil {
		t.Fatal(err)
	}
	if !inc.NeedsHosts() {
		t.Error("an incident with hosts needs none")
	}
	// Those of a single arm count as well.
	fsys := small(smallText(t)).(fstest.MapFS)
	fsys["line/overlays/patient.yaml"] = &fstest.MapFile{Data: []byte("x-hosts:\n  host-1: {memory: 128m}\nservices:\n  store:\n    cgroup_parent: host-1\n")}
	if inc, err = replays.Load(fsys, "."); err != nil {
		t.Fatal(err)
	}
	if !inc.NeedsHosts() {
		t.Error("an incident with hosts in one arm needs none")
	}
}

// What is told of a node at the end of a play.
func TestNodeEvent(t *testing.T) {
	for _, tc := range []struct {
		name         string
		state        topologies.State
		err          error
		event, wants string // "" for no event
	}{
		{"alive", topologies.State{Running: true}, nil, "", ""},
		{"dead", topologies.State{ExitCode: 3}, nil, replays.EventNodeDead, "exit code 3"},
		{"killed by the kernel", topologies.State{ExitCode: 137, OOMKilled: true, Restarts: 2}, nil, replays.EventNodeDead, "for memory"},
		{"about to be started again", topologies.State{Restarting: true, ExitCode: 137, Restarts: 2}, nil, replays.EventNodeRestarted, "2 times"},
		{"started again", topologies.State{Running: true, Restarts: 1}, nil, replays.EventNodeRestarted, "1 times"},
		{"not to be found", topologies.State{}, errors.New("no such container"), replays.EventNodeDead, "no such container"},
	} {
		e, ok := replays.NodeEvent("n", tc.state, tc.err)
		if ok != (tc.event != "") || e.Event != tc.event || ok && (e.Node != "n" || !strings.Contains(e.Detail, tc.wants)) {
			t.Errorf("%s: %+v, %t; want %q with %q", tc.name, e, ok, tc.event, tc.wants)
		}
	}
}

// What is told of all nodes once a play has ended: never that they are gone where
// they are not.
func TestEndEvent(t *testing.T) {
	for _, tc := range []struct {
		name    string
		keep    bool
		stopped error
		event   string // "" for no event
	}{
		{"stopped", false, nil, replays.EventStopped},
		{"kept", true, nil, replays.EventKept},
		{"not stopped", false, errors.New("busy"), ""},
	} {
		if e, ok := replays.EndEvent(tc.keep, tc.stopped); e.Event != tc.event || ok != (tc.event != "") {
			t.Errorf("%s: %+v, %t; want %q", tc.name, e, ok, tc.event)
		}
	}
}
