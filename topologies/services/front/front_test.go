package front_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"relapse/topologies/services"
	"relapse/topologies/services/front"
	"relapse/topologies/services/http1"
	"relapse/topologies/services/matchmaking"
	"relapse/topologies/services/polltest"
)

// node is a node of a cluster: it notes what it is asked for.
type node struct {
	*httptest.Server
	peer *matchmaking.Peer

	mu    sync.Mutex
	asked []string
}

func newNode(t *testing.T, name string, answer http.HandlerFunc) *node {
	t.Helper()
	n := &node{}
	n.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n.mu.Lock()
		n.asked = append(n.asked, r.Method+" "+r.RequestURI+" "+r.Host)
		n.mu.Unlock()
		answer(w, r)
	}))
	t.Cleanup(n.Close)
	n.peer = &matchmaking.Peer{Name: name, Client: &http1.Client{
		Address: netip.MustParseAddrPort(n.Listener.Addr().String()), Host: name + ":8080", Agent: "relapse-front",
	}}
	t.Cleanup(n.peer.Close)
	return n
}

func (n *node) requests() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.asked)
}

func makesMatches(w http.ResponseWriter, _ *http.Request) {
	w.WriteHeader(http.StatusCreated)
	_, _ = io.WriteString(w, `{"match":"m-1","server":7}`)
}

// rig is a front with nodes mms-1 to mms-4, of which "party" has all and "main"
// the last two.
type rig struct {
	*front.Front
	url      string
	registry *prometheus.Registry
	nodes    []*node
}

func start(t *testing.T, answer http.HandlerFunc, change func(*front.Config)) *rig {
	t.Helper()
	r := &rig{registry: prometheus.NewRegistry()}
	var peers []*matchmaking.Peer
	for i := range 4 {
		n := newNode(t, fmt.Sprintf("mms-%d", i+1), answer)
		r.nodes, peers = append(r.nodes, n), append(peers, n.peer)
	}
	c := front.Config{
		Routes:      map[string][]*matchmaking.Peer{"party": peers, "main": peers[2:]},
		NodeTimeout: 5 * time.Second, Seed: 1,
	}
	change(&c)
	var err error
	if r.Front, err = front.New(c, r.registry); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(r.Handler())
	t.Cleanup(server.Close)
	r.url = server.URL
	return r
}

func asItIs(*front.Config) {}

func call(t *testing.T, method, url string) (status int, body string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, url, nil)
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

// ask asks for a match and gives the status.
func (r *rig) ask(t *testing.T, mode, region string) int {
	t.Helper()
	status, _ := call(t, "POST", r.url+"/matches?mode="+mode+"&region="+region+"&players=2")
	return status
}

// got is how many requests each node has had, as "10 10 10 10".
func (r *rig) got() string {
	var counts []string
	for _, n := range r.nodes {
		counts = append(counts, fmt.Sprint(len(n.requests())))
	}
	return strings.Join(counts, " ")
}

// value reads a counter by its name and the values of its labels; absent is an
// error.
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
				return m.GetCounter().GetValue()
			}
		}
	}
	t.Fatalf("no metric %s%v", name, labels)
	return 0
}

var eventually = polltest.Eventually

func TestCalls(t *testing.T) {
	r := start(t, makesMatches, asItIs)
	for _, c := range []struct {
		name, method, path string
		status             int
		body               string
	}{
		{"a match", "POST", "/matches?mode=party&region=eu&players=2", 201, `{"match":"m-1","server":7}`},
		{"health", "GET", "/health", 200, ""},
		{"an unknown mode", "POST", "/matches?mode=solo&region=eu&players=2", 404, `no route for mode "solo"; there are: main, party`},
		{"no mode", "POST", "/matches", 404, `no route for mode ""; there are: main, party`},
		{"the wrong method", "GET", "/matches?mode=party", 405, "Method Not Allowed"},
		{"a path that is not there", "POST", "/games", 404, "404 page not found"},
	} {
		if status, body := call(t, c.method, r.url+c.path); status != c.status || body != c.body {
			t.Errorf("%s: have %d %q, want %d %q", c.name, status, body, c.status, c.body)
		}
	}
	for i, n := range r.nodes {
		for _, have := range n.requests() {
			if want := fmt.Sprintf("POST /matches?mode=party&region=eu&players=2 mms-%d:8080", i+1); have != want {
				t.Errorf("node %d was asked %q, want %q", i+1, have, want)
			}
		}
	}
	for _, c := range []struct {
		labels []string
		want   float64
	}{
		{[]string{"party", "ok"}, 1}, {[]string{"main", "ok"}, 0}, {[]string{"unknown", "failed"}, 2}, {[]string{"party", "limited"}, 0},
	} {
		if have := r.value(t, "relapse_front_answered_total", c.labels...); have != c.want {
			t.Errorf("answered %v: have %v, want %v", c.labels, have, c.want)
		}
	}
}

