package relay_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"

	"relapse/topologies/relay"
)

const linkName = "client -> server:80"

// rig is a relay at work, with one link to each of its servers.
type rig struct {
	*relay.Client
	links []relay.Link
	stop  func() error
}

// startRelay serves links to the upstreams, named linkName, linkName+"1", ….
// hosts gives the links' addresses; loopback without.
func startRelay(t testing.TB, upstreams []netip.AddrPort, hosts ...string) *rig {
	t.Helper()
	r := &rig{}
	for i, up := range upstreams {
		host := "127.0.0.1"
		if i < len(hosts) {
			host = hosts[i]
		}
		name := linkName
		if i > 0 {
			name += fmt.Sprint(i)
		}
		listen := netip.AddrPortFrom(netip.MustParseAddr(host), freePort(t))
		r.links = append(r.links, relay.Link{Name: name, Listen: listen, Upstream: up})
	}
	control := fmt.Sprintf("127.0.0.1:%d", freePort(t))
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() {
		served <- relay.Serve(ctx, relay.Config{Control: control, Links: r.links}, nilLog())
	}()
	r.stop = sync.OnceValue(func() error { cancel(); return <-served })
	t.Cleanup(func() {
		if err := r.stop(); err != nil {
			t.Errorf("the relay ended with %v", err)
		}
	})
	r.Client = relay.NewClient(control)
	ready, cancelReady := context.WithTimeout(ctx, 5*time.Second)
	defer cancelReady()
	if err := r.Ready(ready); err != nil {
		select {
		case err := <-served:
			served <- err
			t.Fatal(err)
		default:
			t.Fatal(err)
		}
	}
	t.Cleanup(r.Client.Close)
	return r
}

func freePort(t testing.TB) uint16 {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).AddrPort().Port()
}

func (r *rig) dial(t testing.TB, link int) *net.TCPConn {
	t.Helper()
	conn, err := net.DialTimeout("tcp4", r.links[link].Listen.String(), 5*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn.(*net.TCPConn)
}

func (r *rig) add(t testing.TB, link int, toxic relay.Toxic) {
	t.Helper()
	if err := r.AddToxic(t.Context(), r.links[link].Name, toxic); err != nil {
		t.Fatal(err)
	}
}

func (r *rig) remove(t testing.TB, link int, name string) {
	t.Helper()
	if err := r.RemoveToxic(t.Context(), r.links[link].Name, name); err != nil {
		t.Fatal(err)
	}
}

func (r *rig) rule(t testing.TB, link int, rule relay.Rule) {
	t.Helper()
	if err := r.AddRule(t.Context(), r.links[link].Name, rule); err != nil {
		t.Fatal(err)
	}
}

func (r *rig) unrule(t testing.TB, link int, name string) {
	t.Helper()
	if err := r.RemoveRule(t.Context(), r.links[link].Name, name); err != nil {
		t.Fatal(err)
	}
}

func (r *rig) state(t testing.TB, link int) relay.State {
	t.Helper()
	s, err := r.State(t.Context(), r.links[link].Name)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// eventually polls a named condition.
func eventually(t testing.TB, what string, within time.Duration, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(within); !holds(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within %s: %s", within, what)
		}
	}
}

// startServer runs a handler for each connection.
func startServer(t testing.TB, handle func(*net.TCPConn)) netip.AddrPort {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var open []net.Conn
	t.Cleanup(func() {
		l.Close()
		mu.Lock()
		defer mu.Unlock()
		for _, c := range open {
			c.Close()
		}
	})
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			open = append(open, conn)
			mu.Unlock()
			go func() {
				defer conn.Close()
				handle(conn.(*net.TCPConn))
			}()
		}
	}()
	return l.Addr().(*net.TCPAddr).AddrPort()
}

func echo(c *net.TCPConn) { _, _ = io.Copy(struct{ io.Writer }{c}, c) }

// exchange sends bytes and reads them back.
func exchange(conn net.Conn, message string, within time.Duration) (time.Duration, error) {
	if err := conn.SetDeadline(time.Now().Add(within)); err != nil {
		return 0, err
	}
	start := time.Now()
	if _, err := io.WriteString(conn, message); err != nil {
		return 0, err
	}
	got := make([]byte, len(message))
	if _, err := io.ReadFull(conn, got); err != nil {
		return 0, err
	}
	if !bytes.Equal(got, []byte(message)) {
		return 0, fmt.Errorf("sent %q, got %q", message, got)
	}
	return time.Since(start), nil
}

func mustExchange(t testing.TB, conn net.Conn) time.Duration {
	t.Helper()
	took, err := exchange(conn, "hello", 5*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	return took
}

func toxic(name, kind, stream string, attributes map[string]any) relay.Toxic {
	return relay.Toxic{Name: name, Type: kind, Stream: stream, Attributes: attributes}
}

func nilLog() *slog.Logger { return slog.New(slog.DiscardHandler) }
