package faults_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"relapse/faults"
	"relapse/topologies"
)

// The tests of this file look at what clients get by other means than the
// faults' own looks.

var link = topologies.Link{Client: "client", Server: "server", Port: 8080}

var ask = topologies.Probe{Protocol: "http", Path: "/bytes?n=100"}

func dial(t *testing.T, sys *topologies.System) net.Conn {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	conn, err := sys.Dial(ctx, link)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func exchange(t *testing.T, conn net.Conn, patience time.Duration) (time.Duration, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	began := time.Now()
	_, err := topologies.Exchange(ctx, conn, ask)
	return time.Since(began), err
}

func must(t *testing.T, conn net.Conn) time.Duration {
	t.Helper()
	took, err := exchange(t, conn, 3*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	return took
}

// draws are shared: two faults must not get the same name.
var draws = rand.New(rand.NewPCG(1, 1))

// injected arms and injects a fault, waits until it is seen, and has it undone
// at the latest when the test ends. Nothing of it may be left at the relay.
func injected(t *testing.T, sys *topologies.System, kind, text string) faults.Armed {
	t.Helper()
	armed := armed(t, sys, kind, text)
	if err := armed.Inject(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, 5*time.Second, kind+" in effect", seen(t.Context(), armed, true))
	return armed
}

func armed(t *testing.T, sys *topologies.System, kind, text string) faults.Armed {
	t.Helper()
	a, err := decoded(t, kind, text).Arm(t.Context(), sys, draws)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		undo(t, a, "undo "+kind)
		state, err := sys.Relay().State(context.Background(), link.String())
		if err != nil || len(state.Toxics)+len(state.Rules) > 0 {
			t.Errorf("the relay still holds %v %v (%v)", state.Toxics, state.Rules, err)
		}
	})
	return a
}

const onLink = "links: [client -> server]\n"

func TestRefuseLeavesOpenConnectionsAlone(t *testing.T) {
	sys := system(t)
	open := dial(t, sys)
	must(t, open)
	a := injected(t, sys, "refuse", onLink)
	if _, err := sys.Dial(t.Context(), link); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("a new connection: %v, want ECONNREFUSED", err)
	}
	must(t, open)
	undo(t, a, "undo")
	must(t, dial(t, sys))
	must(t, open)
}

func TestBlackholeHeals(t *testing.T) {
	sys := system(t)
	open := dial(t, sys)
	must(t, open)
	a := injected(t, sys, "blackhole", onLink)
	healed := time.AfterFunc(time.Second, func() { _ = a.Undo(context.Background()) })
	defer healed.Stop()
	took, err := exchange(t, open, 5*time.Second)
	if err != nil {
		t.Fatalf("the open connection did not outlive the hole: %v", err)
	}
	t.Logf("an exchange begun in the hole took %s", took.Round(time.Millisecond))
	if took < 900*time.Millisecond || took > 4*time.Second {
		t.Errorf("it took %s, want about the second that the hole lasted and a retransmission", took)
	}
	must(t, open)
}