// Each mode goes round its own nodes, whatever the others do meanwhile, and
// wherever it begins.
func TestEachModeGoesRoundItsNodes(t *testing.T) {
	for seed := range uint64(3) {
		r := start(t, makesMatches, func(c *front.Config) { c.Seed = seed })
		for i := range 16 {
			r.ask(t, "party", "eu")
			if i%2 == 0 {
				r.ask(t, "main", "eu")
			}
		}
		if have, want := r.got(), "4 4 8 8"; have != want {
			t.Errorf("seed %d: requests by node: have %s, want %s", seed, have, want)
		}
		for _, c := range []struct {
			mode, node string
			want       float64
		}{{"party", "mms-1", 4}, {"party", "mms-3", 4}, {"main", "mms-3", 4}, {"main", "mms-4", 4}} {
			if have := r.value(t, "relapse_routed_total", c.mode, c.node); have != c.want {
				t.Errorf("seed %d: routed, %s to %s: have %v, want %v", seed, c.mode, c.node, have, c.want)
			}
		}
	}
}

func TestClosed(t *testing.T) {
	r := start(t, makesMatches, func(c *front.Config) {
		c.Closed = []front.Where{{Mode: "main"}, {Mode: "party", Region: "eu"}}
	})
	for _, c := range []struct {
		mode, region string
		want         int
	}{
		{"main", "eu", 403}, {"main", "na", 403}, {"main", "", 403}, {"party", "eu", 403}, {"party", "na", 201}, {"party", "", 201},
	} {
		if have := r.ask(t, c.mode, c.region); have != c.want {
			t.Errorf("%s in %q: have %d, want %d", c.mode, c.region, have, c.want)
		}
	}
	if have := r.value(t, "relapse_front_answered_total", "main", "closed"); have != 3 {
		t.Errorf("closed to main: have %v, want 3", have)
	}
	if have := r.value(t, "relapse_front_answered_total", "party", "ok"); have != 2 {
		t.Errorf("answered of party: have %v, want 2", have)
	}
}

// What is admitted is one second's worth at once, and then so much a second.
func TestLimit(t *testing.T) {
	const perSecond = 40
	began := time.Now()
	r := start(t, makesMatches, func(c *front.Config) {
		c.Limits = map[front.Where]int{{Mode: "party", Region: "eu"}: perSecond}
	})
	var admitted, over int
	for over == 0 || time.Since(began) < 400*time.Millisecond {
		switch status := r.ask(t, "party", "eu"); status {
		case 201:
			admitted++
		case 429:
			over++
		default:
			t.Fatalf("have %d, want 201 or 429", status)
		}
	}
	least, most := perSecond, perSecond+int(time.Since(began).Seconds()*perSecond)
	if admitted < least || admitted > most {
		t.Errorf("admitted: have %d, want %d at once and %d in all at most", admitted, least, most)
	}
	for _, other := range [][2]string{{"party", "na"}, {"main", "eu"}} {
		if have := r.ask(t, other[0], other[1]); have != 201 {
			t.Errorf("%s in %s: have %d, want 201: it has no limit", other[0], other[1], have)
		}
	}
	eventually(t, "one more is admitted", func() bool { return r.ask(t, "party", "eu") == 201 })
	if have := r.value(t, "relapse_front_answered_total", "party", "limited"); have < float64(over) {
		t.Errorf("limited: have %v, want the %d of before at least", have, over)
	}
}

