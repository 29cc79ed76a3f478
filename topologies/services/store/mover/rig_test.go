package mover_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"relapse/topologies/services"
	"relapse/topologies/services/platform/api"
	"relapse/topologies/services/polltest"
	"relapse/topologies/services/store"
	"relapse/topologies/services/store/audit"
	"relapse/topologies/services/store/history"
	"relapse/topologies/services/store/mover"
	"relapse/topologies/services/store/pgtest"
	"relapse/topologies/services/store/shards"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

const (
	initial = 2000
	seeded  = 400 // players who have wallets from the start
	seed    = 1
)

// rig is a store of two nodes, whose databases the tests move tables of.
type rig struct {
	config shards.Config
	nodes  []http.Handler
	values []*prometheus.Registry
}

// newRig runs two nodes until the test ends.
func newRig(t *testing.T, c shards.Config) *rig {
	t.Helper()
	c.Timeout, c.Connections = 3*time.Second, 4
	r := &rig{config: c}
	for range 2 {
		registry := prometheus.NewRegistry()
		s, err := store.New(store.Config{
			Shards: c, Owns: []string{store.Wallets, store.Inventories}, Items: 20, Initial: initial, Players: seeded, Limit: 64,
			Lease: 2 * time.Second, RecoverEvery: 250 * time.Millisecond, Remember: time.Minute,
		}, registry)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- s.Run(ctx) }()
		t.Cleanup(func() {
			cancel()
			if err := <-ended; err != nil {
				t.Errorf("store: %v", err)
			}
		})
		r.nodes, r.values = append(r.nodes, s.Handler()), append(r.values, registry)
		eventually(t, "the node is ready", func() bool {
			status, _ := r.call(len(r.nodes)-1, http.MethodGet, "/wallet?player=0", "")
			return status == http.StatusOK
		})
	}
	return r
}

func (r *rig) call(node int, method, path, body string) (status int, said []byte) {
	w := httptest.NewRecorder()
	r.nodes[node].ServeHTTP(w, httptest.NewRequest(method, path, strings.NewReader(body)))
	return w.Code, w.Body.Bytes()
}

// load is players who buy, are granted money and look at what they have, at both nodes.
type load struct {
	r    *rig
	stop context.CancelFunc
	done sync.WaitGroup

	mu       sync.Mutex
	bought   map[api.Player]map[string]bool // what they were told that they have
	failures []string
	statuses map[int]int
}

// start begins the load, which ends with the test, or when it is checked.
func start(t *testing.T, r *rig) *load {
	ctx, cancel := context.WithCancel(context.Background())
	l := &load{r: r, stop: cancel, bought: map[api.Player]map[string]bool{}, statuses: map[int]int{}}
	for worker := range 4 {
		rng := rand.New(rand.NewPCG(seed, uint64(worker)))
		l.done.Go(func() {
			// All four of them at full speed would leave no processor to the mover.
			for n := 0; services.Wait(ctx, 3*time.Millisecond); n++ {
				// Some of them have no wallet yet. No two workers have one player.
				p := api.Player(rng.IntN(seeded+100)/4*4 + worker)
				l.act(rng, p, fmt.Sprintf("op-%d-%d", worker, n))
			}
		})
	}
	t.Cleanup(func() {
		cancel()
		l.done.Wait()
	})
	return l
}

func (l *load) act(rng *rand.Rand, p api.Player, op string) {
	node := rng.IntN(2)
	switch rng.IntN(4) {
	case 0:
		l.note(l.r.call(node, http.MethodGet, "/wallet?player="+p.String(), ""))
	case 1:
		l.note(l.r.call(node, http.MethodPost, "/grant", fmt.Sprintf(`{"op":%q,"player":%d,"amount":10}`, op, p)))
	default:
		item := fmt.Sprintf("skin-%02d", 1+rng.IntN(20))
		status, said := l.r.call(node, http.MethodPost, "/buy", fmt.Sprintf(`{"op":%q,"player":%d,"item":%q}`, op, p, item))
		l.note(status, said)
		if status == http.StatusOK {
			l.mu.Lock()
			defer l.mu.Unlock()
			if l.bought[p] == nil {
				l.bought[p] = map[string]bool{}
			}
			l.bought[p][item] = true
		}
	}
}

func (l *load) note(status int, said []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.statuses[status]++
	if status >= 500 {
		l.failures = append(l.failures, strings.TrimSpace(string(said)))
	}
}

// count is how many purchases went well so far.
func (l *load) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for _, items := range l.bought {
		n += len(items)
	}
	return n
}

// check ends the load, and has everybody have what they were told that they have, and
// everything else be as it must.
func (l *load) check(t *testing.T) {
	t.Helper()
	l.stop()
	l.done.Wait()
	t.Logf("answers by status: %v; the first that failed: %q", l.statuses, l.failures[:min(len(l.failures), 3)])
	if l.count() == 0 {
		t.Error("nobody bought anything, so that nothing could be lost")
	}
	for p, items := range l.bought {
		status, said := l.r.call(0, http.MethodGet, "/inventory?player="+p.String(), "")
		var has store.Inventory
		if err := json.Unmarshal(said, &has); status != http.StatusOK || err != nil {
			t.Fatalf("player %d: %d: %s", p, status, said)
		}
		for item := range items {
			if !slices.Contains(has.Items, item) {
				t.Errorf("player %d has bought %s and has %v", p, item, has.Items)
			}
		}
	}
	if have := violations(t, l.r.config); len(have) > 0 {
		t.Errorf("have violations %v, want none", have)
	}
}

// violations audits all tables as they are, once purchases under way are finished, and
// gives how often each invariant is violated, those excepted that are not.
func violations(t *testing.T, c shards.Config) map[string]float64 {
	t.Helper()
	registry := prometheus.NewRegistry()
	var said bytes.Buffer
	a, err := audit.New(audit.Config{
		Shards: c, History: history.Config{Initial: initial, Bound: 20 * time.Second, Grace: time.Nanosecond}, Violations: &said,
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

// newMover makes a mover of all the databases.
func (r *rig) newMover(t *testing.T, change func(*mover.Config)) (*mover.Mover, *prometheus.Registry) {
	t.Helper()
	c := mover.Config{Shards: r.config}
	c.Shards.Timeout = 0
	change(&c)
	registry := prometheus.NewRegistry()
	m, err := mover.New(c, registry)
	if err != nil {
		t.Fatal(err)
	}
	return m, registry
}

// run has a mover run to its end, which must come within half a minute.
func run(m *mover.Mover) error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := m.Run(ctx); err != nil {
		return err
	}
	return ctx.Err()
}

// states gives how many tables each database has in each state.
func (r *rig) states(t *testing.T) (all []map[string]int) {
	t.Helper()
	s, err := shards.Open(r.config, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	found := s.Survey(t.Context())
	if err := found.Missing(); err != nil {
		t.Fatal(err)
	}
	for _, rows := range found.Rows {
		n := map[string]int{}
		for _, row := range rows {
			n[row.State]++
		}
		all = append(all, n)
	}
	return all
}

func (r *rig) hasStates(t *testing.T, want ...map[string]int) {
	t.Helper()
	for d, have := range r.states(t) {
		if !maps.Equal(have, want[d]) {
			t.Errorf("database %d: have tables %v, want %v", d, have, want[d])
		}
	}
}

// value reads a counter, gauge or the count of a histogram by its name and the values of
// its labels; absent is an error.
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
				return m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
			}
		}
	}
	t.Fatalf("no metric %s%v", name, labels)
	return 0
}

var eventually = polltest.Eventually
