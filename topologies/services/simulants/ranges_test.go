package simulants_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"relapse/topologies/services/platform/api"
	"relapse/topologies/services/presence/redistest"
	"relapse/topologies/services/simulants"
)

// lent are ranges that a test lends.
type lent struct {
	mu      sync.Mutex
	holding simulants.Holding
	err     error
	asked   []simulants.Ask
	left    bool
}

func (l *lent) Keep(_ context.Context, ask simulants.Ask) (simulants.Holding, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asked = append(l.asked, ask)
	return l.holding, l.err
}

func (l *lent) Leave(context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.left = true
	return nil
}

func (l *lent) set(h simulants.Holding, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.holding, l.err = h, err
}

// kept is what was asked to be kept last.
func (l *lent) kept() []int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.asked) == 0 {
		return nil
	}
	return l.asked[len(l.asked)-1].Keep
}

func TestRangesArePlayedAsTheyAreHeld(t *testing.T) {
	t.Parallel()
	p := newPlatform(0)
	l := &lent{}
	lend := func(players float64, spare int, ranges ...int) {
		l.set(simulants.Holding{Ranges: ranges, Spare: spare, Players: players, Lease: 300 * time.Millisecond}, nil)
	}
	lend(100, 0, 2, 3, 10)
	h, stop := run(t, config(t, p.serve(t)), l) // 16 ranges of 62 or 63 players
	order(t, h, map[string]float64{"players": 100})
	eventually(t, "100 players have signed in", func() bool { return signedIn(t, h) == 100 })
	if have := sum(t, h, "relapse_player_ranges"); have != 3 {
		t.Errorf("have %v ranges, want 3", have)
	}
	p.do(func() {
		for player := range p.players {
			n, err := api.ParsePlayer(player)
			if err != nil {
				t.Error(err)
			}
			if r := n * 16 / 1000; r != 2 && r != 3 && r != 10 {
				t.Errorf("player %s is there, of range %d", player, r)
			}
		}
	})
	// One is asked back, and given back without being told so again.
	lend(66, 1, 2, 3, 10)
	eventually(t, "a range is given back", func() bool { return slices.Equal(l.kept(), []int{2, 3}) })
	lend(66, 0, 2, 3)
	eventually(t, "66 players are left", func() bool { return signedIn(t, h) == 66 })
	stop()
	if !l.left {
		t.Error("the ranges are not given back at the end")
	}
}

// A harness that cannot renew its lease has all players gone when that ends: somebody
// else plays them then.
func TestALeaseThatEndsEndsThePlay(t *testing.T) {
	t.Parallel()
	p := newPlatform(0)
	l := &lent{}
	l.set(simulants.Holding{Ranges: []int{0, 1}, Players: 50, Lease: 400 * time.Millisecond}, nil)
	h, _ := run(t, config(t, p.serve(t)), l)
	order(t, h, map[string]float64{"players": 50})
	eventually(t, "50 players have signed in", func() bool { return signedIn(t, h) == 50 })
	l.set(simulants.Holding{}, errors.New("cut off"))
	began := time.Now()
	eventually(t, "everyone has left", func() bool { return sum(t, h, "relapse_players") == 0 })
	if took := time.Since(began); took > 800*time.Millisecond {
		t.Errorf("have players for %v after the last renewal, want none after the lease of 400ms", took)
	}
	if have := sum(t, h, "relapse_range_lapses_total"); have == 0 {
		t.Error("have no lapse counted, want one for each shard")
	}
	eventually(t, "what was ordered is missing", func() bool {
		return sum(t, h, "relapse_requests_total", "op", "players", "outcome", "unsent") > 0
	})
	l.set(simulants.Holding{Ranges: []int{0, 1}, Players: 50, Lease: time.Minute}, nil)
	eventually(t, "50 players are back", func() bool { return signedIn(t, h) == 50 })
}

