package relay_test

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"math"
	"net"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"relapse/topologies/relay"
)

// startRuled serves links on addresses of their own, as in a topology.
func startRuled(t testing.TB, upstreams ...netip.AddrPort) *rig {
	t.Helper()
	needsNamespace(t)
	return startRelay(t, upstreams, "10.77.0.129", "10.77.0.130", "10.77.0.131")
}

func (r *rig) tryDial(link int, within time.Duration) (net.Conn, error) {
	return net.DialTimeout("tcp4", r.links[link].Listen.String(), within)
}

func isTimeout(err error) bool {
	var e net.Error
	return errors.As(err, &e) && e.Timeout()
}

func TestLinksGetTheirAddressesAndGiveThemBack(t *testing.T) {
	r := startRuled(t, startServer(t, echo))
	has := func() bool {
		lo, err := netlink.LinkByName("lo")
		if err != nil {
			t.Fatal(err)
		}
		list, err := netlink.AddrList(lo, netlink.FAMILY_V4)
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range list {
			if a.IPNet.String() == "10.77.0.129/32" {
				return true
			}
		}
		return false
	}
	if !has() {
		t.Error("the link's address is not on the interface that holds its subnet")
	}
	mustExchange(t, r.dial(t, 0))
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	if has() {
		t.Error("the link's address outlives the relay")
	}
	elsewhere := relay.Config{Control: "127.0.0.1:0", Links: []relay.Link{{
		Name: "lost", Listen: netip.MustParseAddrPort("198.51.100.1:80"), Upstream: netip.MustParseAddrPort("10.77.0.1:80"),
	}}}
	if err := relay.Serve(t.Context(), elsewhere, nilLog()); err == nil || !strings.HasPrefix(err.Error(), "relay: link lost: address 198.51.100.1") {
		t.Errorf("an address of no subnet: got %v", err)
	}
}

func TestServersSeeTheLinkAsTheirClient(t *testing.T) {
	seen := make(chan string, 1)
	r := startRuled(t, startServer(t, func(c *net.TCPConn) {
		host, _, _ := net.SplitHostPort(c.RemoteAddr().String())
		seen <- host
	}))
	r.dial(t, 0)
	if got := <-seen; got != "10.77.0.129" {
		t.Errorf("the server sees %s", got)
	}
}

func TestDropIsABlackHoleThatHeals(t *testing.T) {
	server := startServer(t, echo)
	r := startRuled(t, server, server)
	conn, other := r.dial(t, 0), r.dial(t, 1)
	mustExchange(t, conn)
	r.rule(t, 0, relay.Rule{Name: "hole", Action: relay.Drop})
	if _, err := exchange(conn, "lost?", 300*time.Millisecond); !isTimeout(err) {
		t.Errorf("an open connection: got %v, want silence", err)
	}
	if c, err := r.tryDial(0, 300*time.Millisecond); err == nil {
		c.Close()
		t.Error("a new connection was made through a black hole")
	} else if !isTimeout(err) {
		t.Errorf("a new connection: got %v, want silence", err)
	}
	mustExchange(t, other)
	rules := r.state(t, 0).Rules
	if len(rules) != 1 || rules[0].Rule != (relay.Rule{Name: "hole", Action: relay.Drop}) || rules[0].Packets < 2 {
		t.Errorf("the kernel holds %+v", rules)
	}
	if n := len(r.state(t, 1).Rules); n != 0 {
		t.Errorf("the other link has %d rules", n)
	}
	r.unrule(t, 0, "hole")
	r.unrule(t, 0, "hole") // idempotent
	_ = conn.SetDeadline(time.Now().Add(5 * time.Second))
	got := make([]byte, 5)
	if _, err := io.ReadFull(conn, got); err != nil || string(got) != "lost?" {
		t.Fatalf("after the heal the open connection gave %q, %v", got, err)
	}
	mustExchange(t, conn)
	mustExchange(t, r.dial(t, 0))
	if n := len(r.state(t, 0).Rules); n != 0 {
		t.Errorf("%d rules are left", n)
	}
}

