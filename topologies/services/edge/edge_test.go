package edge_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"relapse/topologies/services"
	"relapse/topologies/services/edge"
	"relapse/topologies/services/http1"
	"relapse/topologies/services/polltest"
	"relapse/topologies/services/retry"
)

// rig is an edge with a back end.
type rig struct {
	url      string
	registry *prometheus.Registry
	asked    atomic.Int64 // requests that reached the back end
	opened   atomic.Int64 // connections to it
}

func start(t *testing.T, backend http.HandlerFunc, change func(*edge.Config)) *rig {
	t.Helper()
	r := &rig{registry: prometheus.NewRegistry()}
	behind := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		r.asked.Add(1)
		backend(w, request)
	}))
	behind.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			r.opened.Add(1)
		}
	}
	behind.Start()
	t.Cleanup(behind.Close)
	c := edge.Config{
		Memory: 4096, BackendTimeout: time.Second, UnroutableAfter: 10 * time.Millisecond, UnroutableStatus: 503,
		Backend: &http1.Client{Address: netip.MustParseAddrPort(behind.Listener.Addr().String()), Host: "games:8080", Agent: "relapse-edge"},
	}
	change(&c)
	t.Cleanup(c.Backend.Close)
	e, err := edge.New(c, r.registry)
	if err != nil {
		t.Fatal(err)
	}
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- services.ServeWith(ctx, e.Listen(inner), &http.Server{Handler: e.Handler()}) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("edge: %v", err)
		}
	})
	r.url = "http://" + inner.Addr().String()
	return r
}

func asItIs(*edge.Config) {}

func makesGames(w http.ResponseWriter, _ *http.Request) {
	w.WriteHeader(http.StatusCreated)
	_, _ = io.WriteString(w, `{"game":7}`)
}

func (r *rig) call(t *testing.T, method, path string) (status int, body string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, r.url+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	said, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(said)
}

