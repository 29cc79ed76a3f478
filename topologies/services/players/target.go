package players

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"relapse/topologies/services"
	"relapse/topologies/services/http1"
)

// ErrForeignTarget says that a target lies outside the generator's own
// networks. A generator makes load for its own topology and for nothing else.
var ErrForeignTarget = errors.New("the target is not in a network of this machine")

// target is whom requests can go to.
type target struct {
	*http1.Client
	spare bool // gets nothing but by a redirect
	// By the generator's lock:
	sent     services.Recent // requests
	redirect *redirect       // what leads away from it; nil if nothing does
}

func newTarget(ctx context.Context, url string, spare bool) (*target, error) {
	client, err := newClient(ctx, url)
	if err != nil {
		return nil, err
	}
	return &target{Client: client, spare: spare}, nil
}

// newClient makes what sends a target's requests.
func newClient(ctx context.Context, target string) (*http1.Client, error) {
	address, err := resolve(ctx, target)
	if err != nil {
		return nil, err
	}
	u, err := url.Parse(target)
	if err != nil {
		return nil, fmt.Errorf("target: %w", err)
	}
	return &http1.Client{Address: address, Host: u.Host, Agent: "relapse-players"}, nil
}

// resolve gives the one address that a target's requests go to. The name is
// looked up once: an answer that changed later could lead out of the topology.
func resolve(ctx context.Context, target string) (netip.AddrPort, error) {
	u, err := url.Parse(target)
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("target: %w", err)
	}
	port := u.Port()
	if port == "" {
		port = "80"
	}
	number, err := net.DefaultResolver.LookupPort(ctx, "tcp", port)
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("target %s: %w", target, err)
	}
	addresses, err := net.DefaultResolver.LookupNetIP(ctx, "ip", u.Hostname())
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("target %s: %w", target, err)
	}
	own, err := ownNetworks()
	if err != nil {
		return netip.AddrPort{}, err
	}
	for _, a := range addresses {
		if !slices.ContainsFunc(own, func(p netip.Prefix) bool { return p.Contains(a.Unmap()) }) {
			return netip.AddrPort{}, fmt.Errorf("target %s resolves to %s: %w (%s): load is made only for the topology that the generator belongs to",
				target, a, ErrForeignTarget, join(own))
		}
	}
	return netip.AddrPortFrom(addresses[0].Unmap(), uint16(number)), nil
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
