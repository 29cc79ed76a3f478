package topologies

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"

	"golang.org/x/sync/errgroup"

	"relapse/topologies/relay"
)

const (
	relayNode    = "relay"
	relayControl = 8474
)

// startNodes creates all nodes at once and starts each as soon as what it needs
// answers: the nodes it depends on, and the relay if a link of its own has a
// proxy, since it would find nobody at the link's address before.
func (s *System) startNodes(ctx context.Context) error {
	ready := map[string]chan struct{}{}
	for i := range s.topology.Nodes {
		ready[s.topology.Nodes[i].Name] = make(chan struct{})
	}
	for i := range s.topology.Nodes {
		for _, need := range s.topology.Nodes[i].DependsOn {
			if ready[need] == nil {
				return fmt.Errorf("node %s: it depends on %s, which is no node", s.topology.Nodes[i].Name, need)
			}
		}
	}
	if ready[relayNode] != nil {
		return fmt.Errorf("node %s: the name is taken by the node that holds the proxied links; give it another", relayNode)
	}
	ready[relayNode] = make(chan struct{})
	group, ctx := errgroup.WithContext(ctx)
	if len(s.options.Proxied) > 0 {
		control := net.JoinHostPort(s.addressed.Relay.String(), strconv.Itoa(relayControl))
		s.relay = relay.NewClient(control)
		group.Go(func() error {
			if err := s.startRelay(ctx); err != nil {
				return err
			}
			close(ready[relayNode])
			return nil
		})
	}
	for i := range s.topology.Nodes {
		node := &s.topology.Nodes[i]
		needs := slices.Clone(node.DependsOn)
		for l := range s.addressed.Links {
			if l.Client == node.Name {
				needs = append(needs, relayNode)
				break
			}
		}
		instance := &Instance{node: node, address: s.addressed.Nodes[node.Name]}
		s.instances[node.Name] = instance
		group.Go(func() error {
			if err := s.create(ctx, instance); err != nil {
				return err
			}
			for _, need := range needs {
				select {
				case <-ready[need]:
				case <-ctx.Done():
					return ctx.Err()
				}
			}
			if err := s.start(ctx, instance); err != nil {
				return err
			}
			if err := instance.awaitReady(ctx); err != nil {
				return err
			}
			close(ready[node.Name])
			return nil
		})
	}
	return group.Wait()
}

func (s *System) create(ctx context.Context, i *Instance) (err error) {
	i.unit, err = s.driver.create(ctx, s, i.node, i.address)
	return err
}

// start starts a node for the first time. As with create, a call that is on its way
// is not cancelled.
func (s *System) start(ctx context.Context, i *Instance) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), startWithin)
	defer cancel()
	return i.Start(ctx)
}

func (s *System) startRelay(ctx context.Context) error {
	config := relay.Config{Control: net.JoinHostPort("0.0.0.0", strconv.Itoa(relayControl))}
	for _, l := range s.topology.Links {
		// More than were asked for: all ports of a pair of nodes share an address.
		if address, proxied := s.addressed.Links[l]; proxied {
			config.Links = append(config.Links, relay.Link{
				Name:     l.String(),
				Listen:   netip.AddrPortFrom(address, l.Port),
				Upstream: netip.AddrPortFrom(s.addressed.Nodes[l.Server], l.Port),
			})
		}
	}
	encoded, err := json.Marshal(config)
	if err != nil {
		return fmt.Errorf("relay: %w", err)
	}
	// A node like any other.
	r := &Instance{address: s.addressed.Relay, node: &Node{
		Name: relayNode, Image: OwnImage, Command: []string{"relay", "--config", string(encoded)},
		CapAdd: []string{"NET_ADMIN"}, ReadOnly: true,
	}}
	if err := s.create(ctx, r); err != nil {
		return err
	}
	if err := s.start(ctx, r); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	if err := s.relay.Ready(ctx); err != nil {
		return r.notReady(ctx, "its control to answer", err)
	}
	return nil
}

// extraHosts sends the name of each server that the node talks to, to where the
// node shall find it. A node has one address for all ports of a server.
func (s *System) extraHosts(client string) []string {
	var hosts []string
	for _, l := range s.topology.Links {
		if l.Client != client {
			continue
		}
		if address, err := s.target(l); err == nil {
			hosts = append(hosts, l.Server+":"+address.String())
		}
	}
	slices.Sort(hosts)
	return slices.Compact(hosts)
}
