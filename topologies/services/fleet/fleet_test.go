package fleet_test

import (
	"fmt"
	"maps"
	"math"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"relapse/topologies/services/fleet"
	"relapse/topologies/services/matchmaking"
)

func reservation(server int, epoch int64, match, mode, node string) string {
	return fmt.Sprintf("/reserve?server=%d&epoch=%d&match=%s&mode=%s&players=2&node=%s", server, epoch, match, mode, node)
}

func take(server int, epoch int64, match string) string {
	return reservation(server, epoch, match, "default", "a")
}

// layout registers 1,200 servers with four nodes and gives what each has.
func layout(t *testing.T, seed uint64) []map[int]matchmaking.Entry {
	t.Helper()
	r := start(t, func(r *rig, c *fleet.Config) {
		r.nodes = append(r.nodes, newNode(t, "c"), newNode(t, "d"))
		var peers []*matchmaking.Peer
		for _, n := range r.nodes {
			peers = append(peers, n.peer)
		}
		c.Clusters = []fleet.Cluster{{Name: "main", Servers: 1200, Nodes: peers}}
		c.Occupied, c.Seed = 84, seed
	})
	if have := r.inState(t, "main", "match"); math.Abs(have-.84*1200) > 1 {
		t.Errorf("in a match: have %v, want 84 %% of 1200", have)
	}
	var all []map[int]matchmaking.Entry
	for _, n := range r.nodes {
		all = append(all, n.all())
	}
	return all
}

func TestServersAreSpreadEvenlyAndAtRandom(t *testing.T) {
	nodes := layout(t, 1)
	seen := map[int]bool{}
	for n, entries := range nodes {
		if len(entries) != 300 {
			t.Errorf("node %d: have %d servers, want a quarter of 1200", n, len(entries))
		}
		all, unused := map[string]int{}, map[string]int{}
		var order []bool // free, in the order of the list
		for _, id := range slices.Sorted(maps.Keys(entries)) {
			e := entries[id]
			if seen[id] || id < 1 || id > 1200 || e.Epoch != 1 {
				t.Errorf("node %d: have %+v, want numbers from 1 to 1200, each at one node, under epoch 1", n, e)
			}
			seen[id] = true
			all[e.Region]++
			if !e.Busy {
				unused[e.Region]++
			}
			order = append(order, !e.Busy)
		}
		for region, share := range map[string]float64{"na": .5, "eu": .3, "asia": .2} {
			if have, want := float64(all[region]), 300*share; math.Abs(have-want) > 1 {
				t.Errorf("node %d, %s: have %v servers, want %v", n, region, have, want)
			}
			if have, want := float64(unused[region]), 300*share*.16; math.Abs(have-want) > 1 {
				t.Errorf("node %d, %s: have %v free, want %v", n, region, have, want)
			}
		}
		first, sum := 0, 0
		for i, is := range order {
			if is {
				sum++
				if i < len(order)/2 {
					first++
				}
			}
		}
		if share := float64(first) / float64(sum); share < .25 || share > .75 {
			t.Errorf("node %d: %v of the free ones are in the first half of the list, want about half", n, share)
		}
	}
	for n, again := range layout(t, 1) {
		if !maps.Equal(again, nodes[n]) {
			t.Errorf("node %d: the same seed gives other servers", n)
		}
	}
	for n, other := range layout(t, 2) {
		if maps.Equal(other, nodes[n]) {
			t.Errorf("node %d: another seed gives the same servers", n)
		}
	}
}

