package topologies

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
)

// Address gives the relay, every node and every proxied link a fixed address in
// an IPv4 subnet: the second address is the relay's (the first is the
// gateway's), the rest of the lower half the nodes', and the upper half the
// links'. It depends on its arguments alone.
//
// All ports from one client to one server share an address, since a client's
// hosts file can send a name to one address only. The result therefore holds
// every link of such a pair, if only one of them was named.
func (t *Topology) Address(subnet netip.Prefix, proxied []Link) (*Addressed, error) {
	subnet = subnet.Masked()
	if !subnet.IsValid() || !subnet.Addr().Is4() || subnet.Bits() < 8 || subnet.Bits() > 29 {
		return nil, fmt.Errorf("subnet %v: want an IPv4 subnet from /8 to /29, for example 10.77.0.0/24", subnet)
	}
	size := uint32(1) << (32 - subnet.Bits())
	base := binary.BigEndian.Uint32(subnet.Addr().AsSlice())
	address := func(n uint32) netip.Addr {
		return netip.AddrFrom4([4]byte(binary.BigEndian.AppendUint32(nil, base+n)))
	}

	const firstNode = 3 // 0 is the subnet's own, 1 the gateway's, 2 the relay's
	half := size / 2
	if room := int(half - firstNode); len(t.Nodes) > room {
		return nil, fmt.Errorf("subnet %v: room for %d nodes, topology %s has %d: take a larger subnet", subnet, room, t.Name, len(t.Nodes))
	}
	a := &Addressed{
		Subnet: subnet,
		Relay:  address(firstNode - 1),
		Nodes:  make(map[string]netip.Addr, len(t.Nodes)),
		Links:  map[Link]netip.Addr{},
	}
	for i, n := range t.Nodes {
		a.Nodes[n.Name] = address(firstNode + uint32(i))
	}

	for _, l := range proxied {
		if !slices.Contains(t.Links, l) {
			return nil, fmt.Errorf("link %s: topology %s has no such link", l, t.Name)
		}
	}
	type pair struct{ client, server string }
	wanted, given := map[pair]bool{}, map[pair]netip.Addr{}
	for _, l := range proxied {
		wanted[pair{l.Client, l.Server}] = true
	}
	if room := int(half - 1); len(wanted) > room { // the last address is the broadcast
		return nil, fmt.Errorf("subnet %v: room for %d pairs of linked nodes, %d are proxied: take a larger subnet", subnet, room, len(wanted))
	}
	for _, l := range t.Links { // sorted, so the same pairs get the same addresses
		p := pair{l.Client, l.Server}
		if !wanted[p] {
			continue
		}
		if _, ok := given[p]; !ok {
			given[p] = address(half + uint32(len(given)))
		}
		a.Links[l] = given[p]
	}
	return a, nil
}
