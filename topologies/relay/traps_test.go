package relay_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"relapse/topologies/relay"
)

// The tests of this file are the traps that were met when toxiproxy's own proxies
// were measured.

// sink is a server that reads nothing until it is told to.
func sink(t testing.TB) (at netip.AddrPort, read chan<- struct{}, got <-chan int64) {
	t.Helper()
	start, done := make(chan struct{}), make(chan int64, 1)
	at = startServer(t, func(c *net.TCPConn) {
		<-start
		n, _ := io.Copy(io.Discard, c)
		done <- n
	})
	return at, start, done
}

// fill writes until the receiver's side is full, and gives the bytes written.
func fill(t testing.TB, conn *net.TCPConn) int64 {
	t.Helper()
	var total int64
	for {
		_ = conn.SetWriteDeadline(time.Now().Add(150 * time.Millisecond))
		n, err := conn.Write(make([]byte, 1<<20))
		total += int64(n)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			_ = conn.SetWriteDeadline(time.Time{})
			return total
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// A receiver that does not read must not hold up the control of its link, lose
// bytes, or be closed; and other links must not feel it.
func TestABlockedReceiverDoesNotBlockItsLink(t *testing.T) {
	for _, already := range []bool{false, true} {
		name := "no toxic yet"
		if already {
			name = "behind a toxic"
		}
		t.Run(name, func(t *testing.T) {
			at, read, got := sink(t)
			r := startRelay(t, []netip.AddrPort{at, startServer(t, echo)})
			if already {
				r.add(t, 0, toxic("first", "delay", relay.Upstream, map[string]any{"latency_ms": 1}))
			}
			conn := r.dial(t, 0)
			sent := fill(t, conn)
			other := r.dial(t, 1)
			steps := []struct {
				name string
				do   func()
			}{
				{"add", func() { r.add(t, 0, toxic("slow", "delay", relay.Upstream, map[string]any{"latency_ms": 5})) }},
				{"new connection", func() { r.dial(t, 0) }},
				{"state", func() { r.state(t, 0) }},
				{"other link", func() { mustExchange(t, other) }},
				{"other link's toxic", func() { r.add(t, 1, toxic("x", "delay", relay.Upstream, map[string]any{"latency_ms": 1})) }},
				{"remove the first", func() { r.remove(t, 0, "first") }},
				{"remove the second", func() { r.remove(t, 0, "slow") }},
			}
			for _, step := range steps {
				start := time.Now()
				step.do()
				// Far below the deadline at which connections are closed.
				if took := time.Since(start); took > 2*time.Second {
					t.Errorf("%s took %s", step.name, took)
				}
			}
			close(read) // only now there is room for more
			_ = conn.SetWriteDeadline(time.Now().Add(10 * time.Second))
			if _, err := conn.Write([]byte("the end")); err != nil {
				t.Fatal(err)
			}
			if err := conn.CloseWrite(); err != nil {
				t.Fatal(err)
			}
			select {
			case n := <-got:
				if n != sent+7 {
					t.Errorf("the receiver got %d of %d bytes", n, sent+7)
				}
			case <-time.After(10 * time.Second):
				t.Fatal("not within 10 s: the receiver has the whole stream")
			}
		})
	}
}

func TestBytesKeepTheirOrderThroughChanges(t *testing.T) {
	const size = 24 << 20
	pattern := make([]byte, size)
	for i := range pattern {
		pattern[i] = byte(i>>16) ^ byte(i)
	}
	r := startRelay(t, []netip.AddrPort{startServer(t, func(c *net.TCPConn) { _, _ = c.Write(pattern) })})
	conn := r.dial(t, 0)
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			latency := map[string]any{"latency_ms": 1 + i%3}
			if err := r.AddToxic(t.Context(), linkName, toxic("a", "delay", relay.Downstream, latency)); err != nil {
				t.Error(err)
				return
			}
			rate := map[string]any{"bucket": "b", "rate": 50 << 20}
			if err := r.AddToxic(t.Context(), linkName, toxic("b", "shaped", relay.Downstream, rate)); err != nil {
				t.Error(err)
				return
			}
			for _, name := range []string{"a", "b"} {
				if err := r.RemoveToxic(t.Context(), linkName, name); err != nil {
					t.Error(err)
					return
				}
			}
		}
	}()
	_ = conn.SetReadDeadline(time.Now().Add(20 * time.Second))
	got, err := io.ReadAll(conn)
	close(stop)
	<-stopped
	if err != nil || !bytes.Equal(got, pattern) {
		t.Errorf("got %d of %d bytes (%v), equal: %t", len(got), size, err, bytes.Equal(got, pattern))
	}
}