func TestReservations(t *testing.T) {
	r := newRig(t, asItIs)
	for _, c := range []struct {
		name, path string
		want       int
	}{
		{"a free server", take(1, 1, "m1"), 201},
		{"the same request again", take(1, 1, "m1"), 201},
		{"another match", take(1, 1, "m2"), 409},
		{"the same match under another epoch", take(1, 2, "m1"), 409},
		{"an old epoch", take(2, 0, "m3"), 409},
		{"an epoch that is to come", take(2, 2, "m3"), 409},
		{"no such server", take(11, 1, "m3"), 404},
		{"number 0", take(0, 1, "m3"), 404},
		{"a negative number", take(-1, 1, "m3"), 404},
		{"no server", "/reserve?epoch=1&match=m3&mode=default&players=2&node=a", 400},
		{"a server without a number", "/reserve?server=x&epoch=1&match=m3&mode=default&players=2&node=a", 400},
		{"no epoch", "/reserve?server=2&match=m3&mode=default&players=2&node=a", 400},
		{"no match", "/reserve?server=2&epoch=1&mode=default&players=2&node=a", 400},
		{"no mode", "/reserve?server=2&epoch=1&match=m3&players=2&node=a", 400},
		{"an unknown mode", reservation(2, 1, "m3", "ranked", "a"), 400},
		{"an unknown node", reservation(2, 1, "m3", "default", "z"), 400},
		{"no players", "/reserve?server=2&epoch=1&match=m3&mode=default&node=a", 400},
		{"nobody", "/reserve?server=2&epoch=1&match=m3&mode=default&players=0&node=a", 400},
	} {
		if have := r.post(c.path); have != c.want {
			t.Errorf("%s: have %d, want %d", c.name, have, c.want)
		}
	}
	for outcome, want := range map[string]float64{"ok": 2, "taken": 1, "stale": 3, "unknown": 3} {
		if have := r.value(t, "relapse_reservations_total", "default", outcome); have != want {
			t.Errorf("%s: have %v reservations, want %v", outcome, have, want)
		}
	}
	if have := r.value(t, "relapse_matches_total", "main", "default"); have != 1 {
		t.Errorf("have %v matches, want 1", have)
	}
	if have := r.value(t, "relapse_matched_players_total", "default"); have != 2 {
		t.Errorf("have %v players, want 2", have)
	}
	for state, want := range map[string]float64{"free": 9, "match": 1, "ended": 0} {
		if have := r.inState(t, "main", state); have != want {
			t.Errorf("%s: have %v servers, want %v", state, have, want)
		}
	}
	if have := r.value(t, "relapse_violations_total", "two-matches"); have != 0 {
		t.Errorf("have %v servers in two matches, want none", have)
	}
}

func TestMoves(t *testing.T) {
	// Servers 1 to 10 are of main, 11 and 12 of side.
	r := newRig(t, func(r *rig, c *fleet.Config) { r.another(t, c, "side", "c", 2) })
	at := func(server int, epoch int64) matchmaking.Entry {
		return matchmaking.Entry{Server: server, Epoch: epoch}
	}
	for _, c := range []struct {
		name     string
		reserve  string // before
		transfer string
		to       string
		entries  []matchmaking.Entry
		want     []matchmaking.Entry
	}{
		{"two free servers", "", "t1", "b", []matchmaking.Entry{at(1, 1), at(2, 1)}, []matchmaking.Entry{at(1, 2), at(2, 2)}},
		{"the same again", "", "t1", "b", []matchmaking.Entry{at(1, 1), at(2, 1)}, []matchmaking.Entry{at(1, 2), at(2, 2)}},
		{"again when one is in a match", take(1, 2, "m1"), "t1", "b", []matchmaking.Entry{at(1, 1), at(2, 1)}, []matchmaking.Entry{at(1, 2), at(2, 2)}},
		{"taken back after they moved", "", "t1-back", "a", []matchmaking.Entry{at(1, 1), at(2, 1)}, nil},
		{"in a match", "", "t2", "a", []matchmaking.Entry{at(1, 2)}, nil},
		{"to another cluster", "", "t3", "c", []matchmaking.Entry{at(3, 1)}, nil},
		{"no such servers", "", "t4", "b", []matchmaking.Entry{at(99, 1), at(0, 1)}, nil},
		{"taken back before it moved", "", "t5-back", "a", []matchmaking.Entry{at(4, 1)}, []matchmaking.Entry{at(4, 2)}},
		{"moved after it was taken back", "", "t5", "b", []matchmaking.Entry{at(4, 1)}, nil},
		{"named twice", "", "t6", "b", []matchmaking.Entry{at(5, 1), at(5, 1)}, []matchmaking.Entry{at(5, 2)}},
		{"within the other cluster", "", "t7", "c", []matchmaking.Entry{at(11, 1)}, []matchmaking.Entry{at(11, 2)}},
	} {
		if c.reserve != "" && r.post(c.reserve) != http.StatusCreated {
			t.Fatalf("%s: the server was not to be had", c.name)
		}
		status, moved := r.move(t, matchmaking.Move{Transfer: c.transfer, To: c.to, Entries: c.entries})
		var have []matchmaking.Entry
		for _, e := range moved {
			if e.Region == "" || e.Busy {
				t.Errorf("%s: have %+v, want a free server with its region", c.name, e)
			}
			have = append(have, at(e.Server, e.Epoch))
		}
		if status != http.StatusOK || !slices.Equal(have, c.want) {
			t.Errorf("%s: have %d %v, want 200 %v", c.name, status, have, c.want)
		}
	}
	if have := r.post(take(2, 1, "m2")); have != http.StatusConflict {
		t.Errorf("reserved under the epoch before the move: have %d, want 409", have)
	}
	if have := r.post(take(2, 2, "m2")); have != http.StatusCreated {
		t.Errorf("reserved under the epoch after the move: have %d, want 201", have)
	}
	for cluster, want := range map[string]float64{"main": 4, "side": 1} {
		if have := r.value(t, "relapse_moves_total", cluster) + r.value(t, "relapse_moves_back_total", cluster); have != want {
			t.Errorf("%s: have %v moves, there or back, want %v", cluster, have, want)
		}
	}
	if have := r.value(t, "relapse_moves_refused_total"); have != 8 {
		t.Errorf("have %v moves refused, want 8", have)
	}
	for name, m := range map[string]matchmaking.Move{
		"no transfer": {To: "b"}, "no receiver": {Transfer: "t8"}, "an unknown receiver": {Transfer: "t8", To: "z"},
	} {
		if status, _ := r.move(t, m); status != http.StatusBadRequest {
			t.Errorf("%s: have %d, want 400", name, status)
		}
	}
	if have := r.post("/moves"); have != http.StatusBadRequest {
		t.Errorf("no body: have %d, want 400", have)
	}
}

