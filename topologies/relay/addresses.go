package relay

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"

	"github.com/vishvananda/netlink"
)

// addresses are the secondary addresses that this relay has added.
type addresses struct {
	added []address
}

type address struct {
	link netlink.Link
	addr *netlink.Addr
}

// add gives the address to the interface whose subnet holds it, as a /32. An
// address that is there already, or that is a loopback's and needs no adding, is
// left as it is and is not removed later.
func (a *addresses) add(ip netip.Addr) error {
	if ip.IsLoopback() {
		return nil
	}
	links, err := netlink.LinkList()
	if err != nil {
		return fmt.Errorf("listing network interfaces: %w", err)
	}
	var subnets []string
	var holder netlink.Link
	for _, link := range links {
		list, err := netlink.AddrList(link, netlink.FAMILY_V4)
		if err != nil {
			return fmt.Errorf("listing the addresses of %s: %w", link.Attrs().Name, err)
		}
		for _, existing := range list {
			if existing.IP.Equal(net.IP(ip.AsSlice())) {
				return nil
			}
			if ones, _ := existing.Mask.Size(); ones == 32 {
				continue
			}
			subnets = append(subnets, fmt.Sprintf("%s on %s", existing.IPNet, link.Attrs().Name))
			if existing.Contains(net.IP(ip.AsSlice())) && holder == nil {
				holder = link
			}
		}
	}
	if holder == nil {
		return fmt.Errorf("address %s: no interface holds its subnet; there is %v", ip, subnets)
	}
	addr := &netlink.Addr{IPNet: &net.IPNet{IP: ip.AsSlice(), Mask: net.CIDRMask(32, 32)}}
	switch err := netlink.AddrAdd(holder, addr); {
	case errors.Is(err, syscall.EEXIST):
		return nil
	case err != nil:
		return fmt.Errorf("adding address %s to %s (this needs the capability NET_ADMIN): %w", ip, holder.Attrs().Name, err)
	}
	a.added = append(a.added, address{holder, addr})
	return nil
}

// remove takes back what was added.
func (a *addresses) remove() error {
	var errs []error
	for _, x := range a.added {
		if err := netlink.AddrDel(x.link, x.addr); err != nil && !errors.Is(err, syscall.EADDRNOTAVAIL) {
			errs = append(errs, fmt.Errorf("removing address %s: %w", x.addr.IPNet, err))
		}
	}
	a.added = nil
	return errors.Join(errs...)
}
