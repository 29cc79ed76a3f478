package rebalancer_test

import (
	"context"
	"fmt"
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
	"relapse/topologies/services/http1"
	"relapse/topologies/services/matchmaking"
	"relapse/topologies/services/polltest"
	"relapse/topologies/services/rebalancer"
)

// cluster is nodes that hold numbers of free servers of one region and move them
// at once when they are told to.
type cluster struct {
	peers    []*matchmaking.Peer
	registry *prometheus.Registry

	answer int           // to an order; 0 for one that is carried out, -1 for none
	takes  time.Duration // to carry an order out

	slow string        // node whose orders to receive are not carried out yet
	goes chan struct{} // closed when they are

	mu     sync.Mutex
	free   map[string]int
	silent string // node that does not say what it has
	asked  int    // times that nodes were asked what they have
	gives  []string
}

func newCluster(t *testing.T, free ...int) *cluster {
	t.Helper()
	c := &cluster{registry: prometheus.NewRegistry(), goes: make(chan struct{}), free: map[string]int{}}
	for i, n := range free {
		name := fmt.Sprint("mms-", i+1)
		c.free[name] = n
		mux := http.NewServeMux()
		mux.HandleFunc("GET /counts", func(w http.ResponseWriter, _ *http.Request) { c.counts(w, name) })
		mux.HandleFunc("POST /gives", func(w http.ResponseWriter, r *http.Request) { c.give(w, r, name) })
		server := httptest.NewServer(mux)
		t.Cleanup(server.Close)
		peer := &matchmaking.Peer{Name: name, Client: &http1.Client{
			Address: netip.MustParseAddrPort(server.Listener.Addr().String()), Host: name + ":8080", Agent: "relapse-rebalancer",
		}}
		t.Cleanup(peer.Close)
		c.peers = append(c.peers, peer)
	}
	return c
}

func (c *cluster) counts(w http.ResponseWriter, name string) {
	c.mu.Lock()
	silent, n := c.silent == name, c.free[name]
	c.asked++
	c.mu.Unlock()
	if silent {
		panic(http.ErrAbortHandler)
	}
	matchmaking.Answer(w, http.StatusOK, matchmaking.Counts{Node: name, Free: map[string]int{"eu": n}, All: map[string]int{"eu": 9999}})
}

func (c *cluster) give(w http.ResponseWriter, r *http.Request, name string) {
	var give matchmaking.Give
	if !matchmaking.Read(w, r, &give) {
		return
	}
	c.mu.Lock()
	c.gives = append(c.gives, fmt.Sprintf("%d of %s from %s to %s", give.Count, give.Region, name, give.To))
	c.mu.Unlock()
	services.Wait(r.Context(), c.takes)
	if give.To == c.slow {
		select {
		case <-c.goes:
		case <-r.Context().Done():
			panic(http.ErrAbortHandler)
		}
	}
	switch c.answer {
	case 0:
		c.mu.Lock()
		n := min(give.Count, c.free[name])
		c.free[name] -= n
		c.free[give.To] += n
		c.mu.Unlock()
		w.WriteHeader(http.StatusAccepted)
	case -1:
		panic(http.ErrAbortHandler)
	default:
		w.WriteHeader(c.answer)
	}
}

// has gives what the nodes have, as "10 10 10".
func (c *cluster) has() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []string
	for _, p := range c.peers {
		out = append(out, fmt.Sprint(c.free[p.Name]))
	}
	return strings.Join(out, " ")
}

func (c *cluster) ordered() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.gives)
}

// rebalance has a rebalancer run until the test ends, or stop is called.
func (c *cluster) rebalance(t *testing.T, change func(*rebalancer.Config)) (stop func()) {
	t.Helper()
	config := rebalancer.Config{Nodes: c.peers, Every: 10 * time.Millisecond, Settings: usual}
	change(&config)
	r, err := rebalancer.New(config, c.registry)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("rebalancer: %v", err)
		}
	})
	t.Cleanup(stop)
	return stop
}

func asItIs(*rebalancer.Config) {}

