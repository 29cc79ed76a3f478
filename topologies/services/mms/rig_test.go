package mms_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"relapse/topologies/services/http1"
	"relapse/topologies/services/matchmaking"
	"relapse/topologies/services/mms"
	"relapse/topologies/services/polltest"
)

// rig is a fleet and some nodes. What reaches a node, and what a node says to the
// fleet, goes over wires.
type rig struct {
	fleet *fleet
	nodes map[string]*node
}

type node struct {
	*mms.Node
	name     string
	url      string
	in       *wire // to the node
	out      *wire // from it to the fleet
	registry *prometheus.Registry
}

// start starts nodes that know each other. What they wait for is short or long
// enough not to matter, unless it is changed.
func start(t *testing.T, change func(*mms.Config), names ...string) *rig {
	t.Helper()
	r := &rig{fleet: &fleet{servers: map[int]*server{}, moves: map[string][]matchmaking.Entry{}}, nodes: map[string]*node{}}
	for _, name := range names {
		n := &node{name: name, in: newWire(), out: newWire(), registry: prometheus.NewRegistry()}
		n.url = n.in.open(t)
		n.out.become(r.fleet.handler())
		r.nodes[name] = n
	}
	for _, name := range names {
		n := r.nodes[name]
		c := mms.Config{
			Name: name, Regions: []string{"eu", "us"}, Modes: []string{"playground", "default"},
			Fleet:      client(t, "fleet", n.out.open(t)),
			LookupCost: 100 * time.Microsecond, EntryCost: 10 * time.Microsecond,
			Ask: mms.AskSerial, AskTimeout: 10 * time.Second, Queue: -1, AgainAfter: 10 * time.Millisecond,
			ReserveTimeout: 10 * time.Second, PushTimeout: 10 * time.Second, Pause: time.Millisecond,
		}
		for _, other := range names {
			if other != name {
				c.Peers = append(c.Peers, client(t, other, r.nodes[other].url))
			}
		}
		change(&c)
		var err error
		if n.Node, err = mms.New(c, n.registry); err != nil {
			t.Fatal(err)
		}
		n.in.become(n.Handler())
		t.Cleanup(n.Close)
	}
	return r
}

func asItIs(*mms.Config) {}

func client(t *testing.T, name, url string) *matchmaking.Peer {
	t.Helper()
	at := netip.MustParseAddrPort(strings.TrimPrefix(url, "http://"))
	p := &matchmaking.Peer{Name: name, Client: &http1.Client{Address: at, Host: name + ":8080", Agent: "test"}}
	t.Cleanup(p.Close)
	return p
}

// call makes a request, with a body unless it is nil.
func (n *node) call(t *testing.T, method, path string, with any) (status int, body string) {
	t.Helper()
	status, body, err := n.try(t.Context(), method, path, with)
	if err != nil {
		t.Fatal(err)
	}
	return status, body
}

func (n *node) try(ctx context.Context, method, path string, with any) (status int, body string, err error) {
	var sends io.Reader
	if with != nil {
		document, err := json.Marshal(with)
		if err != nil {
			return 0, "", err
		}
		sends = bytes.NewReader(document)
	}
	request, err := http.NewRequestWithContext(ctx, method, n.url+path, sends)
	if err != nil {
		return 0, "", err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	said, err := io.ReadAll(response.Body)
	return response.StatusCode, string(said), err
}

// match asks for one in eu.
func (n *node) match(t *testing.T) (status int, match string, server int) {
	t.Helper()
	status, body := n.call(t, http.MethodPost, wantsMatch, nil)
	var said struct {
		Match  string
		Server int
	}
	if status == http.StatusCreated {
		read(t, body, &said)
	}
	return status, said.Match, said.Server
}

const wantsMatch = "/matches?mode=playground&region=eu&players=4"

func read(t *testing.T, body string, into any) {
	t.Helper()
	if err := json.Unmarshal([]byte(body), into); err != nil {
		t.Fatalf("%q: %v", body, err)
	}
}

// free gives how many servers of eu a node may hand out.
func (n *node) free(t *testing.T) int {
	t.Helper()
	return int(n.value(t, "relapse_free_servers", "eu"))
}

// value reads a counter or gauge by its name and the values of its labels, in the
// order of the labels' names; of a histogram it is the number of observations.
// Absent is an error.
func (n *node) value(t *testing.T, name string, labels ...string) float64 {
	t.Helper()
	families, err := n.registry.Gather()
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

// counts compares metrics, each named with the values of its labels after it.
func (n *node) counts(t *testing.T, want map[string]float64) {
	t.Helper()
	for metric, want := range want {
		name := strings.Fields(metric)
		if have := n.value(t, name[0], name[1:]...); have != want {
			t.Errorf("%s: %s: have %v, want %v", n.name, metric, have, want)
		}
	}
}

var eventually = polltest.Eventually

// snapshot is what a node lists.
func (n *node) snapshot(t *testing.T) []matchmaking.Listed {
	t.Helper()
	status, body := n.call(t, http.MethodGet, "/entries", nil)
	if status != http.StatusOK {
		t.Fatalf("entries of %s: have %d %s", n.name, status, body)
	}
	var snapshot matchmaking.Snapshot
	read(t, body, &snapshot)
	return snapshot.Entries
}

// listed gives how often each free server is in a list under its current epoch.
func (r *rig) listed(t *testing.T) map[int]int {
	t.Helper()
	times := map[int]int{}
	for id := range r.fleet.free() {
		times[id] = 0
	}
	for _, n := range r.nodes {
		for _, e := range n.snapshot(t) {
			if epoch, ok := r.fleet.free()[e.Server]; ok && epoch == e.Epoch {
				times[e.Server]++
			}
		}
	}
	return times
}

// once says whether there are so many free servers, and each is in one list.
func once(times map[int]int, servers int) bool {
	for _, n := range times {
		if n != 1 {
			return false
		}
	}
	return len(times) == servers
}

// register adds free servers of eu to the fleet, numbered on from those that are
// there, and registers them with a node.
func (r *rig) register(t *testing.T, name string, count int) []matchmaking.Entry {
	t.Helper()
	entries := r.fleet.add(name, count)
	r.nodes[name].list(t, entries...)
	return entries
}

func (n *node) list(t *testing.T, entries ...matchmaking.Entry) {
	t.Helper()
	if status, body := n.call(t, http.MethodPost, "/servers", matchmaking.Listing{Entries: entries}); status != http.StatusOK {
		t.Fatalf("registering with %s: have %d %s", n.name, status, body)
	}
}

// give has a node give servers of eu to another one.
func (n *node) give(t *testing.T, count int, to string) (status int, moved []matchmaking.Entry) {
	t.Helper()
	status, body := n.call(t, http.MethodPost, "/gives", matchmaking.Give{Region: "eu", Count: count, To: to})
	var said matchmaking.Moved
	if status == http.StatusOK {
		read(t, body, &said)
	}
	return status, said.Entries
}
