package mms_test

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"testing"
	"time"

	"relapse/topologies/services/matchmaking"
	"relapse/topologies/services/mms"
)

// alone has a node ask nobody and look once.
func alone(c *mms.Config) { c.Ask, c.Tries = mms.AskNone, 1 }

func TestAMatchFromTheOwnList(t *testing.T) {
	r := start(t, asItIs, "mms-1", "mms-2")
	n := r.nodes["mms-1"]
	entries := r.fleet.add("mms-1", 4)
	entries[0].Busy, entries[1].Busy = true, true
	n.list(t, entries...)
	status, match, server := n.match(t)
	if status != http.StatusCreated || match == "" || server != 2 {
		t.Errorf("have %d, match %q, server %d; want 201, a match and server 2", status, match, server)
	}
	if have := r.fleet.matches(); !slices.Equal(have[match], []int{2}) || len(have) != 1 {
		t.Errorf("matches: have %v, want %s in server 2", have, match)
	}
	if have := n.snapshot(t); len(have) != 1 || have[0].Server != 3 || have[0].State != matchmaking.Free {
		t.Errorf("the snapshot has %v, want server 3, free", have)
	}
	n.counts(t, map[string]float64{
		"relapse_handled_total playground match ok": 1, "relapse_assigned_total playground own": 1, "relapse_lookup_seconds playground": 1,
		"relapse_lookups_total own": 1, "relapse_entries_visited_total": 3, "relapse_full_scans_total": 0, "relapse_misses_total": 0,
		"relapse_cpu_seconds_total": (100*time.Microsecond + 3*10*time.Microsecond).Seconds(),
		"relapse_free_servers eu":   1, "relapse_listed_servers eu": 4,
		"relapse_asks_total found": 0, "relapse_asks_total empty": 0,
	})
}

func TestAMatchFromAPeer(t *testing.T) {
	r := start(t, asItIs, "mms-1", "mms-2", "mms-3")
	n, peers := r.nodes["mms-1"], []*node{r.nodes["mms-2"], r.nodes["mms-3"]}
	full := r.fleet.add("mms-1", 3)
	for i := range full {
		full[i].Busy = true
	}
	n.list(t, full...)
	r.register(t, "mms-3", 2)
	// Only one of them has servers: whoever asks both began with the other one. The
	// rounds begin with each in turn.
	for round, want := range []struct{ empty, asked2 float64 }{{1, 1}, {1, 1}} {
		status, match, server := n.match(t)
		if have := r.fleet.matches()[match]; status != http.StatusCreated || !slices.Equal(have, []int{server}) {
			t.Fatalf("round %d: have %d, match %q in %v, want 201 and one server", round, status, match, have)
		}
		n.counts(t, map[string]float64{"relapse_asks_total empty": want.empty, "relapse_asks_total found": float64(round + 1)})
		peers[0].counts(t, map[string]float64{"relapse_asked_total": want.asked2})
	}
	n.counts(t, map[string]float64{
		"relapse_misses_total": 2, "relapse_assigned_total playground peer": 2, "relapse_handled_total playground match ok": 2,
		"relapse_full_scans_total": 2, "relapse_full_scan_entries_total": 6, "relapse_asks_total failed": 0,
	})
	peers[1].counts(t, map[string]float64{
		"relapse_asked_total": 2, "relapse_lookups_total peer": 2, "relapse_lookups_total own": 0, "relapse_free_servers eu": 0,
	})
}

func TestTake(t *testing.T) {
	r := start(t, asItIs, "mms-1", "mms-2")
	r.register(t, "mms-2", 1)
	n := r.nodes["mms-2"]
	const path = "/take?mode=default&region=eu&players=2&match="
	status, body := n.call(t, http.MethodPost, path+"x", nil)
	var said struct{ Server int }
	if status == http.StatusCreated {
		read(t, body, &said)
	}
	if have := r.fleet.matches()["x"]; status != http.StatusCreated || !slices.Equal(have, []int{said.Server}) {
		t.Errorf("have %d %s, and the match in %v, want 201 and its server", status, body, have)
	}
	if status, body := n.call(t, http.MethodPost, path+"y", nil); status != http.StatusNotFound {
		t.Errorf("without a free server: have %d %s, want 404", status, body)
	}
	// It asks nobody further, and does not look again.
	n.counts(t, map[string]float64{
		"relapse_lookups_total peer": 2, "relapse_asked_total": 2, "relapse_asks_total empty": 0, "relapse_asks_total failed": 0,
		"relapse_misses_total": 0, "relapse_queue_length": 0,
	})
}

