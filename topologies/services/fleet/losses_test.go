package fleet_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"relapse/topologies/services/fleet"
	"relapse/topologies/services/fleet/history"
	"relapse/topologies/services/matchmaking"
)

func (r *rig) lose(t *testing.T, name, cluster string, share float64) {
	t.Helper()
	if err := r.fleet.Lose(name, cluster, share); err != nil {
		t.Fatal(err)
	}
}

// main is what became of the servers of main.
func (r *rig) main() fleet.ClusterState { return r.fleet.Losses().Clusters["main"] }

func state(servers, gone, going, joining int) fleet.ClusterState {
	return fleet.ClusterState{Servers: servers, Gone: gone, Going: going, Joining: joining}
}

// sound says that nothing that a node did is wrong.
func (r *rig) sound(t *testing.T) {
	t.Helper()
	for _, invariant := range history.Invariants {
		if have := r.value(t, "relapse_violations_total", invariant); have != 0 {
			t.Errorf("%s: have %v violations, want none", invariant, have)
		}
	}
}

// hundred has main have a hundred servers of which nobody is in a match.
func hundred(_ *rig, c *fleet.Config) { c.Clusters[0].Servers = 100 }

// refusing gives the servers that do not take a match, by trying each of a hundred.
func (r *rig) refusing() (ids []int) {
	for id := 1; id <= 100; id++ {
		if r.post(take(id, 1, fmt.Sprintf("m%d", id))) == http.StatusConflict {
			ids = append(ids, id)
		}
	}
	return ids
}

func TestALossTakesItsShareOfEachRegion(t *testing.T) {
	for _, c := range []struct {
		name  string
		share float64
		want  map[string]float64 // gone, by region
	}{
		{"two fifths", .4, map[string]float64{"na": 20, "eu": 12, "asia": 8}},
		{"what does not come to whole servers", .01, map[string]float64{"na": 1, "eu": 0, "asia": 0}},
		{"all", 1, map[string]float64{"na": 50, "eu": 30, "asia": 20}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, hundred)
			r.lose(t, "l", "", c.share)
			r.lose(t, "l", "", c.share) // the same order, come twice
			all := 0.0
			for region, want := range c.want {
				all += want
				if have := r.value(t, "relapse_servers", "main", region, "gone"); have != want {
					t.Errorf("%s: have %v gone, want %v", region, have, want)
				}
			}
			if have, want := r.main(), state(100, int(all), 0, 0); have != want {
				t.Errorf("have %+v, want %+v", have, want)
			}
			if have := len(r.refusing()); have != int(all) {
				t.Errorf("have %d that refuse a match, want %v", have, all)
			}
			if have := r.value(t, "relapse_reservations_total", "default", "gone"); have != all {
				t.Errorf("have %v refusals since the server is gone, want %v", have, all)
			}
			r.sound(t)
		})
	}
}

func TestTheSeedSaysWhoGoes(t *testing.T) {
	gone := func(seed uint64) []int {
		r := newRig(t, func(r *rig, c *fleet.Config) { hundred(r, c); c.Seed = seed })
		r.lose(t, "l", "", .4)
		return r.refusing()
	}
	first := gone(1)
	if again := gone(1); !slices.Equal(again, first) {
		t.Errorf("the same seed: have %v, want %v", again, first)
	}
	if other := gone(2); slices.Equal(other, first) {
		t.Errorf("another seed: have %v as well", other)
	}
}

func TestALossOfOneCluster(t *testing.T) {
	r := newRig(t, func(r *rig, c *fleet.Config) { r.another(t, c, "side", "c", 10) })
	r.lose(t, "l", "side", .5)
	for cluster, want := range map[string]fleet.ClusterState{"main": state(10, 0, 0, 0), "side": state(10, 5, 0, 0)} {
		if have := r.fleet.Losses().Clusters[cluster]; have != want {
			t.Errorf("%s: have %+v, want %+v", cluster, have, want)
		}
	}
}

