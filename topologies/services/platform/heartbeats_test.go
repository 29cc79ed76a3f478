package platform_test

import (
	"net/http"
	"testing"
	"time"

	"relapse/topologies/services/platform"
	"relapse/topologies/services/platform/api"
)

// clockError is more than the clock of Redis is misread by, over the loopback of a busy
// machine.
const clockError = 100 * time.Millisecond

func (r *rig) beat(t *testing.T, p api.Player) {
	t.Helper()
	if have := r.status(t, "POST", "/heartbeat?player="+p.String(), nil); have != http.StatusNoContent {
		t.Errorf("have %d, want 204", have)
	}
}

func TestHeartbeatsGoToRedisOnItsClock(t *testing.T) {
	stored := newRedis(t)
	const ahead = time.Hour
	stored.ahead = ahead
	c := config(platform.Session)
	c.Session.Redis = stored.address
	r := start(t, c)
	from := time.Now()
	for _, p := range players(0, 50) {
		r.beat(t, p)
	}
	to := time.Now()
	for _, p := range players(0, 50) {
		var at time.Time
		eventually(t, "the heartbeat of "+p.String()+" is there", func() (there bool) {
			at, there = stored.seen(api.SeenKey(p.Partition()), p.String())
			return there
		})
		if least, most := from.Add(ahead-clockError), to.Add(ahead+clockError); at.Before(least) || at.After(most) {
			t.Errorf("player %d: have %v, want %v to %v", p, at, least, most)
		}
	}
	eventually(t, "all are written", func() bool { return r.value(t, "relapse_heartbeats_waiting") == 0 })
	r.expect(t, 50, "relapse_heartbeats_written_total")
	r.expect(t, 0, "relapse_heartbeat_failures_total")
	if have := r.status(t, "POST", "/heartbeat?player=x", nil); have != http.StatusBadRequest {
		t.Errorf("without a player: have %d, want 400", have)
	}
}

func TestHeartbeatsThatAreNotWrittenAreWrittenLater(t *testing.T) {
	stored := newRedis(t)
	stored.refuse = true
	c := config(platform.Session)
	c.Session.Redis = stored.address
	r := start(t, c)
	r.beat(t, 1)
	failures := r.value(t, "relapse_heartbeat_failures_total")
	eventually(t, "a write has failed", func() bool { return r.value(t, "relapse_heartbeat_failures_total") > failures })
	r.beat(t, 1)
	to := time.Now()
	r.beat(t, 2)
	failures = r.value(t, "relapse_heartbeat_failures_total")
	eventually(t, "more writes have failed, for longer than the clocks differ", func() bool {
		return r.value(t, "relapse_heartbeat_failures_total") > failures+2 && time.Since(to) > 2*clockError
	})
	waited := time.Now()
	stored.change(func() { stored.refuse = false })
	eventually(t, "all are written", func() bool { return r.value(t, "relapse_heartbeats_waiting") == 0 })
	at, there := stored.seen(api.SeenKey(api.Player(1).Partition()), "1")
	if !there || at.After(to.Add(clockError)) {
		t.Errorf("have %v, %t; want when the last heartbeat came, %v, and not when it was written, %v", at, there, to, waited)
	}
	// However often they had failed, there was one entry for each player.
	r.expect(t, 2, "relapse_heartbeats_written_total")
}

func TestHeartbeatsThatAreHeldBack(t *testing.T) {
	stored := newRedis(t)
	c := config(platform.Session)
	c.Session.Redis, c.Session.HoldBeats = stored.address, 150*time.Millisecond
	r := start(t, c)
	from := time.Now()
	r.beat(t, 1)
	to := time.Now()
	var writes []write
	eventually(t, "it is written", func() bool {
		stored.change(func() { writes = append([]write(nil), stored.writes...) })
		return len(writes) > 0
	})
	if late := writes[0].at.Sub(from); late < 150*time.Millisecond {
		t.Errorf("it was written after %v, want 150 ms at least", late)
	}
	at, _ := stored.seen(api.SeenKey(api.Player(1).Partition()), "1")
	if at.After(to.Add(clockError)) {
		t.Errorf("have %v, want when it came, %v", at, to)
	}
	if writes[0].members != 1 {
		t.Errorf("have %d players in it, want 1", writes[0].members)
	}
}

func TestPlayersOfAPartitionAreWrittenTogether(t *testing.T) {
	stored := newRedis(t)
	c := config(platform.Session)
	c.Session.Redis, c.Session.BeatEvery = stored.address, 500*time.Millisecond
	r := start(t, c)
	var same []api.Player
	for p := api.Player(0); len(same) < 20; p++ {
		if p.Partition() == 7 {
			same = append(same, p)
		}
	}
	for _, p := range same {
		r.beat(t, p)
	}
	eventually(t, "all are written", func() bool { return r.value(t, "relapse_heartbeats_written_total") == 20 })
	// Twenty heartbeats within milliseconds are at both sides of one write at most,
	// unless the machine stands still for half a second.
	stored.change(func() {
		if have := len(stored.writes); have > 2 {
			t.Errorf("have %d writes, want one or two", have)
		}
	})
}