func TestAServerThatIsTakenBackHasNotMoved(t *testing.T) {
	r := start(t, asItIs)
	home, entry := r.at(t, 1)
	other := r.nodes[0]
	if other == home {
		other = r.nodes[1]
	}
	for _, c := range []struct {
		transfer    string
		to          *node
		moves, back float64
	}{
		{"t1-back", home, 0, 1},
		{"t2", other, 1, 1},
	} {
		_, moved := r.move(t, matchmaking.Move{Transfer: c.transfer, To: c.to.name, Boot: c.to.name + "-1", Entries: []matchmaking.Entry{entry}})
		if len(moved) != 1 {
			t.Fatalf("%s: have %v moved, want one", c.transfer, moved)
		}
		entry = moved[0]
		if have := r.value(t, "relapse_moves_total", "main"); have != c.moves {
			t.Errorf("%s: have %v moves, want %v", c.transfer, have, c.moves)
		}
		if have := r.value(t, "relapse_moves_back_total", "main"); have != c.back {
			t.Errorf("%s: have %v moves back, want %v", c.transfer, have, c.back)
		}
	}
}

func TestALifeThatHasEndedMovesNothing(t *testing.T) {
	r := start(t, asItIs)
	_, entry := r.at(t, 1)
	for _, c := range []struct {
		name, boot string
		want       int
	}{
		{"a life that nobody knows of", "b-0", http.StatusConflict},
		{"none", "", http.StatusConflict},
		{"the present one", "b-1", http.StatusOK},
		{"the same question by another life", "b-0", http.StatusConflict},
	} {
		if have, _ := r.move(t, matchmaking.Move{Transfer: "t1", To: "b", Boot: c.boot, Entries: []matchmaking.Entry{entry}}); have != c.want {
			t.Errorf("%s: have %d, want %d", c.name, have, c.want)
		}
	}
}

// quick has an hour pass in a tenth of a second, and servers be away for 60 ms.
func quick(_ *rig, c *fleet.Config) { c.Speed, c.RelistAfter = 36_000, 36*time.Minute }

// at gives the node that has a server, and its entry there.
func (r *rig) at(t *testing.T, server int) (*node, matchmaking.Entry) {
	t.Helper()
	for _, n := range r.nodes {
		if e, ok := n.all()[server]; ok {
			return n, e
		}
	}
	t.Fatalf("server %d is at no node", server)
	return nil, matchmaking.Entry{}
}