// value reads a counter or gauge by its name and the values of its labels;
// absent is an error.
func (c *cluster) value(t *testing.T, name string, labels ...string) float64 {
	t.Helper()
	families, err := c.registry.Gather()
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

// rounds waits until so many more rounds are over.
func (c *cluster) rounds(t *testing.T, more float64) {
	t.Helper()
	const name = "relapse_rebalance_rounds_total"
	until := c.value(t, name) + more
	eventually(t, fmt.Sprintf("%v more rounds", more), func() bool { return c.value(t, name) >= until })
}

func TestNodesAreEvenedOut(t *testing.T) {
	c := newCluster(t, 900, 0, 300, 0)
	stop := c.rebalance(t, func(config *rebalancer.Config) { config.Most = 200 })
	eventually(t, "all have the same", func() bool { return c.has() == "300 300 300 300" })
	c.rounds(t, 3)
	stop()
	have := c.ordered()
	for round := range slices.Chunk(have, 2) {
		slices.Sort(round) // they are given at once
	}
	want := []string{
		"200 of eu from mms-1 to mms-2", "200 of eu from mms-1 to mms-4",
		"100 of eu from mms-1 to mms-2", "100 of eu from mms-1 to mms-4",
	}
	if !slices.Equal(have, want) {
		t.Errorf("orders: have %q, want %q", have, want)
	}
	for outcome, want := range map[string]float64{"ok": 4, "refused": 0, "failed": 0} {
		if have := c.value(t, "relapse_rebalance_orders_total", outcome); have != want {
			t.Errorf("orders that were %s: have %v, want %v", outcome, have, want)
		}
	}
	if have := c.value(t, "relapse_rebalance_spread", "eu"); have != 0 {
		t.Errorf("spread: have %v, want 0", have)
	}
}

func TestSpreadIsMeasured(t *testing.T) {
	c := newCluster(t, 150, 100, 50)
	c.rebalance(t, func(config *rebalancer.Config) { config.Tolerance = 100 })
	c.rounds(t, 2)
	if have := c.value(t, "relapse_rebalance_spread", "eu"); have != 1 {
		t.Errorf("spread: have %v, want 1: 100 servers of a mean of 100", have)
	}
	if have := c.ordered(); len(have) != 0 {
		t.Errorf("orders: have %q, want none within the tolerance", have)
	}
}

// A node that does not answer gives nothing and gets nothing, and is no part of
// the mean of the others.
func TestANodeThatDoesNotAnswerIsLeftOut(t *testing.T) {
	c := newCluster(t, 400, 0, 5000)
	c.silent = "mms-3"
	c.rebalance(t, asItIs)
	eventually(t, "the others have the same", func() bool { return c.has() == "200 200 5000" })
	if have := c.value(t, "relapse_rebalance_counts_failed_total", "mms-3"); have < 1 {
		t.Errorf("counts of it that failed: have %v, want some", have)
	}
	if have := c.value(t, "relapse_rebalance_counts_failed_total", "mms-1"); have != 0 {
		t.Errorf("counts of another that failed: have %v, want none", have)
	}
	c.mu.Lock()
	c.silent = ""
	c.mu.Unlock()
	eventually(t, "it takes part", func() bool { return c.has() == "1800 1800 1800" })
}

func TestOrdersThatComeToNothing(t *testing.T) {
	for _, tc := range []struct {
		name    string
		answer  int
		outcome string
	}{
		{"refused", http.StatusServiceUnavailable, "refused"},
		{"not understood", http.StatusBadRequest, "refused"},
		{"broken off", -1, "failed"},
	} {
		c := newCluster(t, 400, 0)
		c.answer = tc.answer
		c.rebalance(t, asItIs)
		eventually(t, tc.name+": it is counted, and given again", func() bool {
			return c.value(t, "relapse_rebalance_orders_total", tc.outcome) >= 2
		})
		if have := c.value(t, "relapse_rebalance_orders_total", "ok"); have != 0 {
			t.Errorf("%s: orders carried out: have %v, want none", tc.name, have)
		}
	}
}

// One node is slow to receive: what the same giver has for another one moves.
func TestASlowReceiverHoldsUpNobodyElse(t *testing.T) {
	c := newCluster(t, 300, 0, 0)
	c.slow = "mms-2"
	c.rebalance(t, asItIs)
	eventually(t, "the other one has its share", func() bool { return c.has() == "200 0 100" })
	close(c.goes)
	eventually(t, "all have the same", func() bool { return c.has() == "100 100 100" })
}

// While an order is carried out nobody is asked what it has: it would tell of
// servers that are on their way.
func TestARoundWaitsForItsOrders(t *testing.T) {
	c := newCluster(t, 400, 0)
	c.takes = 150 * time.Millisecond // ten rounds and more
	stop := c.rebalance(t, asItIs)
	eventually(t, "the order is given", func() bool { return len(c.ordered()) > 0 })
	c.mu.Lock()
	asked := c.asked
	c.mu.Unlock()
	eventually(t, "it is carried out", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		done := c.free["mms-2"] == 200
		if !done && c.asked != asked {
			t.Fatalf("nodes were asked what they have %d times since the order was given", c.asked-asked)
		}
		return done
	})
	c.rounds(t, 2)
	stop()
	if have := c.ordered(); len(have) != 1 {
		t.Errorf("orders: have %q, want one", have)
	}
}

// Old counts are those of a round that is so long ago.
func TestOldCounts(t *testing.T) {
	const age = 150 * time.Millisecond
	c := newCluster(t, 400, 0)
	c.answer = http.StatusConflict
	began := time.Now()
	c.rebalance(t, func(config *rebalancer.Config) { config.CountsAge = age })
	for n, what := range []string{"the first order is given", "it is given again, since it came to nothing"} {
		eventually(t, what, func() bool { return len(c.ordered()) > n })
		if took, want := time.Since(began), time.Duration(n+1)*age; took < want {
			t.Errorf("%s: after %v, want %v at least", what, took, want)
		}
		if have, want := c.ordered()[n], "200 of eu from mms-1 to mms-2"; have != want {
			t.Errorf("%s: have %q, want %q", what, have, want)
		}
	}
}