func TestLossesThatAreRefused(t *testing.T) {
	r := newRig(t, asItIs)
	r.lose(t, "first", "", .6)
	before := r.main()
	for _, c := range []struct {
		name, loss, cluster string
		share               float64
		want                error // nil for any
	}{
		{"an unknown cluster", "l", "side", .1, fleet.ErrUnknownCluster},
		{"another share under a name", "first", "", .5, fleet.ErrOtherLoss},
		{"another cluster under a name", "first", "main", .6, fleet.ErrOtherLoss},
		{"more than are left", "l", "", .6, fleet.ErrTooFew},
		{"nothing", "l", "", 0, fleet.ErrNobody},
		{"less than one server", "l", "", .01, fleet.ErrNobody},
		{"more than all", "l", "", 1.1, nil},
		{"less than nothing", "l", "", -.1, nil},
		{"a share that is no number", "l", "", math.NaN(), nil},
		{"no name", "", "", .1, nil},
	} {
		if err := r.fleet.Lose(c.loss, c.cluster, c.share); err == nil || c.want != nil && !errors.Is(err, c.want) {
			t.Errorf("%s: have %v, want an error that is %v", c.name, err, c.want)
		}
		if have := r.main(); have != before {
			t.Errorf("%s: afterwards: have %+v, want %+v", c.name, have, before)
		}
		if have := r.fleet.Losses().Losses; len(have) != 1 || have["first"] != (fleet.LossState{Share: .6}) {
			t.Errorf("%s: losses afterwards: have %+v, want the first one alone", c.name, have)
		}
	}
}

// TestWhoGoesWhileFreeTellsNobody has nodes go on listing what is gone: that is no
// fault of theirs.
func TestWhoGoesWhileFreeTellsNobody(t *testing.T) {
	r := start(t, asItIs)
	a, b := r.nodes[0], r.nodes[1]
	r.lose(t, "l", "", .5)
	eventually(t, "what is gone counts as stale", func() bool { return r.value(t, "relapse_stale_entries") == 5 })
	audits := func() float64 { return r.value(t, "relapse_audits_total", "a") }
	from := audits()
	eventually(t, "the list is read ten times more", func() bool { return audits() >= from+10 })
	if have := a.count(every) + b.count(every); have != 10 {
		t.Errorf("have %d in the lists, want all 10", have)
	}
	r.sound(t)
	var entries []matchmaking.Entry
	for _, e := range a.all() {
		entries = append(entries, e)
	}
	_, moved := r.move(t, matchmaking.Move{Transfer: "t", To: "b", Boot: "b-1", Entries: entries})
	if refused := r.value(t, "relapse_moves_refused_total"); len(moved)+int(refused) != len(entries) {
		t.Errorf("have %d moved and %v refused, want %d together", len(moved), refused, len(entries))
	}
	for _, e := range moved {
		if have := r.post(take(e.Server, e.Epoch, fmt.Sprintf("m%d", e.Server))); have != http.StatusCreated {
			t.Errorf("a server that has moved: have %d, want 201", have)
		}
	}
}

// TestWhoGoesAfterItsMatchIsStruckOff has a match be on when all servers go.
func TestWhoGoesAfterItsMatchIsStruckOff(t *testing.T) {
	r := newRig(t, quick)
	if have := r.post(take(1, 1, "m1")); have != http.StatusCreated {
		t.Fatalf("have %d, want 201", have)
	}
	r.lose(t, "l", "", 1)
	if have, want := r.main(), state(10, 9, 1, 0); have != want {
		t.Errorf("in the match: have %+v, want %+v", have, want)
	}
	if have := r.post(take(1, 1, "m2")); have != http.StatusConflict {
		t.Errorf("another match: have %d, want 409", have)
	}
	r.run(t)
	eventually(t, "it is gone too", func() bool { return r.main() == state(10, 10, 0, 0) })
	if have := r.post(take(1, 1, "m1")); have != http.StatusCreated {
		t.Errorf("the match that it has played: have %d, want 201", have)
	}
	struck := func() (entries []matchmaking.Entry) {
		for _, n := range r.nodes {
			n.change(func() {
				for _, l := range n.listings {
					entries = append(entries, l.Entries...)
				}
			})
		}
		return entries
	}
	eventually(t, "a node is told", func() bool { return len(struck()) > 0 })
	for _, e := range struck() {
		if e.Server != 1 || e.Epoch != 1 || !e.Gone {
			t.Errorf("a node was told of %+v, want server 1 struck off and nothing else", e)
		}
	}
	r.sound(t)
}

