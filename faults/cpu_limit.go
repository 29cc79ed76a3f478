package faults

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"time"

	"relapse/topologies"
)

func init() {
	Register(Kind{
		Name:    "cpu-limit",
		Group:   GroupNode,
		Summary: "The node gets less CPU time",
		Doc: `The node's processes together get no more than the given number of cores: in every 100 ms
they run until their share is used up and then stand still, as under a limit in a
container platform. Undoing gives back the limit that was there before.`,
		Seen:    `the limit is read back from the kernel (from the engine, where the kernel's files cannot be seen).`,
		Example: "nodes: [server]\ncpus: 0.2",
	}, func() Fault { return &cpuLimit{} })
}

type cpuLimit struct {
	Nodes `yaml:",inline"`
	CPUs  float64 `yaml:"cpus" doc:"cores, 0.01 or more"`
}

// leastCPUs is the kernel's own minimum, a millisecond in 100.
const leastCPUs = 0.01

func (f *cpuLimit) Validate() error {
	if err := f.validate(); err != nil {
		return err
	}
	switch {
	case f.CPUs == 0:
		return &FieldError{"cpus", "is missing or zero", "write cpus: 0.5 for half a core"}
	case !(f.CPUs >= leastCPUs) || math.IsInf(f.CPUs, 0):
		return &FieldError{"cpus", fmt.Sprintf("is %v: it must be %v or more", f.CPUs, leastCPUs), "write cpus: 0.5 for half a core"}
	}
	return nil
}

// NeverBites says that a node has as little already by its own limit.
func (f *cpuLimit) NeverBites(t *topologies.Topology, _ time.Duration) *FieldError {
	for _, pattern := range f.Nodes.Nodes {
		for _, name := range t.MatchNodes(pattern) {
			if node, _ := t.Node(name); node.CPUs > 0 && node.CPUs <= f.CPUs {
				return &FieldError{"cpus", fmt.Sprintf("is %v: node %s has no more than %v cores already, so that it takes nothing away", f.CPUs, name, node.CPUs),
					fmt.Sprintf("write cpus: with less than %v", node.CPUs)}
			}
		}
	}
	return nil
}

type armedCPULimit struct {
	*onNodes
	mu     sync.Mutex
	before map[string]float64
}

func (f *cpuLimit) Arm(ctx context.Context, sys *topologies.System, _ *rand.Rand) (Armed, error) {
	nodes, err := f.arm(ctx, sys)
	if err != nil {
		return nil, err
	}
	a := &armedCPULimit{onNodes: nodes, before: map[string]float64{}}
	for _, t := range nodes.targets {
		has, err := t.CPUs(ctx)
		if err != nil {
			return nil, err
		}
		if has > 0 && has <= f.CPUs {
			return nil, fmt.Errorf("node %s: it has no more than %v cores already, so a limit of %v takes nothing away", t.Name(), has, f.CPUs)
		}
	}
	nodes.inject = func(ctx context.Context, t *target) error {
		has, err := t.CPUs(ctx)
		if err != nil {
			return err
		}
		a.mu.Lock()
		a.before[t.Name()] = has
		a.mu.Unlock()
		return t.SetCPUs(ctx, f.CPUs)
	}
	nodes.undo = func(ctx context.Context, t *target) error {
		a.mu.Lock()
		before, known := a.before[t.Name()]
		a.mu.Unlock()
		if !known {
			return nil // the limit was not read, so none was set
		}
		return t.SetCPUs(ctx, before)
	}
	nodes.look = func(ctx context.Context, t *target) (bool, error) {
		has, err := t.CPUs(ctx)
		// The kernel keeps whole microseconds of each 100 ms.
		return has > 0 && has < f.CPUs+1e-4, err
	}
	return a, nil
}
