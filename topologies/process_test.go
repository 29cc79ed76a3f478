package topologies_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"relapse/topologies"
)

// ofBothDrivers are the tests of this package that hold for nodes of any driver.
var ofBothDrivers = []string{
	"TestStartGivesWhatTheTopologySays", "TestAProxiedLinkGoesThroughTheRelay", "TestANodeThatDoesNotComeUp",
	"TestPauseAndResume", "TestKillAndStart", "TestTmpfsOfASecondLife", "TestSetCPUs", "TestUsageSeesWorkAndThrottling",
	"TestSetMemory", "TestRestartPolicy", "TestAKilledNodeStaysDeadDespiteItsPolicy",
	"TestHostOfTheKernel", "TestAFullHostStandsStill", "TestAnOOMKillIsTheVictimsAlone",
	"TestStopAfterTheContextEnded", "TestAKilledToolLeavesNothing", "TestACancelledStartLeavesNothing",
}

// ofProcesses are those that hold for nodes that are processes.
var ofProcesses = []string{"TestAPausedNodeStandsStillAsAWhole", "TestProcessesRefuse", "TestProcessesOutliveNobody"}

// TestNodesAsProcesses runs tests again in namespaces, where nodes are processes and no
// engine is asked. Limits need root: without it those tests would refuse to begin.
func TestNodesAsProcesses(t *testing.T) {
	binary, err := rigBinary()
	if err != nil {
		t.Fatal(err)
	}
	topologies.RequireNamespaces(t, binary)
	topologies.RequireProcessLimits(t)
	own, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	tests := slices.Concat(ofBothDrivers, ofProcesses)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	again := topologies.NamespacedCommand(own, "-test.v", "-test.timeout=3m", "-test.run=^("+strings.Join(tests, "|")+")$")
	again.Env = append(again.Env, rigVariable+"="+binary)
	out, err := again.CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	for _, test := range tests {
		if !strings.Contains(string(out), "--- PASS: "+test+" (") && !strings.Contains(string(out), "--- FAIL: "+test+" (") {
			t.Errorf("%s did not run:\n%s", test, out)
		}
	}
}

// needProcesses ends a test that TestNodesAsProcesses runs.
func needProcesses(t *testing.T) {
	t.Helper()
	if driver() != topologies.Process {
		t.Skip("run by TestNodesAsProcesses")
	}
}

// A node is more than its first process: a shell that has stopped stops nothing of
// what it has started.
func TestAPausedNodeStandsStillAsAWhole(t *testing.T) {
	needProcesses(t)
	topology := pair()
	topology.Nodes[1].Entrypoint = []string{"/bin/sh", "-c", "trap 'exit 0' TERM; /relapse serve & wait; exit 1"}
	topology.Nodes[1].Image = "shell:1"
	topology.Nodes[1].Command = nil
	system := start(t, topology, topologies.Options{})
	store := instance(t, system, "store")
	ctx := t.Context()
	if err := store.Pause(ctx); err != nil {
		t.Fatal(err)
	}
	before, err := store.Usage()
	if err != nil {
		t.Fatal(err)
	}
	if answersWithin(t, store, 300*time.Millisecond) {
		t.Error("a paused node answers")
	}
	if after, err := store.Usage(); err != nil || after.CPUSeconds != before.CPUSeconds {
		t.Errorf("a paused node used CPU time: %+v, then %+v, %v", before, after, err)
	}
	if err := store.Resume(ctx); err != nil {
		t.Fatal(err)
	}
	if !answersWithin(t, store, 2*time.Second) {
		t.Error("a resumed node does not answer")
	}
	if err := store.Kill(ctx); err != nil {
		t.Fatal(err)
	}
	if answersWithin(t, store, 300*time.Millisecond) {
		t.Error("what a dead node has started answers")
	}
	// Whatever its parent is, its image is a program of this machine.
	if !slices.ContainsFunc(system.Images(), func(u topologies.ImageUse) bool {
		return u.Ref == "shell:1" && u.Source == topologies.ImageProgram && strings.HasPrefix(u.Digest, "sha256:")
	}) {
		t.Errorf("images %+v", system.Images())
	}
}

