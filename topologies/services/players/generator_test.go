package players_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"

	"relapse/topologies/services/players"
	"relapse/topologies/services/polltest"
)

// config loads a server with one operation, "op".
func config(target string) players.Config {
	return players.Config{
		Target: target, Timeout: 2 * time.Second, Seed: 1, Tokens: 100, Token: "player-%04d", InFlight: 1000,
		Arrivals:   players.Even,
		Operations: map[string]players.Operation{"op": {Method: "GET", Path: "/?token={token}"}},
	}
}

// run makes load until the test ends.
func run(t *testing.T, c players.Config) *players.Generator {
	t.Helper()
	g, err := players.New(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- g.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("generator: %v", err)
		}
	})
	return g
}

func setRates(t *testing.T, g *players.Generator, rates map[string]float64) {
	t.Helper()
	if err := g.SetRates(rates); err != nil {
		t.Fatal(err)
	}
}

// metric finds a metric by its name and labels; absent is an error.
func metric(t *testing.T, g *players.Generator, name string, labels map[string]string) *dto.Metric {
	t.Helper()
	families, err := g.Registry().Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
	next:
		for _, m := range family.GetMetric() {
			for _, l := range m.GetLabel() {
				if labels[l.GetName()] != l.GetValue() {
					continue next
				}
			}
			return m
		}
	}
	t.Fatalf("no metric %s%v", name, labels)
	return nil
}

func value(t *testing.T, g *players.Generator, name string, labels map[string]string) float64 {
	t.Helper()
	m := metric(t, g, name, labels)
	return m.GetCounter().GetValue() + m.GetGauge().GetValue()
}

func ended(t *testing.T, g *players.Generator, op, outcome string) float64 {
	t.Helper()
	return value(t, g, "relapse_requests_total", map[string]string{"op": op, "outcome": outcome})
}

func offered(t *testing.T, g *players.Generator, op string) float64 {
	t.Helper()
	return value(t, g, "relapse_offered_total", map[string]string{"op": op})
}

var eventually = polltest.Eventually

func TestAStalledServerDoesNotSlowArrivals(t *testing.T) {
	release := make(chan struct{})
	var reached atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		reached.Add(1)
		select {
		case <-release:
		case <-r.Context().Done():
		}
	}))
	defer server.Close()
	g := run(t, config(server.URL))
	began := time.Now()
	setRates(t, g, map[string]float64{"op": 200})
	eventually(t, "100 requests reach a server that answers none", func() bool { return reached.Load() >= 100 })
	if took := time.Since(began); took > 1500*time.Millisecond {
		t.Errorf("100 arrivals of 200/s took %v", took)
	}
	if have := ended(t, g, "op", "ok"); have != 0 {
		t.Errorf("answered: have %v, want 0", have)
	}
	setRates(t, g, nil)
	close(release)
	eventually(t, "all that was offered ends well", func() bool { return ended(t, g, "op", "ok") == offered(t, g, "op") })
}

func TestLatencyCountsFromTheIntendedTime(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer server.Close()
	g, err := players.New(t.Context(), config(server.URL))
	if err != nil {
		t.Fatal(err)
	}
	setRates(t, g, map[string]float64{"op": 1})
	if err := g.SetScale("x", "op", 100); err != nil {
		t.Fatal(err)
	}
	// A generator that comes late: the arrivals of its first half second are due.
	began := time.Now()
	eventually(t, "half a second is over", func() bool { return time.Since(began) > 500*time.Millisecond })
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- g.Run(ctx) }()
	eventually(t, "the arrivals that were due are made", func() bool { return ended(t, g, "op", "ok") >= 50 })
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	took := metric(t, g, "relapse_request_duration_seconds", map[string]string{"op": "op", "outcome": "ok"}).GetHistogram()
	late := metric(t, g, "relapse_lateness_seconds", nil).GetHistogram()
	// Fifty arrivals, late by 0 to 500 ms, evenly: 12.5 s of lateness in all.
	if have := late.GetSampleSum(); have < 12 {
		t.Errorf("lateness: have %.1f s in all, want at least 12", have)
	}
	if have := took.GetSampleSum(); have < late.GetSampleSum() {
		t.Errorf("latency: have %.1f s in all, want no less than the lateness of %.1f s", have, late.GetSampleSum())
	}
	if took.GetSampleCount() != late.GetSampleCount() {
		t.Errorf("have %d latencies of %d requests", took.GetSampleCount(), late.GetSampleCount())
	}
	if have := g.Rates()["op"].LateP99; have < 0.4 {
		t.Errorf("p99 lateness: have %v s, want about half a second", have)
	}
}

