package faults

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"relapse/topologies"
)

func init() {
	Register(Kind{
		Name:    "memory-limit",
		Group:   GroupHost,
		Summary: "A host, or a node, gets less memory",
		Doc: `The nodes of each host together, or each node for itself, get no more memory than given.
The kernel first takes back what it can, such as page cache; what is asked for beyond the
limit then makes it kill. A limit below what is in use is refused by cgroup version 1, and
version 2 kills until it fits. Undoing gives back the limit that was there before. A limit
that is not below what the node or host can use already takes nothing away, and is refused
before anything is broken: its own limit counts, its host's and the machine's memory.`,
		Seen:    `the limit is read back from the kernel (of a node, from the engine where the kernel's files cannot be seen).`,
		Example: "hosts: [host-1]\nmemory: 64m",
	}, func() Fault { return &memoryLimit{} })
}

type memoryLimit struct {
	Hosts  `yaml:",inline"`
	Nodes  `yaml:",inline"`
	Memory Size `yaml:"memory" doc:"6m or more"`
}

// leastMemory is the engine's own minimum for a container.
const leastMemory = Size(6 << 20)

func (f *memoryLimit) Validate() error {
	hosts, nodes := len(f.Hosts.Hosts) > 0, len(f.Nodes.Nodes) > 0
	switch {
	case hosts && nodes:
		return &FieldError{"nodes", "stands beside hosts: a limit is of one or of the other", "make two faults of it"}
	case !hosts && !nodes:
		return &FieldError{"hosts", "is missing, and so is nodes", `write hosts: ["host-*"] or nodes: ["memcached-*"]`}
	}
	err := f.Hosts.validate()
	if nodes {
		err = f.Nodes.validate()
	}
	const hint = "write memory: 64m"
	switch {
	case err != nil:
		return err
	case f.Memory == 0:
		return &FieldError{"memory", "is missing or zero", hint}
	case f.Memory < leastMemory:
		return &FieldError{"memory", fmt.Sprintf("is %s: it must be %s or more", f.Memory, leastMemory), hint}
	}
	return nil
}

// Stops says that nodes are killed, on purpose.
func (f *memoryLimit) Stops() bool { return true }

// Lacks says that the host has as little already.
func (f *memoryLimit) Lacks(_ *topologies.Topology, host topologies.Host) *FieldError {
	if host.Memory > 0 && host.Memory <= int64(f.Memory) {
		return &FieldError{"hosts", fmt.Sprintf("has no more than %s already", Size(host.Memory)), fmt.Sprintf("write memory: with less than %s", Size(host.Memory))}
	}
	return nil
}

// NeverBites says that a node has as little already, by its own limit or its host's,
// or that no machine has more. What this machine has is known once something runs.
func (f *memoryLimit) NeverBites(t *topologies.Topology, _ time.Duration) *FieldError {
	if f.Memory > topologies.MostMemory {
		return &FieldError{"memory", fmt.Sprintf("is %s: no machine here has more than %s, so that it takes nothing away", f.Memory, Size(topologies.MostMemory)), "write memory: 64m"}
	}
	for _, pattern := range f.Nodes.Nodes {
		for _, name := range t.MatchNodes(pattern) {
			node, _ := t.Node(name)
			bounds := []bound{{"its own limit", node.Memory}}
			for _, host := range t.Hosts {
				if host.Name == node.Host {
					bounds = append(bounds, bound{"host " + host.Name, host.Memory})
				}
			}
			if lowest, nothing := takesNothing(int64(f.Memory), bounds); nothing {
				return &FieldError{"memory", fmt.Sprintf("is %s: node %s has no more than %s already by %s, so that it takes nothing away", f.Memory, name, Size(lowest.bytes), lowest.by),
					fmt.Sprintf("write memory: with less than %s", Size(lowest.bytes))}
			}
		}
	}
	return nil
}