func TestProcessesRefuse(t *testing.T) {
	needProcesses(t)
	tests := []struct {
		name   string
		change func(*topologies.Node)
		is     error
		want   []string
	}{
		{"a program that is not there", func(n *topologies.Node) {
			n.Image, n.Entrypoint, n.Debian = "memcached:1", []string{"relapse-no-such-program"}, []string{"relapse-no-such-package"}
		}, topologies.ErrNoProgram, []string{"node store", "relapse-no-such-program", "apt-get install relapse-no-such-package", "--driver docker"}},
		{"a program that a script names", func(n *topologies.Node) {
			n.Image, n.Entrypoint = "postgres:1", []string{"/bin/sh", "-c", "exec /nowhere/bin/postgres -D /tmp"}
		}, topologies.ErrNoProgram, []string{"/nowhere/bin/postgres", "apt-get install postgresql-15 (Debian)", "dnf install postgresql-server (Fedora)", "brew install postgresql@15 (macOS)"}},
		{"what an image says alone", func(n *topologies.Node) { n.Image, n.Entrypoint = "memcached:1", nil },
			topologies.ErrNotByProcesses, []string{"node store", "entrypoint:"}},
		{"a user by name", func(n *topologies.Node) { n.User = "nobody" }, topologies.ErrNotByProcesses, []string{"node store", `"nobody"`, "65534:65534"}},
		{"a capability", func(n *topologies.Node) { n.CapAdd = []string{"SYS_PTRACE"} }, topologies.ErrNotByProcesses, []string{"node store", "SYS_PTRACE"}},
		{"a file of the machine", func(n *topologies.Node) {
			n.Files = []topologies.File{{Path: "/usr/relapse-test", Content: []byte("x")}}
		}, nil, []string{"node store", "/usr/relapse-test", "shares with the machine"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			topology := pair()
			test.change(&topology.Nodes[1])
			run := runID(t)
			_, err := topologies.Start(t.Context(), topology, topologies.Options{Run: run, Binary: rig(t), Driver: topologies.Process})
			if err == nil || test.is != nil && !errors.Is(err, test.is) {
				t.Fatalf("got %v, want %v", err, test.is)
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
	if _, err := os.Stat("/usr/relapse-test"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the machine has /usr/relapse-test now: %v", err)
	}
	options := topologies.Options{Run: runID(t), Binary: rig(t), Driver: topologies.Process, Keep: true}
	if _, err := topologies.Start(t.Context(), pair(), options); !errors.Is(err, topologies.ErrNotByProcesses) {
		t.Errorf("keeping: %v", err)
	}
}

// Nodes that a run has left behind are found by what it has noted of them, and others'
// are let be.
func TestProcessesOutliveNobody(t *testing.T) {
	needProcesses(t)
	system := start(t, pair(), topologies.Options{})
	run := runID(t)
	state, err := instance(t, system, "front").State(t.Context())
	if err != nil || !state.Running {
		t.Fatalf("state %+v, %v", state, err)
	}
	none := func(labels map[string]string) bool { return labels[topologies.LabelRun] == run+"-other" }
	if swept, err := topologies.Sweep(t.Context(), none); err != nil || len(swept.Runs) > 0 {
		t.Errorf("swept %+v, %v", swept, err)
	}
	// As its watchdog would, if the tool were gone.
	ours := func(labels map[string]string) bool { return labels[topologies.LabelRun] == run }
	swept, err := topologies.Sweep(t.Context(), ours)
	if err != nil || swept.Processes != 2 || !slices.Equal(swept.Runs, []string{run}) {
		t.Errorf("swept %+v, %v; want two processes of %s", swept, err, run)
	}
	if _, err := os.Stat(fmt.Sprintf("/proc/%d/exe", state.Pid)); err == nil {
		t.Errorf("process %d is still there", state.Pid)
	}
}

// Outside of namespaces made for it no node becomes a process of the machine.
func TestProcessesNeedNamespaces(t *testing.T) {
	if topologies.InNamespaces() {
		t.Skip("this process is in some")
	}
	options := topologies.Options{Run: "no-namespaces", Driver: topologies.Process}
	if _, err := topologies.Start(t.Context(), pair(), options); !errors.Is(err, topologies.ErrNoNamespaces) {
		t.Errorf("Start: %v", err)
	}
	if _, err := topologies.Process.Preflight(t.Context()); !errors.Is(err, topologies.ErrNoNamespaces) {
		t.Errorf("Preflight: %v", err)
	}
	if _, err := topologies.Start(t.Context(), pair(), topologies.Options{Run: "x", Driver: "podman"}); err == nil {
		t.Error("took a driver that is none")
	}
}