func TestAServerIsListedAgainAfterItsMatch(t *testing.T) {
	r := start(t, quick)
	n, _ := r.at(t, 1)
	before := r.value(t, "relapse_registrations_total", n.name)
	began := time.Now()
	if have := r.post(take(1, 1, "m1")); have != http.StatusCreated {
		t.Fatalf("have %d, want 201", have)
	}
	eventually(t, "the server is in its match no more", func() bool { return r.inState(t, "main", "match") == 0 })
	// The shortest match takes 48 of 60 minutes.
	if took := time.Since(began); took < 80*time.Millisecond {
		t.Errorf("the match took %v, want 80 ms at least", took)
	}
	eventually(t, "it is listed again", func() bool { return n.all()[1].Epoch == 2 })
	if took := time.Since(began); took < 140*time.Millisecond {
		t.Errorf("it was listed again after %v, want 140 ms at least", took)
	}
	if e := n.all()[1]; e.Busy {
		t.Errorf("have %+v, want it free", e)
	}
	eventually(t, "that is acknowledged", func() bool { return r.value(t, "relapse_registrations_total", n.name) == before+1 })
	if have := r.post(take(1, 1, "m2")); have != http.StatusConflict {
		t.Errorf("under the old epoch: have %d, want 409", have)
	}
	if have := r.post(take(1, 2, "m2")); have != http.StatusCreated {
		t.Errorf("under the new epoch: have %d, want 201", have)
	}
}

func TestAServerThatIsNotBackIsNotTaken(t *testing.T) {
	r := newRig(t, func(_ *rig, c *fleet.Config) { c.Speed, c.RelistAfter = 360_000, 1000*time.Hour })
	r.run(t)
	if have := r.post(take(1, 1, "m1")); have != http.StatusCreated {
		t.Fatalf("have %d, want 201", have)
	}
	eventually(t, "its match has ended", func() bool { return r.inState(t, "main", "ended") == 1 })
	if have := r.post(take(1, 1, "m2")); have != http.StatusConflict {
		t.Errorf("another match: have %d, want 409", have)
	}
	if have := r.post(take(1, 1, "m1")); have != http.StatusCreated {
		t.Errorf("the same match: have %d, want 201", have)
	}
	if have := r.inState(t, "main", "ended"); have != 1 {
		t.Errorf("have %v servers away, want 1", have)
	}
}

func TestMatchesOnAtTheStartWaitForTheFirstReservation(t *testing.T) {
	r := start(t, func(_ *rig, c *fleet.Config) { c.Speed, c.Occupied = 360_000, 50 }) // an hour takes 10 ms
	asked := func() (n int) {
		r.nodes[0].change(func() { n = r.nodes[0].asked })
		return n
	}
	from := asked()
	eventually(t, "the list was read ten times, in the time of ten matches", func() bool { return asked() >= from+10 })
	if have := r.inState(t, "main", "match"); have != 5 {
		t.Errorf("have %v servers in a match, want the 5 from the start", have)
	}
	var server int
	for id, e := range r.nodes[0].all() {
		if !e.Busy {
			server = id
		}
	}
	if have := r.post(take(server, 1, "m1")); have != http.StatusCreated {
		t.Fatalf("have %d, want 201", have)
	}
	back := func(e matchmaking.Entry) bool { return e.Epoch == 2 && !e.Busy }
	eventually(t, "the 5 that were in a match and the one that was taken are back", func() bool {
		return r.nodes[0].count(back)+r.nodes[1].count(back) == 6
	})
	if have := r.inState(t, "main", "free"); have != 10 {
		t.Errorf("have %v free, want all 10", have)
	}
}

func TestARestartedNodeGetsItsServersAnew(t *testing.T) {
	r := start(t, func(_ *rig, c *fleet.Config) { c.Occupied = 50 })
	a, b := r.nodes[0], r.nodes[1]
	before := a.all()
	a.change(func() { a.boot, a.entries = "a-2", map[int]matchmaking.Entry{} })
	eventually(t, "all servers are back", func() bool { return a.count(every) == len(before) })
	for id, e := range a.all() {
		was := before[id]
		want := was
		if !was.Busy {
			want.Epoch = 2
		}
		if e != want {
			t.Errorf("have %+v, want %+v", e, want)
		}
		if was.Busy {
			continue
		}
		if have := r.post(take(id, 1, fmt.Sprintf("old-%d", id))); have != http.StatusConflict {
			t.Errorf("server %d under the epoch before the restart: have %d, want 409", id, have)
		}
		if have := r.post(take(id, 2, fmt.Sprintf("new-%d", id))); have != http.StatusCreated {
			t.Errorf("server %d under the epoch after the restart: have %d, want 201", id, have)
		}
	}
	eventually(t, "that is acknowledged", func() bool {
		return r.value(t, "relapse_registrations_total", "a") == float64(2*len(before))
	})
	for name, want := range map[string]float64{"a": float64(len(before)), "b": 0} {
		if have := r.value(t, "relapse_reregistrations_total", name); have != want {
			t.Errorf("%s: have %v servers registered anew, want %v", name, have, want)
		}
	}
	if have := b.count(func(e matchmaking.Entry) bool { return e.Epoch != 1 }); have != 0 {
		t.Errorf("the other node has %d servers under another epoch, want none", have)
	}
	if have := r.value(t, "relapse_violations_total", "lost"); have != 0 {
		t.Errorf("have %v servers lost, want none", have)
	}
}

