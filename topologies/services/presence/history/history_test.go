package history_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"relapse/topologies/services/presence/history"
)

// settings are the default ones of the service; player p is in partition p modulo 4.
// A player who was heard of at 1000 is due at tick 12, which is at 3000, and is missed
// after 5250.
func settings() history.Config {
	return history.Config{
		Lease: 1500 * time.Millisecond, Interval: 250 * time.Millisecond, Tick: 250 * time.Millisecond,
		OfflineAfter: 2 * time.Second, Partitions: 4, Partition: func(p int64) int { return int(p % 4) },
	}
}

func checker(t *testing.T) *history.Checker {
	t.Helper()
	c, err := history.New(settings())
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Times of the events below are in milliseconds.

func claimed(at int64, partition int, number int64, owner, from string) history.Event {
	return history.Claimed{At: at, Partition: partition, Number: number, Owner: owner, From: from}
}

func acted(at, player, due int64, owner string, number int64) history.Event {
	return history.Acted{At: at, Player: player, Partition: int(player % 4), Due: due, Owner: owner, Number: number}
}

func heard(at int64, beats ...history.Beat) history.Event { return history.Heard{At: at, Beats: beats} }

func beat(player, at int64) history.Beat { return history.Beat{Player: player, At: at} }

// held has an owner for each partition, "" for none, whose leases end at the same time.
func held(at, till int64, owners ...string) history.Event {
	e := history.Held{At: at, Instances: []string{"a", "b"}}
	for k, owner := range owners {
		if owner != "" {
			e.Claims = append(e.Claims, history.Holding{Partition: k, Owner: owner, Till: till})
		}
	}
	return e
}

type events = []history.Event

func TestInvariants(t *testing.T) {
	a := claimed(100, 1, 1, "a", "") // what most actions below are under
	for _, tc := range []struct {
		name   string
		events events
		want   []string // invariant, and player or partition, of each violation
	}{
		// Handled twice.
		{"marked once", events{a, heard(1000, beat(1, 1000)), acted(3010, 1, 12, "a", 1), heard(9000)}, nil},
		{"marked for two ticks", events{
			a, heard(1000, beat(1, 1000)), acted(3010, 1, 12, "a", 1),
			heard(4000, beat(1, 4000)), acted(6010, 1, 24, "a", 1), heard(9000),
		}, nil},
		{"marked twice for one tick", events{
			a, heard(1000, beat(1, 1000)), acted(3010, 1, 12, "a", 1), acted(3020, 1, 12, "a", 1),
		}, []string{"handled-twice player 1"}},
		{"marked twice, and another time between", events{
			a, acted(3010, 1, 12, "a", 1), acted(6010, 1, 24, "a", 1), acted(6020, 1, 12, "a", 1),
		}, []string{"handled-twice player 1"}},
		{"marked twice by an owner that woke", events{
			a, claimed(2000, 1, 2, "b", "a"), acted(3010, 1, 12, "b", 2), acted(3020, 1, 12, "a", 1),
		}, []string{"handled-twice player 1", "without-claim player 1"}},
		{"two players", events{a, claimed(100, 2, 2, "a", ""), acted(3010, 1, 12, "a", 1), acted(3010, 2, 12, "a", 2)}, nil},

		// Missed.
		{"marked in the last moment", events{a, heard(1000, beat(1, 1000)), heard(5250, beat(1, 1000)), acted(5251, 1, 12, "a", 1), heard(6000)}, nil},
		{"not marked", events{heard(1000, beat(1, 1000)), heard(5251, beat(1, 1000)), heard(6000, beat(1, 1000))}, []string{"missed player 1"}},
		{"gone without a mark", events{heard(1000, beat(1, 1000)), heard(5251)}, []string{"missed player 1"}},
		{"known late and marked in time", events{heard(4000, beat(1, 1000)), heard(6250, beat(1, 1000))}, nil},
		{"known late and not marked", events{heard(4000, beat(1, 1000)), heard(6251, beat(1, 1000))}, []string{"missed player 1"}},
		{"heard of again", events{heard(1000, beat(1, 1000)), heard(5200, beat(1, 5100)), heard(6000, beat(1, 5100))}, nil},
		{"marked, then heard of, then not marked", events{
			a, heard(1000, beat(1, 1000)), acted(3010, 1, 12, "a", 1), heard(4000, beat(1, 4000)), heard(9000),
		}, []string{"missed player 1"}},
		{"marked for an earlier tick only", events{
			a, heard(1000, beat(1, 1000)), heard(3000, beat(1, 3000)), acted(3010, 1, 12, "a", 1), heard(9000),
		}, []string{"missed player 1", "false-mark player 1"}},
		{"marked before its heartbeat was known", events{a, acted(3010, 1, 12, "a", 1), heard(3020, beat(1, 1000)), heard(9000)}, nil},

		// Without claim.
		{"no claim", events{acted(3010, 1, 12, "a", 1)}, []string{"without-claim player 1"}},
		{"a claim of no number", events{a, acted(3010, 1, 12, "a", 0)}, []string{"without-claim player 1"}},
		{"another instance's claim", events{a, acted(3010, 1, 12, "b", 1)}, []string{"without-claim player 1"}},
		{"a claim of another partition", events{a, acted(3010, 2, 12, "a", 1)}, []string{"without-claim player 2"}},
		{"a player of another partition", events{
			a, history.Acted{At: 3010, Player: 2, Partition: 1, Due: 12, Owner: "a", Number: 1},
		}, []string{"without-claim player 2"}},
		{"no such partition", events{
			a, history.Acted{At: 3010, Player: 2, Partition: 4, Due: 12, Owner: "a", Number: 1},
		}, []string{"without-claim player 2"}},
		{"under a lower number than the partition was acted on before", events{
			a, claimed(3000, 1, 2, "b", "a"), acted(3010, 1, 12, "b", 2), acted(3020, 5, 12, "a", 1),
		}, []string{"without-claim player 5"}},
		{"just after another instance has claimed it", events{a, claimed(3000, 1, 2, "b", "a"), acted(3500, 1, 12, "a", 1)}, nil},
		{"long after another instance has claimed it", events{a, claimed(3000, 1, 2, "b", "a"), acted(3501, 1, 12, "a", 1)}, []string{"without-claim player 1"}},
		{"by each owner in turn", events{
			a, acted(3010, 1, 12, "a", 1), claimed(4000, 1, 2, "b", "a"), acted(4010, 5, 16, "b", 2), claimed(5000, 1, 3, "a", "b"), acted(5010, 9, 20, "a", 3),
		}, nil},
		{"a claim that was lost", events{a, history.Lost{}, acted(3010, 1, 12, "b", 2)}, nil},
		{"a claim that nobody made, of a number that was known at the loss", events{
			a, claimed(200, 2, 7, "a", ""), history.Lost{}, acted(3010, 1, 12, "b", 3),
		}, []string{"without-claim player 1"}},

		// False marks.
		{"marked at the tick", events{a, acted(3000, 1, 12, "a", 1)}, nil},
		{"marked before the tick", events{a, heard(2500, beat(1, 1000)), acted(2999, 1, 12, "a", 1)}, []string{"false-mark player 1"}},
		{"heard of in time", events{a, heard(2600, beat(1, 2500)), acted(3010, 1, 12, "a", 1)}, []string{"false-mark player 1"}},
		{"heard of at the last moment", events{a, heard(3005, beat(1, 3000)), acted(3010, 1, 12, "a", 1)}, []string{"false-mark player 1"}},
		{"heard of just too long ago", events{a, heard(1000, beat(1, 1000)), acted(3010, 1, 12, "a", 1)}, nil},
		{"heard of in time, written late", events{
			a, heard(1000, beat(1, 1000)), acted(3010, 1, 12, "a", 1), heard(3600, beat(1, 1001)), heard(3700, beat(1, 2000)),
		}, []string{"false-mark player 1"}},
		{"back before the mark, and perhaps not written yet", events{a, acted(3510, 1, 12, "a", 1), heard(3600, beat(1, 3005))}, nil},
		{"back long before the mark", events{a, heard(3100, beat(1, 3005)), acted(4005, 1, 12, "a", 1)}, []string{"false-mark player 1"}},
		{"back after the mark", events{a, acted(3010, 1, 12, "a", 1), heard(3600, beat(1, 3500))}, nil},

		// Unowned.
		{"nobody there yet", events{held(1000, 0, "", "", "", ""), held(9000, 0, "", "", "", "")}, nil},
		{"renewed", events{held(1000, 2500, "a", "a", "b", "b"), held(2000, 3500, "a", "a", "b", "b"), held(3000, 4500, "a", "b", "b", "b")}, nil},
		{"claimed in time after a lease has ended", events{
			held(1000, 2500, "a", "a", "a", "a"), held(4250, 2500, "a", "a", "a", "a"), held(4260, 5760, "b", "b", "b", "b"),
		}, nil},
		{"not claimed after a lease has ended", events{
			held(1000, 2500, "a", "a", "a", "a"), held(4251, 2500, "a", "a", "a", "a"), held(4300, 2500, "a", "a", "a", "a"),
		}, []string{"unowned partition 0", "unowned partition 1", "unowned partition 2", "unowned partition 3"}},
		{"never claimed", events{held(1000, 2500, "a", "a", "a", ""), held(2750, 4250, "a", "a", "a", ""), held(2751, 4251, "a", "a", "a", "")},
			[]string{"unowned partition 3"}},
		{"twice", events{
			held(1000, 2500, "a", "a", "a", "a"), held(4251, 5751, "a", "a", "a", ""), held(5000, 6500, "a", "a", "a", "a"), held(8251, 9751, "a", "a", "a", ""),
		}, []string{"unowned partition 3", "unowned partition 3"}},
		{"lost and claimed in time", events{held(1000, 2500, "a", "a", "a", "a"), history.Lost{}, held(1500, 0, "", "", "", ""), held(2000, 3500, "a", "a", "a", "a")}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := checker(t)
			var have []string
			for _, e := range tc.events {
				var found []string
				for _, v := range c.Add(e) {
					what := fmt.Sprintf("%s player %d", v.Invariant, v.Player)
					if v.Player < 0 {
						what = fmt.Sprintf("%s partition %d", v.Invariant, v.Partition)
					}
					found = append(found, what)
				}
				have = append(have, found...)
			}
			slices.Sort(have)
			want := slices.Sorted(slices.Values(tc.want))
			if !slices.Equal(have, want) {
				t.Errorf("have %q, want %q", have, want)
			}
		})
	}
}