// TestServersThatRefuse has so many of five servers in matches that their node does
// not know of.
func TestServersThatRefuse(t *testing.T) {
	for _, tc := range []struct {
		play    int
		status  int
		looks   float64
		refused float64
		left    float64 // in the list
	}{
		{0, 201, 1, 0, 5},
		{1, 201, 2, 1, 4},
		{3, 201, 4, 3, 2},
		{5, 503, 4, 4, 1}, // four looks are all that there are
	} {
		t.Run(fmt.Sprint(tc.play), func(t *testing.T) {
			r := start(t, alone, "mms-1")
			n := r.nodes["mms-1"]
			for _, e := range r.register(t, "mms-1", 5)[:tc.play] {
				r.fleet.plays("another", e.Server)
			}
			if status, _, _ := n.match(t); status != tc.status {
				t.Errorf("have %d, want %d", status, tc.status)
			}
			n.counts(t, map[string]float64{
				"relapse_lookups_total own": tc.looks, "relapse_refused_entries_total": tc.refused, "relapse_listed_servers eu": tc.left,
			})
		})
	}
}

// TestServersThatAreGone has some of the servers of both nodes go: each entry costs
// one look-up, whoever asks, and is in no list any more.
func TestServersThatAreGone(t *testing.T) {
	r := start(t, func(c *mms.Config) { c.Tries = 1 }, "mms-1", "mms-2")
	n, peer := r.nodes["mms-1"], r.nodes["mms-2"]
	r.register(t, "mms-1", 2)
	r.register(t, "mms-2", 3)
	r.fleet.leave(0, 1, 2, 3)
	status, match, server := n.match(t)
	if have := r.fleet.matches()[match]; status != http.StatusCreated || server != 4 || !slices.Equal(have, []int{4}) {
		t.Errorf("have %d, match %q in server %d; want 201, and server 4", status, match, server)
	}
	n.counts(t, map[string]float64{
		"relapse_refused_entries_total": 2, "relapse_listed_servers eu": 0, "relapse_lookups_total own": 3, "relapse_asks_total found": 1,
	})
	peer.counts(t, map[string]float64{
		"relapse_refused_entries_total": 2, "relapse_listed_servers eu": 1, "relapse_lookups_total peer": 3,
	})
}

// TestTheFleetDoesNotAnswer has reservations come to nothing at first.
func TestTheFleetDoesNotAnswer(t *testing.T) {
	for _, tc := range []struct {
		name    string
		becomes []happens
		change  func(*mms.Config)
		status  int
		server  int
		free    int // as far as the node knows
		matches int // as the fleet knows
	}{
		{"one is lost", []happens{lost}, alone, 201, 0, 1, 1},
		{"three are lost", []happens{lost, lost, lost}, alone, 201, 0, 1, 1},
		{"a reply is lost", []happens{replyLost}, alone, 201, 0, 1, 1},
		{"one comes twice", []happens{twice}, alone, 201, 0, 1, 1},
		{"none in time", []happens{stuck}, func(c *mms.Config) { alone(c); c.ReserveTimeout = 50 * ms }, 201, 0, 1, 1},
		{"all are lost", []happens{lost, lost, lost, lost}, alone, 503, 0, 2, 0},
		{"all replies are lost", []happens{replyLost, replyLost, replyLost, replyLost}, alone, 503, 0, 2, 1},
		{
			"all replies are lost, and the next server takes another match", []happens{replyLost, replyLost, replyLost, replyLost},
			func(c *mms.Config) { alone(c); c.Tries = 2 }, 201, 1, 1, 2,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := start(t, tc.change, "mms-1")
			n := r.nodes["mms-1"]
			r.register(t, "mms-1", 2)
			n.out.does("/reserve", tc.becomes...)
			status, match, server := n.match(t)
			if status != tc.status || server != tc.server {
				t.Errorf("have %d, server %d; want %d, server %d", status, server, tc.status, tc.server)
			}
			matches := r.fleet.matches()
			if len(matches) != tc.matches || status == http.StatusCreated && !slices.Equal(matches[match], []int{server}) {
				t.Errorf("%s is in server %d, the fleet has %v; want %d matches", match, server, matches, tc.matches)
			}
			for match, servers := range matches {
				if len(servers) != 1 {
					t.Errorf("match %s is in the servers %v, want one", match, servers)
				}
			}
			if have := n.free(t); have != tc.free {
				t.Errorf("the node has %d free, want %d", have, tc.free)
			}
		})
	}
}

