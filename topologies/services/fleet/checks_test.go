package fleet_test

import (
	"fmt"
	"net/http"
	"testing"

	"relapse/topologies/services/fleet"
	"relapse/topologies/services/fleet/history"
	"relapse/topologies/services/matchmaking"
)

func TestTheChecksSeeWhatTheFencePrevents(t *testing.T) {
	for _, c := range []struct {
		name       string
		unfenced   bool
		want       int // status of each request but the first
		violations float64
	}{
		{"fenced", false, http.StatusConflict, 0},
		{"unfenced", true, http.StatusCreated, 26},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, func(_ *rig, config *fleet.Config) { config.Unfenced = c.unfenced })
			if have := r.post(take(1, 1, "m1")); have != http.StatusCreated {
				t.Fatalf("have %d, want 201", have)
			}
			if have := r.post(take(2, 0, "old")); have != c.want {
				t.Errorf("under an old epoch: have %d, want %d", have, c.want)
			}
			for n := range 25 {
				match := fmt.Sprintf("other-%d", n)
				for range 2 { // the second one is the same request, and no other match
					if have := r.post(take(1, 1, match)); have != c.want {
						t.Errorf("in a match: have %d, want %d", have, c.want)
					}
				}
			}
			if have := r.value(t, "relapse_violations_total", history.TwoMatches); have != c.violations {
				t.Errorf("have %v violations, want %v", have, c.violations)
			}
			lines := 0
			for _, line := range r.printed.all() {
				if line != "" {
					lines++
				}
			}
			if want := int(min(c.violations, 20)); lines != want {
				t.Errorf("have %d lines, want %d", lines, want)
			}
			if have := r.post(take(99, 1, "m2")); have != http.StatusNotFound {
				t.Errorf("no such server: have %d, want 404", have)
			}
		})
	}
}

func TestAnUnfencedServerIsListedOnceAfterTheLastOfItsMatches(t *testing.T) {
	r := start(t, func(r *rig, c *fleet.Config) {
		quick(r, c)
		c.Unfenced = true
	})
	n, _ := r.at(t, 1)
	for _, match := range []string{"m1", "m2", "m3"} {
		if have := r.post(take(1, 1, match)); have != http.StatusCreated {
			t.Fatalf("have %d, want 201", have)
		}
	}
	eventually(t, "it is listed again", func() bool { return n.all()[1].Epoch == 2 })
	eventually(t, "that is acknowledged", func() bool { return r.value(t, "relapse_registrations_total", n.name) == 6 })
	if have := r.inState(t, "main", "free"); have != 10 {
		t.Errorf("have %v free, want all 10", have)
	}
}

func TestAnUnfencedServerThatIsGoneIsSeenToTakeAMatch(t *testing.T) {
	for _, c := range []struct {
		name     string
		unfenced bool
		want     int
		gone     float64 // violations
	}{
		{"fenced", false, http.StatusConflict, 0},
		{"unfenced", true, http.StatusCreated, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, func(_ *rig, config *fleet.Config) { config.Unfenced = c.unfenced })
			r.lose(t, "l", "", 1)
			if have := r.post(take(1, 1, "m1")); have != c.want {
				t.Errorf("have %d, want %d", have, c.want)
			}
			for invariant, want := range map[string]float64{history.NotThere: c.gone, history.TwoMatches: 0} {
				if have := r.value(t, "relapse_violations_total", invariant); have != want {
					t.Errorf("%s: have %v violations, want %v", invariant, have, want)
				}
			}
		})
	}
}

