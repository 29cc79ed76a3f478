package http1

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

// ErrForeignTarget says that a target lies outside the networks of this machine.
// What makes load makes it for its own topology and for nothing else.
var ErrForeignTarget = errors.New("the target is not in a network of this machine")

// LookUp gives the one address that requests to a target go to, such as
// http://nginx:8080, and the target's host and port as they are written, for
// [Client]. The name is looked up once: an answer that changed later could lead out
// of the topology. A target with an address outside the machine's own networks is
// refused with [ErrForeignTarget].
func LookUp(ctx context.Context, target string) (address netip.AddrPort, host string, err error) {
	u, err := url.Parse(target)
	if err != nil {
		return netip.AddrPort{}, "", fmt.Errorf("target: %w", err)
	}
	port := u.Port()
	if port == "" {
		port = "80"
	}
	number, err := net.DefaultResolver.LookupPort(ctx, "tcp", port)
	if err != nil {
		return netip.AddrPort{}, "", fmt.Errorf("target %s: %w", target, err)
	}
	addresses, err := net.DefaultResolver.LookupNetIP(ctx, "ip", u.Hostname())
	if err != nil {
		return netip.AddrPort{}, "", fmt.Errorf("target %s: %w", target, err)
	}
	own, err := ownNetworks()
	if err != nil {
		return netip.AddrPort{}, "", err
	}
	for _, a := range addresses {
		if !slices.ContainsFunc(own, func(p netip.Prefix) bool { return p.Contains(a.Unmap()) }) {
			return netip.AddrPort{}, "", fmt.Errorf("target %s resolves to %s: %w (%s): load is made only for the topology that it comes from",
				target, a, ErrForeignTarget, join(own))
		}
	}
	return netip.AddrPortFrom(addresses[0].Unmap(), uint16(number)), u.Host, nil
}

func ownNetworks() ([]netip.Prefix, error) {
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return nil, fmt.Errorf("own networks: %w", err)
	}
	var out []netip.Prefix
	for _, a := range addresses {
		p, err := netip.ParsePrefix(a.String())
		if err != nil {
			return nil, fmt.Errorf("own networks: %w", err)
		}
		out = append(out, p.Masked())
	}
	return out, nil
}

func join(prefixes []netip.Prefix) string {
	var names []string
	for _, p := range prefixes {
		names = append(names, p.String())
	}
	return strings.Join(names, ", ")
}
