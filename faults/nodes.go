package faults

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"

	"relapse/topologies"
)

// validate checks the patterns of a fault on nodes.
func (n Nodes) validate() error {
	return patternError("nodes", `"memcached-*"`, n.Nodes, func(p string) bool {
		_, err := path.Match(p, "")
		return err == nil
	})
}

// target is a node of a fault, and where to look at it from outside.
type target struct {
	*topologies.Instance
	dial dialer // nil for a node that answers nobody
}

// onNodes is a fault on nodes.
type onNodes = onEach[*target]

// arm finds the nodes of the patterns, which must all be running.
func (n Nodes) arm(ctx context.Context, sys *topologies.System) (*onNodes, error) {
	a := &onNodes{what: "node"}
	var names []string
	for _, pattern := range n.Nodes {
		matched := sys.Topology().MatchNodes(pattern)
		if len(matched) == 0 {
			var all []string
			for _, node := range sys.Topology().Nodes {
				all = append(all, node.Name)
			}
			return nil, fmt.Errorf("nodes: %q matches no node of topology %s; it has %s", pattern, sys.Topology().Name, strings.Join(all, ", "))
		}
		names = append(names, matched...)
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		instance, err := sys.Instance(name)
		if err != nil {
			return nil, err
		}
		state, err := instance.State(ctx)
		if err != nil {
			return nil, err
		}
		if !state.Running || state.Paused {
			return nil, fmt.Errorf("node %s: it is not running, so that no fault can be put on it", name)
		}
		t := &target{Instance: instance}
		if port := instance.Node().Probe.Port; port != 0 {
			t.dial = straightTo(instance, port)
		}
		a.targets = append(a.targets, t)
	}
	return a, nil
}

// accepts says whether the node takes a connection. One that answers nobody is
// taken at the engine's word.
func (t *target) accepts(ctx context.Context) (bool, error) {
	if t.dial == nil {
		state, err := t.State(ctx)
		return state.Running && !state.Paused, err
	}
	err := connect(ctx, t.dial, straightWithin)
	if err != nil && ctx.Err() != nil {
		return false, err
	}
	return err == nil, nil
}

// works says whether the node's processes do anything: they answer, or use CPU
// time. A node too busy to answer in time is not one that stands still.
func (t *target) works(ctx context.Context) (bool, error) {
	before, usageErr := t.Usage()
	if t.asks() {
		_, err := exchange(ctx, t.dial, t.Node().Probe, straightWithin)
		if err == nil {
			return true, nil
		}
		if ctx.Err() != nil {
			return false, err
		}
	}
	if usageErr != nil {
		return false, usageErr
	}
	after, err := t.Usage()
	return after.CPUSeconds > before.CPUSeconds, err
}

// asks says whether the node's protocol has a question for it.
func (t *target) asks() bool {
	protocol := t.Node().Probe.Protocol
	return t.dial != nil && protocol != "" && protocol != "tcp"
}
