package presence_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"relapse/topologies/services/platform/api"
	"relapse/topologies/services/presence"
)

// perJoin is what one join or leave may move, at most: less than twice all partitions.
const perJoin = 2 * api.Partitions

func TestInstancesShareThePartitionsEvenly(t *testing.T) {
	r := newRig(t)
	check := r.audit()
	var all []*instance
	for _, step := range []struct{ instances, least, most int }{
		{1, 256, 256}, {3, 85, 86}, {4, 64, 64}, {5, 51, 52},
	} {
		before, joined := r.moves(), step.instances-len(all)
		for len(all) < step.instances {
			all = append(all, r.start(fmt.Sprintf("presence-%d", len(all)+1)))
		}
		eventually(t, fmt.Sprintf("%d instances have %d to %d partitions each", step.instances, step.least, step.most), func() bool {
			have := shares(all...)
			return even(all...) && have[0] == step.least && have[len(have)-1] == step.most
		})
		if have := r.moves() - before; have >= joined*perJoin {
			t.Errorf("%d instances: have %d moves, want less than %d", step.instances, have, joined*perJoin)
		}
		// Nothing is to be won any more, so nobody takes anything.
		still := len(r.claimed())
		r.rounds(all...)
		if have := len(r.claimed()) - still; have > 0 {
			t.Errorf("%d instances, even: have %d claims more, want none", step.instances, have)
		}
	}
	eventually(t, "the audit sees five instances, even", func() bool {
		return check.count("relapse_presence_registered") == 5 &&
			check.count("relapse_presence_spread") == 1 && check.count("relapse_presence_unowned") == 0
	})
	check.settled()
	if have, want := check.count("relapse_presence_moved_total"), r.moves(); have != want {
		t.Errorf("the audit has %d moves, want %d", have, want)
	}
	check.clean()
}

// joined waits until so many instances have been there for a lease.
func (r *rig) joined(instances int, lease time.Duration) {
	r.t.Helper()
	eventually(r.t, fmt.Sprintf("%d instances have been there for a lease", instances), func() bool {
		count, now := 0, r.claimsClient.Time(context.Background()).Val().UnixMilli()
		for _, since := range r.claimsClient.HGetAll(context.Background(), presence.JoinedKey).Val() {
			if r.number(since) <= now-lease.Milliseconds() {
				count++
			}
		}
		return count == instances
	})
}

// rounds waits until each instance has made ten rounds more.
func (r *rig) rounds(all ...*instance) {
	r.t.Helper()
	made := func(i *instance) float64 { return i.value("relapse_presence_rounds_total", "ok") }
	from := map[*instance]float64{}
	for _, i := range all {
		from[i] = made(i)
	}
	for _, i := range all {
		eventually(r.t, "ten rounds are made", func() bool { return made(i) >= from[i]+10 })
	}
}

func TestWhatAnInstanceGivesBackIsClaimedBeforeItsLeaseWouldEnd(t *testing.T) {
	r := newRig(t)
	const long = 3 * time.Second
	patient := func(c *presence.Config) { c.Lease = long }
	a, b, c := r.start("a", patient), r.start("b", patient), r.start("c", patient)
	eventually(t, "three instances are even", func() bool { return even(a, b, c) })
	before := r.moves()
	b.stop()
	eventually(t, "two instances are even", func() bool { return even(a, c) })
	if have := r.moves() - before; have >= perJoin {
		t.Errorf("have %d moves, want less than %d", have, perJoin)
	}
	left := map[int]int64{}
	for _, e := range r.claimed() {
		if e.how == "left" {
			left[e.partition] = e.at
		} else if at, given := left[e.partition]; given {
			delete(left, e.partition)
			if after := e.at - at; after > long.Milliseconds()/2 {
				t.Errorf("partition %d was claimed %d ms after it was given back, want well within a lease of %v", e.partition, after, long)
			}
		}
	}
	if len(left) > 0 {
		t.Errorf("have %d partitions that nobody has claimed since they were given back, want none", len(left))
	}
}

func TestWhatADeadInstanceHadIsClaimedWhenItsLeaseIsOver(t *testing.T) {
	r := newRig(t)
	check := r.audit()
	a, b, c := r.start("a"), r.start("b"), r.process("c")
	eventually(t, "three instances are even", func() bool { return even[metered](a, b, c) })
	c.kill()
	eventually(t, "two instances are even", func() bool { return even(a, b) })
	check.clean()
}

func TestAnInstanceThatComesAndGoesMovesNothing(t *testing.T) {
	r := newRig(t)
	const long = 2 * time.Second // longer than the third one is there each time
	patient := func(c *presence.Config) { c.Lease = long }
	a, b := r.start("a", patient), r.start("b", patient)
	eventually(t, "two instances are even", func() bool { return even(a, b) })
	r.joined(2, long)
	before := len(r.claimed())
	for n := range 5 {
		c := r.start("c", patient)
		eventually(t, "it makes two rounds", func() bool { return c.value("relapse_presence_rounds_total", "ok") >= 2 })
		c.stop()
		if have := shares(a, b); have[0] != 128 || have[1] != 128 {
			t.Errorf("time %d: have shares of %v, want 128 each", n, have)
		}
	}
	if have := len(r.claimed()) - before; have > 0 {
		t.Errorf("have %d claims, want none", have)
	}
}

func TestGreedyInstancesTakeFromEachOtherWithoutEnd(t *testing.T) {
	r := newRig(t)
	greedy := func(c *presence.Config) { c.Greedy = true }
	r.start("a", greedy)
	r.start("b", greedy)
	eventually(t, "more is moved than two joins may", func() bool { return r.moves() > 2*perJoin })
}

func TestAllThatStartAtOnceBecomeEven(t *testing.T) {
	r := newRig(t)
	var all []*instance
	for n := range 5 {
		all = append(all, r.start(fmt.Sprint("presence-", n)))
	}
	eventually(t, "five instances are even", func() bool { return even(all...) })
	if have := r.moves(); have >= perJoin {
		t.Errorf("have %d moves, want less than %d", have, perJoin)
	}
	// Each has its own times: they do not come at once for ever.
	times := map[string]bool{}
	for _, z := range r.claimsClient.ZRangeWithScores(context.Background(), presence.InstancesKey, 0, -1).Val() {
		times[fmt.Sprint(z.Score)] = true
	}
	if len(times) < 2 {
		t.Errorf("have %d times of the last rounds, want them to differ", len(times))
	}
}
