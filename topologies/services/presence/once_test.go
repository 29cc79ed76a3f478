package presence_test

import (
	"context"
	"testing"
	"time"

	"relapse/topologies/services/platform/api"
	"relapse/topologies/services/presence"
	"relapse/topologies/services/presence/audit"
	"relapse/topologies/services/presence/history"
)

// running waits until an instance looks for players who are due.
func running(t *testing.T, i metered) {
	t.Helper()
	eventually(t, "it looks for players who are due", func() bool { return i.value("relapse_presence_ticks_total") >= 1 })
}

func TestEachPlayerIsHandledOnceWhateverInstancesDo(t *testing.T) {
	r := newRig(t)
	check := r.audit()
	a, b, c := r.start("a"), r.start("b"), r.process("c")
	eventually(t, "three instances are even", func() bool { return even[metered](a, b, c) })
	// Players become due over two seconds, while an instance joins, one leaves, and one
	// dies.
	all := players(0, 2000)
	begin := r.now()
	r.beat(func(p int64) int64 { return begin + p }, all...)
	reached := func(part int) func() bool { return func() bool { return r.marks() >= part } }
	eventually(t, "an eighth is marked", reached(250))
	d := r.start("d")
	eventually(t, "a quarter is marked", reached(500))
	c.kill()
	eventually(t, "half are marked", reached(1000))
	a.stop()
	eventually(t, "all are marked", reached(2000))
	if have := r.marked(); !each(have, all, 1) {
		t.Errorf("have %d actions for 2000 players, want one each", len(r.actions()))
	}
	eventually(t, "two instances are even", func() bool { return even(b, d) })
	check.clean()
	for _, a := range r.actions() {
		if want := api.Player(a.player).Partition(); a.partition != want {
			t.Errorf("player %d: have partition %d, want %d", a.player, a.partition, want)
		}
		if due := (begin + a.player + offlineAfter.Milliseconds() + tick.Milliseconds() - 1) / tick.Milliseconds(); a.due != due {
			t.Errorf("player %d: have tick %d, want %d", a.player, a.due, due)
		}
		if a.at < a.due*tick.Milliseconds() {
			t.Errorf("player %d was marked at %d, before it was due at %d", a.player, a.at, a.due*tick.Milliseconds())
		}
	}
	if have, want := check.count("relapse_presence_marks_total"), 2000; have != want {
		t.Errorf("the audit has %d marks, want %d", have, want)
	}
	if have := a.value("relapse_presence_delay_seconds"); have == 0 || have != a.value("relapse_presence_actions_total") {
		t.Errorf("have %v delays for %v actions, want one each, and some", have, a.value("relapse_presence_actions_total"))
	}
}

func TestWithoutPartitionsEveryInstanceHandlesEveryPlayer(t *testing.T) {
	r := newRig(t)
	check := r.audit()
	unpartitioned := func(c *presence.Config) { c.Unpartitioned = true }
	for _, name := range []string{"a", "b", "c"} {
		running(t, r.start(name, unpartitioned))
	}
	all := players(0, 50)
	r.beat(at(r.now()), all...)
	eventually(t, "each player is marked by each instance", func() bool { return r.marks() >= 3*len(all) })
	if have := r.marked(); !each(have, all, 3) {
		t.Errorf("have %v marks, want 3 for each player", have)
	}
	check.settled()
	if have := check.violations(history.HandledTwice); have != 100 {
		t.Errorf("have %d marks too many, want two of each of 50 players", have)
	}
}

func TestAPlayerIsHandledOncePerSilence(t *testing.T) {
	r := newRig(t)
	check := r.audit()
	running(t, r.start("a"))
	count := func() int { return r.marked()[7] }
	online := func() bool {
		return r.listsClient.ZScore(context.Background(), api.SeenKey(api.Player(7).Partition()), "7").Err() == nil
	}
	first := r.now()
	r.beat(at(first), 7)
	eventually(t, "the player is marked", func() bool { return count() == 1 })
	if online() {
		t.Error("a player who is marked is on the list of who is online")
	}
	// The reply to whoever wrote the heartbeat was lost, so it is written again.
	r.beat(at(first), 7)
	eventually(t, "that heartbeat is off its list again", func() bool { return !online() })
	if have := count(); have != 1 {
		t.Errorf("the same heartbeat again: have %d marks, want 1", have)
	}
	r.beat(at(r.now()), 7)
	eventually(t, "the player is marked again", func() bool { return count() == 2 })
	if have := r.actions(); have[0].due == have[1].due {
		t.Errorf("have two marks for tick %d, want another tick", have[0].due)
	}
	check.clean()
}

func TestAPlayerWhoIsHeardOfWhileInHandIsNotMarked(t *testing.T) {
	r := newRig(t)
	i := r.start("a", func(c *presence.Config) { c.Work = 200 * time.Millisecond })
	running(t, i)
	inHand := func() float64 { return i.value("relapse_presence_in_hand") }
	r.beat(at(r.now()), 7)
	eventually(t, "the player is in hand", func() bool { return inHand() == 1 })
	again := r.now()
	r.beat(at(again), 7)
	eventually(t, "the player is passed over", func() bool { return i.value("relapse_presence_passed_total") == 1 })
	eventually(t, "the player is marked", func() bool { return r.marked()[7] == 1 })
	want := (again + offlineAfter.Milliseconds() + tick.Milliseconds() - 1) / tick.Milliseconds()
	if have := r.actions()[0].due; have != want {
		t.Errorf("have a mark for tick %d, want %d, as by the later heartbeat", have, want)
	}
}

func TestLateHeartbeatsMakeFalseMarksUnlessTheyAreAllowedFor(t *testing.T) {
	const behind = 300 // ms, which is longer than a player may be silent
	for _, tc := range []struct {
		name string
		late time.Duration
		want bool // false marks
	}{
		{"not allowed for", 0, true},
		{"allowed for", 400 * time.Millisecond, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t)
			check := r.audit(func(c *audit.Config) {
				c.Late, c.Every, c.Violations = tc.late, 10*time.Millisecond, nil
			})
			i := r.start("a", func(c *presence.Config) { c.Late = tc.late })
			running(t, i)
			ticks := func() float64 { return i.value("relapse_presence_ticks_total") }
			falsely := func() bool { return check.violations(history.FalseMark) > 0 }
			// Every player is heard of every tick, and it is written late.
			from := ticks()
			for written := from; written < from+40 && (!tc.want || !falsely()); {
				r.beat(at(r.now()-behind), players(0, 20)...)
				eventually(t, "another tick is over", func() bool { return ticks() > written })
				written = ticks()
			}
			check.settled()
			if have := falsely(); have != tc.want {
				t.Errorf("false marks: have %v, want %v", have, tc.want)
			}
			if have := len(r.actions()) > 0; have != tc.want {
				t.Errorf("marks: have %v, want %v", have, tc.want)
			}
		})
	}
}
