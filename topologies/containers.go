package topologies

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/docker/go-units"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"
	"github.com/moby/moby/api/types/network"
	"github.com/testcontainers/testcontainers-go"
	"golang.org/x/sync/errgroup"

	"relapse/topologies/relay"
)

const (
	relayNode    = "relay"
	relayControl = 8474
)

// nobody is whom a container's engine asks for names that it does not know itself: an
// address of the container's own at which nothing listens. The engine would ask the
// machine's servers else, from outside the closed network, and tell them whatever name
// a node wants to know.
var nobody = []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1})}

// startContainers creates all containers at once and starts each as soon as
// what it needs answers: the nodes it depends on, and the relay if a link of its
// own has a proxy, since it would find nobody at the link's address before.
func (s *System) startContainers(ctx context.Context, local map[string]string) error {
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
		return fmt.Errorf("node %s: the name is taken by the container that holds the proxied links; give it another", relayNode)
	}
	ready[relayNode] = make(chan struct{})
	group, ctx := errgroup.WithContext(ctx)
	if len(s.options.Proxied) > 0 {
		control := net.JoinHostPort(s.addressed.Relay.String(), strconv.Itoa(relayControl))
		s.relay = relay.NewClient(control)
		group.Go(func() error {
			if err := s.startRelay(ctx, local[OwnImage]); err != nil {
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
		instance := &Instance{node: node, address: s.addressed.Nodes[node.Name], docker: s.docker}
		s.instances[node.Name] = instance
		group.Go(func() error {
			if err := writeFiles(s.folder, node); err != nil {
				return err
			}
			created, err := s.create(ctx, node.Name, instance.address, s.request(node, local[node.Image]), s.limits(node))
			if err != nil {
				return err
			}
			instance.id = created.GetContainerID()
			for _, need := range needs {
				select {
				case <-ready[need]:
				case <-ctx.Done():
					return ctx.Err()
				}
			}
			if err := s.start(ctx, node.Name, created); err != nil {
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

// create makes a container and does not start it. The call is not cancelled
// with the context: the engine would go on and leave a container that nobody
// knows of. It is bounded by a deadline of its own instead.
func (s *System) create(ctx context.Context, name string, address netip.Addr,
	request testcontainers.ContainerRequest, limits func(*container.HostConfig),
) (testcontainers.Container, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), startWithin)
	defer cancel()

	request.Name = "relapse-" + s.options.Run + "-" + name
	request.Labels = maps.Clone(s.labels)
	request.Labels[LabelNode] = name
	// The library calls this one twice, once to look for mounts.
	request.HostConfigModifier = func(h *container.HostConfig) {
		h.NetworkMode = container.NetworkMode(s.network)
		h.CapDrop = []string{"ALL"}
		h.SecurityOpt = []string{"no-new-privileges"}
		h.CgroupParent = s.cgroupParent
		h.DNS, h.DNSOptions = nobody, []string{"timeout:1", "attempts:1"}
		limits(h)
		if request.Image == s.ownImage {
			h.Mounts = append(h.Mounts, mount.Mount{Type: mount.TypeBind, ReadOnly: true, Source: s.program.path, Target: ownEntrypoint})
		}
	}
	// The endpoint is given here and not by the library's list of networks,
	// which would ask the engine for the network again for every container.
	request.EndpointSettingsModifier = func(endpoints map[string]*network.EndpointSettings) {
		endpoints[s.network] = &network.EndpointSettings{
			NetworkID:  s.networkID,
			IPAMConfig: &network.EndpointIPAMConfig{IPv4Address: address},
		}
	}
	created, err := s.provider.CreateContainer(ctx, request)
	if err != nil {
		return nil, fmt.Errorf("node %s: create its container: %w", name, err)
	}
	return created, nil
}

func (s *System) start(ctx context.Context, name string, created testcontainers.Container) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), startWithin)
	defer cancel()
	if err := created.Start(ctx); err != nil {
		return fmt.Errorf("node %s: start its container: %w", name, err)
	}
	return nil
}

func (s *System) request(node *Node, image string) testcontainers.ContainerRequest {
	request := testcontainers.ContainerRequest{
		Image:      image,
		Entrypoint: node.Entrypoint,
		Cmd:        node.Command,
		Env:        node.Environment,
		Tmpfs:      map[string]string{},
	}
	for _, tmpfs := range node.Tmpfs {
		path, options := tmpfsMount(tmpfs, node.User)
		request.Tmpfs[path] = options
	}
	request.ConfigModifier = func(c *container.Config) {
		c.Hostname = node.Name
		c.User = node.User
		c.WorkingDir = node.WorkingDir
		// A check of the image's own would take CPU and show nothing: probes do.
		c.Healthcheck = &container.HealthConfig{Test: []string{"NONE"}}
	}
	return request
}

// tmpfsMount gives a tmpfs to the user that the node runs as, unless its options
// say otherwise. By its mode alone a program without rights could write in its
// first life only: the engine leaves the folder below the mount behind with mode
// 0755, and puts that mode on the mount when it starts the container again.
func tmpfsMount(tmpfs, user string) (path, options string) {
	path, options, _ = strings.Cut(tmpfs, ":")
	has := func(option string) bool {
		return strings.HasPrefix(options, option) || strings.Contains(options, ","+option)
	}
	uid, gid, grouped := strings.Cut(user, ":")
	if _, err := strconv.ParseUint(uid, 10, 32); err == nil && !has("uid=") {
		options += ",uid=" + uid
	}
	if _, err := strconv.ParseUint(gid, 10, 32); grouped && err == nil && !has("gid=") {
		options += ",gid=" + gid
	}
	return path, strings.TrimPrefix(options, ",")
}

// limits says what a node's container may do and what it shares with the machine.
func (s *System) limits(node *Node) func(*container.HostConfig) {
	return func(h *container.HostConfig) {
		h.CapAdd = node.CapAdd
		h.ReadonlyRootfs = node.ReadOnly
		h.ExtraHosts = s.extraHosts(node.Name)
		if node.Host != "" {
			h.CgroupParent = hostCgroup(s.options.Run, node.Host)
		}
		if node.Memory > 0 {
			h.Memory, h.MemorySwap = node.Memory, node.Memory
		}
		if node.CPUs > 0 {
			h.CPUPeriod, h.CPUQuota = cpuPeriod.Microseconds(), cpuQuota(node.CPUs)
		}
		if node.Restart != "" {
			h.RestartPolicy = container.RestartPolicy{Name: container.RestartPolicyMode(node.Restart)}
		}
		h.OomScoreAdj = node.OOMScoreAdj
		if node.NoFile > 0 {
			h.Ulimits = []*units.Ulimit{{Name: "nofile", Soft: node.NoFile, Hard: node.NoFile}}
		}
		for i, file := range node.Files {
			h.Mounts = append(h.Mounts, mount.Mount{
				Type: mount.TypeBind, ReadOnly: true,
				Source: nodeFile(s.folder, node.Name, i), Target: file.Path,
			})
		}
	}
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

func (s *System) startRelay(ctx context.Context, image string) error {
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
	request := testcontainers.ContainerRequest{Image: image, Cmd: []string{"relay", "--config", string(encoded)}}
	created, err := s.create(ctx, relayNode, s.addressed.Relay, request,
		func(h *container.HostConfig) {
			h.CapAdd = []string{"NET_ADMIN"}
			h.ReadonlyRootfs = true
		})
	if err != nil {
		return err
	}
	if err := s.start(ctx, relayNode, created); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	if err := s.relay.Ready(ctx); err != nil {
		// A ready-made node error: the relay is a container like any other.
		r := &Instance{node: &Node{Name: relayNode}, docker: s.docker, id: created.GetContainerID()}
		return r.notReady(ctx, "its control to answer", err)
	}
	return nil
}