// TestAServerOfUnknownFateIsFoundOutLater has a server take a match without its
// node getting to know it.
func TestAServerOfUnknownFateIsFoundOutLater(t *testing.T) {
	r := start(t, alone, "mms-1")
	n := r.nodes["mms-1"]
	r.register(t, "mms-1", 1)
	n.out.does("/reserve", replyLost, replyLost, replyLost, replyLost)
	if status, _, _ := n.match(t); status != http.StatusServiceUnavailable {
		t.Errorf("have %d, want 503", status)
	}
	if status, _, _ := n.match(t); status != http.StatusServiceUnavailable {
		t.Errorf("the next one: have %d, want 503", status)
	}
	n.counts(t, map[string]float64{
		"relapse_refused_entries_total": 1, "relapse_listed_servers eu": 0, "relapse_handled_total playground match given_up": 2,
	})
}

// TestPeersThatDoNotGive has the first peer fail, and the second one have a server.
func TestPeersThatDoNotGive(t *testing.T) {
	for _, tc := range []struct {
		name    string
		becomes happens
		lists   bool // the first one has a server too
		matches int
	}{
		{"it has none", arrives, false, 1},
		{"the question is lost", lost, true, 1},
		{"the answer is lost", replyLost, true, 2},
		{"it does not answer in time", stuck, true, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := start(t, func(c *mms.Config) { c.AskTimeout, c.Tries = 200*ms, 1 }, "mms-1", "mms-2", "mms-3")
			n := r.nodes["mms-1"]
			if tc.lists {
				r.register(t, "mms-2", 1)
			}
			r.register(t, "mms-3", 1)
			r.nodes["mms-2"].in.does("/take", tc.becomes)
			status, match, server := n.match(t)
			matches := r.fleet.matches()
			if status != http.StatusCreated || !slices.Equal(matches[match], []int{server}) || len(matches) != tc.matches {
				t.Errorf("have %d, %s in server %d; the fleet has %v, want %d matches", status, match, server, matches, tc.matches)
			}
			want := map[string]float64{"relapse_asks_total found": 1, "relapse_asks_total empty": 0, "relapse_asks_total failed": 1}
			if tc.becomes == arrives {
				want = map[string]float64{"relapse_asks_total found": 1, "relapse_asks_total empty": 1, "relapse_asks_total failed": 0}
			}
			n.counts(t, want)
		})
	}
}

// TestAPeerReservesNothingForWhoHasLeft has a peer take longer than it is waited
// for.
func TestAPeerReservesNothingForWhoHasLeft(t *testing.T) {
	r := start(t, func(c *mms.Config) {
		c.Tries = 1
		switch c.Name {
		case "mms-1":
			c.AskTimeout = 20 * ms
		case "mms-2":
			c.LookupCost = 200 * ms
		}
	}, "mms-1", "mms-2")
	r.register(t, "mms-2", 1)
	n, peer := r.nodes["mms-1"], r.nodes["mms-2"]
	if status, _, _ := n.match(t); status != http.StatusServiceUnavailable {
		t.Errorf("have %d, want 503", status)
	}
	n.counts(t, map[string]float64{"relapse_asks_total failed": 1})
	eventually(t, "the peer is done", func() bool {
		now, ever := peer.in.on("/take")
		return now == 0 && ever == 1
	})
	if have := peer.free(t); have != 1 {
		t.Errorf("the peer has %d free, want 1", have)
	}
	if have := r.fleet.reservations(); have != 0 {
		t.Errorf("reservations: have %d, want none", have)
	}
}