func TestHalfClosedConnectionsGoOn(t *testing.T) {
	r := startRelay(t, []netip.AddrPort{startServer(t, func(c *net.TCPConn) {
		all, err := io.ReadAll(c)
		if err == nil {
			_, _ = io.WriteString(c, strings.ToUpper(string(all)))
		}
	})})
	for _, with := range []bool{false, true} {
		if with {
			r.add(t, 0, toxic("slow", "delay", relay.Upstream, map[string]any{"latency_ms": 20}))
		}
		conn := r.dial(t, 0)
		if _, err := io.WriteString(conn, "question"); err != nil {
			t.Fatal(err)
		}
		if err := conn.CloseWrite(); err != nil {
			t.Fatal(err)
		}
		_ = conn.SetReadDeadline(time.Now().Add(5 * time.Second))
		if got, err := io.ReadAll(conn); err != nil || string(got) != "QUESTION" {
			t.Errorf("with a toxic %t: after closing its side the client got %q, %v", with, got, err)
		}
	}
	eventually(t, "ended connections are forgotten", 2*time.Second, func() bool { return r.state(t, 0).Open == 0 })
}

func TestClosesAndResetsStayWhatTheyAre(t *testing.T) {
	for _, table := range []struct {
		name   string
		handle func(*net.TCPConn)
		want   error
	}{
		{"close", func(c *net.TCPConn) { _ = c.Close() }, io.EOF},
		{"reset", func(c *net.TCPConn) { _ = c.SetLinger(0); _ = c.Close() }, syscall.ECONNRESET},
	} {
		t.Run(table.name, func(t *testing.T) {
			r := startRelay(t, []netip.AddrPort{startServer(t, table.handle)})
			for range 50 {
				if err := r.firstError(0); !errors.Is(err, table.want) {
					t.Fatalf("the client saw %v, want %v", err, table.want)
				}
			}
		})
	}
	t.Run("reset by the client", func(t *testing.T) {
		seen := make(chan error, 1)
		r := startRelay(t, []netip.AddrPort{startServer(t, func(c *net.TCPConn) {
			_, err := c.Read(make([]byte, 1))
			seen <- err
		})})
		conn := r.dial(t, 0)
		eventually(t, "the connection is open", 2*time.Second, func() bool { return r.state(t, 0).Open == 1 })
		_ = conn.SetLinger(0)
		conn.Close()
		if err := <-seen; !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("the server saw %v, want ECONNRESET", err)
		}
	})
}

// firstError gives what a client that only listens sees first. A reset may come
// before its dial has returned.
func (r *rig) firstError(link int) error {
	conn, err := r.tryDial(link, 2*time.Second)
	if err != nil {
		return err
	}
	defer conn.Close()
	_ = conn.SetReadDeadline(time.Now().Add(2 * time.Second))
	_, err = conn.Read(make([]byte, 1))
	return err
}

func TestADeadServerResetsItsClients(t *testing.T) {
	dead := netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), freePort(t))
	r := startRelay(t, []netip.AddrPort{dead})
	// The relay accepts before it knows, so it cannot be "connection refused".
	if err := r.firstError(0); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("got %v, want ECONNRESET", err)
	}
	eventually(t, "the failed dial is counted", time.Second, func() bool {
		s := r.state(t, 0)
		return s.Unreached == 1 && s.LastUnreached != "" && s.Open == 0
	})
}

