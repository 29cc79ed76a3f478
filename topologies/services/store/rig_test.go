package store_test

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"relapse/topologies/services/platform/api"
	"relapse/topologies/services/polltest"
	"relapse/topologies/services/store"
	"relapse/topologies/services/store/audit"
	"relapse/topologies/services/store/history"
	"relapse/topologies/services/store/pgtest"
	"relapse/topologies/services/store/shards"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

const initial = 1000

// Items of the catalog, and what they cost.
const (
	cheap  = "skin-01" // 100
	dear   = "skin-05" // 500
	dearer = "skin-10" // 500
)

// rig is one node.
type rig struct {
	handler  http.Handler
	registry *prometheus.Registry
}

func config(databases []string) store.Config {
	return store.Config{
		Shards: shards.Config{Databases: databases, Timeout: 3 * time.Second, Connections: 4},
		Owns:   []string{store.Wallets, store.Inventories}, Items: 10, Initial: initial, Limit: 64,
		Lease: 3 * time.Second, RecoverEvery: 20 * time.Millisecond, Remember: time.Minute,
	}
}

// newRig runs a node until the test ends, and waits until it is ready.
func newRig(t *testing.T, c store.Config) *rig {
	t.Helper()
	r := &rig{registry: prometheus.NewRegistry()}
	s, err := store.New(c, r.registry)
	if err != nil {
		t.Fatal(err)
	}
	r.handler = s.Handler()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("store: %v", err)
		}
	})
	eventually(t, "the node is ready", func() bool { return ready(r.handler) })
	return r
}

// ready says whether a node answers, as a probe sees it.
func ready(handler http.Handler) (is bool) {
	defer func() {
		if aborted := recover(); aborted != nil && aborted != http.ErrAbortHandler {
			panic(aborted)
		}
	}()
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/ready", nil))
	return w.Code == http.StatusOK
}

// call makes a request and reads the answer, which is none unless the status is 200.
func (r *rig) call(t *testing.T, method, path, body string, into any) (status int) {
	t.Helper()
	w := httptest.NewRecorder()
	r.handler.ServeHTTP(w, httptest.NewRequest(method, path, strings.NewReader(body)))
	if w.Code == http.StatusOK && into != nil {
		if err := json.Unmarshal(w.Body.Bytes(), into); err != nil {
			t.Fatalf("%s %s: %v: %s", method, path, err, w.Body)
		}
	}
	return w.Code
}

type operation struct {
	Op     string     `json:"op"`
	Player api.Player `json:"player"`
	Item   string     `json:"item,omitempty"`
	Amount int64      `json:"amount,omitempty"`
}

// post gives the status and the balance of the answer.
func (r *rig) post(t *testing.T, path string, o operation) (status int, balance int64) {
	t.Helper()
	body, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	var said struct{ Balance int64 }
	status = r.call(t, http.MethodPost, path, string(body), &said)
	return status, said.Balance
}

func (r *rig) buy(t *testing.T, op string, p api.Player, item string) (status int, balance int64) {
	t.Helper()
	return r.post(t, "/buy", operation{Op: op, Player: p, Item: item})
}

func (r *rig) wallet(t *testing.T, p api.Player) (is store.Wallet) {
	t.Helper()
	if status := r.call(t, http.MethodGet, "/wallet?player="+p.String(), "", &is); status != http.StatusOK {
		t.Fatalf("wallet of %d: %d", p, status)
	}
	return is
}

func (r *rig) inventory(t *testing.T, p api.Player) (is store.Inventory) {
	t.Helper()
	if status := r.call(t, http.MethodGet, "/inventory?player="+p.String(), "", &is); status != http.StatusOK {
		t.Fatalf("inventory of %d: %d", p, status)
	}
	return is
}

// has checks what a player has.
func (r *rig) has(t *testing.T, p api.Player, balance int64, items ...string) {
	t.Helper()
	if have := r.wallet(t, p).Balance; have != balance {
		t.Errorf("player %d: have a balance of %d, want %d", p, have, balance)
	}
	if have := r.inventory(t, p).Items; !slices.Equal(have, items) {
		t.Errorf("player %d: have items %v, want %v", p, have, items)
	}
}

// value reads a counter or gauge by its name and the values of its labels, which are
// sorted by the labels' names; absent is an error.
func value(t *testing.T, registry *prometheus.Registry, name string, labels ...string) float64 {
	t.Helper()
	families, err := registry.Gather()
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
				return m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	t.Fatalf("no metric %s%v", name, labels)
	return 0
}

// violations audits all tables as they are and gives how often each invariant is
// violated, those excepted that are not.
func violations(t *testing.T, c store.Config) map[string]float64 {
	t.Helper()
	registry := prometheus.NewRegistry()
	var said bytes.Buffer
	a, err := audit.New(audit.Config{
		Shards: c.Shards, History: history.Config{Initial: initial, Bound: c.Bound(), NoLedger: c.NoLedger, Grace: time.Nanosecond},
		Violations: &said,
	}, registry)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		for table := range api.Tables {
			a.Table(t.Context(), table)
		}
	}
	if have := value(t, registry, "relapse_audits_total"); have != 2*api.Tables {
		t.Errorf("have %v tables audited, want %d", have, 2*api.Tables)
	}
	found := map[string]float64{}
	for _, invariant := range history.Invariants {
		if n := value(t, registry, "relapse_violations_total", invariant); n > 0 {
			found[invariant] = n
		}
	}
	if len(found) > 0 {
		t.Logf("violations:\n%s", &said)
	}
	return found
}

var eventually = polltest.Eventually

// network is an HTTP server in front of a node, which a test can have fail.
type network struct {
	refuses  atomic.Bool // whatever changes something, before the node has it
	silences atomic.Bool // every answer to that, after the node has carried it out
	held     chan func() // if there is one: such an answer, to be let go by calling it
}

// between puts a network in front of a node, and gives a client of it.
func between(t *testing.T, node http.Handler) (*network, *api.Client) {
	t.Helper()
	n := &network{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		changes := r.Method == http.MethodPost
		if changes && n.refuses.Load() {
			panic(http.ErrAbortHandler)
		}
		if changes && n.silences.Load() {
			node.ServeHTTP(httptest.NewRecorder(), r)
			panic(http.ErrAbortHandler)
		}
		node.ServeHTTP(w, r)
		if changes && n.held != nil {
			gone := make(chan struct{})
			n.held <- sync.OnceFunc(func() { close(gone) })
			<-gone
		}
	}))
	t.Cleanup(server.Close)
	client, err := api.NewClient(server.Listener.Addr().String(), "test")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return n, client
}