// TestAServerIsStruckOffAndAddedInOneListing has nodes not answer until a server
// that they are to strike off is back.
func TestAServerIsStruckOffAndAddedInOneListing(t *testing.T) {
	r := newRig(t, func(r *rig, c *fleet.Config) {
		quick(r, c)
		for _, n := range r.nodes {
			n.status = http.StatusInternalServerError
		}
	})
	if have := r.post(take(1, 1, "m1")); have != http.StatusCreated {
		t.Fatalf("have %d, want 201", have)
	}
	r.lose(t, "l", "", 1)
	r.run(t)
	eventually(t, "all are gone", func() bool { return r.main() == state(10, 10, 0, 0) })
	r.fleet.EndLoss("l")
	for _, n := range r.nodes {
		n.change(func() { n.status = 0 })
	}
	eventually(t, "all are told of, and the one that was taken before", func() bool {
		return r.value(t, "relapse_registrations_total", "a")+r.value(t, "relapse_registrations_total", "b") == 11
	})
	for _, n := range r.nodes {
		for id, e := range n.all() {
			if e.Epoch != 2 || e.Busy || e.Gone {
				t.Errorf("node %s has %+v for server %d, want it free under epoch 2", n.name, e, id)
			}
		}
	}
	if have := r.nodes[0].count(every) + r.nodes[1].count(every); have != 10 {
		t.Errorf("have %d in the lists, want all 10", have)
	}
	r.sound(t)
}

func TestAddedServersJoin(t *testing.T) {
	for _, c := range []struct {
		joins string
		want  map[string]string // of na, eu and asia, by node
	}{
		{fleet.JoinSpread, map[string]string{"a": "25 15 10", "b": "25 15 10"}},
		{fleet.JoinOneNode, map[string]string{"a": "50 30 20", "b": "0 0 0"}},
	} {
		t.Run(c.joins, func(t *testing.T) {
			r := start(t, func(_ *rig, config *fleet.Config) { config.Clusters[0].Servers, config.Joins = 200, c.joins })
			r.lose(t, "l", "", .5)
			r.fleet.EndLoss("l")
			r.fleet.EndLoss("l")
			if have, want := r.main(), state(200, 0, 0, 0); have != want {
				t.Errorf("have %+v, want %+v", have, want)
			}
			eventually(t, "all are told of", func() bool {
				return r.value(t, "relapse_registrations_total", "a")+r.value(t, "relapse_registrations_total", "b") == 300
			})
			added := 0
			for _, n := range r.nodes {
				joined := func(region string) int {
					return n.count(func(e matchmaking.Entry) bool { return e.Epoch == 2 && e.Region == region && !e.Busy && !e.Gone })
				}
				if have := fmt.Sprint(joined("na"), joined("eu"), joined("asia")); have != c.want[n.name] {
					t.Errorf("node %s: have %s added, want %s", n.name, have, c.want[n.name])
				}
				for id, e := range n.all() {
					if e.Epoch == 2 {
						added = id
					}
				}
			}
			counts := func(when string, total, unused, used float64) {
				t.Helper()
				for name, want := range map[string]float64{
					"relapse_added_servers_total": total, "relapse_added_unused_servers": unused, "relapse_added_first_use_seconds": used,
				} {
					if have := r.value(t, name, "main"); have != want {
						t.Errorf("%s: %s: have %v, want %v", when, name, have, want)
					}
				}
			}
			counts("before", 100, 100, 0)
			if have := r.post(take(added, 2, "m1")); have != http.StatusCreated {
				t.Fatalf("have %d, want 201", have)
			}
			counts("when one is used", 100, 99, 1)
			if have := r.post(take(added, 2, "m1")); have != http.StatusCreated {
				t.Fatalf("have %d, want 201", have)
			}
			counts("when it is asked again", 100, 99, 1)
			if have := r.post(take(added, 1, "m2")); have != http.StatusConflict {
				t.Errorf("under the epoch before it went: have %d, want 409", have)
			}
			r.lose(t, "again", "", 1)
			counts("when all go again", 100, 0, 1)
			r.sound(t)
		})
	}
}

func TestWhoIsStillInAMatchWhenALossEndsWasNeverGone(t *testing.T) {
	r := newRig(t, quick)
	if have := r.post(take(1, 1, "m1")); have != http.StatusCreated {
		t.Fatalf("have %d, want 201", have)
	}
	r.lose(t, "l", "", 1)
	r.fleet.EndLoss("l")
	r.run(t)
	eventually(t, "all are free", func() bool { return r.inState(t, "main", "free") == 10 })
	if have := r.value(t, "relapse_added_servers_total", "main"); have != 9 {
		t.Errorf("have %v added, want the 9 that were gone", have)
	}
	r.sound(t)
}

