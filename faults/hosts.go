package faults

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"relapse/topologies"
)

// validate checks the patterns of a fault on hosts.
func (h Hosts) validate() error {
	return patternError("hosts", `"host-*"`, h.Hosts, func(p string) bool {
		_, err := path.Match(p, "")
		return err == nil
	})
}

// find gives the hosts of the patterns, sorted by name.
func (h Hosts) find(sys *topologies.System, f HostFault) ([]*topologies.HostInstance, error) {
	topology := sys.Topology()
	var names []string
	for _, pattern := range h.Hosts {
		matched := topology.MatchHosts(pattern)
		if len(matched) == 0 {
			var all []string
			for _, host := range topology.Hosts {
				all = append(all, host.Name)
			}
			return nil, fmt.Errorf("hosts: %q matches no host of topology %s; it has %s", pattern, topology.Name, strings.Join(all, ", "))
		}
		for _, host := range matched {
			if lacks := f.Lacks(topology, host); lacks != nil {
				return nil, fmt.Errorf("host %s %s: %s", host.Name, lacks.Problem, lacks.Hint)
			}
			names = append(names, host.Name)
		}
	}
	slices.Sort(names)
	var out []*topologies.HostInstance
	for _, name := range slices.Compact(names) {
		host, err := sys.Host(name)
		if err != nil {
			return nil, err
		}
		out = append(out, host)
	}
	return out, nil
}

// agented is a host of a fault that its agent carries out.
type agented struct {
	*topologies.HostInstance
	agent *topologies.Agent
}

// arm finds the hosts of the patterns with their agents, which must be running.
// What the agents are told goes by a name of the fault's own.
func (h Hosts) arm(ctx context.Context, sys *topologies.System, f HostFault) (*onEach[*agented], error) {
	hosts, err := h.find(sys, f)
	if err != nil {
		return nil, err
	}
	a := &onEach[*agented]{what: "host"}
	for _, host := range hosts {
		agent, err := host.Agent()
		if err != nil {
			return nil, err
		}
		state, err := agent.Instance().State(ctx)
		if err != nil {
			return nil, err
		}
		if !state.Running || state.Paused {
			return nil, fmt.Errorf("host %s: its agent %s is not running", host.Name(), agent.Instance().Name())
		}
		a.targets = append(a.targets, &agented{host, agent})
	}
	return a, nil
}

// lacksAgent is what is missing on a host without an agent.
func lacksAgent(t *topologies.Topology, host topologies.Host) *FieldError {
	if _, ok := t.Agent(host.Name); ok {
		return nil
	}
	return &FieldError{"hosts", "has no agent", `place a service of image relapse on it, with command: [service, host] and the label relapse.agent: "9092"`}
}

// orderWithin bounds an order that takes something back, so that there is time
// to see that the agent has died meanwhile: nobody refuses at its address then.
const orderWithin = 2 * time.Second

// release has the agent take something back. A dead agent holds nothing: what it
// held has ended with it, and it begins again with nothing.
func (t *agented) release(ctx context.Context, order func(context.Context) error) error {
	dead := func() bool {
		state, err := t.agent.Instance().State(ctx)
		return err == nil && !state.Running
	}
	if dead() {
		return nil
	}
	within, cancel := context.WithTimeout(ctx, orderWithin)
	defer cancel()
	if err := order(within); err != nil && !dead() {
		return err
	}
	return nil
}