func TestAMatchOnTheWrongClusterIsCounted(t *testing.T) {
	r := newRig(t, func(r *rig, c *fleet.Config) {
		r.another(t, c, "side", "c", 2)
		c.Modes["small"] = "side"
	})
	for _, path := range []string{reservation(1, 1, "m1", "small", "a"), reservation(11, 1, "m2", "small", "c"), reservation(2, 1, "m3", "default", "a")} {
		if have := r.post(path); have != http.StatusCreated {
			t.Errorf("%s: have %d, want 201", path, have)
		}
	}
	if have := r.value(t, "relapse_violations_total", history.Misrouted); have != 1 {
		t.Errorf("have %v misrouted, want 1", have)
	}
	for _, c := range []struct {
		cluster, mode string
		want          float64
	}{{"main", "small", 1}, {"side", "small", 1}, {"main", "default", 1}, {"side", "default", 0}} {
		if have := r.value(t, "relapse_matches_total", c.cluster, c.mode); have != c.want {
			t.Errorf("%s on %s: have %v matches, want %v", c.mode, c.cluster, have, c.want)
		}
	}
}

// TestListsAreChecked has a node show what it should not.
func TestListsAreChecked(t *testing.T) {
	// theirs is a server of the other node.
	for _, c := range []struct {
		name  string
		shows func(n *node, mine, theirs matchmaking.Entry)
		want  string  // the invariant; none if it is empty
		stale float64 // entries
	}{
		{"nothing wrong", func(*node, matchmaking.Entry, matchmaking.Entry) {}, "", 0},
		{"a server less", func(n *node, mine, _ matchmaking.Entry) { n.hidden[mine.Server] = true }, history.Lost, 0},
		{"a server of the other node", func(n *node, _, theirs matchmaking.Entry) { n.show(theirs) }, history.ListedTwice, 0},
		{"a server twice", func(n *node, mine, _ matchmaking.Entry) { n.show(mine) }, history.ListedTwice, 0},
		{"an old entry", func(n *node, _, theirs matchmaking.Entry) {
			theirs.Epoch = 0
			n.show(theirs)
		}, "", 1},
		{"an old entry in another region", func(n *node, _, theirs matchmaking.Entry) {
			theirs.Epoch, theirs.Region = 0, "mars"
			n.show(theirs)
		}, history.Region, 1},
		{"a server that is not there", func(n *node, mine, _ matchmaking.Entry) {
			mine.Server = 999
			n.show(mine)
		}, history.Unknown, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := start(t, asItIs)
			a := r.nodes[0]
			mine, theirs := someEntry(a), someEntry(r.nodes[1])
			a.change(func() { c.shows(a, mine, theirs) })
			if c.want != "" {
				eventually(t, "it is counted", func() bool { return r.value(t, "relapse_violations_total", c.want) == 1 })
			}
			eventually(t, "stale entries are counted", func() bool { return r.value(t, "relapse_stale_entries") == c.stale })
			audits := func() float64 { return r.value(t, "relapse_audits_total", "a") }
			from := audits()
			eventually(t, "the list is read ten times more", func() bool { return audits() >= from+10 })
			for _, invariant := range history.Invariants {
				want := 0.0
				if invariant == c.want {
					want = 1
				}
				if have := r.value(t, "relapse_violations_total", invariant); have != want {
					t.Errorf("%s: have %v violations, want %v", invariant, have, want)
				}
			}
			missing := func() float64 { return r.value(t, "relapse_missing_servers") }
			if have := missing(); (have == 1) != (c.want == history.Lost) {
				t.Errorf("have %v missing", have)
			}
			a.change(func() {
				clear(a.hidden)
				a.extra = nil
			})
			eventually(t, "nothing is missing or stale any more", func() bool {
				return missing() == 0 && r.value(t, "relapse_stale_entries") == 0
			})
		})
	}
}

// show has the node show an entry that it does not have.
func (n *node) show(e matchmaking.Entry) {
	n.extra = append(n.extra, matchmaking.Listed{Entry: e, State: matchmaking.Free})
}

// someEntry gives an entry of a node, always the same.
func someEntry(n *node) matchmaking.Entry {
	all := n.all()
	least := 0
	for id := range all {
		if least == 0 || id < least {
			least = id
		}
	}
	return all[least]
}