// TestJoiningTakesItsTime has all servers go once more before they have joined.
func TestJoiningTakesItsTime(t *testing.T) {
	r := newRig(t, func(r *rig, c *fleet.Config) {
		quick(r, c)
		c.JoinAfter = 36 * time.Minute // which take 60 ms
	})
	check := func(when string, want fleet.ClusterState, unused float64) {
		t.Helper()
		if have := r.main(); have != want {
			t.Errorf("%s: have %+v, want %+v", when, have, want)
		}
		if have := r.value(t, "relapse_added_unused_servers", "main"); have != unused {
			t.Errorf("%s: have %v added and not used, want %v", when, have, unused)
		}
	}
	r.lose(t, "l", "", .5)
	check("gone", state(10, 5, 0, 0), 0)
	r.fleet.EndLoss("l")
	check("added", state(10, 0, 0, 5), 5)
	r.lose(t, "m", "", 1)
	check("gone again", state(10, 10, 0, 0), 0)
	r.fleet.EndLoss("m")
	check("added again", state(10, 0, 0, 10), 10)
	if have := r.value(t, "relapse_added_servers_total", "main"); have != 0 {
		t.Errorf("have %v registered before their time, want none", have)
	}
	r.run(t)
	eventually(t, "all are free", func() bool { return r.inState(t, "main", "free") == 10 })
	if have := r.value(t, "relapse_added_servers_total", "main"); have != 10 {
		t.Errorf("have %v added, want each of 10 once", have)
	}
	check("joined", state(10, 0, 0, 0), 10)
	r.sound(t)
}

// TestARestartedNodeIsNotToldOfWhoIsGone has a node forget all when all are gone.
func TestARestartedNodeIsNotToldOfWhoIsGone(t *testing.T) {
	r := start(t, asItIs)
	a := r.nodes[0]
	r.lose(t, "l", "", 1)
	a.change(func() { a.boot, a.entries = "a-2", map[int]matchmaking.Entry{} })
	eventually(t, "the restart is noticed", func() bool {
		status, _ := r.move(t, matchmaking.Move{Transfer: "t", To: "a", Boot: "a-2"})
		return status == http.StatusOK
	})
	if have := r.value(t, "relapse_reregistrations_total", "a"); have != 0 {
		t.Errorf("have %v registered anew, want none", have)
	}
	r.fleet.EndLoss("l")
	second := func(e matchmaking.Entry) bool { return e.Epoch == 2 && !e.Busy }
	eventually(t, "all are back", func() bool { return a.count(second)+r.nodes[1].count(second) == 10 })
	r.sound(t)
}

func TestOrders(t *testing.T) {
	r := newRig(t, asItIs)
	control := r.fleet.Control()
	order := func(method, path, body string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		control.ServeHTTP(w, httptest.NewRequest(method, path, strings.NewReader(body)))
		return w
	}
	half := map[string]fleet.LossState{"l": {Share: .5}}
	for _, c := range []struct {
		name, method, path, body string
		status                   int
		gone                     int // afterwards
		losses                   map[string]fleet.LossState
	}{
		{"none", "DELETE", "/losses/l", ``, 204, 0, nil},
		{"no share", "PUT", "/losses/l", `{"cluster": "main"}`, 400, 0, nil},
		{"a field that means nothing", "PUT", "/losses/l", `{"share": 0.5, "for": "5s"}`, 400, 0, nil},
		{"a loss", "PUT", "/losses/l", `{"share": 0.5}`, 204, 5, half},
		{"the same again", "PUT", "/losses/l", `{"share": 0.5}`, 204, 5, half},
		{"another share in its place", "PUT", "/losses/l", `{"share": 0.6}`, 400, 5, half},
		{"a second one", "PUT", "/losses/m", `{"share": 0.1, "cluster": "main"}`, 204, 6,
			map[string]fleet.LossState{"l": {Share: .5}, "m": {Cluster: "main", Share: .1}}},
		{"the end of the second", "DELETE", "/losses/m", ``, 204, 5, half},
		{"the end of the first", "DELETE", "/losses/l", ``, 204, 0, nil},
		{"its end again", "DELETE", "/losses/l", ``, 204, 0, nil},
	} {
		if have := order(c.method, c.path, c.body).Code; have != c.status {
			t.Errorf("%s: have status %d, want %d", c.name, have, c.status)
		}
		var said fleet.Losses
		if err := json.Unmarshal(order("GET", "/losses", "").Body.Bytes(), &said); err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if have := said.Clusters["main"]; have != state(10, c.gone, 0, 0) {
			t.Errorf("%s: have %+v, want %d of 10 gone", c.name, have, c.gone)
		}
		if !maps.Equal(said.Losses, c.losses) {
			t.Errorf("%s: have losses %+v, want %+v", c.name, said.Losses, c.losses)
		}
	}
}