func TestCounts(t *testing.T) {
	for _, tc := range []struct {
		name                   string
		events                 events
		moves, unowned, spread int
	}{
		{"nothing", nil, 0, 4, 0},
		{"one has all, one is new", events{held(1000, 2500, "a", "a", "a", "a")}, 0, 0, 4},
		{"even", events{held(1000, 2500, "a", "b", "a", "b")}, 0, 0, 0},
		{"an owner that is not registered", events{held(1000, 2500, "c", "c", "c", "a")}, 0, 0, 3},
		{"some free", events{held(1000, 2500, "a", "", "b", "")}, 0, 2, 0},
		{"all ended", events{held(2500, 2500, "a", "b", "a", "b")}, 0, 4, 0},
		{"first claims", events{claimed(1, 0, 1, "a", ""), claimed(1, 1, 2, "b", "")}, 0, 4, 0},
		{"moves", events{claimed(1, 0, 1, "a", ""), claimed(2, 0, 2, "b", "a"), claimed(3, 0, 3, "a", "b")}, 2, 4, 0},
		{"claimed again by the same", events{claimed(1, 0, 1, "a", ""), claimed(2, 0, 2, "a", "a")}, 0, 4, 0},
	} {
		c := checker(t)
		for _, e := range tc.events {
			c.Add(e)
		}
		if moves, unowned, spread := c.Moves(), c.Unowned(), c.Spread(); moves != tc.moves || unowned != tc.unowned || spread != tc.spread {
			t.Errorf("%s: have %d moves, %d without an owner, a spread of %d; want %d, %d, %d", tc.name, moves, unowned, spread, tc.moves, tc.unowned, tc.spread)
		}
	}
}

