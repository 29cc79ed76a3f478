package topologies_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"relapse/topologies"
)

// hierarchy is a fake of the kernel's: files below a folder, each with the
// content that the kernel would give.
func hierarchy(t *testing.T, files map[string]string) (root string) {
	t.Helper()
	root = t.TempDir()
	for name, content := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

const host = "run@host-1"

// version1 and version2 are a host.
func version1() map[string]string {
	return map[string]string{
		"cpu/" + host + "/cpu.stat":                 "nr_periods 10\nnr_throttled 2\nthrottled_time 1500000000\n",
		"cpu/" + host + "/cpu.shares":               "1024\n",
		"cpu/" + host + "/cpu.cfs_quota_us":         "10000\n",
		"cpu/" + host + "/cpu.cfs_period_us":        "20000\n",
		"cpuacct/" + host + "/cpuacct.usage":        "2500000000\n",
		"memory/" + host + "/memory.usage_in_bytes": "104857600\n",
		"memory/" + host + "/memory.limit_in_bytes": "167772160\n",
		"memory/" + host + "/memory.swappiness":     "60\n",
		"memory/" + host + "/memory.stat":           "cache 0\nshmem 4096\ntotal_cache 8192\ntotal_shmem 73400320\n",
	}
}

func version2() map[string]string {
	return map[string]string{
		"cgroup.subtree_control":   "",
		host + "/cpu.stat":         "usage_usec 2500000\nuser_usec 1\nthrottled_usec 1500000\n",
		host + "/cpu.weight":       "100\n",
		host + "/cpu.max":          "10000 20000\n",
		host + "/memory.current":   "104857600\n",
		host + "/memory.max":       "167772160\n",
		host + "/memory.high":      "max\n",
		host + "/memory.stat":      "anon 4096\nfile 8192\nshmem 73400320\nshmem_thp 0\n",
		host + "/0a1b/memory.stat": "shmem 1\n",
	}
}

func TestHostFiles(t *testing.T) {
	tests := []struct {
		name    string
		unified bool
		files   map[string]string
		none    map[string]string // what the kernel gives without limits
		room    map[string]string // what is written for 160 MiB and 32 MiB of room
	}{
		{"version 1", false, version1(), map[string]string{
			"memory/" + host + "/memory.limit_in_bytes": fmt.Sprintln(math.MaxInt64 / int64(os.Getpagesize()) * int64(os.Getpagesize())),
			"cpu/" + host + "/cpu.cfs_quota_us":         "-1\n",
		}, map[string]string{"memory/" + host + "/memory.limit_in_bytes": fmt.Sprint(192 << 20)}},
		{"version 2", true, version2(), map[string]string{host + "/memory.max": "max\n", host + "/cpu.max": "max 20000\n"},
			map[string]string{host + "/memory.max": fmt.Sprint(192 << 20)}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			root := hierarchy(t, test.files)
			h := topologies.NewHostInstance(root, host, topologies.Host{Name: "host-1", Memory: 160 << 20, CPUs: 0.5}, test.unified)
			limits := func(want topologies.HostLimits) {
				t.Helper()
				if got, err := h.Limits(); err != nil || got != want {
					t.Errorf("limits %+v, %v, want %+v", got, err, want)
				}
			}
			ctx := t.Context()
			want := topologies.HostUsage{CPUSeconds: 2.5, MemoryBytes: 100 << 20, SharedMemoryBytes: 70 << 20}
			if got, err := h.Usage(); err != nil || got != want {
				t.Errorf("usage %+v, %v, want %+v", got, err, want)
			}
			limits(topologies.HostLimits{MemoryBytes: 160 << 20, CPUs: 0.5})
			if err := h.SetMemory(ctx, 80<<20); err != nil {
				t.Fatal(err)
			}
			limits(topologies.HostLimits{MemoryBytes: 80 << 20, CPUs: 0.5})
			if err := h.SetMemory(ctx, 0); err != nil {
				t.Fatal(err)
			}
			limits(topologies.HostLimits{MemoryBytes: 160 << 20, CPUs: 0.5})
			stalled := errors.New("stalled")
			err := h.WithRoom(ctx, 32<<20, func() error {
				for name, want := range test.room {
					if got, err := os.ReadFile(filepath.Join(root, name)); err != nil || strings.TrimSpace(string(got)) != want {
						t.Errorf("with room: %s is %q, %v, want %s", name, got, err, want)
					}
				}
				limits(topologies.HostLimits{MemoryBytes: 160 << 20, CPUs: 0.5})
				return errors.Join(h.SetMemory(ctx, 80<<20), stalled)
			})
			if !errors.Is(err, stalled) {
				t.Errorf("with room: %v, want %v", err, stalled)
			}
			limits(topologies.HostLimits{MemoryBytes: 80 << 20, CPUs: 0.5}) // as it was set meanwhile
			// What needs room runs without it where the kernel refuses, and such room is
			// not added to the limits that come after.
			for name := range test.room {
				refusing := filepath.Join(root, name)
				if err := errors.Join(os.Rename(refusing, refusing+".away"), os.Mkdir(refusing, 0o755)); err != nil {
					t.Fatal(err)
				}
				ran := false
				if err := h.WithRoom(ctx, 32<<20, func() error { ran = true; return stalled }); !errors.Is(err, syscall.EISDIR) || !errors.Is(err, stalled) || !ran {
					t.Errorf("without room: %v, ran: %t, want the kernel's refusal and the error of what ran", err, ran)
				}
				// A limit that it refuses is not brought back by room that comes after.
				if err := h.SetMemory(ctx, 100<<20); err == nil {
					t.Error("took a limit where nothing could be written")
				}
				if err := errors.Join(os.Remove(refusing), os.Rename(refusing+".away", refusing)); err != nil {
					t.Fatal(err)
				}
			}
			if err := h.WithRoom(ctx, 32<<20, func() error { return nil }); err != nil {
				t.Fatal(err)
			}
			limits(topologies.HostLimits{MemoryBytes: 80 << 20, CPUs: 0.5})
			if err := h.SetMemory(ctx, 64<<20); err != nil {
				t.Fatal(err)
			}
			limits(topologies.HostLimits{MemoryBytes: 64 << 20, CPUs: 0.5})
			if h.SetMemory(ctx, -1) == nil {
				t.Error("took a limit below zero")
			}
			for name, content := range test.none {
				if err := os.WriteFile(filepath.Join(root, name), []byte(content), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			limits(topologies.HostLimits{})
			// A host that has none in its file goes back to none.
			h = topologies.NewHostInstance(root, host, topologies.Host{Name: "host-1"}, test.unified)
			if err := errors.Join(h.SetMemory(ctx, 80<<20), h.SetMemory(ctx, 0)); err != nil {
				t.Fatal(err)
			}
			limits(topologies.HostLimits{})
		})
	}
}

func TestHostFilesThatLackSomething(t *testing.T) {
	for _, test := range []struct {
		name    string
		unified bool
		files   map[string]string
		file    string
		content string // "" takes the file away
		want    string
	}{
		{"no shared memory in version 1", false, version1(), "memory/" + host + "/memory.stat", "shmem 4096\n", "does not count total_shmem"},
		{"no shared memory in version 2", true, version2(), host + "/memory.stat", "anon 1\n", "does not count shmem"},
		{"a number that is none", false, version1(), "memory/" + host + "/memory.usage_in_bytes", "many\n", "memory.usage_in_bytes"},
		{"no such host", true, version2(), host + "/cpu.stat", "", "no such file"},
	} {
		t.Run(test.name, func(t *testing.T) {
			root := hierarchy(t, test.files)
			path := filepath.Join(root, test.file)
			err := os.WriteFile(path, []byte(test.content), 0o600)
			if test.content == "" {
				err = os.Remove(path)
			}
			if err != nil {
				t.Fatal(err)
			}
			h := topologies.NewHostInstance(root, host, topologies.Host{Name: "host-1"}, test.unified)
			if got, err := h.Usage(); err == nil || !strings.Contains(err.Error(), "host host-1: ") || !strings.Contains(err.Error(), test.want) {
				t.Errorf("usage %+v, error %v, want one about host-1 and %q", got, err, test.want)
			}
		})
	}
}

// A kernel that takes its time over a limit is played by a pipe: to open it waits
// for somebody at the other end.
func TestAKernelThatTakesItsTime(t *testing.T) {
	root := hierarchy(t, version2())
	file := filepath.Join(root, host, "memory.max")
	if err := errors.Join(os.Remove(file), syscall.Mkfifo(file, 0o600)); err != nil {
		t.Fatal(err)
	}
	h := topologies.NewHostInstance(root, host, topologies.Host{Name: "host-1", Memory: 160 << 20, CPUs: 0.5}, true)
	// What waits for the kernel without a bound would be here for ever.
	within := func(what string, do func()) {
		t.Helper()
		done := make(chan struct{})
		go func() { defer close(done); do() }()
		select {
		case <-done:
		case <-time.After(10 * time.Second):
			t.Fatalf("%s: not within 10 s", what)
		}
	}
	brief := func() context.Context {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		t.Cleanup(cancel)
		return ctx
	}
	within("a limit that the kernel is at", func() {
		if err := h.SetMemory(brief(), 80<<20); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(fmt.Sprint(err), "host host-1: limit memory to 83886080 bytes") {
			t.Errorf("a limit: %v, want its deadline, the host and the limit", err)
		}
	})
	within("another one", func() {
		if err := h.SetMemory(brief(), 90<<20); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("another limit: %v, want its deadline", err)
		}
	})
	within("room", func() {
		ran := false
		if err := h.WithRoom(brief(), 32<<20, func() error { ran = true; return nil }); !errors.Is(err, context.DeadlineExceeded) || !ran {
			t.Errorf("room: %v, ran: %t, want its deadline, and what needed it to have run", err, ran)
		}
	})
	// Who reads is at the other end of the pipe, and is the first to be there.
	within("a look at the limits", func() {
		if got, err := h.Limits(); err != nil || got.MemoryBytes != 80<<20 {
			t.Errorf("limits %+v, %v, want the 80 MiB that the kernel is at", got, err)
		}
	})
	// The kernel is done once what it was given has been read back.
	within("the end", func() {
		if err := os.WriteFile(file, []byte("83886080"), 0); err != nil {
			t.Error(err)
		}
		if err := errors.Join(os.Remove(file), os.WriteFile(file, []byte("83886080\n"), 0o600)); err != nil {
			t.Error(err)
		}
		if err := h.SetMemory(t.Context(), 100<<20); err != nil {
			t.Errorf("a limit afterwards: %v", err)
		}
	})
	if got, err := h.Limits(); err != nil || got.MemoryBytes != 100<<20 {
		t.Errorf("limits afterwards %+v, %v, want the 100 MiB alone", got, err)
	}
}

// A parent that would not count what is below it holds no host.
func TestLimitsBelow(t *testing.T) {
	const file = "memory/memory.use_hierarchy"
	for _, test := range []struct {
		name    string
		unified bool
		files   map[string]string
		want    string // part of the error; "" for none
	}{
		{"version 1 with a kernel that counts below", false, map[string]string{file: "1\n"}, ""},
		{"version 1 with a kernel that can do nothing else", false, nil, ""},
		{"version 1 where it is switched off", false, map[string]string{file: "0\n"}, file + " is 0"},
		{"version 2", true, nil, ""},
	} {
		err := topologies.LimitsBelow(hierarchy(t, test.files), test.unified)
		switch {
		case test.want == "" && err != nil:
			t.Errorf("%s: %v", test.name, err)
		case test.want != "" && (!errors.Is(err, topologies.ErrNoHosts) || !strings.Contains(fmt.Sprint(err), test.want)):
			t.Errorf("%s: %v, want ErrNoHosts and %q", test.name, err, test.want)
		}
	}
}

func TestCreateHost(t *testing.T) {
	limited := topologies.Host{Name: "host-1", Memory: 64<<20 + 1, CPUs: 0.25}
	for _, test := range []struct {
		name    string
		unified bool
		stands  bool // still when full
		files   map[string]string
		want    map[string]string
	}{
		{"version 1", false, false, version1(), map[string]string{
			"memory/" + host + "/memory.limit_in_bytes": "67108865", "memory/" + host + "/memory.swappiness": "0",
			"cpu/" + host + "/cpu.cfs_quota_us": "5000", "cpu/" + host + "/cpu.cfs_period_us": "20000",
		}},
		// Without the file about swap, as where a kernel has none.
		{"version 2", true, false, version2(), map[string]string{
			"cgroup.subtree_control": "+cpu +memory", host + "/memory.max": "67108865", host + "/cpu.max": "5000 20000",
		}},
		// Version 1 answers what was written with lines of counters, which no file
		// of a test does: see TestAFullHostStandsStill.
		{"version 2 that stands still when full", true, true, version2(), map[string]string{
			host + "/memory.high": "67108865", host + "/memory.max": "167772160\n",
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			root := hierarchy(t, test.files)
			limited := limited
			limited.OOMKillDisable = test.stands
			if err := topologies.CreateHost(root, host, limited, test.unified); err != nil {
				t.Fatal(err)
			}
			for name, want := range test.want {
				if got, err := os.ReadFile(filepath.Join(root, name)); err != nil || string(got) != want {
					t.Errorf("%s is %q, %v, want %q", name, got, err, want)
				}
			}
		})
	}
}

// Where no host can be made, the error says so and what to change.
func TestNoHosts(t *testing.T) {
	for _, test := range []struct {
		name string
		err  error
		want string
	}{
		{"systemd", topologies.HoldsHosts(topologies.Engine{CgroupDriver: "systemd"}), "native.cgroupdriver=cgroupfs"},
		{"no driver at all", topologies.HoldsHosts(topologies.Engine{CgroupDriver: "none"}), "by none"},
		{"rootless", topologies.HoldsHosts(topologies.Engine{CgroupDriver: "cgroupfs", Rootless: true}), "without root"},
		{"no root", topologies.NoHost(&fs.PathError{Op: "mkdir", Path: "/x", Err: syscall.EACCES}), "needs root"},
		{"not permitted", topologies.NoHost(&fs.PathError{Op: "mkdir", Path: "/x", Err: syscall.EPERM}), "needs root"},
		{"mounted read-only", topologies.NoHost(&fs.PathError{Op: "mkdir", Path: "/x", Err: syscall.EROFS}), "can be written to"},
		{"something else", topologies.NoHost(&fs.PathError{Op: "mkdir", Path: "/x", Err: syscall.ENOSPC}), "no space"},
	} {
		if !errors.Is(test.err, topologies.ErrNoHosts) || !strings.Contains(test.err.Error(), test.want) {
			t.Errorf("%s: %v, want ErrNoHosts and %q", test.name, test.err, test.want)
		}
	}
	if err := topologies.HoldsHosts(topologies.Engine{CgroupDriver: "cgroupfs"}); err != nil {
		t.Errorf("an engine that can hold hosts: %v", err)
	}
}

func TestFindAgent(t *testing.T) {
	plain, agent := &topologies.Node{Name: "edge"}, &topologies.Node{Name: "host-1-agent", Agent: 9092}
	h := topologies.NewHostInstance("/nowhere", host, topologies.Host{Name: "host-1"}, true, plain)
	if _, err := h.Agent(); err == nil || !strings.Contains(err.Error(), "host host-1") || !strings.Contains(err.Error(), "relapse.agent") {
		t.Errorf("without an agent: %v", err)
	}
	h = topologies.NewHostInstance("/nowhere", host, topologies.Host{Name: "host-1"}, true, plain, agent)
	if a, err := h.Agent(); err != nil || a.Instance().Name() != "host-1-agent" {
		t.Errorf("agent %v, %v", a, err)
	}
	if len(h.Nodes()) != 2 || h.Name() != "host-1" {
		t.Errorf("%d nodes on %s", len(h.Nodes()), h.Name())
	}
}

// shared is a host with a node that is easy to kill and one that is not.
func shared() *topologies.Topology {
	topology := pair()
	topology.Hosts = []topologies.Host{{Name: "machine", Memory: 96 << 20, CPUs: 0.8}}
	for i := range topology.Nodes {
		n := &topology.Nodes[i]
		n.Host, n.CPUs, n.Memory = "machine", 0, 0
	}
	topology.Nodes[1].Tmpfs = []string{"/tmp:size=64m"}
	topology.Nodes[1].OOMScoreAdj = 500
	topology.Nodes[1].Restart = "always"
	return topology
}

func machine(t *testing.T, s *topologies.System) *topologies.HostInstance {
	t.Helper()
	h, err := s.Host("machine")
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func TestHostOfTheKernel(t *testing.T) {
	topologies.RequireHosts(t)
	system := start(t, shared(), topologies.Options{})
	if _, err := system.Host("nowhere"); err == nil {
		t.Error("found a host that is not there")
	}
	h := machine(t, system)
	if got, err := h.Limits(); err != nil || got.MemoryBytes != 96<<20 || math.Abs(got.CPUs-0.8) > 0.001 {
		t.Errorf("limits %+v, %v", got, err)
	}
	for _, set := range []struct{ memory, want int64 }{{64 << 20, 64 << 20}, {200 << 20, 200 << 20}, {0, 96 << 20}} {
		if err := h.SetMemory(t.Context(), set.memory); err != nil {
			t.Fatal(err)
		}
		if got, err := h.Limits(); err != nil || got.MemoryBytes != set.want {
			t.Errorf("limits %+v, %v, want %d bytes", got, err, set.want)
		}
	}
	before, err := h.Usage()
	if err != nil {
		t.Fatal(err)
	}
	store := instance(t, system, "store")
	if got := get(t, store, "/fill", "path", "/tmp/leak", "bytes", fmt.Sprint(20<<20)); got != "<nil>" {
		t.Fatal(got)
	}
	get(t, instance(t, system, "front"), "/burn", "for", "200ms")
	began := time.Now()
	after, err := h.Usage()
	if err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took > 50*time.Millisecond {
		t.Errorf("a look at the usage took %s", took)
	}
	grown := int64(after.SharedMemoryBytes) - int64(before.SharedMemoryBytes)
	if grown < 19<<20 || grown > 21<<20 {
		t.Errorf("shared memory has grown by %d bytes, want 20 MiB", grown)
	}
	if after.MemoryBytes < before.MemoryBytes+19<<20 {
		t.Errorf("memory has grown from %d to %d, want 20 MiB more", before.MemoryBytes, after.MemoryBytes)
	}
	if used := after.CPUSeconds - before.CPUSeconds; used < 0.1 {
		t.Errorf("used %g s of CPU time, want 0.1 or more", used)
	}
}

// A host that is not to kill stands still when its memory is used up, and goes on
// as it was with some more.
func TestAFullHostStandsStill(t *testing.T) {
	topologies.RequireHosts(t)
	topology := shared()
	topology.Hosts[0].OOMKillDisable = true
	system := start(t, topology, topologies.Options{})
	h, store := machine(t, system), instance(t, system, "store")
	grown := make(chan error, 1)
	go func() {
		_, err := ask(store, "/grow", "bytes", fmt.Sprint(110<<20))
		grown <- err
	}()
	eventually(t, "the host is full", 5*time.Second, func() bool {
		u, err := h.Usage()
		return err == nil && u.MemoryBytes > 95<<20
	})
	select {
	case err := <-grown:
		t.Errorf("a host of 96 MiB took 110 MiB: %v", err)
	case <-time.After(500 * time.Millisecond):
	}
	if state, err := store.State(t.Context()); err != nil || !state.Running {
		t.Errorf("state of the node that is held back: %+v, %v", state, err)
	}
	if err := h.WithRoom(t.Context(), 64<<20, func() error { return errors.Join(<-grown, store.Kill(t.Context())) }); err != nil {
		t.Error(err)
	}
	if got, err := h.Limits(); err != nil || got.MemoryBytes != 96<<20 {
		t.Errorf("limits afterwards %+v, %v", got, err)
	}
}

// Where a host has too little memory the kernel kills, and nobody but the node
// that it killed is said to be: the engine says it of all.
func TestAnOOMKillIsTheVictimsAlone(t *testing.T) {
	topologies.RequireHosts(t)
	system := start(t, shared(), topologies.Options{})
	front, store := instance(t, system, "front"), instance(t, system, "store")
	before, err := store.State(t.Context())
	if err != nil || before.Restarts != 0 || before.OOMKilled {
		t.Fatalf("before: %+v, %v", before, err)
	}
	response := make(chan error, 1)
	go func() {
		_, err := ask(store, "/grow", "bytes", fmt.Sprint(90<<20))
		response <- err
	}()
	victim := false // seen as one, in the 100 ms or more between its two lives
	eventually(t, "the kernel kills store, and the engine starts it again", 20*time.Second, func() bool {
		state, err := store.State(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		victim = victim || state.OOMKilled && !state.Running
		return state.Running && state.Restarts > 0
	})
	t.Logf("its caller got %v", <-response)
	if !victim {
		t.Error("the victim was never seen dead of an OOM kill")
	}
	after, err := store.State(t.Context())
	if err != nil || !after.Running || after.OOMKilled || !after.StartedAt.After(before.StartedAt) {
		t.Errorf("afterwards: %+v, %v", after, err)
	}
	if state, err := front.State(t.Context()); err != nil || !state.Running || state.OOMKilled || state.Restarts != 0 {
		t.Errorf("the bystander: %+v, %v", state, err)
	}
	// A death of our making is nobody's OOM kill, whatever the engine has noted.
	if err := front.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	if state, err := front.State(t.Context()); err != nil || state.Running || state.OOMKilled || state.ExitCode != 137 {
		t.Errorf("the bystander, killed: %+v, %v", state, err)
	}
}

func TestAKilledNodeStaysDeadDespiteItsPolicy(t *testing.T) {
	topology := pair()
	topology.Nodes[1].Restart = "always"
	system := start(t, topology, topologies.Options{})
	store := instance(t, system, "store")
	if err := store.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	// Ten times as long as the engine waits before it starts a node again.
	for until := time.Now().Add(time.Second); time.Now().Before(until); {
		if state, err := store.State(t.Context()); err != nil || state.Running || state.Restarting {
			t.Fatalf("state %+v, %v", state, err)
		}
	}
	if err := store.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the node answers after its start", 5*time.Second, func() bool {
		return answersWithin(t, store, 300*time.Millisecond)
	})
}

func TestRestartPolicy(t *testing.T) {
	topology := pair()
	topology.Nodes[1].Restart = "on-failure"
	topology.Nodes[1].OOMScoreAdj = 321
	system := start(t, topology, topologies.Options{})
	store := instance(t, system, "store")
	if got := strings.TrimSpace(get(t, store, "/file", "path", "/proc/self/oom_score_adj")); got != "321" {
		t.Errorf("oom_score_adj is %s, want 321", got)
	}
	_, _ = ask(store, "/exit", "code", "3") // it ends before it answers
	eventually(t, "the engine starts the node again", 10*time.Second, func() bool {
		state, err := store.State(t.Context())
		return err == nil && state.Running && state.Restarts == 1
	})
	eventually(t, "the node answers again", 5*time.Second, func() bool { return answersWithin(t, store, 300*time.Millisecond) })
	_, _ = ask(store, "/exit", "code", "0")
	eventually(t, "a node that ended well stays so", 5*time.Second, func() bool {
		state, err := store.State(t.Context())
		return err == nil && !state.Running && !state.Restarting && state.ExitCode == 0
	})
}

func TestSetMemory(t *testing.T) {
	system := start(t, pair(), topologies.Options{})
	tests := []struct {
		name string
		node string
		set  int64
		want int64
	}{
		{"less than the file says", "store", 48 << 20, 48 << 20},
		{"more", "store", 100 << 20, 100 << 20},
		{"back to the file's", "store", 0, 64 << 20},
		{"a limit where the file has none", "front", 50 << 20, 50 << 20},
		{"back to none", "front", 0, 0},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			i := instance(t, system, test.node)
			if err := i.SetMemory(t.Context(), test.set); err != nil {
				t.Fatal(err)
			}
			if got, err := i.Memory(t.Context()); err != nil || got != test.want {
				t.Errorf("got %d, %v, want %d", got, err, test.want)
			}
		})
	}
	if err := instance(t, system, "front").SetMemory(t.Context(), 1<<20); err == nil {
		t.Error("took a limit that the engine refuses")
	}
}
