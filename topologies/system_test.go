package topologies_test

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"relapse/topologies"
)

func TestStartGivesWhatTheTopologySays(t *testing.T) {
	system := start(t, pair(), topologies.Options{})
	front, store := instance(t, system, "front"), instance(t, system, "store")
	link := system.Topology().Links[0]

	if got := get(t, front, "/file", "path", "/etc/front/front.conf"); got != "as written\n" {
		t.Errorf("file in the node: %q", got)
	}
	if got := get(t, front, "/lookup", "name", "store"); !strings.Contains(got, store.Address().String()) {
		t.Errorf("front finds store at %s, want %s", got, store.Address())
	}
	if got := get(t, front, "/write", "path", "/etc/new"); !strings.Contains(got, "read-only") {
		t.Errorf("writing into a read-only node: %s", got)
	}
	if got := get(t, front, "/write", "path", "/tmp/new"); got != "<nil>" {
		t.Errorf("writing into its tmpfs: %s", got)
	}
	status := get(t, front, "/file", "path", "/proc/self/status")
	for _, want := range []string{"CapEff:\t0000000000000000", "CapBnd:\t0000000000000000", "NoNewPrivs:\t1"} {
		if !strings.Contains(status, want) {
			t.Errorf("process status lacks %q:\n%s", want, status)
		}
	}
	isolated(t, runID(t))
	conn, err := system.Dial(t.Context(), link)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for range 2 { // the connection stays usable
		if n, err := topologies.Exchange(t.Context(), conn, store.Node().Probe); err != nil || n == 0 {
			t.Errorf("exchange over the link: %d bytes, %v", n, err)
		}
	}
	if _, err := system.Dial(t.Context(), topologies.Link{Client: "store", Server: "front", Port: 8080}); err == nil {
		t.Error("dialled a link that is not there")
	}
	if _, err := system.Instance("nobody"); err == nil {
		t.Error("found a node that is not there")
	}
	if system.Relay() != nil {
		t.Error("a relay without a proxied link")
	}
	images := system.Images()
	if len(images) != 1 || images[0].Source != topologies.ImageOwn || images[0].Digest == "" {
		t.Errorf("images: %+v", images)
	}
	var log bytes.Buffer
	if err := front.Logs(t.Context(), &log); err != nil || !strings.Contains(log.String(), "serving") {
		t.Errorf("log %q, %v", log.String(), err)
	}
	if err := system.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := system.Stop(t.Context()); err != nil {
		t.Errorf("second Stop: %v", err)
	}
}

func TestAProxiedLinkGoesThroughTheRelay(t *testing.T) {
	topology := pair()
	link := topology.Links[0]
	system := start(t, topology, topologies.Options{Proxied: []topologies.Link{link}})
	if system.Relay() == nil {
		t.Fatal("no relay")
	}
	address := system.Addressed().Links[link]
	if got := get(t, instance(t, system, "front"), "/lookup", "name", "store"); !strings.Contains(got, address.String()) {
		t.Errorf("front finds store at %s, want the link's address %s", got, address)
	}
	conn, err := system.Dial(t.Context(), link)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if got := conn.RemoteAddr().String(); got != address.String()+":8080" {
		t.Errorf("dialled %s, want %s", got, address)
	}
	if _, err := topologies.Exchange(t.Context(), conn, topology.Nodes[1].Probe); err != nil {
		t.Error(err)
	}
}

func TestANodeThatDoesNotComeUp(t *testing.T) {
	tests := []struct {
		name    string
		command string
		ended   bool
		exit    int
		want    []string
	}{
		{"ends", "crash", true, 7, []string{"node store", "exit code 7", "port 8080", "about to crash", "crashed as told"}},
		{"does not listen", "mute", false, 0, []string{"node store", "not ready after 1s", "port 8080", "refused", "listening to nobody"}},
	}
	t.Cleanup(topologies.SetReadyWithin(time.Second))
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			topology := pair()
			topology.Nodes[1].Command = []string{test.command}
			run := runID(t)
			_, err := topologies.Start(t.Context(), topology, topologies.Options{Run: run, Binary: rig(t), Driver: driver()})
			var failure *topologies.NotReadyError
			if !errors.As(err, &failure) {
				t.Fatalf("got %v", err)
			}
			if failure.Node != "store" || failure.Ended != test.ended || failure.Exit != test.exit {
				t.Errorf("got %+v", failure)
			}
			for _, want := range test.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("the error does not say %q: %v", want, err)
				}
			}
			if left := leftOf(t, run); len(left) > 0 {
				t.Errorf("left: %v", left)
			}
		})
	}
}

// One busy process beside a play must not take half of a core from all nodes
// together, as it does where the engine's own parent holds them.
func TestNodesWeighMoreThanOneProcess(t *testing.T) {
	rig(t)
	if os.Getuid() != 0 {
		t.Skip("making a parent cgroup needs root")
	}
	system := start(t, pair(), topologies.Options{})
	cgroups := get(t, instance(t, system, "store"), "/file", "path", "/proc/self/mountinfo")
	if want := topologies.HostCgroup(runID(t), "") + "/"; !strings.Contains(cgroups, want) {
		t.Errorf("store is not in %s:\n%s", want, cgroups)
	}
	if got := system.CPUWeight(); got <= 1 {
		t.Errorf("the nodes weigh as %d processes", got)
	}
}

func TestAHostLimitsItsNodesTogether(t *testing.T) {
	rig(t)
	if os.Getuid() != 0 {
		t.Skip("making a parent cgroup needs root")
	}
	topology := pair()
	topology.Hosts = []topologies.Host{{Name: "machine", Memory: 100 << 20, CPUs: 0.5}}
	topology.Nodes[0].Host, topology.Nodes[1].Host = "machine", "machine"
	topology.Nodes[1].CPUs = 0
	system := start(t, topology, topologies.Options{})
	cgroups := get(t, instance(t, system, "store"), "/file", "path", "/proc/self/mountinfo")
	if want := topologies.HostCgroup(runID(t), "machine"); !strings.Contains(cgroups, want+"/") {
		t.Errorf("store is not in %s:\n%s", want, cgroups)
	}
	used := instance(t, system, "store")
	if _, err := used.Usage(); err != nil {
		t.Error(err)
	}
}
