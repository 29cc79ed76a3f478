package host_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"relapse/topologies/services"
	"relapse/topologies/services/host"
	"relapse/topologies/services/polltest"
)

// controlled is an agent, with its folder and what it is told and asked.
type controlled struct {
	folder  string
	control *httptest.Server
	metrics *httptest.Server
}

func start(t *testing.T) *controlled {
	t.Helper()
	registry := prometheus.NewRegistry()
	c := &controlled{folder: t.TempDir()}
	agent := host.New(c.folder, registry)
	c.control = httptest.NewServer(agent.Control())
	c.metrics = httptest.NewServer(services.MetricsHandler(registry))
	t.Cleanup(func() {
		c.control.Close()
		c.metrics.Close()
		agent.Close()
	})
	return c
}

func (c *controlled) order(t *testing.T, method, path, body string) (int, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, c.control.URL+path, strings.NewReader(body))
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
	return response.StatusCode, strings.TrimSpace(string(said))
}

func (c *controlled) must(t *testing.T, method, path, body string) {
	t.Helper()
	if status, said := c.order(t, method, path, body); status != http.StatusNoContent {
		t.Fatalf("%s %s: %d %s", method, path, status, said)
	}
}

// metric gives a value that the agent tells.
func (c *controlled) metric(t *testing.T, name string) (v float64) {
	t.Helper()
	response, err := http.Get(c.metrics.URL + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(body)) {
		if rest, ok := strings.CutPrefix(line, name+" "); ok {
			if _, err := fmt.Sscan(rest, &v); err != nil {
				t.Fatal(err)
			}
			return v
		}
	}
	t.Fatalf("no %s in\n%s", name, body)
	return 0
}

func (c *controlled) size(name string) int64 {
	info, err := os.Stat(filepath.Join(c.folder, name))
	if err != nil {
		return -1
	}
	return info.Size()
}

var eventually = polltest.Eventually

func TestOrders(t *testing.T) {
	c := start(t)
	for _, test := range []struct {
		name, method, path, body string
		status                   int
		want                     string // part of a refusal
	}{
		{"health", "GET", "/health", "", 200, "ok"},
		{"a leak", "PUT", "/leaks/memory-leak-1", `{"per_second": 1000}`, 204, ""},
		{"a leak changed", "PUT", "/leaks/memory-leak-1", `{"per_second": 2000}`, 204, ""},
		{"a leak by connections", "PUT", "/leaks/two", `{"per_connection": 10, "edges": ["127.0.0.1:1/metrics"]}`, 204, ""},
		{"a leak that is asked for", "GET", "/leaks/two", "", 200, `{"heard":0}`},
		{"a leak of nothing", "PUT", "/leaks/x", `{}`, 400, "nothing would leak"},
		{"a leak below zero", "PUT", "/leaks/x", `{"per_second": -1}`, 400, "per_second"},
		{"a leak beyond reason", "PUT", "/leaks/x", `{"per_second": 1e12}`, 400, "per_second"},
		{"a leak by connections of nobody", "PUT", "/leaks/x", `{"per_connection": 10}`, 400, "edges"},
		{"an edge by name", "PUT", "/leaks/x", `{"per_connection": 10, "edges": ["edge:9090/metrics"]}`, 400, "address:port/path"},
		{"an edge without a port", "PUT", "/leaks/x", `{"per_connection": 10, "edges": ["10.0.0.1/metrics"]}`, 400, "address:port/path"},
		{"a name that is a path", "PUT", "/leaks/..%2Fx", `{"per_second": 1000}`, 400, "not a name"},
		{"a field that means nothing", "PUT", "/leaks/x", `{"per_second": 1000, "for": "1s"}`, 400, "for"},
		{"no order", "PUT", "/leaks/x", ``, 400, "EOF"},
		{"a leak taken away", "DELETE", "/leaks/memory-leak-1", "", 204, ""},
		{"a leak taken away again", "DELETE", "/leaks/memory-leak-1", "", 204, ""},
		{"a leak taken away, asked for", "GET", "/leaks/memory-leak-1", "", 404, "no leak"},
		{"a leak that never was", "DELETE", "/leaks/never", "", 204, ""},
		{"a hog", "PUT", "/hogs/one", `{"cores": 0.1}`, 204, ""},
		{"a hog of nothing", "PUT", "/hogs/x", `{"cores": 0}`, 400, "cores"},
		{"a hog of more than there is", "PUT", "/hogs/x", `{"cores": 4096}`, 400, "cores"},
		{"a hog taken away", "DELETE", "/hogs/one", "", 204, ""},
		{"a hog taken away again", "DELETE", "/hogs/one", "", 204, ""},
	} {
		if status, said := c.order(t, test.method, test.path, test.body); status != test.status || !strings.Contains(said, test.want) {
			t.Errorf("%s: %d %q, want %d and %q", test.name, status, said, test.status, test.want)
		}
	}
	if got := c.size("x"); got != -1 {
		t.Errorf("a refused leak has left a file of %d bytes", got)
	}
}

