package faults

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"relapse/topologies"
)

func init() {
	Register(Kind{
		Name:    "cpu-hog",
		Group:   GroupHost,
		Summary: "Something on the host uses CPU time",
		Doc: `The host's agent keeps so many cores busy, in periods of 10 ms where it is a part of one:
a neighbour that a host's nodes share its CPU limit with. When the host's time runs out,
the kernel shares it among the containers that want some; how little is left to a node
depends on how many there are.`,
		Seen: `the agent's container uses, in 200 ms, at least half of the CPU time that was promised.
It is gone when it uses less.`,
		Example: "hosts: [host-1]\ncores: 0.3",
	}, func() Fault { return &cpuHog{} })
}

type cpuHog struct {
	Hosts `yaml:",inline"`
	Cores float64 `yaml:"cores" doc:"cores, 0.05 or more, and no more than the host, its agent and the machine have"`
}

const (
	// leastHog is well above what an idle agent uses.
	leastHog = 0.05
	// mostHog refuses a slip before anything starts; what the machine has is known
	// once something runs.
	mostHog = 1024
	hogLook = 200 * time.Millisecond
)

func (f *cpuHog) Validate() error {
	if err := f.validate(); err != nil {
		return err
	}
	const hint = "write cores: 0.5 for half a core"
	switch {
	case f.Cores == 0:
		return &FieldError{"cores", "is missing or zero", hint}
	case !(f.Cores >= leastHog) || math.IsInf(f.Cores, 0):
		return &FieldError{"cores", fmt.Sprintf("is %v: it must be %v or more", f.Cores, leastHog), hint}
	case f.Cores > mostHog:
		return &FieldError{"cores", fmt.Sprintf("is %v: no machine here has more than %d", f.Cores, mostHog), hint}
	}
	return nil
}

// Lacks says what the host needs: an agent, and as many cores as the hog wants,
// for itself and for the agent.
func (f *cpuHog) Lacks(t *topologies.Topology, host topologies.Host) *FieldError {
	if host.CPUs > 0 && host.CPUs < f.Cores {
		return &FieldError{"hosts", fmt.Sprintf("has %v cores, so that nothing on it can use %v", host.CPUs, f.Cores), fmt.Sprintf("write cores: %v or less", host.CPUs)}
	}
	if agent, ok := t.Agent(host.Name); ok && agent.CPUs > 0 && agent.CPUs < f.Cores {
		return &FieldError{"hosts", fmt.Sprintf("has the agent %s with %v cores, which cannot use %v", agent.Name, agent.CPUs, f.Cores), fmt.Sprintf("write cores: %v or less, or give the agent more cpus:", agent.CPUs)}
	}
	return lacksAgent(t, host)
}

func (f *cpuHog) Arm(ctx context.Context, sys *topologies.System, rng *rand.Rand) (Armed, error) {
	if has := sys.Engine().CPUs; has > 0 && f.Cores > float64(has) {
		return nil, fmt.Errorf("cores: the machine has %d, so that nothing on it can use %v; write cores: %d or less", has, f.Cores, has)
	}
	a, err := f.arm(ctx, sys, f)
	if err != nil {
		return nil, err
	}
	name := fmt.Sprintf("cpu-hog-%08x", rng.Uint32())
	a.inject = func(ctx context.Context, t *agented) error { return t.agent.SetHog(ctx, name, f.Cores) }
	a.undo = func(ctx context.Context, t *agented) error {
		return t.release(ctx, func(ctx context.Context) error { return t.agent.RemoveHog(ctx, name) })
	}
	a.look = f.hogs
	return a, nil
}

// hogs looks at the agent's container. A dead agent uses nothing.
func (f *cpuHog) hogs(ctx context.Context, t *agented) (bool, error) {
	cores, err := coresOver(ctx, t.agent.Instance(), hogLook)
	if errors.Is(err, topologies.ErrNotRunning) {
		return false, nil
	}
	return err == nil && cores >= f.Cores/2, err
}

// coresOver measures how many cores a node uses over a time.
func coresOver(ctx context.Context, i *topologies.Instance, lasts time.Duration) (float64, error) {
	before, err := i.Usage()
	if err != nil {
		return 0, err
	}
	began := time.Now()
	if !pause(ctx, lasts) {
		return 0, outer(ctx, ctx.Err())
	}
	after, err := i.Usage()
	if err != nil {
		return 0, err
	}
	return (after.CPUSeconds - before.CPUSeconds) / time.Since(began).Seconds(), nil
}