// A partition cuts the links between its sides and no other.
func TestPartitionCutsWhatCrosses(t *testing.T) {
	sys := system(t)
	open := dial(t, sys)
	must(t, open)
	beside := topologies.Link{Client: "client", Server: "control", Port: 8080}
	a := injected(t, sys, "partition", "sides: [['ser*'], [client, players]]")
	if _, err := exchange(t, open, 300*time.Millisecond); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("an open connection that crosses: %v, want no answer", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := sys.Dial(ctx, link); err == nil {
		t.Error("a new connection that crosses was accepted")
	}
	other, err := sys.Dial(t.Context(), beside)
	if err != nil {
		t.Fatalf("a link on one side: %v", err)
	}
	defer other.Close()
	must(t, other)
	undo(t, a, "undo")
	must(t, dial(t, sys))
	if _, err := exchange(t, dial(t, sys), 3*time.Second); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

func TestResetIsAReset(t *testing.T) {
	sys := system(t)
	idle, busy := dial(t, sys), dial(t, sys)
	must(t, busy)
	a := injected(t, sys, "reset", onLink)
	if _, err := exchange(t, busy, time.Second); !errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, syscall.EPIPE) {
		t.Errorf("a connection that was used: %v, want ECONNRESET", err)
	}
	if err := idle.SetReadDeadline(time.Now().Add(time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := idle.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("a connection that was idle: %v, want ECONNRESET", err)
	}
	undo(t, a, "undo")
	must(t, dial(t, sys))
}

func TestLatencyOnOpenConnections(t *testing.T) {
	sys := system(t)
	open := dial(t, sys)
	before := must(t, open)
	a := injected(t, sys, "latency", onLink+"latency: 150ms")
	if took := must(t, open); took < 150*time.Millisecond || took > 400*time.Millisecond {
		t.Errorf("an exchange took %s, want 150 ms and a little (%s before)", took, before)
	}
	began := time.Now()
	dial(t, sys)
	if took := time.Since(began); took > 100*time.Millisecond {
		t.Errorf("opening a connection took %s: it must not be delayed", took)
	}
	undo(t, a, "undo")
	if took := must(t, open); took > 100*time.Millisecond {
		t.Errorf("afterwards an exchange took %s", took)
	}
}

func TestTwoLatenciesOnOneLinkAddUp(t *testing.T) {
	sys := system(t)
	open := dial(t, sys)
	first := injected(t, sys, "latency", onLink+"latency: 60ms")
	second := armed(t, sys, "latency", onLink+"latency: 90ms")
	if err := second.Inject(t.Context()); err != nil {
		t.Fatal(err)
	}
	if took := must(t, open); took < 150*time.Millisecond {
		t.Errorf("with both an exchange took %s, want 150 ms or more", took)
	}
	undo(t, first, "undo the first")
	if took := must(t, open); took < 90*time.Millisecond || took >= 150*time.Millisecond {
		t.Errorf("with the second alone an exchange took %s, want 90 ms and a little", took)
	}
	undo(t, second, "undo the second")
}

func TestJitterIsSpread(t *testing.T) {
	sys := system(t)
	injected(t, sys, "jitter", onLink+"latency: 40ms\njitter: 30ms")
	open := dial(t, sys)
	var took []time.Duration
	for range 30 {
		took = append(took, must(t, open))
	}
	slices.Sort(took)
	t.Logf("from %s by %s to %s", took[0], took[15], took[29])
	if took[0] < 10*time.Millisecond {
		t.Errorf("the quickest took %s, want latency less jitter or more", took[0])
	}
	if took[25]-took[4] < 20*time.Millisecond || took[15] < 25*time.Millisecond || took[15] > 70*time.Millisecond {
		t.Errorf("exchanges from %s by %s to %s, want them spread over 10 to 70 ms", took[4], took[15], took[25])
	}
}

func TestLossSlowsSomeExchanges(t *testing.T) {
	sys := system(t)
	injected(t, sys, "loss", onLink+"percent: 5%")
	const lanes, each = 8, 25
	slow, failed := 0, 0
	var mu sync.Mutex
	var all sync.WaitGroup
	for range lanes {
		open := dial(t, sys)
		all.Go(func() {
			for range each {
				took, err := exchange(t, open, 5*time.Second)
				mu.Lock()
				if err != nil {
					failed++
				} else if took > 150*time.Millisecond {
					slow++
				}
				mu.Unlock()
			}
		})
	}
	all.Wait()
	// A question and an answer are lost with 5 % each: 19.5 of 200 in the mean,
	// with a standard deviation of 4.2.
	t.Logf("%d of %d exchanges were slow", slow, lanes*each)
	if failed > 0 || slow < 3 || slow > 45 {
		t.Errorf("%d exchanges slow and %d failed of %d, want about 20 and none", slow, failed, lanes*each)
	}
}

// download reads for a time on some connections and gives bytes per second of
// all together.
func download(t *testing.T, sys *topologies.System, connections int, lasts time.Duration) float64 {
	t.Helper()
	var mu sync.Mutex
	var all sync.WaitGroup
	sum := 0
	began := time.Now()
	for range connections {
		conn := dial(t, sys)
		all.Go(func() {
			_ = conn.SetDeadline(began.Add(lasts))
			_, err := fmt.Fprint(conn, "GET /bytes?n=50000000 HTTP/1.1\r\nHost: x\r\n\r\n")
			var n int64
			if err == nil {
				var response *http.Response
				counted := &counter{from: conn}
				if response, err = http.ReadResponse(bufio.NewReader(counted), nil); err == nil {
					_, _ = io.Copy(io.Discard, response.Body) // ends by its deadline
				}
				n = counted.n
			}
			mu.Lock()
			sum += int(n)
			mu.Unlock()
			_ = conn.Close()
		})
	}
	all.Wait()
	return float64(sum) / time.Since(began).Seconds()
}

type counter struct {
	from io.Reader
	n    int64
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.from.Read(p)
	c.n += int64(n)
	return n, err
}

func TestBandwidthIsShared(t *testing.T) {
	const rate = 500_000
	for _, tc := range []struct {
		name, have string
		want       float64
	}{
		{"by all connections", "rate: 4Mbit", rate},
		{"by none", "rate: 4Mbit\nshared: false", 4 * rate},
	} {
		t.Run(tc.name, func(t *testing.T) {
			sys := system(t)
			free := download(t, sys, 4, 200*time.Millisecond)
			a := injected(t, sys, "bandwidth", onLink+tc.have)
			got := download(t, sys, 4, 1500*time.Millisecond)
			t.Logf("%.0f of %.0f bytes a second, %.0f without", got, tc.want, free)
			if got < 0.8*tc.want || got > 1.15*tc.want {
				t.Errorf("4 connections got %.0f bytes a second, want %.0f", got, tc.want)
			}
			undo(t, a, "undo")
			if after := download(t, sys, 4, 200*time.Millisecond); after < 5*tc.want {
				t.Errorf("afterwards they got %.0f bytes a second, %.0f before", after, free)
			}
		})
	}
}

func TestConnectionCapCounts(t *testing.T) {
	sys := system(t)
	open := func(n int) (in []net.Conn, refused int) {
		for range n {
			conn, err := sys.Dial(t.Context(), link)
			switch {
			// A connection that the relay resets as the limit is reached can be
			// gone before its dial has returned.
			case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, syscall.ECONNRESET):
				refused++
			case err != nil:
				t.Fatal(err)
			default:
				t.Cleanup(func() { _ = conn.Close() })
				in = append(in, conn)
			}
		}
		// One that waited to be accepted when the limit was reached is reset.
		in = slices.DeleteFunc(in, func(conn net.Conn) bool {
			_ = conn.SetReadDeadline(time.Now().Add(10 * time.Millisecond))
			_, err := conn.Read(make([]byte, 1))
			if !errors.Is(err, syscall.ECONNRESET) {
				return false
			}
			refused++
			return true
		})
		return in, refused
	}
	a := injected(t, sys, "connection-cap", onLink+"connections: 8")
	var in []net.Conn
	var refused int
	// What the look opened ends in its own time.
	eventually(t, 3*time.Second, "the look's connections are gone", func() error {
		for _, conn := range in {
			_ = conn.Close()
		}
		if in, refused = open(20); len(in) < 8 {
			return fmt.Errorf("%d connections came in", len(in))
		}
		return nil
	})
	if len(in) != 8 || refused != 12 {
		t.Errorf("of 20 connections %d came in and %d were refused, want 8 and 12", len(in), refused)
	}
	for _, conn := range in {
		must(t, conn)
	}
	undo(t, a, "undo")
	if in, refused := open(20); len(in) != 20 || refused != 0 {
		t.Errorf("afterwards %d of 20 came in", len(in))
	}
}