func TestALeakGrowsByItsRate(t *testing.T) {
	c := start(t)
	const rate = 8 << 20
	began := time.Now()
	c.must(t, "PUT", "/leaks/a", fmt.Sprintf(`{"per_second": %d}`, rate))
	eventually(t, "a second's worth has leaked", func() bool { return c.size("a") >= rate })
	took := time.Since(began)
	if got := c.size("a"); took < 900*time.Millisecond || float64(got) > 1.2*rate*took.Seconds() {
		t.Errorf("%d bytes after %s, want %d a second", got, took, rate)
	}
	if told := c.metric(t, "relapse_host_leaked_bytes"); told < rate || told > float64(c.size("a")) {
		t.Errorf("it tells of %g bytes of %d", told, c.size("a"))
	}
	// Another rate keeps what has leaked.
	c.must(t, "PUT", "/leaks/a", `{"per_second": 1}`)
	if got := c.size("a"); got < rate {
		t.Errorf("%d bytes after a change of the rate", got)
	}
	c.must(t, "DELETE", "/leaks/a", "")
	if got := c.size("a"); got != -1 {
		t.Errorf("a file of %d bytes is left", got)
	}
	if told := c.metric(t, "relapse_host_leaked_bytes"); told != 0 {
		t.Errorf("it tells of %g bytes afterwards", told)
	}
}

// Two edges, one of which dies: its connections end with it.
func TestALeakGrowsByConnections(t *testing.T) {
	var open atomic.Int64
	edge := func(format string) *httptest.Server {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/metrics" {
				http.NotFound(w, r)
				return
			}
			fmt.Fprintf(w, format, open.Load())
		}))
		t.Cleanup(server.Close)
		return server
	}
	first := edge("# TYPE relapse_edge_connections gauge\nrelapse_edge_connections %d\nrelapse_edge_connections_total 999\n")
	second := edge("relapse_edge_connections{class=\"a } b\"} %d 1395066363000\nrelapse_edge_connections{class=\"bad\"} 7\n")
	open.Store(50)
	c := start(t)
	c.must(t, "PUT", "/leaks/a", fmt.Sprintf(`{"per_connection": 10000, "edges": [%q, %q]}`,
		first.Listener.Addr().String()+"/metrics", second.Listener.Addr().String()+"/metrics"))
	counted := func(want float64) func() bool {
		return func() bool { return c.metric(t, "relapse_host_edge_connections") == want }
	}
	eventually(t, "all connections are counted", counted(107))
	from, began := c.size("a"), time.Now()
	eventually(t, "half a second's worth has leaked", func() bool { return c.size("a")-from >= 107*10000/2 })
	if took := time.Since(began); took < 400*time.Millisecond {
		t.Errorf("it took %s", took)
	}
	second.Close()
	eventually(t, "those of the dead edge are gone", counted(50))
	if _, said := c.order(t, "GET", "/leaks/a", ""); said != `{"heard":2}` {
		t.Errorf("it tells %s, want both of the edges, as it has heard both", said)
	}
	if c.metric(t, "relapse_host_edge_unheard_total") == 0 {
		t.Error("nothing tells that an edge did not answer")
	}
}

