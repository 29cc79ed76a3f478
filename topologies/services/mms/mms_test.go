package mms_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"relapse/topologies/services"
	"relapse/topologies/services/http1"
	"relapse/topologies/services/matchmaking"
	"relapse/topologies/services/mms"
)

func TestNewRefuses(t *testing.T) {
	peer := func(name string) *matchmaking.Peer { return &matchmaking.Peer{Name: name, Client: &http1.Client{}} }
	for _, tc := range []struct {
		name   string
		change func(*mms.Config)
		bad    bool
	}{
		{"nothing", func(*mms.Config) {}, false},
		{"no costs", func(c *mms.Config) { c.LookupCost, c.EntryCost = 0, 0 }, false},
		{"a queue for each mode", func(c *mms.Config) { c.Queue, c.QueuePerMode = 3, true }, false},
		{"no name", func(c *mms.Config) { c.Name = "" }, true},
		{"no regions", func(c *mms.Config) { c.Regions = nil }, true},
		{"a region without a name", func(c *mms.Config) { c.Regions = []string{"eu", ""} }, true},
		{"a region twice", func(c *mms.Config) { c.Regions = []string{"eu", "eu"} }, true},
		{"no modes", func(c *mms.Config) { c.Modes = nil }, true},
		{"a mode twice", func(c *mms.Config) { c.Modes = []string{"default", "default"} }, true},
		{"no fleet", func(c *mms.Config) { c.Fleet = nil }, true},
		{"a peer twice", func(c *mms.Config) { c.Peers = append(c.Peers, peer("mms-2")) }, true},
		{"itself as a peer", func(c *mms.Config) { c.Peers = append(c.Peers, peer("mms-1")) }, true},
		{"a look-up that gives time", func(c *mms.Config) { c.LookupCost = -1 }, true},
		{"an entry that gives time", func(c *mms.Config) { c.EntryCost = -1 }, true},
		{"another way to ask", func(c *mms.Config) { c.Ask = "parallel" }, true},
		{"no ask timeout", func(c *mms.Config) { c.AskTimeout = 0 }, true},
		{"a queue for each mode without a bound", func(c *mms.Config) { c.QueuePerMode = true }, true},
		{"less than no tries", func(c *mms.Config) { c.Tries = -1 }, true},
		{"again at once", func(c *mms.Config) { c.AgainAfter = 0 }, true},
		{"no reserve timeout", func(c *mms.Config) { c.ReserveTimeout = 0 }, true},
		{"no push timeout", func(c *mms.Config) { c.PushTimeout = 0 }, true},
		{"no pause", func(c *mms.Config) { c.Pause = 0 }, true},
		{"another defect", func(c *mms.Config) { c.Defect = "slow" }, true},
	} {
		c := mms.Config{
			Name: "mms-1", Regions: []string{"eu", "us"}, Modes: []string{"playground", "default"},
			Fleet: peer("fleet"), Peers: []*matchmaking.Peer{peer("mms-2")}, Ask: mms.AskSerial, Queue: -1,
			LookupCost: mms.DefaultLookupCost, EntryCost: mms.DefaultEntryCost,
			AskTimeout: time.Second, AgainAfter: time.Second, ReserveTimeout: time.Second, PushTimeout: time.Second, Pause: time.Second,
		}
		tc.change(&c)
		n, err := mms.New(c, prometheus.NewRegistry())
		if (err != nil) != tc.bad {
			t.Errorf("%s: have error %v, want one: %t", tc.name, err, tc.bad)
		}
		if err == nil {
			n.Close()
		}
	}
}

func TestTheServiceRefusesBadFlags(t *testing.T) {
	good := []string{
		"--listen=127.0.0.1:0", "--metrics=127.0.0.1:0", "--name=mms-1", "--fleet=127.0.0.1:1", "--peers=127.0.0.2:1,127.0.0.3:1",
		"--regions=eu,us", "--modes=playground,default",
	}
	run := func(within time.Duration, flags ...string) error {
		ctx, cancel := context.WithTimeout(t.Context(), within) // what is accepted would serve for ever
		defer cancel()
		return services.Run(ctx, "mms", append(good, flags...))
	}
	if err := run(200 * time.Millisecond); err != nil {
		t.Fatalf("good flags: have %v", err)
	}
	for _, have := range []string{
		"x", "--name=", "--fleet=", "--fleet=nowhere", "--peers=nowhere", "--peers=127.0.0.2:1,127.0.0.2:2", "--regions=", "--modes=eu,",
		"--lookup-cost=-1ms", "--entry-cost=much", "--ask=all", "--ask-timeout=0", "--queue=many", "--queue-per-mode",
		"--tries=-1", "--again-after=0", "--reserve-timeout=0", "--push-timeout=0", "--seed=-1", "--defect=slow", "--settings=/nowhere",
	} {
		if err := run(10*time.Second, have); err == nil {
			t.Errorf("%s: no error", have)
		}
	}
}