func TestMisroute(t *testing.T) {
	for _, c := range []struct {
		percent float64
		moved   int // of 40 requests
	}{{100, 40}, {25, 10}, {2.5, 1}} {
		r := start(t, makesMatches, func(config *front.Config) {
			peers := config.Routes["party"]
			config.Routes = map[string][]*matchmaking.Peer{"party": peers[:2], "main": peers[2:]}
			config.Misroutes = map[string]front.Misroute{"party": {To: "main", Percent: c.percent}}
		})
		for range 40 {
			r.ask(t, "party", "eu")
			r.ask(t, "main", "eu")
		}
		count := func(nodes []*node, mode string) (n int) {
			for _, node := range nodes {
				for _, asked := range node.requests() {
					if strings.Contains(asked, "mode="+mode+"&") && strings.Contains(asked, "region=eu") && strings.Contains(asked, "players=2") {
						n++
					}
				}
			}
			return n
		}
		if have := count(r.nodes[:2], "party"); have != 40-c.moved {
			t.Errorf("%v %%: %d requests on their own route, want %d", c.percent, have, 40-c.moved)
		}
		if have := count(r.nodes[2:], "main"); have != 40+c.moved {
			t.Errorf("%v %%: %d requests on the other route with its flag, want its own 40 and %d", c.percent, have, c.moved)
		}
		if have := r.value(t, "relapse_routed_total", "party", "mms-3") + r.value(t, "relapse_routed_total", "party", "mms-4"); have != float64(c.moved) {
			t.Errorf("%v %%: routed of party to the nodes of main: have %v, want %d", c.percent, have, c.moved)
		}
		if have := r.value(t, "relapse_front_answered_total", "party", "ok"); have != 40 {
			t.Errorf("%v %%: answered of party: have %v, want 40", c.percent, have)
		}
	}
}

func TestNodesThatFail(t *testing.T) {
	stop := make(chan struct{})
	defer close(stop)
	for _, c := range []struct {
		name   string
		answer http.HandlerFunc
		status int
		as     string
	}{
		{"refuses", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(503) }, 503, "refused"},
		{"says no", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(400) }, 400, "failed"},
		{"closes without a word", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, 502, "failed"},
		{"says nothing", func(_ http.ResponseWriter, r *http.Request) {
			select {
			case <-r.Context().Done():
			case <-stop:
			}
		}, 504, "timeout"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := start(t, c.answer, func(config *front.Config) { config.NodeTimeout = 100 * time.Millisecond })
			if have := r.ask(t, "party", "eu"); have != c.status {
				t.Errorf("status: have %d, want %d", have, c.status)
			}
			if have := r.value(t, "relapse_front_answered_total", "party", c.as); have != 1 {
				t.Errorf("answered as %s: have %v, want 1", c.as, have)
			}
		})
	}
	t.Run("is not there", func(t *testing.T) {
		r := start(t, makesMatches, asItIs)
		for _, n := range r.nodes {
			n.Close()
		}
		if have := r.ask(t, "party", "eu"); have != 502 {
			t.Errorf("status: have %d, want 502", have)
		}
		if have := r.value(t, "relapse_front_answered_total", "party", "failed"); have != 1 {
			t.Errorf("answered as failed: have %v, want 1", have)
		}
	})
}

// A node learns at the timeout that nobody waits for it any more.
func TestTheFrontLeavesANodeAtTheTimeout(t *testing.T) {
	left := make(chan struct{}, 1)
	r := start(t, func(_ http.ResponseWriter, request *http.Request) {
		select {
		case <-request.Context().Done():
			left <- struct{}{}
		case <-time.After(10 * time.Second):
		}
	}, func(c *front.Config) { c.NodeTimeout = 150 * time.Millisecond })
	client := http.Client{Timeout: 20 * time.Millisecond, Transport: &http.Transport{DisableKeepAlives: true}}
	if _, err := client.Post(r.url+"/matches?mode=party", "", nil); err == nil {
		t.Fatal("the player did not leave")
	}
	select {
	case <-left:
	case <-time.After(5 * time.Second):
		t.Error("not within 5 s: the node sees that the front has left")
	}
	eventually(t, "it is counted", func() bool { return r.value(t, "relapse_front_answered_total", "party", "timeout") == 1 })
}