// limited is what has a memory limit in bytes, 0 for none: a node or a host.
type limited interface {
	Name() string
	Memory(ctx context.Context) (int64, error)
	SetMemory(ctx context.Context, bytes int64) error
}

type limitedHost struct{ *topologies.HostInstance }

func (h limitedHost) Memory(context.Context) (int64, error) {
	limits, err := h.Limits()
	return limits.MemoryBytes, err
}

// bound is what keeps a node or host from having more memory.
type bound struct {
	by    string
	bytes int64 // 0 where it bounds nothing
}

// takesNothing says whether a limit is no lower than what is bounded already, and
// by what.
func takesNothing(limit int64, bounds []bound) (lowest bound, nothing bool) {
	for _, b := range bounds {
		if b.bytes > 0 && (lowest.bytes == 0 || b.bytes < lowest.bytes) {
			lowest = b
		}
	}
	return lowest, lowest.bytes > 0 && lowest.bytes <= limit
}

// boundsOf are what a node or host has above it as it runs.
func boundsOf(ctx context.Context, sys *topologies.System, t limited) ([]bound, error) {
	own, err := t.Memory(ctx)
	if err != nil {
		return nil, err
	}
	out := []bound{{"its own limit", own}, {"the machine", sys.Engine().MemoryBytes}}
	node, ok := t.(*topologies.Instance)
	if !ok || node.Node().Host == "" {
		return out, nil
	}
	host, err := sys.Host(node.Node().Host)
	if err != nil {
		return nil, err
	}
	limits, err := host.Limits()
	return append(out, bound{"host " + host.Name(), limits.MemoryBytes}), err
}

// targets finds the hosts or the nodes.
func (f *memoryLimit) targets(ctx context.Context, sys *topologies.System) (*onEach[limited], error) {
	a := &onEach[limited]{what: "node"}
	if len(f.Hosts.Hosts) == 0 {
		nodes, err := f.Nodes.arm(ctx, sys)
		if err != nil {
			return nil, err
		}
		for _, t := range nodes.targets {
			a.targets = append(a.targets, t.Instance)
		}
		return a, nil
	}
	a.what = "host"
	hosts, err := f.Hosts.find(sys, f)
	for _, h := range hosts {
		a.targets = append(a.targets, limitedHost{h})
	}
	return a, err
}

type armedMemoryLimit struct {
	*onEach[limited]
	mu     sync.Mutex
	before map[string]int64
}

func (f *memoryLimit) Arm(ctx context.Context, sys *topologies.System, _ *rand.Rand) (Armed, error) {
	targets, err := f.targets(ctx, sys)
	if err != nil {
		return nil, err
	}
	limit := int64(f.Memory)
	a := &armedMemoryLimit{onEach: targets, before: map[string]int64{}}
	for _, t := range targets.targets {
		bounds, err := boundsOf(ctx, sys, t)
		if err != nil {
			return nil, err
		}
		if lowest, nothing := takesNothing(limit, bounds); nothing {
			return nil, fmt.Errorf("%s %s: it has no more than %s already by %s, so that a limit of %s takes nothing away; write memory: with less",
				targets.what, t.Name(), Size(lowest.bytes), lowest.by, f.Memory)
		}
	}
	targets.inject = func(ctx context.Context, t limited) error {
		has, err := t.Memory(ctx)
		if err != nil {
			return err
		}
		a.mu.Lock()
		a.before[t.Name()] = has
		a.mu.Unlock()
		return t.SetMemory(ctx, limit)
	}
	targets.undo = func(ctx context.Context, t limited) error {
		a.mu.Lock()
		before, known := a.before[t.Name()]
		a.mu.Unlock()
		if !known {
			return nil // the limit was not read, so none was set
		}
		return t.SetMemory(ctx, before)
	}
	targets.look = func(ctx context.Context, t limited) (bool, error) {
		has, err := t.Memory(ctx)
		return has > 0 && has <= limit, err
	}
	return a, nil
}