func TestBadRequests(t *testing.T) {
	r := start(t, asItIs, "mms-1", "mms-2")
	r.register(t, "mms-1", 1)
	n := r.nodes["mms-1"]
	entries := []matchmaking.Entry{{Server: 7, Region: "moon", Epoch: 1}}
	for _, tc := range []struct {
		name, method, path string
		with               any
		status             int
	}{
		{"health", "GET", "/health", nil, 200},
		{"a path that is not there", "GET", "/", nil, 404},
		{"the wrong method", "GET", wantsMatch, nil, 405},
		{"no mode", "POST", "/matches?region=eu&players=4", nil, 400},
		{"an unknown mode", "POST", "/matches?mode=ranked&region=eu&players=4", nil, 400},
		{"an unknown region", "POST", "/matches?mode=default&region=moon&players=4", nil, 400},
		{"no players", "POST", "/matches?mode=default&region=eu", nil, 400},
		{"nobody", "POST", "/matches?mode=default&region=eu&players=0", nil, 400},
		{"a peer without a match", "POST", "/take?mode=default&region=eu&players=4", nil, 400},
		{"a peer with an unknown region", "POST", "/take?mode=default&region=moon&players=4&match=x", nil, 400},
		{"servers in an unknown region", "POST", "/servers", matchmaking.Listing{Entries: entries}, 400},
		{"servers that are none", "POST", "/servers", "all", 400},
		{"a transfer of an unknown region", "POST", "/transfers", matchmaking.Transfer{ID: "x", From: "mms-2", Entries: entries}, 400},
		{"a transfer without an id", "POST", "/transfers", matchmaking.Transfer{From: "mms-2"}, 400},
		{"a gift of an unknown region", "POST", "/gives", matchmaking.Give{Region: "moon", Count: 1, To: "mms-2"}, 400},
		{"a gift of nobody", "POST", "/gives", matchmaking.Give{Region: "eu", Count: 0, To: "mms-2"}, 400},
		{"a gift to an unknown node", "POST", "/gives", matchmaking.Give{Region: "eu", Count: 1, To: "mms-9"}, 400},
		{"a gift to itself", "POST", "/gives", matchmaking.Give{Region: "eu", Count: 1, To: "mms-1"}, 400},
		{"a gift where nobody is free", "POST", "/gives", matchmaking.Give{Region: "us", Count: 1, To: "mms-2"}, 409},
	} {
		if status, body := n.call(t, tc.method, tc.path, tc.with); status != tc.status {
			t.Errorf("%s: have %d %s, want %d", tc.name, status, body, tc.status)
		}
	}
	if have := n.free(t); have != 1 {
		t.Errorf("free in the end: have %d, want 1", have)
	}
	if have := r.fleet.reservations(); have != 0 {
		t.Errorf("reservations: have %d, want none", have)
	}
}

func TestRegistrations(t *testing.T) {
	r := start(t, asItIs, "mms-1", "mms-2")
	n := r.nodes["mms-1"]
	boot := func(n *node, method, path string, with any) string {
		status, body := n.call(t, method, path, with)
		var said matchmaking.Boot
		if status == http.StatusOK {
			read(t, body, &said)
		}
		return said.Boot
	}
	first := boot(n, http.MethodGet, "/boot", nil)
	if first == "" {
		t.Error("the node's life has no name")
	}
	if status, _ := n.call(t, http.MethodGet, "/counts", nil); status != http.StatusServiceUnavailable {
		t.Errorf("counts before it was told of a server: have %d, want 503", status)
	}
	if have := boot(n, http.MethodPost, "/servers", matchmaking.Listing{}); have != first {
		t.Errorf("a listing was answered with the life %q, want %q", have, first)
	}
	if have := boot(r.nodes["mms-2"], http.MethodGet, "/boot", nil); have == first {
		t.Errorf("two lives are named %q", have)
	}
	n.list(t,
		matchmaking.Entry{Server: 1, Region: "eu", Epoch: 1}, matchmaking.Entry{Server: 2, Region: "eu", Epoch: 1, Busy: true},
		matchmaking.Entry{Server: 3, Region: "us", Epoch: 1})
	n.list(t, matchmaking.Entry{Server: 2, Region: "eu", Epoch: 2}, matchmaking.Entry{Server: 3, Region: "us", Epoch: 2, Busy: true})
	_, body := n.call(t, http.MethodGet, "/counts", nil)
	var have matchmaking.Counts
	read(t, body, &have)
	if have.Node != "mms-1" || have.Free["eu"] != 2 || have.All["eu"] != 2 || have.Free["us"] != 0 || have.All["us"] != 1 || len(have.Free) != 2 || len(have.All) != 2 {
		t.Errorf("counts: have %v", have)
	}
	n.counts(t, map[string]float64{
		"relapse_free_servers eu": 2, "relapse_listed_servers eu": 2, "relapse_free_servers us": 0, "relapse_listed_servers us": 1,
	})
	if have := len(n.snapshot(t)); have != 2 {
		t.Errorf("the snapshot has %d, want the 2 that are free", have)
	}
}

// TestEverySeriesIsThereFromTheStart asks for those that no other test does.
func TestEverySeriesIsThereFromTheStart(t *testing.T) {
	n := start(t, asItIs, "mms-1").nodes["mms-1"]
	for _, mode := range []string{"playground", "default"} {
		for _, outcome := range []string{"ok", "unclaimed", "refused", "given_up", "abandoned"} {
			n.counts(t, map[string]float64{"relapse_handled_total " + mode + " match " + outcome: 0})
		}
		n.counts(t, map[string]float64{
			"relapse_assigned_total " + mode + " own": 0, "relapse_assigned_total " + mode + " peer": 0, "relapse_lookup_seconds " + mode: 0,
		})
	}
	n.counts(t, map[string]float64{
		"relapse_queue_length": 0, "relapse_cpu_seconds_total": 0, "relapse_lookups_total own": 0, "relapse_lookups_total peer": 0,
		"relapse_entries_visited_total": 0, "relapse_full_scans_total": 0, "relapse_full_scan_entries_total": 0,
		"relapse_asks_total found": 0, "relapse_asks_total empty": 0, "relapse_asks_total failed": 0, "relapse_asked_total": 0,
		"relapse_misses_total": 0, "relapse_refused_entries_total": 0,
		"relapse_transfers_total moved": 0, "relapse_transfers_total returned": 0, "relapse_transfers_total failed": 0,
		"relapse_moved_servers_total in": 0, "relapse_moved_servers_total out": 0,
	})
}