// value reads a counter or gauge by its name and the values of its labels;
// absent is an error.
func (r *rig) value(t *testing.T, name string, labels ...string) float64 {
	t.Helper()
	families, err := r.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, m := range family.GetMetric() {
			var have []string
			for _, l := range m.GetLabel() {
				have = append(have, l.GetValue())
			}
			if strings.Join(have, " ") == strings.Join(labels, " ") {
				return m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	t.Fatalf("no metric %s%v", name, labels)
	return 0
}

var eventually = polltest.Eventually

func TestFilterAndRoute(t *testing.T) {
	var last atomic.Value
	r := start(t, func(w http.ResponseWriter, request *http.Request) {
		last.Store(request.Method + " " + request.RequestURI + " " + request.Host)
		makesGames(w, request)
	}, asItIs)
	for _, c := range []struct {
		name, method, path string
		status             int
		body               string
	}{
		{"a game", "POST", "/games?queue=ranked", 201, `{"game":7}`},
		{"health", "GET", "/health", 200, ""},
		{"no queue", "POST", "/games?queue=", 503, ""},
		{"not even an empty one", "POST", "/games", 503, ""},
		{"a path that nobody knows", "GET", "/admin", 404, ""},
		{"a path below a known one", "GET", "/games/1?queue=ranked", 404, ""},
	} {
		if status, body := r.call(t, c.method, c.path); status != c.status || body != c.body {
			t.Errorf("%s: have %d %q, want %d %q", c.name, status, body, c.status, c.body)
		}
	}
	if have, want := last.Load(), "POST /games?queue=ranked games:8080"; have != want {
		t.Errorf("the back end was asked %q, want %q", have, want)
	}
	if have := r.asked.Load(); have != 1 {
		t.Errorf("requests that reached the back end: have %d, want 1", have)
	}
	for _, c := range []struct {
		name   string
		labels []string
		want   float64
	}{
		{"relapse_edge_accepted_total", nil, 6},
		{"relapse_edge_filtered_total", nil, 2},
		{"relapse_edge_forwarded_total", nil, 1},
		{"relapse_handled_total", []string{"games", "ok"}, 1},
		{"relapse_handled_total", []string{"games", "unroutable"}, 2},
		{"relapse_handled_total", []string{"health", "ok"}, 1},
		{"relapse_edge_attempts_total", []string{"ok"}, 1},
		{"relapse_edge_attempts_total", []string{"error"}, 0},
	} {
		if have := r.value(t, c.name, c.labels...); have != c.want {
			t.Errorf("%s%v: have %v, want %v", c.name, c.labels, have, c.want)
		}
	}
}

func TestUnroutable(t *testing.T) {
	r := start(t, makesGames, func(c *edge.Config) { c.UnroutableAfter, c.UnroutableStatus = 200*time.Millisecond, 400 })
	began := time.Now()
	if status, _ := r.call(t, "POST", "/games?queue="); status != 400 {
		t.Errorf("status: have %d, want 400", status)
	}
	if took := time.Since(began); took < 200*time.Millisecond {
		t.Errorf("it took %v, want the 200 ms for which a back end is looked for", took)
	}
	// Others are not held up by it.
	began = time.Now()
	if status, _ := r.call(t, "POST", "/games?queue=ranked"); status != 201 {
		t.Errorf("a good request: have %d, want 201", status)
	}
	if took := time.Since(began); took > 150*time.Millisecond {
		t.Errorf("a good request took %v", took)
	}
}

func TestWhatNamesNoQueueIsForwarded(t *testing.T) {
	for _, status := range []int{400, 503} {
		r := start(t, func(w http.ResponseWriter, request *http.Request) {
			if request.URL.Query().Get("queue") == "" {
				w.WriteHeader(status)
				return
			}
			makesGames(w, request)
		}, func(c *edge.Config) { c.ForwardUnnamed, c.UnroutableAfter = true, time.Minute })
		for path, want := range map[string]int{"/games?queue=": status, "/games": status, "/games?queue=ranked": 201} {
			if have, _ := r.call(t, "POST", path); have != want {
				t.Errorf("%s: have %d, want the back end's %d", path, have, want)
			}
		}
		if have := r.value(t, "relapse_edge_forwarded_total"); have != 3 {
			t.Errorf("forwarded: have %v, want 3", have)
		}
		if have := r.value(t, "relapse_handled_total", "games", "unroutable"); have != 0 {
			t.Errorf("unroutable: have %v, want none", have)
		}
	}
}

func TestAPlayerWhoLeavesIsNotWaitedFor(t *testing.T) {
	r := start(t, makesGames, func(c *edge.Config) { c.UnroutableAfter = time.Minute })
	client := http.Client{Timeout: 50 * time.Millisecond, Transport: &http.Transport{DisableKeepAlives: true}}
	if _, err := client.Post(r.url+"/games", "", nil); err == nil {
		t.Fatal("the player did not leave")
	}
	eventually(t, "the connection is gone", func() bool { return r.value(t, "relapse_edge_connections") == 0 })
	if have := r.value(t, "relapse_handled_total", "games", "abandoned"); have != 1 {
		t.Errorf("abandoned: have %v, want 1", have)
	}
}

func TestBackendsThatFail(t *testing.T) {
	stop := make(chan struct{})
	defer close(stop)
	for _, c := range []struct {
		name    string
		backend http.HandlerFunc
		status  int
		outcome string
	}{
		{"sheds", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(503) }, 503, "refused"},
		{"says no", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(400) }, 400, "error"},
		{"closes without a word", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, 502, "error"},
		{"says nothing", func(_ http.ResponseWriter, r *http.Request) {
			select {
			case <-r.Context().Done():
			case <-stop:
			}
		}, 504, "timeout"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := start(t, c.backend, func(c *edge.Config) { c.BackendTimeout = 100 * time.Millisecond })
			if status, _ := r.call(t, "POST", "/games?queue=ranked"); status != c.status {
				t.Errorf("status: have %d, want %d", status, c.status)
			}
			if have := r.value(t, "relapse_handled_total", "games", c.outcome); have != 1 {
				t.Errorf("handled as %s: have %v, want 1", c.outcome, have)
			}
			if have := r.value(t, "relapse_edge_attempts_total", c.outcome); have != 1 {
				t.Errorf("attempts that ended as %s: have %v, want 1", c.outcome, have)
			}
		})
	}
}

