package topologies

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"net"
	"net/netip"
	"slices"

	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"
)

// networkTries bounds how often a subnet that turned out to be taken is given
// up for the next.
const networkTries = 8

// connect makes the run's own network, which has no way out of the machine, and
// gives every node its address in it.
func (d *dockerDriver) connect(ctx context.Context, s *System) error {
	if d.local[OwnImage] != "" {
		var err error
		if d.program, err = putProgram(s.folder, s.options.Binary); err != nil {
			return err
		}
	}
	taken, err := takenSubnets(ctx, d.docker)
	if err != nil {
		return fmt.Errorf("network: %w", err)
	}
	var refused []error
	for range networkTries {
		subnet, found := freeSubnet(s.options.Run, taken)
		if !found {
			return fmt.Errorf("network: no free /24 in %s on this machine; `relapse clean` removes what is left of earlier runs", subnetPool)
		}
		s.addressed, err = s.topology.Address(subnet, s.options.Proxied)
		if err != nil {
			return err
		}
		d.network = "relapse-" + s.options.Run
		// Not cancelled with the context, as the engine would go on regardless.
		bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), startWithin)
		created, err := d.docker.NetworkCreate(bounded, d.network, client.NetworkCreateOptions{
			Driver:   "bridge",
			Internal: true,
			Labels:   maps.Clone(s.labels),
			IPAM:     &network.IPAM{Config: []network.IPAMConfig{{Subnet: subnet}}},
		})
		cancel()
		if err == nil {
			d.networkID = created.ID
			return nil
		}
		// Someone else was quicker, or the machine has a route there that is no
		// interface's: the engine knows better than we do.
		refused = append(refused, fmt.Errorf("%s: %w", subnet, err))
		taken = append(taken, subnet)
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return fmt.Errorf("network: no subnet was accepted: %w", errors.Join(refused...))
}

// subnetPool holds the /24 networks that runs use: private addresses, apart
// from those that engines hand out by themselves.
var subnetPool = netip.MustParsePrefix("10.128.0.0/10")

// freeSubnet gives a /24 of the pool that overlaps with none that is taken. It
// begins at a place that depends on the run, so that two runs that start at the
// same moment hardly ever want the same.
func freeSubnet(run string, taken []netip.Prefix) (netip.Prefix, bool) {
	const size = 1 << (24 - 10)
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(run))
	first := hash.Sum32()
	base := subnetPool.Addr().As4()
	for i := range uint32(size) {
		n := (first + i) % size
		address := netip.AddrFrom4([4]byte{base[0], base[1] + byte(n>>8), byte(n), 0})
		subnet := netip.PrefixFrom(address, 24)
		if !slices.ContainsFunc(taken, subnet.Overlaps) {
			return subnet, true
		}
	}
	return netip.Prefix{}, false
}

// takenSubnets gives those of the engine's networks and of this machine's
// interfaces.
func takenSubnets(ctx context.Context, docker *client.Client) ([]netip.Prefix, error) {
	taken, err := interfaceSubnets()
	if err != nil {
		return nil, err
	}
	networks, err := docker.NetworkList(ctx, client.NetworkListOptions{})
	if err != nil {
		return nil, err
	}
	for _, n := range networks.Items {
		for _, config := range n.IPAM.Config {
			if config.Subnet.IsValid() {
				taken = append(taken, config.Subnet.Masked())
			}
		}
	}
	return taken, nil
}

// interfaceSubnets gives those of the interfaces that this process sees.
func interfaceSubnets() ([]netip.Prefix, error) {
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return nil, err
	}
	var taken []netip.Prefix
	for _, address := range addresses {
		if prefix, err := netip.ParsePrefix(address.String()); err == nil {
			taken = append(taken, prefix.Masked())
		}
	}
	return taken, nil
}