func TestWhatIsNotSentIsCounted(t *testing.T) {
	release := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	defer server.Close()
	defer close(release)
	c := config(server.URL)
	c.InFlight, c.Timeout = 5, 10*time.Second
	g := run(t, c)
	setRates(t, g, map[string]float64{"op": 500})
	eventually(t, "requests over the bound are counted as unsent", func() bool { return ended(t, g, "op", "unsent") >= 50 })
	setRates(t, g, nil)
	if have, want := offered(t, g, "op"), ended(t, g, "op", "unsent")+5; have != want {
		t.Errorf("offered: have %v, want %v: the unsent, and 5 in flight", have, want)
	}
}

func TestOutcomes(t *testing.T) {
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	stop := make(chan struct{})
	defer close(stop)
	for _, c := range []struct {
		name, want string
		answer     http.HandlerFunc // nil: nobody listens
	}{
		{"200", "ok", func(w http.ResponseWriter, _ *http.Request) { w.Write(make([]byte, 50_000)) }},
		{"204", "ok", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(204) }},
		{"302", "error", func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Location", "/"); w.WriteHeader(302) }},
		{"404", "error", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(404) }},
		{"429", "refused", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(429) }},
		{"502", "error", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(502) }},
		{"503", "refused", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(503) }},
		{"closed without a word", "error", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }},
		{"cut short", "error", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			w.Write([]byte("x"))
		}},
		{"no reply in time", "timeout", func(_ http.ResponseWriter, r *http.Request) {
			select {
			case <-stop:
			case <-r.Context().Done():
			}
		}},
		{"nobody listens", "refused", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			target := "http://" + closed.Addr().String()
			if c.answer != nil {
				server := httptest.NewServer(c.answer)
				defer server.Close()
				target = server.URL
			}
			conf := config(target)
			conf.Timeout = 300 * time.Millisecond
			g := run(t, conf)
			setRates(t, g, map[string]float64{"op": 100})
			eventually(t, "three requests end as "+c.want, func() bool { return ended(t, g, "op", c.want) >= 3 })
			setRates(t, g, nil)
			eventually(t, "all end as "+c.want, func() bool { return ended(t, g, "op", c.want) == offered(t, g, "op") })
		})
	}
}

func TestConnectionsAreKept(t *testing.T) {
	var opened atomic.Int64
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte("x")) }))
	server.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			opened.Add(1)
		}
	}
	server.Start()
	defer server.Close()
	g := run(t, config(server.URL))
	setRates(t, g, map[string]float64{"op": 100})
	eventually(t, "50 requests end", func() bool { return ended(t, g, "op", "ok") >= 50 })
	if have := opened.Load(); have > 25 {
		t.Errorf("connections for 50 requests: have %d, want far fewer", have)
	}
}

// A server may close a connection that is idle. That is not the server's
// failure, and no request may fail of it.
func TestAConnectionClosedWhileIdleFailsNoRequest(t *testing.T) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	server.Config.IdleTimeout = 20 * time.Millisecond
	server.Start()
	defer server.Close()
	g := run(t, config(server.URL))
	setRates(t, g, map[string]float64{"op": 10})
	eventually(t, "10 requests end well", func() bool { return ended(t, g, "op", "ok") >= 10 })
	if have := ended(t, g, "op", "error"); have != 0 {
		t.Errorf("errors: have %v, want none", have)
	}
}

func TestEqualSeedsAskForEqualTokens(t *testing.T) {
	ask := func(seed uint64) []string {
		var mu sync.Mutex
		var tokens []string
		server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			mu.Lock()
			defer mu.Unlock()
			tokens = append(tokens, r.URL.Query().Get("token"))
		}))
		defer server.Close()
		c := config(server.URL)
		c.Seed = seed
		g := run(t, c)
		setRates(t, g, map[string]float64{"op": 200})
		eventually(t, "30 requests end", func() bool { return ended(t, g, "op", "ok") >= 30 })
		setRates(t, g, nil)
		eventually(t, "all requests end", func() bool { return ended(t, g, "op", "ok") == offered(t, g, "op") })
		mu.Lock()
		defer mu.Unlock()
		return tokens[:20]
	}
	// Requests that are close together can overtake each other on the way, so
	// that what is compared is which tokens were asked for.
	one, same, other := ask(1), ask(1), ask(2)
	shared := func(a, b []string) (n int) {
		for _, x := range a {
			if slices.Contains(b, x) {
				n++
			}
		}
		return n
	}
	if have := shared(one, same); have < 18 {
		t.Errorf("same seed: %d of 20 tokens are the same, want all but those at the edge\n%v\n%v", have, one, same)
	}
	if have := shared(one, other); have > 15 {
		t.Errorf("another seed: %d of 20 tokens are the same, want others", have)
	}
}