// What a server sends into a black hole is lost as on a wire: the sender's
// retransmissions back off, which shows that its TCP was not told.
func TestDropIsNotNoticedByTheSender(t *testing.T) {
	ticks := make(chan struct{})
	r := startRuled(t, startServer(t, func(c *net.TCPConn) {
		for range ticks {
			if _, err := c.Write([]byte("x")); err != nil {
				return
			}
		}
	}))
	defer close(ticks)
	conn := r.dial(t, 0)
	one := make([]byte, 1)
	ticks <- struct{}{}
	if _, err := io.ReadFull(conn, one); err != nil {
		t.Fatal(err)
	}
	r.rule(t, 0, relay.Rule{Name: "hole", Action: relay.Drop})
	ticks <- struct{}{}
	eventually(t, "the byte and two retransmissions were lost", 5*time.Second, func() bool {
		rules := r.state(t, 0).Rules
		return len(rules) == 1 && rules[0].Packets >= 3
	})
	r.unrule(t, 0, "hole")
	_ = conn.SetReadDeadline(time.Now().Add(5 * time.Second))
	if _, err := io.ReadFull(conn, one); err != nil {
		t.Errorf("the byte did not come after the heal: %v", err)
	}
}

func TestRefuseLeavesOpenConnections(t *testing.T) {
	server := startServer(t, echo)
	r := startRuled(t, server, server)
	conn := r.dial(t, 0)
	mustExchange(t, conn)
	r.rule(t, 0, relay.Rule{Name: "no", Action: relay.Refuse})
	start := time.Now()
	if _, err := r.tryDial(0, time.Second); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("a new connection: got %v, want ECONNREFUSED", err)
	}
	if took := time.Since(start); took > 100*time.Millisecond {
		t.Errorf("the refusal took %s", took)
	}
	mustExchange(t, conn)
	mustExchange(t, r.dial(t, 1))
	r.unrule(t, 0, "no")
	mustExchange(t, r.dial(t, 0))
}

func TestResetEndsBothSidesOfOpenConnections(t *testing.T) {
	ended := make(chan error, 1)
	server := startServer(t, func(c *net.TCPConn) {
		_, err := io.Copy(struct{ io.Writer }{c}, c)
		ended <- err
	})
	r := startRuled(t, server, startServer(t, echo))
	conn, other := r.dial(t, 0), r.dial(t, 1)
	mustExchange(t, conn)
	mustExchange(t, other)
	r.rule(t, 0, relay.Rule{Name: "cut", Action: relay.Reset})
	_ = conn.SetReadDeadline(time.Now().Add(2 * time.Second))
	if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("an idle client: got %v, want ECONNRESET", err)
	}
	select {
	case err := <-ended:
		if !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("the server: got %v, want ECONNRESET", err)
		}
	case <-time.After(2 * time.Second):
		t.Error("the server's connection lives on")
	}
	if n := r.state(t, 0).Open; n != 0 {
		t.Errorf("%d connections are open", n)
	}
	if _, err := r.tryDial(0, time.Second); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("a new connection: got %v, want ECONNREFUSED", err)
	}
	mustExchange(t, other)
	r.unrule(t, 0, "cut")
	mustExchange(t, r.dial(t, 0))
}