// What was ordered since the counts were read is known: the same imbalance is not
// ordered twice.
func TestOldCountsAndWhatWasOrderedSince(t *testing.T) {
	const every, age = 10 * time.Millisecond, 100 * time.Millisecond
	for _, tc := range []struct {
		name   string
		free   []int
		most   int
		orders int
		want   string
	}{
		{"in one order", []int{400, 0}, 400, 1, "200 200"},
		{"in small ones, one a round", []int{400, 0}, 20, 10, "200 200"},
		{"to several", []int{400, 0, 0, 0}, 400, 3, "100 100 100 100"},
	} {
		c := newCluster(t, tc.free...)
		stop := c.rebalance(t, func(config *rebalancer.Config) { config.Every, config.CountsAge, config.Most = every, age, tc.most })
		eventually(t, tc.name+": "+tc.want, func() bool { return c.has() == tc.want })
		// Until counts are acted upon that were read after the last order.
		c.rounds(t, 2*float64(age/every))
		if have := c.ordered(); len(have) != tc.orders {
			t.Errorf("%s: have %q, want %d orders", tc.name, have, tc.orders)
		}
		if have := c.has(); have != tc.want {
			t.Errorf("%s: the nodes have %s in the end, want %s", tc.name, have, tc.want)
		}
		stop()
	}
}

// Once what was ordered is in the counts it is not taken off any more.
func TestANewImbalanceIsSeenInOldCounts(t *testing.T) {
	c := newCluster(t, 400, 0)
	c.rebalance(t, func(config *rebalancer.Config) { config.CountsAge = 50 * time.Millisecond })
	eventually(t, "all have the same", func() bool { return c.has() == "200 200" })
	c.mu.Lock()
	c.free["mms-1"] += 100
	c.mu.Unlock()
	eventually(t, "all have the same again", func() bool { return c.has() == "250 250" })
}

// The defect moves all that a node has, again and again.
func TestUnboundedMoves(t *testing.T) {
	c := newCluster(t, 1000, 1000)
	c.rebalance(t, func(config *rebalancer.Config) { config.Defect = rebalancer.Unbounded })
	eventually(t, "one node has all", func() bool { return slices.Contains([]string{"0 2000", "2000 0"}, c.has()) })
	eventually(t, "all is moved four times", func() bool {
		moved := slices.DeleteFunc(c.ordered(), func(order string) bool { return !strings.HasPrefix(order, "2000 of eu") })
		return len(moved) >= 4
	})
}

func TestNewRefuses(t *testing.T) {
	a, b := &matchmaking.Peer{Name: "a"}, &matchmaking.Peer{Name: "b"}
	good := rebalancer.Config{Nodes: []*matchmaking.Peer{a, b}, Every: time.Second, Settings: usual}
	for _, c := range []struct {
		name   string
		change func(*rebalancer.Config)
	}{
		{"one node", func(c *rebalancer.Config) { c.Nodes = c.Nodes[:1] }},
		{"a node twice", func(c *rebalancer.Config) { c.Nodes = []*matchmaking.Peer{a, a} }},
		{"no time between rounds", func(c *rebalancer.Config) { c.Every = 0 }},
		{"a tolerance below zero", func(c *rebalancer.Config) { c.Tolerance = -1 }},
		{"orders of nothing", func(c *rebalancer.Config) { c.Most = 0 }},
		{"counts of the future", func(c *rebalancer.Config) { c.CountsAge = -1 }},
		{"an unknown defect", func(c *rebalancer.Config) { c.Defect = "lazy" }},
	} {
		bad := good
		c.change(&bad)
		if _, err := rebalancer.New(bad, prometheus.NewRegistry()); err == nil {
			t.Errorf("%s: no error", c.name)
		}
	}
	if _, err := rebalancer.New(good, prometheus.NewRegistry()); err != nil {
		t.Errorf("what they change: %v", err)
	}
}

func TestTheServiceRefusesBadFlags(t *testing.T) {
	const nodes = "--nodes=127.0.0.1:80,localhost:80"
	for _, have := range [][]string{
		nil,
		{nodes, "x"},
		{"--nodes=127.0.0.1:80"},
		{"--nodes=127.0.0.1,localhost"},
		{nodes, "--every=0s"},
		{nodes, "--tolerance=-1"},
		{nodes, "--most=0"},
		{nodes, "--counts-age=-1s"},
		{nodes, "--defect=lazy"},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second) // what is accepted would serve for ever
		err := services.Run(ctx, "rebalancer", have)
		cancel()
		if err == nil {
			t.Errorf("%v: no error", have)
		}
	}
}