func TestRetriesTowardsTheBackend(t *testing.T) {
	policy, err := retry.New(retry.Config{Count: 2}, func() time.Duration { return 0 }, rand.New(rand.NewPCG(1, 1)))
	if err != nil {
		t.Fatal(err)
	}
	var failures atomic.Int64
	r := start(t, func(w http.ResponseWriter, request *http.Request) {
		if failures.Add(-1) >= 0 {
			w.WriteHeader(503)
			_, _ = io.WriteString(w, "come back later")
			return
		}
		makesGames(w, request)
	}, func(c *edge.Config) { c.Retries = policy })
	failures.Store(2)
	if status, body := r.call(t, "POST", "/games?queue=ranked"); status != 201 || body != `{"game":7}` {
		t.Errorf("two failures: have %d %q, want 201 and the last answer alone", status, body)
	}
	failures.Store(10)
	if status, _ := r.call(t, "POST", "/games?queue=ranked"); status != 503 {
		t.Errorf("failures without end: have %d, want 503", status)
	}
	if have := r.asked.Load(); have != 6 {
		t.Errorf("attempts of two requests: have %d, want 6", have)
	}
	if forwarded, refused, ok := r.value(t, "relapse_edge_forwarded_total"), r.value(t, "relapse_edge_attempts_total", "refused"), r.value(t, "relapse_edge_attempts_total", "ok"); forwarded != 2 || refused != 5 || ok != 1 {
		t.Errorf("have %v forwarded, %v attempts refused and %v ok; want 2, 5 and 1", forwarded, refused, ok)
	}
}

func TestConnectionsToTheBackendAreKept(t *testing.T) {
	r := start(t, makesGames, asItIs)
	for range 50 {
		r.call(t, "POST", "/games?queue=ranked")
	}
	if have := r.opened.Load(); have != 1 {
		t.Errorf("connections for 50 requests, one after the other: have %d, want 1", have)
	}
}

// residentBytes is the memory that the kernel gave this process.
func residentBytes(t *testing.T) int64 {
	t.Helper()
	content, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Fatal(err)
	}
	var size, resident int64
	if _, err := fmt.Sscan(string(content), &size, &resident); err != nil {
		t.Fatal(err)
	}
	return resident * int64(os.Getpagesize())
}

