package faults

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"time"

	"relapse/topologies"
)

func init() {
	Register(Kind{
		Name:    "memory-leak",
		Group:   GroupHost,
		Summary: "The host loses memory that no process holds",
		Doc: `The host's agent writes to a file in a tmpfs of its own. The pages count against the host
and belong to no process, so that killing processes gives none of them back, as with
memory that a kernel has leaked. The leak grows with time and, if asked to, with the open
connections of the host's nodes that are measured by prometheus and have a gauge
relapse_edge_connections; the agent looks at it every 250 ms. Where the host's memory is
used up, the kernel kills: of the host's processes the one with the most memory, its
oom_score_adj counted in; a host with oom_kill_disable stands still instead. What the
kernel refuses to give to the leak is not asked for again later.

The size= of the agent's tmpfs bounds the leak. It should leave the agent (some 10 MiB) and
one more process enough of the host's memory: an agent that is killed itself gives all of
the leak back, like a host that is started again. A host can have one leak at a time: a
look cannot tell two apart. Undoing gives the memory back at once; the host has 256 MiB more
while it does, so that an agent that stands still for want of memory can.`,
		Seen: `the host's shared memory, as the kernel counts it, grows by at least half of what
per_second promises, over the time in which that is 512 KiB (half a second to two). It is
gone when it does not, and is no more than 1 MiB above what it was when the fault was armed.
Where the leak grows with connections, the agent must also have heard the gauge of a node
on its host; a host with nothing but its agent leaks by time alone.`,
		Example: "hosts: [host-1]\nper_second: 4MB",
	}, func() Fault { return &memoryLeak{} })
}

type memoryLeak struct {
	Hosts         `yaml:",inline"`
	PerSecond     Rate `yaml:"per_second" doc:"what leaks in any case, 256kB or more"`
	PerConnection Rate `yaml:"per_connection" doc:"what leaks on top for each open connection of the host's nodes; nothing if not given"`
}

const (
	// leastLeak is more in a look than other nodes of a host write by the way.
	leastLeak = Rate(256_000)
	// leakSeen is several times what the kernel may have counted and not yet added
	// up: 32 pages for each core.
	leakSeen = 512 << 10
	// leakRest is left open for what other nodes keep in their own tmpfs.
	leakRest = 1 << 20
	// leakRoom lets an agent run again that stands still for want of memory, also
	// where all the others on its host have waited for some too.
	leakRoom = 256 << 20
)

func (f *memoryLeak) Validate() error {
	if err := f.validate(); err != nil {
		return err
	}
	const hint = "write per_second: 2MB"
	switch {
	case f.PerSecond == 0:
		return &FieldError{"per_second", "is missing or zero", hint}
	case f.PerSecond < leastLeak:
		return &FieldError{"per_second", fmt.Sprintf("is %s: less than 256kB (%s) could not be told from what nodes write", f.PerSecond, leastLeak), hint}
	case f.PerSecond > topologies.MostLeak:
		return &FieldError{"per_second", fmt.Sprintf("is %s: memory is not written faster than %s", f.PerSecond, Rate(topologies.MostLeak)), hint}
	case f.PerConnection > topologies.MostLeak:
		return &FieldError{"per_connection", fmt.Sprintf("is %s: memory is not written faster than %s", f.PerConnection, Rate(topologies.MostLeak)), "write per_connection: 2kB, or leave it out"}
	case f.PerConnection < 0:
		return &FieldError{"per_connection", "must not be below zero", "write per_connection: 2kB, or leave it out"}
	}
	return nil
}

// Stops says that the host's nodes are killed, on purpose.
func (f *memoryLeak) Stops() bool { return true }

// Lacks says what the host needs: an agent, and a limit, since a leak without
// one would take the machine's memory. A host with nothing but its agent carries
// no connections, and leaks by time alone.
func (f *memoryLeak) Lacks(t *topologies.Topology, host topologies.Host) *FieldError {
	if host.Memory == 0 {
		return &FieldError{"hosts", "has no memory limit, so that a leak would take the machine's", "give it memory: under x-hosts"}
	}
	if f.PerConnection > 0 && len(t.OnHost(host.Name)) > 1 && len(counting(t, host.Name)) == 0 {
		return &FieldError{"hosts", "has no node whose connections could be counted", "give a node on it the label relapse.metrics: prometheus, or leave per_connection out"}
	}
	return lacksAgent(t, host)
}

