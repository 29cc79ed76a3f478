package history_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"relapse/topologies/services/fleet/history"
	"relapse/topologies/services/matchmaking"
)

// TestCounts looks at the counts after each event.
func TestCounts(t *testing.T) {
	for _, tc := range []struct {
		name    string
		events  events
		missing []int // after each event
		stale   []int
	}{
		{
			"lost until it is listed",
			events{registered(0, 1, "a", 1), acknowledged(1, 1, "a", 1), seen(1500, "a"), seen(2500, "a"), seen(3500, "a"), seen(4500, "a", entry(1, 1))},
			[]int{0, 0, 0, 1, 1, 0}, []int{0, 0, 0, 0, 0, 0},
		},
		{
			"lost until it is taken",
			events{registered(0, 1, "a", 1), acknowledged(1, 1, "a", 1), seen(1500, "a"), seen(2500, "a"), reserved(2600, 1, 1, "m1")},
			[]int{0, 0, 0, 1, 0}, []int{0, 0, 0, 0, 0},
		},
		{
			"lost until it is moved",
			events{registered(0, 1, "a", 1), acknowledged(1, 1, "a", 1), seen(1500, "a"), seen(2500, "a"), moved(2600, 1, "a", "b", 2)},
			[]int{0, 0, 0, 1, 0}, []int{0, 0, 0, 0, 0},
		},
		{
			"lost until its node has restarted and it is registered anew",
			events{registered(0, 1, "a", 1), acknowledged(1, 1, "a", 1), seen(1500, "a"), seen(2500, "a"), restarted(2600, "a"), registered(2600, 1, "a", 2)},
			[]int{0, 0, 0, 1, 1, 0}, []int{0, 0, 0, 0, 0, 0},
		},
		{
			"lost until it is gone",
			events{registered(0, 1, "a", 1), acknowledged(1, 1, "a", 1), seen(1500, "a"), seen(2500, "a"), gone(2600, 1), seen(3500, "a")},
			[]int{0, 0, 0, 1, 0, 0}, []int{0, 0, 0, 0, 0, 0},
		},
		{
			"two lost",
			events{registered(0, 1, "a", 1), acknowledged(1, 1, "a", 1), moved(2, 1, "a", "b", 2), registered(3, 2, "b", 1), acknowledged(4, 2, "b", 1), seen(1500, "b"), seen(2500, "b")},
			[]int{0, 0, 0, 0, 0, 0, 2}, []int{0, 0, 0, 0, 0, 0, 0},
		},
		{
			"a stale entry after a move",
			events{
				registered(0, 1, "a", 1), acknowledged(1, 1, "a", 1), moved(2, 1, "a", "b", 2),
				seen(1000, "a", entry(1, 1)), seen(1000, "b", entry(1, 2)), seen(2000, "a"),
			},
			[]int{0, 0, 0, 0, 0, 0}, []int{0, 0, 0, 1, 1, 0},
		},
		{
			"a stale entry of what is in a match",
			events{registered(0, 1, "a", 1), reserved(2, 1, 1, "m1"), seen(1000, "a", entry(1, 1)), restarted(1500, "a")},
			[]int{0, 0, 0, 0}, []int{0, 0, 1, 0},
		},
		{
			"a stale entry of what is gone, until it is back",
			events{
				registered(0, 1, "a", 1), gone(2, 1), seen(1000, "a", entry(1, 1)), registered(1500, 1, "a", 2), seen(2000, "a", entry(1, 2)),
			},
			[]int{0, 0, 0, 0, 0}, []int{0, 0, 1, 1, 0},
		},
		{
			"gone after the question",
			events{registered(0, 1, "a", 1), gone(995, 1), seen(1000, "a", entry(1, 1)), seen(2000, "a", entry(1, 1))},
			[]int{0, 0, 0, 0}, []int{0, 0, 0, 1},
		},
		{
			"not to be handed out",
			events{registered(0, 1, "a", 1), moved(2, 1, "a", "b", 2), seen(1000, "a", is(matchmaking.Held, 1, 1))},
			[]int{0, 0, 0}, []int{0, 0, 0},
		},
		{
			"changed after the question",
			events{registered(0, 1, "a", 1), moved(995, 1, "a", "b", 2), seen(1000, "a", entry(1, 1))},
			[]int{0, 0, 0}, []int{0, 0, 0},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := checker(t)
			var missing, stale []int
			for _, e := range tc.events {
				c.Add(e)
				missing, stale = append(missing, c.Missing()), append(stale, c.Stale())
			}
			if !slices.Equal(missing, tc.missing) {
				t.Errorf("missing: have %v, want %v", missing, tc.missing)
			}
			if !slices.Equal(stale, tc.stale) {
				t.Errorf("stale: have %v, want %v", stale, tc.stale)
			}
		})
	}
}

func TestAViolationTellsTheServersLastEvents(t *testing.T) {
	c := checker(t)
	c.Add(registered(0, 2, "a", 1))
	for n := range 8 {
		match := fmt.Sprintf("m%d", n)
		c.Add(registered(10*n, 1, "a", int64(n+1)))
		c.Add(reserved(10*n+1, 1, int64(n+1), match))
		c.Add(ended(10*n+2, 1, match))
	}
	found := c.Add(reserved(100, 1, 3, "m9"))
	if len(found) != 1 {
		t.Fatalf("have %v, want one violation", found)
	}
	v := found[0]
	if v.Invariant != history.TwoMatches || v.Server != 1 || v.Node != "a" || v.At != ms(100) {
		t.Errorf("have %+v, want two matches of server 1 by node a at 100 ms", v)
	}
	want := events{
		registered(50, 1, "a", 6), reserved(51, 1, 6, "m5"), ended(52, 1, "m5"),
		registered(60, 1, "a", 7), reserved(61, 1, 7, "m6"), ended(62, 1, "m6"),
		registered(70, 1, "a", 8), reserved(71, 1, 8, "m7"), ended(72, 1, "m7"),
		reserved(100, 1, 3, "m9"),
	}
	if !slices.Equal(v.Events, want) {
		t.Errorf("events: have\n%v, want\n%v", v.Events, want)
	}
	c.Add(ended(200, 1, "m9"))
	if !slices.Equal(v.Events, want) {
		t.Errorf("the events changed afterwards: have\n%v", v.Events)
	}
	if line := v.String(); strings.Contains(line, "\n") {
		t.Errorf("have %q, want one line", line)
	}
}

func TestTheGraceIsConfigurable(t *testing.T) {
	for grace, want := range map[time.Duration]int{100 * time.Millisecond: 1, 5 * time.Second: 0, 0: 0} {
		c, err := history.New(history.Config{Grace: grace, Cluster: clusterOf, Modes: map[string]string{"default": "main"}})
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range (events{registered(0, 1, "a", 1), acknowledged(0, 1, "a", 1), seen(500, "a"), seen(1500, "a")}) {
			c.Add(e)
		}
		if have := c.Missing(); have != want {
			t.Errorf("grace %v: have %d missing, want %d", grace, have, want)
		}
	}
}

func TestNewRefusesWhatItCannotCheck(t *testing.T) {
	modes := map[string]string{"default": "main"}
	for name, have := range map[string]history.Config{
		"a negative grace": {Grace: -time.Second, Cluster: clusterOf, Modes: modes},
		"no cluster":       {Modes: modes},
		"no modes":         {Cluster: clusterOf},
	} {
		if _, err := history.New(have); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