func TestLossLosesItsShareBothWays(t *testing.T) {
	r := startRuled(t, startServer(t, echo))
	conn := r.dial(t, 0)
	mustExchange(t, conn)
	// A request and its answer are two packets, and 20 ms too short for a
	// retransmission: a quarter of the dials comes through a loss of half.
	r.rule(t, 0, relay.Rule{Name: "bad-cable", Action: relay.Loss, Percent: 50})
	made := 0
	for range 60 {
		if c, err := r.tryDial(0, 20*time.Millisecond); err == nil {
			made++
			c.Close()
		}
	}
	if made < 3 || made > 29 { // 15 expected, 4 standard deviations
		t.Errorf("with a loss of 50 %% each way %d of 60 dials came through, want about 15", made)
	}
	rules := r.state(t, 0).Rules
	if len(rules) != 1 || math.Abs(rules[0].Percent-50) > 1e-9 || rules[0].Packets == 0 {
		t.Errorf("the kernel holds %+v", rules)
	}
	r.rule(t, 0, relay.Rule{Name: "bad-cable", Action: relay.Loss, Percent: 10})
	eventually(t, "an exchange waits for a retransmission and succeeds", 20*time.Second, func() bool {
		took, err := exchange(conn, "hello", 20*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		return took > 150*time.Millisecond
	})
	r.rule(t, 0, relay.Rule{Name: "bad-cable", Action: relay.Loss, Percent: 0.05})
	if rules := r.state(t, 0).Rules; len(rules) != 1 || math.Abs(rules[0].Percent-0.05) > 1e-9 {
		t.Errorf("after the change the kernel holds %+v", rules)
	}
}

func TestRateLosesRequestsAboveItsLimit(t *testing.T) {
	r := startRuled(t, startServer(t, echo))
	conn := r.dial(t, 0)
	r.rule(t, 0, relay.Rule{Name: "slow-accept", Action: relay.Rate, Limit: 10})
	made := 0
	for end := time.Now().Add(700 * time.Millisecond); time.Now().Before(end); {
		if c, err := r.tryDial(0, 20*time.Millisecond); err == nil {
			made++
			c.Close()
		}
	}
	if made < 4 || made > 12 {
		t.Errorf("%d connections were made in 0.7 s at 10 a second", made)
	}
	mustExchange(t, conn)
	rules := r.state(t, 0).Rules
	if len(rules) != 1 || rules[0].Limit != 10 || rules[0].Packets == 0 {
		t.Errorf("the kernel holds %+v", rules)
	}
}

func TestRulesAndToxicsAreResetTogether(t *testing.T) {
	r := startRuled(t, startServer(t, echo))
	r.rule(t, 0, relay.Rule{Name: "a", Action: relay.Loss, Percent: 1})
	r.rule(t, 0, relay.Rule{Name: "b", Action: relay.Cap, Limit: 100})
	r.add(t, 0, toxic("c", "delay", relay.Upstream, map[string]any{"latency_ms": 500}))
	if s := r.state(t, 0); len(s.Rules) != 2 || len(s.Toxics) != 1 {
		t.Fatalf("state: %+v", s)
	}
	r.unrule(t, 0, "a")
	if s := r.state(t, 0); len(s.Rules) != 1 || s.Rules[0].Name != "b" {
		t.Fatalf("removing one rule left %+v", s.Rules)
	}
	if err := r.Reset(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s := r.state(t, 0); len(s.Rules) != 0 || len(s.Toxics) != 0 {
		t.Errorf("after a reset: %+v", s)
	}
}

func TestBadRulesAreRefused(t *testing.T) {
	r := startRuled(t, startServer(t, echo))
	for _, table := range []struct {
		name string
		have relay.Rule
	}{
		{"no name", relay.Rule{Action: relay.Drop}},
		{"a name with spaces", relay.Rule{Name: "a b", Action: relay.Drop}},
		{"unknown action", relay.Rule{Name: "a", Action: "explode"}},
		{"no loss", relay.Rule{Name: "a", Action: relay.Loss}},
		{"more than all", relay.Rule{Name: "a", Action: relay.Loss, Percent: 101}},
		{"no limit", relay.Rule{Name: "a", Action: relay.Cap}},
		{"too long a name", relay.Rule{Name: strings.Repeat("x", 250), Action: relay.Drop}},
	} {
		t.Run(table.name, func(t *testing.T) {
			var refused *relay.RequestError
			if err := r.AddRule(t.Context(), linkName, table.have); !errors.As(err, &refused) {
				t.Errorf("got %v, want a RequestError", err)
			}
		})
	}
	if rules := r.state(t, 0).Rules; len(rules) != 0 {
		t.Errorf("the kernel holds %+v", rules)
	}
}

func TestCapabilitiesAreKnown(t *testing.T) {
	r := startRuled(t, startServer(t, echo))
	c, err := r.Capabilities(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range relay.Actions {
		if err := c.Check(a); err != nil {
			// A kernel may lack some, but it must say so in words.
			var unsupported *relay.UnsupportedError
			if !errors.As(err, &unsupported) || unsupported.Reason == "" {
				t.Errorf("%s: %v", a, err)
			}
			t.Logf("missing here: %v", err)
		}
	}
	without := relay.Capabilities{Missing: map[relay.Action]string{relay.Cap: "why"}}
	var unsupported *relay.UnsupportedError
	if err := without.Check(relay.Cap); !errors.As(err, &unsupported) || unsupported.Action != relay.Cap {
		t.Errorf("got %v, want an UnsupportedError", err)
	}
	if err := without.Check(relay.Drop); err != nil {
		t.Errorf("got %v for what is there", err)
	}
}

// TestCheckKernel holds that the kernel is asked in a namespace that nobody else sees.
func TestCheckKernel(t *testing.T) {
	found, err := relay.CheckKernel()
	if errors.Is(err, fs.ErrPermission) {
		t.Skip("no network namespace can be made here: ", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	for action, reason := range found.Missing {
		if !slices.Contains(relay.Actions, action) || reason == "" {
			t.Errorf("missing %q, since %q", action, reason)
		}
	}
}
