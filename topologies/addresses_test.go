package topologies_test

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"relapse/topologies"
)

// shop is a small topology with a client of two servers, one of two ports.
func shop() *topologies.Topology {
	return &topologies.Topology{
		Name:  "shop",
		Nodes: []topologies.Node{{Name: "app"}, {Name: "cache"}, {Name: "web"}},
		Links: []topologies.Link{
			{Client: "app", Server: "cache", Port: 11211},
			{Client: "web", Server: "app", Port: 9000},
			{Client: "web", Server: "app", Port: 9001},
			{Client: "web", Server: "cache", Port: 11211},
		},
	}
}

func TestAddress(t *testing.T) {
	top := shop()
	appCache, webApp, webApp1, webCache := top.Links[0], top.Links[1], top.Links[2], top.Links[3]
	for _, test := range []struct {
		name    string
		subnet  string
		proxied []topologies.Link
		nodes   map[string]string
		links   map[string]string
	}{
		{"none proxied", "10.77.0.0/24", nil,
			map[string]string{"app": "10.77.0.3", "cache": "10.77.0.4", "web": "10.77.0.5"}, map[string]string{}},
		{"one proxied", "10.77.0.0/24", []topologies.Link{webCache},
			map[string]string{"app": "10.77.0.3", "cache": "10.77.0.4", "web": "10.77.0.5"},
			map[string]string{"web -> cache:11211": "10.77.0.128"}},
		{"both ports share an address, though one was named", "10.77.0.0/24", []topologies.Link{webApp1},
			map[string]string{"app": "10.77.0.3", "cache": "10.77.0.4", "web": "10.77.0.5"},
			map[string]string{"web -> app:9000": "10.77.0.128", "web -> app:9001": "10.77.0.128"}},
		{"the order asked for makes no difference", "10.77.9.7/24", []topologies.Link{webCache, webApp, appCache, webCache},
			map[string]string{"app": "10.77.9.3", "cache": "10.77.9.4", "web": "10.77.9.5"},
			map[string]string{"app -> cache:11211": "10.77.9.128", "web -> app:9000": "10.77.9.129", "web -> app:9001": "10.77.9.129", "web -> cache:11211": "10.77.9.130"}},
		{"the smallest subnet that fits", "10.0.0.16/28", []topologies.Link{webCache},
			map[string]string{"app": "10.0.0.19", "cache": "10.0.0.20", "web": "10.0.0.21"},
			map[string]string{"web -> cache:11211": "10.0.0.24"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			subnet := netip.MustParsePrefix(test.subnet)
			a, err := top.Address(subnet, test.proxied)
			if err != nil {
				t.Fatal(err)
			}
			nodes, links := map[string]string{}, map[string]string{}
			for n, at := range a.Nodes {
				nodes[n] = at.String()
			}
			for l, at := range a.Links {
				links[l.String()] = at.String()
			}
			if diff := cmp.Diff(test.nodes, nodes); diff != "" {
				t.Errorf("nodes (-want +have):\n%s", diff)
			}
			if diff := cmp.Diff(test.links, links); diff != "" {
				t.Errorf("links (-want +have):\n%s", diff)
			}
			if a.Subnet != subnet.Masked() || a.Relay != subnet.Masked().Addr().Next().Next() {
				t.Errorf("have subnet %v and relay %v", a.Subnet, a.Relay)
			}
		})
	}
}

// large is a topology of n nodes, each linked to all others.
func large(n int) *topologies.Topology {
	top := &topologies.Topology{Name: "large"}
	for i := range n {
		top.Nodes = append(top.Nodes, topologies.Node{Name: fmt.Sprintf("n%03d", i)})
	}
	for _, a := range top.Nodes {
		for _, b := range top.Nodes {
			if a.Name != b.Name {
				top.Links = append(top.Links, topologies.Link{Client: a.Name, Server: b.Name, Port: 80})
			}
		}
	}
	return top
}

// TestAddressFull fills a subnet to its last address: all differ, and none is
// the subnet's own, the gateway's or the broadcast's.
func TestAddressFull(t *testing.T) {
	subnet := netip.MustParsePrefix("10.1.2.0/24")
	top := large(125)
	a, err := top.Address(subnet, top.Links[:127])
	if err != nil {
		t.Fatal(err)
	}
	all := append(slices.Collect(maps.Values(a.Nodes)), slices.Collect(maps.Values(a.Links))...)
	all = append(all, a.Relay)
	slices.SortFunc(all, netip.Addr.Compare)
	if n := len(slices.Compact(slices.Clone(all))); n != 125+127+1 || n != len(all) {
		t.Errorf("have %d different addresses of %d, want %d", n, len(all), 125+127+1)
	}
	if first, last := all[0].String(), all[len(all)-1].String(); first != "10.1.2.2" || last != "10.1.2.254" {
		t.Errorf("have %s to %s, want 10.1.2.2 to 10.1.2.254", first, last)
	}
}

func TestAddressRefuses(t *testing.T) {
	for _, test := range []struct {
		name    string
		top     *topologies.Topology
		subnet  netip.Prefix
		proxied []topologies.Link
		want    string
	}{
		{"a node too many", large(126), netip.MustParsePrefix("10.0.0.0/24"), nil,
			"subnet 10.0.0.0/24: room for 125 nodes, topology large has 126: take a larger subnet"},
		{"a pair too many", large(16), netip.MustParsePrefix("10.0.0.0/24"), large(16).Links[:128],
			"subnet 10.0.0.0/24: room for 127 pairs of linked nodes, 128 are proxied: take a larger subnet"},
		{"an unknown link", shop(), netip.MustParsePrefix("10.0.0.0/24"), []topologies.Link{{Client: "cache", Server: "web", Port: 80}},
			"link cache -> web:80: topology shop has no such link"},
		{"no subnet", shop(), netip.Prefix{}, nil, "subnet invalid Prefix: want an IPv4 subnet from /8 to /29, for example 10.77.0.0/24"},
		{"IPv6", shop(), netip.MustParsePrefix("fd00::/64"), nil, "subnet fd00::/64: want an IPv4 subnet from /8 to /29, for example 10.77.0.0/24"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := test.top.Address(test.subnet, test.proxied)
			if err == nil || err.Error() != test.want {
				t.Errorf("have %v\nwant %s", err, test.want)
			}
		})
	}
}
