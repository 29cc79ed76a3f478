package topologies_test

import (
	"encoding/hex"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"relapse/topologies"
)

// inspected gives what the engine knows of a run's containers, by node.
func inspected(t *testing.T, run string) map[string]container.InspectResponse {
	t.Helper()
	docker, err := client.New(client.FromEnv)
	if err != nil {
		t.Fatal(err)
	}
	defer docker.Close()
	filters := make(client.Filters).Add("label", topologies.LabelRun+"="+run)
	found, err := docker.ContainerList(t.Context(), client.ContainerListOptions{Filters: filters})
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]container.InspectResponse{}
	for _, c := range found.Items {
		inspect, err := docker.ContainerInspect(t.Context(), c.ID, client.ContainerInspectOptions{})
		if err != nil {
			t.Fatal(err)
		}
		all[c.Labels[topologies.LabelNode]] = inspect.Container
	}
	return all
}

// ownFile reads a file of a container's first process, as the kernel has it. An engine
// in another process namespace means other processes by its numbers.
func ownFile(t *testing.T, c container.InspectResponse, name string) string {
	t.Helper()
	if c.State == nil || c.State.Pid == 0 {
		t.Fatalf("%s has no process", c.Name)
	}
	folder := filepath.Join("/proc", strconv.Itoa(c.State.Pid))
	cgroup, err := os.ReadFile(filepath.Join(folder, "cgroup"))
	if err != nil || !strings.Contains(string(cgroup), c.ID) {
		if os.Getenv("CI") == "true" {
			t.Fatalf("the engine's processes cannot be seen from here, and CI promises an engine on its machine: %v", err)
		}
		t.Skipf("the engine's processes cannot be seen from here: %v", err)
	}
	content, err := os.ReadFile(filepath.Join(folder, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// TestNobodyHasCapabilitiesButTheRelay reads what the kernel lets each container do, a
// node's that runs as root too: as root a program has all that its container has.
func TestNobodyHasCapabilitiesButTheRelay(t *testing.T) {
	topology := pair()
	topology.Nodes[0].User = ""
	start(t, topology, topologies.Options{Proxied: topology.Links})
	const none, netAdmin = 0, 1 << 12 // CAP_NET_ADMIN, capabilities(7)
	want := map[string]uint64{"front": none, "store": none, "relay": netAdmin}
	all := inspected(t, runID(t))
	if have := slices.Sorted(maps.Keys(all)); !slices.Equal(have, slices.Sorted(maps.Keys(want))) {
		t.Fatalf("containers of %v, want of front, relay and store", have)
	}
	for node, c := range all {
		seen := 0
		for line := range strings.Lines(ownFile(t, c, "status")) {
			name, value, _ := strings.Cut(strings.TrimSpace(line), ":\t")
			switch name {
			case "CapPrm", "CapEff", "CapBnd", "CapAmb":
				have, err := strconv.ParseUint(value, 16, 64)
				if err != nil {
					t.Fatal(err)
				}
				if have&^want[node] != 0 {
					t.Errorf("%s: %s is %x, want %x at most", node, name, have, want[node])
				}
				if name == "CapEff" && have != want[node] {
					t.Errorf("%s: it can do %x, want %x", node, have, want[node])
				}
				seen++
			case "NoNewPrivs":
				if value != "1" {
					t.Errorf("%s: its programs can gain rights", node)
				}
				seen++
			}
		}
		if seen != 5 {
			t.Errorf("%s: the kernel says %d of 5 things", node, seen)
		}
		if h := c.HostConfig; h.Privileged || h.PidMode != "" || h.UTSMode != "" || h.IpcMode == "host" || len(h.Devices) > 0 {
			t.Errorf("%s shares more with the machine than its kernel: %+v", node, h)
		}
		for _, m := range c.Mounts {
			if m.Type == "bind" && m.RW {
				t.Errorf("%s can write to %s of the machine", node, m.Source)
			}
		}
	}
}

// TestARunOpensNothingOnTheMachine holds that while a topology runs nobody listens on
// this machine who did not before, but on its loopback, and that nodes are in one closed
// network alone. Routes say nothing of that: Docker 20.10 gives one to the gateway and
// closes it with its packet filter.
func TestARunOpensNothingOnTheMachine(t *testing.T) {
	rig(t) // so that building it is none of what changes
	before := listening(t)
	topology := pair()
	start(t, topology, topologies.Options{Proxied: topology.Links})
	// What only sends opens a port of UDP for a moment.
	eventually(t, "nobody listens who did not before", 5*time.Second, func() bool {
		return len(reachable(listening(t), before)) == 0
	})
	for node, c := range inspected(t, runID(t)) {
		if have := slices.Sorted(maps.Keys(c.NetworkSettings.Networks)); len(have) != 1 || have[0] != "relapse-"+runID(t) {
			t.Errorf("%s is in %v, want in the run's own network alone", node, have)
		}
		if len(c.NetworkSettings.Ports) > 0 || c.HostConfig.PublishAllPorts {
			for port, at := range c.NetworkSettings.Ports {
				if len(at) > 0 {
					t.Errorf("%s publishes %v at %v", node, port, at)
				}
			}
		}
		for _, server := range c.HostConfig.DNS {
			if !server.IsLoopback() {
				t.Errorf("%s has %s asked for names, outside its network", node, server)
			}
		}
		if len(c.HostConfig.DNS) == 0 {
			t.Errorf("%s has the machine's servers asked for names", node)
		}
	}
}

// TestListening holds that a socket that is open to others is seen, and one that is not
// is none.
func TestListening(t *testing.T) {
	for _, tc := range []struct {
		network, address string
		want             int
	}{
		{"tcp4", "0.0.0.0:0", 1},
		{"tcp6", "[::]:0", 1},
		{"udp4", "0.0.0.0:0", 1},
		{"tcp4", "127.0.0.1:0", 0},
		{"tcp6", "[::1]:0", 0},
		{"udp4", "127.0.0.1:0", 0},
	} {
		before := listening(t)
		var closer interface{ Close() error }
		var err error
		port := 0
		if strings.HasPrefix(tc.network, "udp") {
			var conn net.PacketConn
			if conn, err = net.ListenPacket(tc.network, tc.address); err == nil {
				closer, port = conn, conn.LocalAddr().(*net.UDPAddr).Port
			}
		} else {
			var l net.Listener
			if l, err = net.Listen(tc.network, tc.address); err == nil {
				closer, port = l, l.Addr().(*net.TCPAddr).Port
			}
		}
		if err != nil && strings.HasSuffix(tc.network, "6") {
			continue // a machine without the sixth version has nobody listen there
		}
		if err != nil {
			t.Fatal(err)
		}
		ours := slices.DeleteFunc(reachable(listening(t), before), func(s string) bool { return !strings.HasSuffix(s, fmt.Sprintf(":%d", port)) })
		if len(ours) != tc.want {
			t.Errorf("%s %s: seen as %v, want %d", tc.network, tc.address, ours, tc.want)
		}
		_ = closer.Close()
	}
}

// listening are the sockets of this machine's network that wait for others, as protocol,
// address and port.
func listening(t *testing.T) map[string]netip.Addr {
	t.Helper()
	const waits, unconnected = "0A", "07" // of TCP and of UDP, tcp_states.h
	all := map[string]netip.Addr{}
	for protocol, state := range map[string]string{"tcp": waits, "tcp6": waits, "udp": unconnected, "udp6": unconnected} {
		content, err := os.ReadFile("/proc/net/" + protocol)
		if os.IsNotExist(err) {
			continue // a kernel without the sixth version
		}
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(content)) {
			fields := strings.Fields(line)
			if len(fields) < 4 || fields[3] != state {
				continue
			}
			address, digits, _ := strings.Cut(fields[1], ":")
			port, err := strconv.ParseUint(digits, 16, 16)
			if err != nil {
				t.Fatal(err)
			}
			at := kernelAddress(t, address)
			all[fmt.Sprintf("%s %s:%d", protocol, at, port)] = at
		}
	}
	return all
}

// reachable are the sockets that were not there before and that others than this
// machine can reach.
func reachable(now, before map[string]netip.Addr) []string {
	var out []string
	for socket, at := range now {
		if _, known := before[socket]; !known && !at.Unmap().IsLoopback() {
			out = append(out, socket)
		}
	}
	return out
}

// kernelAddress reads an address as /proc/net has it: words of four bytes, each the
// last byte first.
func kernelAddress(t *testing.T, digits string) netip.Addr {
	t.Helper()
	bytes, err := hex.DecodeString(digits)
	if err != nil || len(bytes)%4 != 0 {
		t.Fatalf("%q is no address: %v", digits, err)
	}
	for n := 0; n < len(bytes); n += 4 {
		slices.Reverse(bytes[n : n+4])
	}
	address, ok := netip.AddrFromSlice(bytes)
	if !ok {
		t.Fatalf("%q is no address", digits)
	}
	return address
}