// What is asked for connections and cannot tell of any is not taken for an edge
// with none.
func TestALeakTellsHowManyEdgesItHears(t *testing.T) {
	serve := func(answer string) string {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, answer) }))
		t.Cleanup(server.Close)
		return server.Listener.Addr().String() + "/metrics"
	}
	idle, other, dead := serve("relapse_edge_connections 0\n"), serve("relapse_handled_total 3\n"), "127.0.0.1:1/metrics"
	for _, test := range []struct {
		name    string
		edges   []string
		unheard float64 // in two looks
		want    string
	}{
		{"an edge without connections", []string{idle}, 0, `{"heard":1}`},
		{"no edge", []string{other}, 2, `{"heard":0}`},
		{"nobody", []string{dead}, 2, `{"heard":0}`},
		{"one of three", []string{other, idle, dead}, 4, `{"heard":1}`},
	} {
		c := start(t)
		body, err := json.Marshal(host.LeakRates{PerConnection: 10, Edges: test.edges})
		if err != nil {
			t.Fatal(err)
		}
		c.must(t, "PUT", "/leaks/a", string(body))
		eventually(t, test.name+": it tells "+test.want, func() bool {
			_, said := c.order(t, "GET", "/leaks/a", "")
			return said == test.want
		})
		// What the first look heard is there once there was a second one.
		eventually(t, test.name+": two looks", func() bool { return c.metric(t, "relapse_host_edge_unheard_total") >= test.unheard })
		if _, said := c.order(t, "GET", "/leaks/a", ""); said != test.want {
			t.Errorf("%s: it tells %s, want %s", test.name, said, test.want)
		}
	}
}

// The kernel's refusals are counted and survived.
func TestALeakGoesOnThroughRefusals(t *testing.T) {
	c := start(t)
	if err := os.Symlink("/dev/full", filepath.Join(c.folder, "a")); err != nil {
		t.Fatal(err)
	}
	c.must(t, "PUT", "/leaks/a", `{"per_second": 100000}`)
	eventually(t, "three writes are refused", func() bool { return c.metric(t, "relapse_host_leak_refused_total") >= 3 })
	if told := c.metric(t, "relapse_host_leaked_bytes"); told != 0 {
		t.Errorf("it tells of %g bytes that nobody gave", told)
	}
	c.must(t, "PUT", "/leaks/b", `{"per_second": 100000}`)
	eventually(t, "another leak grows", func() bool { return c.size("b") > 0 })
}

func cpuSeconds(t *testing.T) float64 {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()).Seconds()
}

func TestAHogUsesItsCores(t *testing.T) {
	c := start(t)
	used := func() float64 {
		cpu, began := cpuSeconds(t), time.Now()
		<-time.After(300 * time.Millisecond)
		return (cpuSeconds(t) - cpu) / time.Since(began).Seconds()
	}
	for _, cores := range []float64{0.2, 0.6} {
		c.must(t, "PUT", "/hogs/a", fmt.Sprintf(`{"cores": %v}`, cores))
		if told := c.metric(t, "relapse_host_hog_cores"); told != cores {
			t.Errorf("it tells of %g cores, want %g", told, cores)
		}
		eventually(t, fmt.Sprintf("%g cores are used", cores), func() bool {
			got := used()
			return got > 0.8*cores && got < 1.2*cores+0.05
		})
	}
	c.must(t, "DELETE", "/hogs/a", "")
	eventually(t, "nothing is used", func() bool { return used() < 0.05 })
}

func TestRunRefuses(t *testing.T) {
	for _, test := range []struct {
		name string
		args []string
		want string
	}{
		{"a folder on no tmpfs", []string{"--leak-folder=/proc"}, "is on no tmpfs"},
		{"a folder that is not there", []string{"--leak-folder=/nowhere/at/all"}, "no such file"},
		{"an argument", []string{"leak"}, `"leak"`},
		{"a flag that is none", []string{"--leak=3"}, "leak"},
	} {
		err := services.Run(t.Context(), "host", test.args)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want an error with %q", test.name, err, test.want)
		}
	}
}