// shared makes a harness's side of ranges in Redis.
func shared(t *testing.T, address, id string) *simulants.RedisRanges {
	t.Helper()
	c := config(t, "http://127.0.0.1:1", fmt.Sprintf("shared: {redis: '%s', lease: 500ms}", address))
	r, err := simulants.NewRedisRanges(c, id)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

// keeper asks as a harness does: it gives back what it is asked for at once.
type keeper struct {
	*simulants.RedisRanges
	held    []int
	players float64
	ordered *float64
}

func (k *keeper) keep(t *testing.T) {
	t.Helper()
	for {
		h, err := k.Keep(t.Context(), simulants.Ask{Keep: k.held, Players: k.ordered})
		if err != nil {
			t.Fatal(err)
		}
		k.held, k.players = h.Ranges[:len(h.Ranges)-h.Spare], h.Players
		if h.Spare == 0 {
			return
		}
	}
}

func TestHarnessesShareRangesThroughRedis(t *testing.T) {
	t.Parallel()
	address := redistest.Start(t).Address
	ordered := 300.0
	a := &keeper{RedisRanges: shared(t, address, "a"), ordered: &ordered}
	b := &keeper{RedisRanges: shared(t, address, "b"), ordered: &ordered}
	c := &keeper{RedisRanges: shared(t, address, "c")} // nothing was ordered of it yet
	even := func(what string, all ...*keeper) {
		t.Helper()
		seen := map[int]bool{}
		for _, k := range all {
			if least := 16 / len(all); len(k.held) < least || len(k.held) > least+1 {
				t.Errorf("%s: have %d of 16 ranges, want an even share of %d", what, len(k.held), len(all))
			}
			for _, r := range k.held {
				if seen[r] {
					t.Errorf("%s: range %d is played twice", what, r)
				}
				seen[r] = true
			}
		}
		if len(seen) != 16 {
			t.Errorf("%s: have %d ranges played, want all 16", what, len(seen))
		}
	}
	a.keep(t)
	even("alone", a)
	for _, k := range []*keeper{b, a, b} {
		k.keep(t)
	}
	even("two", a, b)
	for _, k := range []*keeper{c, a, b, c} {
		k.keep(t)
	}
	even("three", a, b, c)
	if have := a.players + b.players + c.players; have < 599 || have > 601 {
		t.Errorf("have %v players of three harnesses, want the 600 that were ordered of two", have)
	}
	// b dies: what it played is the others', once its lease is over.
	eventually(t, "the others have what was the dead one's", func() bool {
		a.keep(t)
		c.keep(t)
		return len(a.held)+len(c.held) == 16
	})
	even("after a death", a, c)
	if have := a.players + c.players; have < 599 || have > 601 {
		t.Errorf("have %v players of two harnesses, want the 600 that were ordered: the dead one's as well", have)
	}
	// One that is started again has nothing, whatever it held.
	c.held = nil
	c.keep(t)
	even("after a restart", a, c)
	if err := c.Leave(t.Context()); err != nil {
		t.Fatal(err)
	}
	a.keep(t)
	even("after a farewell", a)
}

// However many harnesses come at once, and however often they ask, no range is played
// by two of them.
func TestManyHarnessesComeAtOnce(t *testing.T) {
	address := redistest.Start(t).Address
	var owners [16]atomic.Int32
	var all sync.WaitGroup
	for n := range 6 {
		k := shared(t, address, fmt.Sprintf("harness-%d", n))
		all.Go(func() {
			var held []int
			for range 40 {
				h, err := k.Keep(t.Context(), simulants.Ask{Keep: held})
				if err != nil {
					t.Error(err)
					return
				}
				for _, r := range h.Ranges {
					if !slices.Contains(held, r) && owners[r].Add(1) > 1 {
						t.Errorf("range %d is played twice", r)
					}
				}
				held = h.Ranges
				for range h.Spare { // cleared before it is given back
					last := len(held) - 1
					owners[held[last]].Add(-1)
					held = held[:last]
				}
			}
			for _, r := range held {
				owners[r].Add(-1)
			}
			if err := k.Leave(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
}