// A server that swallows connection requests holds up nothing: neither other
// clients, nor the control of its link, nor the end of the relay.
func TestASilentServerHoldsUpNothing(t *testing.T) {
	needsNamespace(t)
	// Two connections fill a backlog of one; the kernel then swallows requests.
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(fd)
	port := freePort(t)
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Port: int(port), Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Listen(fd, 0); err != nil {
		t.Fatal(err)
	}
	silent := netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), port)
	eventually(t, "the server swallows requests", 5*time.Second, func() bool {
		c, err := net.DialTimeout("tcp4", silent.String(), 100*time.Millisecond)
		if err == nil {
			t.Cleanup(func() { c.Close() })
		}
		return err != nil
	})
	r := startRelay(t, []netip.AddrPort{silent})
	start := time.Now()
	for range 5 {
		r.dial(t, 0)
	}
	eventually(t, "all clients are accepted", 2*time.Second, func() bool { return r.state(t, 0).Open == 5 })
	r.add(t, 0, toxic("x", "delay", relay.Upstream, map[string]any{"latency_ms": 1}))
	r.remove(t, 0, "x")
	if err := r.stop(); err != nil {
		t.Error(err)
	}
	if took := time.Since(start); took > 2*time.Second {
		t.Errorf("it all took %s", took)
	}
}

// A chain that cannot be interrupted by any means is left behind: the link's
// connections are closed, it gets new chains, and the error says so.
func TestAStuckChainIsReplaced(t *testing.T) {
	relay.RegisterStuck()
	r := startRelay(t, []netip.AddrPort{startServer(t, echo), startServer(t, echo)})
	r.add(t, 0, toxic("kept", "delay", relay.Upstream, map[string]any{"latency_ms": 30}))
	r.add(t, 0, toxic("stuck", "stuck", relay.Upstream, map[string]any{}))
	conn, other := r.dial(t, 0), r.dial(t, 1)
	if _, err := conn.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	select {
	case <-relay.Stuck:
	case <-time.After(2 * time.Second):
		t.Fatal("not within 2 s: the byte has reached the stuck toxic")
	}
	start := time.Now()
	done := make(chan error, 1)
	go func() { done <- r.RemoveToxic(t.Context(), linkName, "stuck") }()
	mustExchange(t, other)
	r.add(t, 1, toxic("x", "delay", relay.Upstream, map[string]any{"latency_ms": 1}))
	var forced *relay.ForcedError
	if err := <-done; !errors.As(err, &forced) || !forced.Rebuilt || forced.Closed != 1 || forced.Link != linkName {
		t.Errorf("got %v, want a ForcedError", err)
	}
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("the way out took %s", took)
	}
	if s := r.state(t, 0); len(s.Toxics) != 1 || s.Toxics[0].Name != "kept" {
		t.Errorf("the link has the toxics %+v", s.Toxics)
	}
	if took := mustExchange(t, r.dial(t, 0)); took < 30*time.Millisecond {
		t.Errorf("the toxic that was to stay is gone: an exchange took %s", took)
	}
	r.remove(t, 0, "stuck")
}

func TestNothingIsLeftBehind(t *testing.T) {
	before := runtime.NumGoroutine()
	at := startServer(t, func(c *net.TCPConn) { _, _ = c.Write(make([]byte, 4<<20)) })
	r := startRelay(t, []netip.AddrPort{at})
	for i := range 40 {
		switch i % 4 {
		case 1:
			r.add(t, 0, toxic("x", "delay", relay.Downstream, map[string]any{"latency_ms": 10}))
		case 2:
			r.add(t, 0, toxic("y", "limit_data", relay.Downstream, map[string]any{"bytes": 1000}))
		case 3:
			r.remove(t, 0, "x")
			r.remove(t, 0, "y")
		}
		conn := r.dial(t, 0)
		_, _ = conn.Read(make([]byte, 100))
		if i%2 == 0 {
			_ = conn.SetLinger(0)
		}
		conn.Close()
	}
	eventually(t, "no connection is open", 5*time.Second, func() bool { return r.state(t, 0).Open == 0 })
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	r.Close()
	eventually(t, "the goroutines have ended", 5*time.Second, func() bool { return runtime.NumGoroutine() <= before+2 })
}
