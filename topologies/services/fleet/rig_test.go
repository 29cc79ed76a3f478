package fleet_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"relapse/topologies/services/fleet"
	"relapse/topologies/services/matchmaking"
	"relapse/topologies/services/polltest"
)

// node is one that does as it is told: it lists what is registered with it, and
// hands nothing out.
type node struct {
	name string
	peer *matchmaking.Peer

	mu       sync.Mutex
	boot     string
	entries  map[int]matchmaking.Entry
	extra    []matchmaking.Listed // shown in snapshots too
	hidden   map[int]bool         // not shown in snapshots
	listings []matchmaking.Listing
	status   int           // of the answers to listings, if not 0
	gate     chan struct{} // answers to listings wait until it is closed, if there is one
	asked    int           // snapshots
}

func newNode(t *testing.T, name string) *node {
	t.Helper()
	n := &node{name: name, boot: name + "-1", entries: map[int]matchmaking.Entry{}, hidden: map[int]bool{}}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /servers", n.servers)
	mux.HandleFunc("GET /boot", func(w http.ResponseWriter, _ *http.Request) {
		n.mu.Lock()
		defer n.mu.Unlock()
		matchmaking.Answer(w, http.StatusOK, matchmaking.Boot{Boot: n.boot})
	})
	mux.HandleFunc("GET /entries", func(w http.ResponseWriter, _ *http.Request) {
		matchmaking.Answer(w, http.StatusOK, n.snapshot())
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	peer, err := matchmaking.NewPeer(strings.TrimPrefix(server.URL, "http://"), "test")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(peer.Close)
	peer.Name = name
	n.peer = peer
	return n
}

func (n *node) servers(w http.ResponseWriter, r *http.Request) {
	var listing matchmaking.Listing
	if !matchmaking.Read(w, r, &listing) {
		return
	}
	n.mu.Lock()
	n.listings = append(n.listings, listing)
	if n.status == 0 {
		for _, e := range listing.Entries {
			switch {
			case e.Epoch < n.entries[e.Server].Epoch:
			case e.Gone:
				delete(n.entries, e.Server)
			default:
				n.entries[e.Server] = e
			}
		}
	}
	boot, status, gate := n.boot, cmp.Or(n.status, http.StatusOK), n.gate
	n.mu.Unlock()
	if gate != nil {
		<-gate
	}
	matchmaking.Answer(w, status, matchmaking.Boot{Boot: boot})
}

func (n *node) snapshot() matchmaking.Snapshot {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.asked++
	s := matchmaking.Snapshot{Boot: n.boot, Entries: slices.Clone(n.extra)}
	for _, id := range slices.Sorted(maps.Keys(n.entries)) {
		if e := n.entries[id]; !e.Busy && !n.hidden[id] {
			s.Entries = append(s.Entries, matchmaking.Listed{Entry: e, State: matchmaking.Free})
		}
	}
	return s
}

// change changes the node, or looks at it.
func (n *node) change(do func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	do()
}

// all gives what the node has, by server.
func (n *node) all() map[int]matchmaking.Entry {
	n.mu.Lock()
	defer n.mu.Unlock()
	return maps.Clone(n.entries)
}

// count gives how many entries of the node are as asked.
func (n *node) count(is func(matchmaking.Entry) bool) int {
	count := 0
	for _, e := range n.all() {
		if is(e) {
			count++
		}
	}
	return count
}

// every is any entry.
func every(matchmaking.Entry) bool { return true }

// rig is a fleet with nodes.
type rig struct {
	fleet    *fleet.Fleet
	handler  http.Handler
	registry *prometheus.Registry
	nodes    []*node
	printed  *lines
}

// lines collects what is written line by line.
type lines struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

func (l *lines) all() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Split(strings.TrimSuffix(l.b.String(), "\n"), "\n")
}

// newRig makes a fleet of one cluster, main, with the nodes a and b and five servers
// each, all of them free, and a mode for it. It does not run yet.
func newRig(t *testing.T, change func(r *rig, c *fleet.Config)) *rig {
	t.Helper()
	r := &rig{registry: prometheus.NewRegistry(), printed: &lines{}}
	for _, name := range []string{"a", "b"} {
		r.nodes = append(r.nodes, newNode(t, name))
	}
	c := fleet.Config{
		Clusters: []fleet.Cluster{{Name: "main", Servers: 10, Nodes: []*matchmaking.Peer{r.nodes[0].peer, r.nodes[1].peer}}},
		Modes:    map[string]string{"default": "main"},
		Regions:  []fleet.Region{{Name: "na", Weight: 50}, {Name: "eu", Weight: 30}, {Name: "asia", Weight: 20}},
		Length:   time.Hour, LengthSpread: 20, RelistAfter: 3 * time.Minute, Speed: 1,
		Seed: 1, AuditEvery: 10 * time.Millisecond, Grace: 30 * time.Millisecond, Violations: r.printed,
	}
	change(r, &c)
	var err error
	if r.fleet, err = fleet.New(c, r.registry); err != nil {
		t.Fatal(err)
	}
	r.handler = r.fleet.Handler()
	return r
}

// another adds a cluster of one node to a configuration.
func (r *rig) another(t *testing.T, c *fleet.Config, cluster, name string, servers int) {
	t.Helper()
	n := newNode(t, name)
	r.nodes = append(r.nodes, n)
	c.Clusters = append(c.Clusters, fleet.Cluster{Name: cluster, Servers: servers, Nodes: []*matchmaking.Peer{n.peer}})
}

func asItIs(*rig, *fleet.Config) {}

// start runs a fleet and waits until it is ready.
func start(t *testing.T, change func(r *rig, c *fleet.Config)) *rig {
	t.Helper()
	r := newRig(t, change)
	r.run(t)
	eventually(t, "all servers are registered", func() bool { return r.get("/ready") == http.StatusOK })
	return r
}

func (r *rig) run(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- r.fleet.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("fleet: %v", err)
		}
	})
}

// get gives the status, 0 where the connection is closed without an answer.
func (r *rig) get(path string) (status int) {
	defer func() {
		if aborted := recover(); aborted != nil && aborted != http.ErrAbortHandler {
			panic(aborted)
		}
	}()
	w := httptest.NewRecorder()
	r.handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	return w.Code
}

func (r *rig) post(path string) int {
	w := httptest.NewRecorder()
	r.handler.ServeHTTP(w, httptest.NewRequest(http.MethodPost, path, nil))
	return w.Code
}

// move asks for a move and gives what was answered.
func (r *rig) move(t *testing.T, m matchmaking.Move) (status int, moved []matchmaking.Entry) {
	t.Helper()
	body, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	r.handler.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/moves", bytes.NewReader(body)))
	if w.Code != http.StatusOK {
		return w.Code, nil
	}
	var said matchmaking.Moved
	if err := json.Unmarshal(w.Body.Bytes(), &said); err != nil {
		t.Fatal(err)
	}
	return w.Code, said.Entries
}

// value reads a counter or gauge by its name and the values of its labels, which
// are sorted by the labels' names; of a histogram it is the number of observations.
// Absent is an error.
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
			if slices.Equal(have, labels) {
				return m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
			}
		}
	}
	t.Fatalf("no metric %s%v", name, labels)
	return 0
}

// inState gives how many servers of a cluster are in a state.
func (r *rig) inState(t *testing.T, cluster, state string) float64 {
	t.Helper()
	sum := 0.0
	for _, region := range []string{"na", "eu", "asia"} {
		sum += r.value(t, "relapse_servers", cluster, region, state)
	}
	return sum
}

var eventually = polltest.Eventually