// TestNobodyHasOne is about a request that finds nothing until there is a server
// after all.
func TestNobodyHasOne(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(*mms.Config)
		leaves bool // before there is one
		want   string
		free   int
	}{
		{"it waits for one", asItIs, false, "ok", 0},
		{"it gets one for nobody", asItIs, true, "unclaimed", 0},
		{"what is abandoned is dropped", func(c *mms.Config) { c.DropAbandoned = true }, true, "abandoned", 1},
		{"who waits is not dropped", func(c *mms.Config) { c.DropAbandoned = true }, false, "ok", 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := start(t, tc.change, "mms-1", "mms-2")
			n := r.nodes["mms-1"]
			ctx, leave := context.WithCancel(t.Context())
			defer leave()
			answered := make(chan int, 1)
			go func() {
				status, _, _ := n.try(ctx, http.MethodPost, wantsMatch, nil)
				answered <- status
			}()
			eventually(t, "it goes again", func() bool { return n.value(t, "relapse_lookups_total", "own") >= 3 })
			eventually(t, "it waits", func() bool { return n.value(t, "relapse_queue_length") == 1 })
			if tc.leaves {
				leave()
				if have := <-answered; have != 0 {
					t.Fatalf("who left was answered %d", have)
				}
				eventually(t, "the node has noticed", func() bool { now, _ := n.in.on("/matches"); return now == 0 })
			}
			if tc.want == "abandoned" {
				eventually(t, "it is dropped", func() bool { return n.value(t, "relapse_handled_total", "playground", "match", "abandoned") == 1 })
			}
			r.register(t, "mms-1", 1)
			eventually(t, "it is "+tc.want, func() bool { return n.value(t, "relapse_handled_total", "playground", "match", tc.want) == 1 })
			if !tc.leaves {
				if have := <-answered; have != http.StatusCreated {
					t.Errorf("have %d, want 201", have)
				}
			}
			if have := n.free(t); have != tc.free {
				t.Errorf("free: have %d, want %d", have, tc.free)
			}
			n.counts(t, map[string]float64{"relapse_misses_total": 1, "relapse_queue_length": 0})
		})
	}
}

func TestTries(t *testing.T) {
	for _, tries := range []int{1, 3} {
		r := start(t, func(c *mms.Config) { c.Tries = tries }, "mms-1", "mms-2")
		n := r.nodes["mms-1"]
		if status, _, _ := n.match(t); status != http.StatusServiceUnavailable {
			t.Errorf("%d tries: have %d, want 503", tries, status)
		}
		n.counts(t, map[string]float64{
			"relapse_handled_total playground match given_up": 1, "relapse_lookup_seconds playground": 1, "relapse_misses_total": 1,
			"relapse_lookups_total own": float64(tries), "relapse_asks_total empty": float64(tries),
		})
	}
}

func TestOverTheBoundIsRefused(t *testing.T) {
	r := start(t, func(c *mms.Config) { c.Queue, c.LookupCost = 0, 300*ms }, "mms-1")
	n := r.nodes["mms-1"]
	r.register(t, "mms-1", 3)
	first := make(chan int, 1)
	go func() {
		status, _, _ := n.try(t.Context(), http.MethodPost, wantsMatch, nil)
		first <- status
	}()
	eventually(t, "the CPU has work", func() bool { return n.value(t, "relapse_lookups_total", "own") == 1 })
	if status, _, _ := n.match(t); status != http.StatusServiceUnavailable {
		t.Errorf("a match: have %d, want 503", status)
	}
	if status, body := n.call(t, http.MethodPost, "/take?mode=default&region=eu&players=1&match=x", nil); status != http.StatusServiceUnavailable {
		t.Errorf("a peer's question: have %d %s, want 503", status, body)
	}
	if status, _ := n.call(t, http.MethodGet, "/health", nil); status != http.StatusOK {
		t.Errorf("health: have %d, want 200", status)
	}
	if have := <-first; have != http.StatusCreated {
		t.Errorf("within the bound: have %d, want 201", have)
	}
	n.counts(t, map[string]float64{
		"relapse_handled_total playground match refused": 1, "relapse_handled_total playground match ok": 1,
		"relapse_lookup_seconds playground": 1, "relapse_lookups_total peer": 0,
	})
}

// TestNoServerIsGivenTwice has many requests at once at nodes that must ask each
// other.
func TestNoServerIsGivenTwice(t *testing.T) {
	const requests = 60
	r := start(t, asItIs, "mms-1", "mms-2", "mms-3")
	r.register(t, "mms-2", requests/2)
	r.register(t, "mms-3", requests/2)
	names := slices.Sorted(maps.Keys(r.nodes))
	answered := make(chan int, requests)
	for n := range requests {
		go func() {
			status, _, _ := r.nodes[names[n%len(names)]].try(t.Context(), http.MethodPost, wantsMatch, nil)
			answered <- status
		}()
	}
	for range requests {
		if have := <-answered; have != http.StatusCreated {
			t.Errorf("have %d, want 201", have)
		}
	}
	matches := r.fleet.matches()
	if len(matches) != requests {
		t.Errorf("%d matches, want %d", len(matches), requests)
	}
	for match, servers := range matches {
		if len(servers) != 1 {
			t.Errorf("match %s is in the servers %v, want one", match, servers)
		}
	}
	refused := 0.0
	for _, n := range r.nodes {
		refused += n.value(t, "relapse_refused_entries_total")
	}
	if refused != 0 {
		t.Errorf("servers refused %v times, want never", refused)
	}
}