func TestTheAllowanceForLateHeartbeatsCounts(t *testing.T) {
	for late, want := range map[time.Duration]int{0: 1, time.Second: 0} {
		s := settings()
		s.Late = late
		c, err := history.New(s)
		if err != nil {
			t.Fatal(err)
		}
		c.Add(heard(1000, beat(1, 1000)))
		if have := len(c.Add(heard(6000, beat(1, 1000)))); have != want {
			t.Errorf("late by %v: have %d violations, want %d", late, have, want)
		}
	}
}

func TestAViolationIsOneLine(t *testing.T) {
	c := checker(t)
	c.Add(claimed(100, 1, 1, "a", ""))
	c.Add(acted(3010, 1, 12, "a", 1))
	found := c.Add(acted(3020, 1, 12, "a", 1))
	if len(found) != 1 {
		t.Fatalf("have %v, want one violation", found)
	}
	line := found[0].String()
	for _, want := range []string{"3.020s", history.HandledTwice, "player 1", "partition 1", "tick 12", "3.010s"} {
		if !strings.Contains(line, want) {
			t.Errorf("have %q, want it to say %q", line, want)
		}
	}
	if strings.Contains(line, "\n") {
		t.Errorf("have %q, want one line", line)
	}
}

func TestNewRefusesWhatItCannotCheck(t *testing.T) {
	for name, change := range map[string]func(*history.Config){
		"no partitions":           func(c *history.Config) { c.Partitions = 0 },
		"no partition":            func(c *history.Config) { c.Partition = nil },
		"no lease":                func(c *history.Config) { c.Lease = 0 },
		"no interval":             func(c *history.Config) { c.Interval = 0 },
		"no tick":                 func(c *history.Config) { c.Tick = time.Microsecond },
		"never offline":           func(c *history.Config) { c.OfflineAfter = 0 },
		"late by less than zero":  func(c *history.Config) { c.Late = -1 },
		"a lag of less than zero": func(c *history.Config) { c.Lag = -1 },
		"negative slack":          func(c *history.Config) { c.Slack = -1 },
	} {
		c := settings()
		change(&c)
		if _, err := history.New(c); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