// counting are the nodes on a host that can have the gauge of connections.
func counting(t *topologies.Topology, host string) (out []*topologies.Node) {
	for _, name := range t.OnHost(host) {
		if n, _ := t.Node(name); n.Agent == 0 && n.Metrics != nil && n.Metrics.Kind == "prometheus" {
			out = append(out, n)
		}
	}
	return out
}

type armedLeak struct {
	*onEach[*agented]
	name      string // by which the agents know it
	perSecond float64
	leaks     map[string]topologies.Leak // by host
	before    map[string]uint64          // shared memory of each host when armed, in bytes
}

func (f *memoryLeak) Arm(ctx context.Context, sys *topologies.System, rng *rand.Rand) (Armed, error) {
	hosts, err := f.arm(ctx, sys, f)
	if err != nil {
		return nil, err
	}
	a := &armedLeak{
		onEach: hosts, name: fmt.Sprintf("memory-leak-%08x", rng.Uint32()), perSecond: float64(f.PerSecond),
		leaks: map[string]topologies.Leak{}, before: map[string]uint64{},
	}
	for _, t := range hosts.targets {
		usage, err := t.Usage()
		if err != nil {
			return nil, err
		}
		a.before[t.Name()] = usage.SharedMemoryBytes
		leak := topologies.Leak{PerSecond: float64(f.PerSecond)}
		if f.PerConnection > 0 {
			for _, n := range counting(sys.Topology(), t.Name()) {
				address := sys.Addressed().Nodes[n.Name].String()
				leak.Edges = append(leak.Edges, net.JoinHostPort(address, strconv.Itoa(int(n.Metrics.Port)))+n.Metrics.Path)
				leak.PerConnection = float64(f.PerConnection)
			}
		}
		a.leaks[t.Name()] = leak
	}
	hosts.inject = func(ctx context.Context, t *agented) error { return t.agent.SetLeak(ctx, a.name, a.leaks[t.Name()]) }
	hosts.undo = func(ctx context.Context, t *agented) error {
		return t.WithRoom(ctx, leakRoom, func() error {
			return t.release(ctx, func(ctx context.Context) error { return t.agent.RemoveLeak(ctx, a.name) })
		})
	}
	hosts.look = a.grows
	return a, nil
}

// SeenWithin leaves room for a few looks: the kernel may take two seconds to add
// up its counters.
func (a *armedLeak) SeenWithin() time.Duration { return 2*time.Second + 2*a.looks() }

// looks is how long one look takes.
func (a *armedLeak) looks() time.Duration {
	return min(max(time.Duration(leakSeen/a.perSecond*float64(time.Second)), 500*time.Millisecond), 2*time.Second)
}

// grows looks at a host for a while. What has leaked and grows no more is neither
// there nor gone.
func (a *armedLeak) grows(ctx context.Context, t *agented) (bool, error) {
	before, err := t.Usage()
	if err != nil {
		return false, err
	}
	began := time.Now()
	if !pause(ctx, a.looks()) {
		return false, outer(ctx, ctx.Err())
	}
	after, err := t.Usage()
	if err != nil {
		return false, err
	}
	promised := a.perSecond * time.Since(began).Seconds()
	grown := float64(after.SharedMemoryBytes) - float64(before.SharedMemoryBytes)
	rest := float64(after.SharedMemoryBytes) - float64(a.before[t.Name()])
	switch {
	case grown >= promised/2:
		return true, a.heard(ctx, t)
	case rest <= leakRest:
		return false, nil
	}
	return false, fmt.Errorf("host %s: its shared memory is %s above what it was, and has grown by %s of the %s that a leak would have taken meanwhile",
		t.Name(), Size(rest), Size(math.Max(0, grown)), Size(promised))
}

// heard says whether what a leak shall take by connections can come to pass: it
// grows by time alone where no edge tells of any, and looks the same.
func (a *armedLeak) heard(ctx context.Context, t *agented) error {
	edges := a.leaks[t.Name()].Edges
	if len(edges) == 0 {
		return nil
	}
	state, err := t.agent.Leak(ctx, a.name)
	if err != nil {
		return err
	}
	if state.Heard == 0 {
		return fmt.Errorf("host %s: it leaks by time alone: none of %s has told its agent of relapse_edge_connections; leave per_connection out where no node on the host has that gauge",
			t.Name(), strings.Join(edges, ", "))
	}
	return nil
}