func TestNewRefuses(t *testing.T) {
	a, b := &matchmaking.Peer{Name: "a"}, &matchmaking.Peer{Name: "b"}
	good := func() front.Config {
		return front.Config{
			Routes:      map[string][]*matchmaking.Peer{"party": {a, b}, "main": {b}},
			Closed:      []front.Where{{Mode: "party", Region: "eu"}},
			Limits:      map[front.Where]int{{Mode: "main", Region: "eu"}: 1},
			Misroutes:   map[string]front.Misroute{"party": {To: "main", Percent: 10}},
			NodeTimeout: time.Second,
		}
	}
	for _, c := range []struct {
		name   string
		change func(*front.Config)
	}{
		{"no time for nodes", func(c *front.Config) { c.NodeTimeout = 0 }},
		{"no route", func(c *front.Config) { c.Routes = nil }},
		{"a route without nodes", func(c *front.Config) { c.Routes["main"] = nil }},
		{"a route without a name", func(c *front.Config) { c.Routes[""] = c.Routes["main"] }},
		{"a route with a name that flags cannot write", func(c *front.Config) { c.Routes["a/b"] = c.Routes["main"] }},
		{"a route that is named as what has none", func(c *front.Config) { c.Routes["unknown"] = c.Routes["main"] }},
		{"a node twice", func(c *front.Config) { c.Routes["main"] = []*matchmaking.Peer{b, b} }},
		{"two nodes of one name", func(c *front.Config) { c.Routes["main"] = []*matchmaking.Peer{{Name: "a"}} }},
		{"an unknown mode closed", func(c *front.Config) { c.Closed = []front.Where{{Mode: "solo"}} }},
		{"an unknown mode limited", func(c *front.Config) { c.Limits[front.Where{Mode: "solo", Region: "eu"}] = 1 }},
		{"a whole mode limited", func(c *front.Config) { c.Limits[front.Where{Mode: "main"}] = 1 }},
		{"a limit that admits nobody", func(c *front.Config) { c.Limits[front.Where{Mode: "main", Region: "na"}] = 0 }},
		{"an unknown mode misrouted", func(c *front.Config) { c.Misroutes["solo"] = front.Misroute{To: "main", Percent: 10} }},
		{"misrouted to an unknown mode", func(c *front.Config) { c.Misroutes["main"] = front.Misroute{To: "solo", Percent: 10} }},
		{"misrouted to itself", func(c *front.Config) { c.Misroutes["main"] = front.Misroute{To: "main", Percent: 10} }},
		{"no share misrouted", func(c *front.Config) { c.Misroutes["main"] = front.Misroute{To: "party"} }},
		{"more than all misrouted", func(c *front.Config) { c.Misroutes["main"] = front.Misroute{To: "party", Percent: 101} }},
	} {
		bad := good()
		c.change(&bad)
		if _, err := front.New(bad, prometheus.NewRegistry()); err == nil {
			t.Errorf("%s: no error", c.name)
		}
	}
	if _, err := front.New(good(), prometheus.NewRegistry()); err != nil {
		t.Errorf("what they change: %v", err)
	}
}

func TestTheServiceRefusesBadFlags(t *testing.T) {
	const route = "--route=party=127.0.0.1:80"
	for _, have := range [][]string{
		nil,
		{route, "x"},
		{route, route},
		{"--route=party"},
		{"--route=party=127.0.0.1"},
		{"--route==127.0.0.1:80"},
		{route, "--closed=solo"},
		{route, "--closed=party/"},
		{route, "--limit=party/eu"},
		{route, "--limit=party=3"},
		{route, "--limit=party/eu=many"},
		{route, "--misroute=party"},
		{route, "--misroute=party=solo"},
		{route, "--node-timeout=0s"},
		{route, "--settings=/nowhere.yaml"},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second) // what is accepted would serve for ever
		err := services.Run(ctx, "front", have)
		cancel()
		if err == nil {
			t.Errorf("%v: no error", have)
		}
	}
}
