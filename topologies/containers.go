package topologies

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"strconv"
	"strings"

	"github.com/docker/go-units"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"
	"github.com/moby/moby/api/types/network"
	"github.com/testcontainers/testcontainers-go"
)

// nobody is whom a container's engine asks for names that it does not know itself: an
// address of the container's own at which nothing listens. The engine would ask the
// machine's servers else, from outside the closed network, and tell them whatever name
// a node wants to know.
var nobody = []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1})}

// create makes a container. The call is not cancelled with the context: the
// engine would go on and leave a container that nobody knows of. It is bounded by
// a deadline of its own instead.
func (d *dockerDriver) create(ctx context.Context, s *System, node *Node, address netip.Addr) (unit, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), startWithin)
	defer cancel()

	if err := writeFiles(s.folder, node); err != nil {
		return nil, err
	}
	request := d.request(node)
	request.Name = "relapse-" + s.options.Run + "-" + node.Name
	request.Labels = maps.Clone(s.labels)
	request.Labels[LabelNode] = node.Name
	// The library calls this one twice, once to look for mounts.
	request.HostConfigModifier = func(h *container.HostConfig) {
		h.NetworkMode = container.NetworkMode(d.network)
		h.CapDrop = []string{"ALL"}
		h.SecurityOpt = []string{"no-new-privileges"}
		h.CgroupParent = s.cgroupParent
		h.DNS, h.DNSOptions = nobody, []string{"timeout:1", "attempts:1"}
		limits(s, node, h)
		if node.Image == OwnImage {
			h.Mounts = append(h.Mounts, mount.Mount{Type: mount.TypeBind, ReadOnly: true, Source: d.program.path, Target: ownEntrypoint})
		}
	}
	// The endpoint is given here and not by the library's list of networks,
	// which would ask the engine for the network again for every container.
	request.EndpointSettingsModifier = func(endpoints map[string]*network.EndpointSettings) {
		endpoints[d.network] = &network.EndpointSettings{
			NetworkID:  d.networkID,
			IPAMConfig: &network.EndpointIPAMConfig{IPv4Address: address},
		}
	}
	created, err := d.provider.CreateContainer(ctx, request)
	if err != nil {
		return nil, fmt.Errorf("node %s: create its container: %w", node.Name, err)
	}
	return &containerUnit{docker: d.docker, id: created.GetContainerID(), created: created}, nil
}

func (d *dockerDriver) request(node *Node) testcontainers.ContainerRequest {
	request := testcontainers.ContainerRequest{
		Image:      d.local[node.Image],
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
func limits(s *System, node *Node, h *container.HostConfig) {
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