func dial(t *testing.T, url string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// An open connection holds its memory, idle as it may be, and the kernel has it
// back once it is closed.
func TestConnectionsHoldMemory(t *testing.T) {
	const count, each = 100, 1 << 20
	r := start(t, makesGames, func(c *edge.Config) { c.Memory = each })
	before := residentBytes(t)
	var open []net.Conn
	for range count {
		open = append(open, dial(t, r.url))
	}
	eventually(t, "all connections are open", func() bool { return r.value(t, "relapse_edge_connections") == count })
	if have := residentBytes(t) - before; have < count*each || have > count*each*5/4 {
		t.Errorf("with %d connections: have %d bytes more, want %d and a little", count, have, count*each)
	}
	for _, conn := range open {
		conn.Close()
	}
	eventually(t, "all connections are closed", func() bool { return r.value(t, "relapse_edge_connections") == 0 })
	if have := residentBytes(t) - before; have > count*each/4 {
		t.Errorf("after they were closed: have %d bytes more, want nearly none", have)
	}
	if have := r.value(t, "relapse_edge_connections_total"); have != count {
		t.Errorf("connections in all: have %v, want %d", have, count)
	}
}

func TestConnectionsOverTheLimitAreAnsweredAndClosed(t *testing.T) {
	r := start(t, makesGames, func(c *edge.Config) { c.MaxConnections = 3 })
	var open []net.Conn
	for range 3 {
		open = append(open, dial(t, r.url))
	}
	eventually(t, "all places are taken", func() bool { return r.value(t, "relapse_edge_connections") == 3 })
	for _, asks := range []bool{false, true} {
		over := dial(t, r.url)
		if asks {
			if _, err := io.WriteString(over, "POST /games?queue=ranked HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n"); err != nil {
				t.Fatal(err)
			}
		}
		_ = over.SetDeadline(time.Now().Add(5 * time.Second))
		reader := bufio.NewReader(over)
		response, err := http.ReadResponse(reader, nil)
		if err != nil {
			t.Fatalf("one that asks %t: %v", asks, err)
		}
		if response.StatusCode != 503 || !response.Close {
			t.Errorf("one that asks %t: have %d, and that it is closed %t; want 503 and true", asks, response.StatusCode, response.Close)
		}
		if _, err := reader.ReadByte(); err != io.EOF {
			t.Errorf("one that asks %t: have %v after the answer, want its end", asks, err)
		}
	}
	if have := r.value(t, "relapse_edge_refused_total"); have != 2 {
		t.Errorf("refused: have %v, want 2", have)
	}
	if have := r.value(t, "relapse_edge_connections"); have != 3 {
		t.Errorf("open: have %v, want 3", have)
	}
	open[0].Close()
	eventually(t, "a place is free", func() bool { return r.value(t, "relapse_edge_connections") == 2 })
	if status, _ := r.call(t, "POST", "/games?queue=ranked"); status != 201 {
		t.Errorf("once there is room: have %d, want 201", status)
	}
}

func TestNewRefuses(t *testing.T) {
	good := edge.Config{Backend: &http1.Client{}, BackendTimeout: time.Second, UnroutableStatus: 503}
	for _, c := range []struct {
		name   string
		change func(*edge.Config)
	}{
		{"less than no memory", func(c *edge.Config) { c.Memory = -1 }},
		{"less than no connections", func(c *edge.Config) { c.MaxConnections = -1 }},
		{"no back end", func(c *edge.Config) { c.Backend = nil }},
		{"no time for the back end", func(c *edge.Config) { c.BackendTimeout = 0 }},
		{"an answer before the question", func(c *edge.Config) { c.UnroutableAfter = -1 }},
		{"an error that is none", func(c *edge.Config) { c.UnroutableStatus = 200 }},
	} {
		bad := good
		c.change(&bad)
		if _, err := edge.New(bad, prometheus.NewRegistry()); err == nil {
			t.Errorf("%s: no error", c.name)
		}
	}
	if _, err := edge.New(good, prometheus.NewRegistry()); err != nil {
		t.Errorf("what they change: %v", err)
	}
}

func TestTheServiceRefusesBadFlags(t *testing.T) {
	bad := t.TempDir() + "/retries.yaml"
	if err := os.WriteFile(bad, []byte("{count: 4, times: 5}"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, have := range [][]string{
		nil,
		{"--backend=127.0.0.1"},
		{"--backend=127.0.0.1:80", "--connection-memory=-1"},
		{"--backend=127.0.0.1:80", "--max-connections=-1"},
		{"--backend=127.0.0.1:80", "--unroutable-status=200"},
		{"--backend=127.0.0.1:80", "--retries=" + bad},
		{"--backend=127.0.0.1:80", "--retries=" + bad + ".x"},
		{"--backend=127.0.0.1:80", "x"},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second) // what is accepted would serve for ever
		err := services.Run(ctx, "edge", have)
		cancel()
		if err == nil {
			t.Errorf("%v: no error", have)
		}
	}
}
