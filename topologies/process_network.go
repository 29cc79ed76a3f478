package topologies

import (
	"errors"
	"fmt"
	"hash/fnv"
	"net"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// nodeInterface is the end of its cable that a node has.
const nodeInterface = "eth0"

// makeBridge makes the run's network, where nobody but the tool and its nodes is, and
// gives everything its address.
func (d *processDriver) makeBridge(s *System) error {
	taken, err := interfaceSubnets()
	if err != nil {
		return fmt.Errorf("network: %w", err)
	}
	subnet, found := freeSubnet(s.options.Run, taken)
	if !found {
		return fmt.Errorf("network: no free /24 in %s", subnetPool)
	}
	if s.addressed, err = s.topology.Address(subnet, s.options.Proxied); err != nil {
		return err
	}
	d.addressed = s.addressed
	if d.bridge, err = addBridge(bridgeName(s.options.Run)); err != nil {
		return noNamespaces(err)
	}
	gateway := &net.IPNet{IP: subnet.Addr().Next().AsSlice(), Mask: net.CIDRMask(subnet.Bits(), 32)}
	if err := netlink.AddrAdd(d.bridge, &netlink.Addr{IPNet: gateway}); err != nil {
		return fmt.Errorf("network: address of the bridge: %w", err)
	}
	if err := netlink.LinkSetUp(d.bridge); err != nil {
		return fmt.Errorf("network: bridge: %w", err)
	}
	// Down in a new namespace, and needed by nobody but for the tool's own address.
	lo, err := netlink.LinkByName("lo")
	if err == nil {
		err = netlink.LinkSetUp(lo)
	}
	if err != nil {
		return fmt.Errorf("network: loopback: %w", err)
	}
	return nil
}

// bridgeName is short enough for the kernel.
func bridgeName(run string) string {
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(run))
	return fmt.Sprintf("relapse%08x", hash.Sum32())
}

// removeBridge removes a run's bridge where this process sees it. Elsewhere it is in
// namespaces that end with their processes.
func removeBridge(run string) error {
	bridge, err := netlink.LinkByName(bridgeName(run))
	if errors.As(err, new(netlink.LinkNotFoundError)) {
		return nil
	}
	if err == nil {
		err = netlink.LinkDel(bridge)
	}
	if err != nil && !errors.Is(err, unix.ENODEV) {
		return fmt.Errorf("bridge of run %s: %w", run, err)
	}
	return nil
}

// plug gives a process's network namespace a cable to the bridge, and names the port.
// Its hardware address goes by its address: whoever has talked to the life before this
// one needs to ask nobody for it.
func (d *processDriver) plug(pid int, node string) (string, error) {
	address, ok := d.addressed.Nodes[node]
	if !ok {
		address = d.addressed.Relay
	}
	ip := address.As4()
	attrs := netlink.NewLinkAttrs()
	attrs.Name = fmt.Sprintf("node%d", pid) // which nobody else has
	attrs.MasterIndex = d.bridge.Attrs().Index
	cable := netlink.NewVeth(attrs)
	cable.PeerName = nodeInterface
	cable.PeerNamespace = netlink.NsPid(pid)
	cable.PeerHardwareAddr = net.HardwareAddr{0x02, 0x42, ip[0], ip[1], ip[2], ip[3]}
	if err := netlink.LinkAdd(cable); err != nil {
		return attrs.Name, fmt.Errorf("plug it into the network: %w", err)
	}
	if err := netlink.LinkSetUp(cable); err != nil {
		return attrs.Name, fmt.Errorf("plug it into the network: %w", err)
	}
	return attrs.Name, nil
}

// unplug takes the cable away. The kernel does so itself with the namespace at its
// other end, and takes its time.
func (d *processDriver) unplug(port string) {
	if port == "" {
		return
	}
	if link, err := netlink.LinkByName(port); err == nil {
		_ = netlink.LinkDel(link)
	}
}