func TestAListingIsSentUntilItIsAcknowledged(t *testing.T) {
	r := newRig(t, func(r *rig, _ *fleet.Config) { r.nodes[0].status = http.StatusInternalServerError })
	r.run(t)
	eventually(t, "two listings failed", func() bool { return r.value(t, "relapse_listing_failures_total", "a") >= 2 })
	eventually(t, "the other node has its servers", func() bool { return r.value(t, "relapse_registrations_total", "b") == 5 })
	if have := r.get("/ready"); have != 0 {
		t.Errorf("ready: have %d, want no answer", have)
	}
	if have := r.get("/health"); have != http.StatusOK {
		t.Errorf("health: have %d, want 200", have)
	}
	r.nodes[0].change(func() { r.nodes[0].status = 0 })
	eventually(t, "it is ready", func() bool { return r.get("/ready") == http.StatusOK })
	if have := r.value(t, "relapse_registrations_total", "a"); have != 5 {
		t.Errorf("have %v servers acknowledged, want 5", have)
	}
}

func TestANodeThatDoesNotAnswerHoldsUpNobody(t *testing.T) {
	r := start(t, quick)
	a, b := r.nodes[0], r.nodes[1]
	gate := make(chan struct{})
	open := sync.OnceFunc(func() { close(gate) })
	defer open()
	a.change(func() { a.gate = gate })
	for _, n := range r.nodes {
		for id := range n.all() {
			if have := r.post(take(id, 1, fmt.Sprintf("m%d", id))); have != http.StatusCreated {
				t.Fatalf("have %d, want 201", have)
			}
		}
	}
	second := func(e matchmaking.Entry) bool { return e.Epoch == 2 }
	eventually(t, "the other node has its servers again", func() bool { return b.count(second) == 5 })
	if have := r.value(t, "relapse_registrations_total", "a"); have != 5 {
		t.Errorf("have %v servers acknowledged, want none beyond the first 5", have)
	}
	a.change(func() { a.gate = nil })
	open()
	eventually(t, "it has them too", func() bool { return r.value(t, "relapse_registrations_total", "a") == 10 })
}

// TestWhatChangesWhileItIsListed has one server be taken and one move away while
// the node's first listing is on its way.
func TestWhatChangesWhileItIsListed(t *testing.T) {
	for _, c := range []struct {
		name   string
		status int // of the answer to the listing
		again  int // entries in the next one, 0 for none
	}{
		{"and the listing fails", http.StatusInternalServerError, 3},
		{"and the listing is acknowledged", 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			gate := make(chan struct{})
			open := sync.OnceFunc(func() { close(gate) })
			defer open()
			r := newRig(t, func(r *rig, _ *fleet.Config) { r.nodes[0].gate, r.nodes[0].status = gate, c.status })
			a, b := r.nodes[0], r.nodes[1]
			listings := func() (l []matchmaking.Listing) {
				a.change(func() { l = slices.Clone(a.listings) })
				return l
			}
			r.run(t)
			eventually(t, "the listing is on its way", func() bool { return len(listings()) == 1 })
			first := listings()[0].Entries
			if have := r.post(take(first[0].Server, 1, "m1")); have != http.StatusCreated {
				t.Errorf("have %d, want 201", have)
			}
			if _, moved := r.move(t, matchmaking.Move{Transfer: "t1", To: "b", Boot: "b-1", Entries: first[1:2]}); len(moved) != 1 {
				t.Errorf("have %v moved, want one", moved)
			}
			a.change(func() { a.gate, a.status = nil, 0 })
			open()
			eventually(t, "it is ready", func() bool { return r.get("/ready") == http.StatusOK })
			if have := r.value(t, "relapse_registrations_total", "a"); have != 5 {
				t.Errorf("have %v servers known to the node, want the 5 that it was told of", have)
			}
			switch all := listings(); {
			case c.again == 0 && len(all) != 1:
				t.Errorf("have %v, want one listing", all)
			case c.again != 0 && (len(all) != 2 || len(all[1].Entries) != c.again):
				t.Errorf("have %v, want a second listing of %d servers", all, c.again)
			}
			if _, told := b.all()[first[1].Server]; told {
				t.Error("the receiver was told of what it asked for")
			}
		})
	}
}
