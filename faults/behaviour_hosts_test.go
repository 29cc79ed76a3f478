package faults_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"relapse/faults"
	"relapse/topologies"
)

// The tests of this file look at hosts by other means than the faults' own
// looks.

const onHost = "hosts: [host-1]\n"

func hosts(t *testing.T) *topologies.System {
	t.Helper()
	sys := system(t)
	needHosts(t, faults.Kind{Group: faults.GroupHost})
	return sys
}

func onHosts(t *testing.T, sys *topologies.System, name string) *topologies.HostInstance {
	t.Helper()
	h, err := sys.Host(name)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func usage(t *testing.T, h *topologies.HostInstance) topologies.HostUsage {
	t.Helper()
	u, err := h.Usage()
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// told reads a metric of a host's agent.
func told(t *testing.T, sys *topologies.System, agent, metric string) (v float64) {
	t.Helper()
	response, err := http.Get("http://" + instance(t, sys, agent).Address().String() + ":9090/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(body)) {
		if rest, ok := strings.CutPrefix(line, metric+" "); ok {
			if _, err := fmt.Sscan(rest, &v); err != nil {
				t.Fatal(err)
			}
			return v
		}
	}
	t.Fatalf("agent %s does not tell %s", agent, metric)
	return 0
}

func TestALeakTakesTheHostsMemory(t *testing.T) {
	sys := hosts(t)
	h := onHosts(t, sys, "host-1")
	before := usage(t, h)
	a := injected(t, sys, "memory-leak", onHost+"per_second: 8MB")
	eventually(t, 10*time.Second, "16 MB have leaked", func() error {
		if got := usage(t, h); got.MemoryBytes < before.MemoryBytes+16e6 {
			return fmt.Errorf("%d bytes more than before", int64(got.MemoryBytes)-int64(before.MemoryBytes))
		}
		return nil
	})
	undo(t, a, "undo")
	eventually(t, 5*time.Second, "the memory is back", func() error {
		if got := usage(t, h); got.MemoryBytes > before.MemoryBytes+4e6 {
			return fmt.Errorf("%d bytes more than before", got.MemoryBytes-before.MemoryBytes)
		}
		return nil
	})
	if got := told(t, sys, "host-1-agent", "relapse_host_leaked_bytes"); got != 0 {
		t.Errorf("the agent holds %g bytes", got)
	}
}

// A host's memory runs out: the kernel kills the process that is marked for it,
// not the agent and nobody of another host; the engine starts it again, and the
// leak stands.
func TestALeakMakesTheKernelKill(t *testing.T) {
	sys := hosts(t)
	h := onHosts(t, sys, "host-1")
	victim, agent := instance(t, sys, "host-1-victim"), instance(t, sys, "host-1-agent")
	victimBefore, agentBefore := state(t, victim), state(t, agent)
	running(t, victim)
	used := usage(t, h)
	agentUses, err := agent.Usage()
	if err != nil {
		t.Fatal(err)
	}
	// The leak ends with its tmpfs, at 64 MiB. What is left then is enough for the
	// agent, the next one, and for the engine to start the victim (18 MiB of the host
	// for a moment), but not for the victim with its 24 MiB on top of a program's 8.
	limit := injected(t, sys, "memory-limit", fmt.Sprintf("%smemory: %db", onHost, agentUses.MemoryBytes+94<<20))
	a := injected(t, sys, "memory-leak", onHost+"per_second: 16MB")
	eventually(t, 20*time.Second, "the victim is killed and started again", func() error {
		if got := state(t, victim); got.Restarts <= victimBefore.Restarts {
			return fmt.Errorf("state %+v", got)
		}
		return nil
	})
	if got := state(t, agent); !got.Running || got.OOMKilled || !got.StartedAt.Equal(agentBefore.StartedAt) {
		t.Errorf("the agent: %+v, before %+v", got, agentBefore)
	}
	if got := usage(t, h); got.SharedMemoryBytes < used.SharedMemoryBytes+16<<20 {
		t.Errorf("shared memory is %d, before the leak %d: it went with the victim", got.SharedMemoryBytes, used.SharedMemoryBytes)
	}
	undo(t, a, "undo the leak")
	undo(t, limit, "undo the limit")
	eventually(t, 5*time.Second, "the leak is gone", seen(t.Context(), a, false))
	// The engine waits longer each time before it starts a node again.
	eventually(t, time.Minute, "the victim answers again", func() error {
		_, err := victim.Probe(t.Context())
		return err
	})
}

// An agent that died has given everything back: there is nothing to undo, and
// nothing comes back with its next life.
func TestUndoWithADeadAgent(t *testing.T) {
	sys := hosts(t)
	agent := instance(t, sys, "host-1-agent")
	for _, f := range []struct{ kind, have string }{
		{"memory-leak", onHost + "per_second: 4MB"},
		{"cpu-hog", onHost + "cores: 0.3"},
	} {
		t.Run(f.kind, func(t *testing.T) {
			running(t, agent)
			a := injected(t, sys, f.kind, f.have)
			if err := agent.Kill(t.Context()); err != nil {
				t.Fatal(err)
			}
			undo(t, a, "undo with a dead agent")
			undo(t, a, "undo again")
			eventually(t, 5*time.Second, "the fault is gone", seen(t.Context(), a, false))
			if err := agent.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			eventually(t, 5*time.Second, "the agent answers again", func() error {
				_, err := agent.Probe(t.Context())
				return err
			})
			always(t, 500*time.Millisecond, "it comes back with nothing", seen(t.Context(), a, false))
		})
	}
}

// An agent that was killed and started again while the fault was held does not
// have it any more, and the undo does not mind.
func TestUndoWithAnAgentThatWasStartedAgain(t *testing.T) {
	sys := hosts(t)
	agent := instance(t, sys, "host-1-agent")
	running(t, agent)
	a := injected(t, sys, "memory-leak", onHost+"per_second: 4MB")
	if err := errors.Join(agent.Kill(t.Context()), agent.Start(t.Context())); err != nil {
		t.Fatal(err)
	}
	eventually(t, 5*time.Second, "the agent answers again", func() error {
		_, err := agent.Probe(t.Context())
		return err
	})
	undo(t, a, "undo")
	eventually(t, 5*time.Second, "the fault is gone", seen(t.Context(), a, false))
}

func TestAHogSharesTheHostsTime(t *testing.T) {
	sys := hosts(t)
	h := onHosts(t, sys, "host-1")
	a := injected(t, sys, "cpu-hog", onHost+"cores: 0.5")
	before, began := usage(t, h), time.Now()
	<-time.After(time.Second)
	used := (usage(t, h).CPUSeconds - before.CPUSeconds) / time.Since(began).Seconds()
	t.Logf("%.2f cores used", used)
	if used < 0.3 || used > 0.85 {
		t.Errorf("the host uses %.2f cores, want 0.5 and no more than its limit of 0.8", used)
	}
	if got := told(t, sys, "host-1-agent", "relapse_host_hog_cores"); got != 0.5 {
		t.Errorf("the agent says %g cores", got)
	}
	undo(t, a, "undo")
}

func TestMemoryLimits(t *testing.T) {
	sys := hosts(t)
	h, server := onHosts(t, sys, "host-1"), instance(t, sys, "server")
	limits := func() (host, node int64) {
		l, err := h.Limits()
		if err != nil {
			t.Fatal(err)
		}
		m, err := server.Memory(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return l.MemoryBytes, m
	}
	onTheHost := injected(t, sys, "memory-limit", onHost+"memory: 100m")
	onTheNode := injected(t, sys, "memory-limit", "nodes: [server]\nmemory: 48m")
	if host, node := limits(); host != 100<<20 || node != 48<<20 {
		t.Errorf("limits %d and %d, want 100 and 48 MiB", host, node)
	}
	for _, a := range []faults.Armed{onTheHost, onTheNode} {
		undo(t, a, "undo")
		eventually(t, 2*time.Second, "the limit is gone", seen(t.Context(), a, false))
	}
	if host, node := limits(); host != 128<<20 || node != 0 {
		t.Errorf("limits %d and %d afterwards, want 128 MiB and none", host, node)
	}
}

func TestArmRefusesHosts(t *testing.T) {
	sys := hosts(t)
	limited := injected(t, sys, "memory-limit", onHost+"memory: 80m")
	for _, tc := range []struct{ name, kind, have string }{
		{"hosts that are not there", "cpu-hog", "{hosts: [host-9], cores: 0.3}"},
		{"more cores than the host has", "cpu-hog", "{hosts: [host-1], cores: 2}"},
		{"connections of nobody", "memory-leak", "{hosts: [host-1], per_second: 4MB, per_connection: 1kB}"},
		{"a host that is as small in its file", "memory-limit", "{hosts: [host-1], memory: 128m}"},
		{"a host that is as small by now", "memory-limit", "{hosts: [host-1], memory: 90m}"},
		{"nodes that are not there", "memory-limit", "{nodes: [nginx-*], memory: 64m}"},
		{"a node whose host leaves it no more", "memory-limit", "{nodes: [host-1-agent], memory: 90m}"},
		{"a node that the machine leaves no more", "memory-limit", "{nodes: [server], memory: 512t}"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a, err := decoded(t, tc.kind, tc.have).Arm(t.Context(), sys, rand.New(rand.NewPCG(1, 1)))
			if err == nil {
				t.Fatalf("armed %+v", a)
			}
			t.Log(err)
		})
	}
	undo(t, limited, "undo")
	agent := instance(t, sys, "host-1-agent")
	running(t, agent)
	// What was refused for the host's limit is not once the host has more again.
	if _, err := decoded(t, "memory-limit", "{nodes: [host-1-agent], memory: 90m}").Arm(t.Context(), sys, rand.New(rand.NewPCG(1, 1))); err != nil {
		t.Errorf("a limit below the host's: %v", err)
	}
	if err := agent.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	if a, err := decoded(t, "cpu-hog", onHost+"cores: 0.3").Arm(context.Background(), sys, rand.New(rand.NewPCG(1, 1))); err == nil {
		t.Errorf("armed %+v with a dead agent", a)
	}
}

// A limit must be below all that bounds a node or host already.
func TestALimitThatTakesNothing(t *testing.T) {
	type bounds = map[string]int64
	for _, tc := range []struct {
		name    string
		limit   int64
		by      bounds
		want    string
		nothing bool
	}{
		{"no bound", 64, bounds{"node": 0, "host": 0}, "", false},
		{"below all", 64, bounds{"node": 100, "host": 128, "machine": 1000}, "node", false},
		{"a node with as little", 100, bounds{"node": 100, "host": 128, "machine": 1000}, "node", true},
		{"a host with less than the node", 100, bounds{"node": 200, "host": 90, "machine": 1000}, "host", true},
		{"a host of a node without a limit", 128, bounds{"node": 0, "host": 128, "machine": 1000}, "host", true},
		{"a machine with less than the host", 1500, bounds{"host": 2000, "machine": 1000}, "machine", true},
		{"a machine alone", 1000, bounds{"host": 0, "machine": 1000}, "machine", true},
	} {
		if by, nothing := faults.TakesNothing(tc.limit, tc.by); by != tc.want || nothing != tc.nothing {
			t.Errorf("%s: bounded by %q, takes nothing: %t; want %q, %t", tc.name, by, nothing, tc.want, tc.nothing)
		}
	}
}

// A leak that shall grow with connections of which nobody tells is not in effect,
// however well it grows with time.
func TestALeakByConnectionsThatNobodyTellsOf(t *testing.T) {
	hosts(t) // builds the program
	const compose = `
name: edgeless
x-hosts:
  host-1: {memory: 128m}
services:
  agent:
    image: relapse
    command: [service, host]
    user: "65534:65534"
    tmpfs: ["/leak:size=64m"]
    cgroup_parent: host-1
    labels: {relapse.agent: "9092", relapse.probe: "http:9092/health"}
  server:
    image: relapse
    command: [service, echo]
    user: "65534:65534"
    cgroup_parent: host-1
    labels: {relapse.metrics: prometheus}
`
	topology, err := topologies.Load(t.Context(), fstest.MapFS{"edgeless/compose.yaml": {Data: []byte(compose)}}, "edgeless")
	if err != nil {
		t.Fatal(err)
	}
	sys, err := topologies.Start(t.Context(), topology, topologies.Options{
		Run: fmt.Sprintf("faults-edgeless-%d", os.Getpid()), Binary: filepath.Join(rig.folder, "program"),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := sys.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	for _, tc := range []struct {
		name, have string
		inEffect   bool
	}{
		{"by time alone", "per_second: 4MB", true},
		{"by connections too", "per_second: 4MB\nper_connection: 1kB", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			armed, err := decoded(t, "memory-leak", onHost+tc.have).Arm(t.Context(), sys, rand.New(rand.NewPCG(1, 1)))
			if err != nil {
				t.Fatal(err)
			}
			seen := make(chan struct{})
			result := faults.Hold(t.Context(), armed, seen, faults.HoldOptions{Observe: func(s faults.Step) {
				if s == faults.InEffect {
					close(seen)
				}
			}})
			t.Log(result.Err)
			if result.InEffect != tc.inEffect || !result.Undone || !result.Gone || (result.Err == nil) != tc.inEffect {
				t.Errorf("%+v, want in effect: %t, and it undone and gone", result, tc.inEffect)
			}
		})
	}
}

// What a kind says of hosts it says by the topology alone.
func TestLacks(t *testing.T) {
	node := func(name string, change func(*topologies.Node)) topologies.Node {
		n := topologies.Node{Name: name, Host: "host-1"}
		change(&n)
		return n
	}
	agent := node("agent", func(n *topologies.Node) { n.Agent, n.Metrics = 9092, &topologies.Metrics{Kind: "prometheus"} })
	edge := node("edge", func(n *topologies.Node) {
		n.Metrics = &topologies.Metrics{Kind: "prometheus", Port: 9090, Path: "/metrics"}
	})
	unmeasured := node("edge", func(*topologies.Node) {})
	weak := node("agent", func(n *topologies.Node) { n.Agent, n.CPUs = 9092, 0.2 })
	elsewhere := node("other", func(n *topologies.Node) { n.Host, n.Agent = "host-2", 9092 })
	whole := topologies.Host{Name: "host-1", Memory: 128 << 20, CPUs: 0.5}
	endless := topologies.Host{Name: "host-1", CPUs: 0.5}
	for _, tc := range []struct {
		name, kind, have string
		host             topologies.Host
		nodes            []topologies.Node
		want             string // part of the problem; "" for none
	}{
		{"a leak", "memory-leak", "per_second: 4MB", whole, []topologies.Node{agent}, ""},
		{"a leak without an agent", "memory-leak", "per_second: 4MB", whole, []topologies.Node{edge, elsewhere}, "has no agent"},
		{"a leak without a limit", "memory-leak", "per_second: 4MB", endless, []topologies.Node{agent}, "has no memory limit"},
		{"a leak by connections", "memory-leak", "per_second: 4MB\nper_connection: 1kB", whole, []topologies.Node{agent, edge}, ""},
		{"a leak by nobody's connections", "memory-leak", "per_second: 4MB\nper_connection: 1kB", whole, []topologies.Node{agent, unmeasured}, "no node whose connections"},
		{"a leak by connections on a host that carries none", "memory-leak", "per_second: 4MB\nper_connection: 1kB", whole, []topologies.Node{agent}, ""},
		{"a hog", "cpu-hog", "cores: 0.5", whole, []topologies.Node{agent}, ""},
		{"a hog without an agent", "cpu-hog", "cores: 0.5", whole, []topologies.Node{edge}, "has no agent"},
		{"a hog of too many cores", "cpu-hog", "cores: 0.6", whole, []topologies.Node{agent}, "has 0.5 cores"},
		{"a hog of as many cores as its agent", "cpu-hog", "cores: 0.2", whole, []topologies.Node{weak}, ""},
		{"a hog of more cores than its agent", "cpu-hog", "cores: 0.3", whole, []topologies.Node{weak}, "agent with 0.2 cores"},
		{"a limit", "memory-limit", "memory: 64m", whole, nil, ""},
		{"a limit where there is none", "memory-limit", "memory: 64m", endless, nil, ""},
		{"a limit that takes nothing", "memory-limit", "memory: 128m", whole, nil, "no more than 128m already"},
	} {
		f, ok := decoded(t, tc.kind, "hosts: [host-1]\n"+tc.have).(faults.HostFault)
		if !ok {
			t.Fatalf("%s is no HostFault", tc.kind)
		}
		lacks := f.Lacks(&topologies.Topology{Nodes: tc.nodes, Hosts: []topologies.Host{tc.host}}, tc.host)
		switch {
		case tc.want == "" && lacks != nil:
			t.Errorf("%s: %v", tc.name, lacks)
		case tc.want != "" && (lacks == nil || !strings.Contains(lacks.Problem, tc.want) || lacks.Hint == ""):
			t.Errorf("%s: %v, want %q and a hint", tc.name, lacks, tc.want)
		}
	}
}
