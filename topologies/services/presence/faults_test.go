package presence_test

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/redis/go-redis/v9"

	"relapse/topologies/services/platform/api"
	"relapse/topologies/services/presence"
	"relapse/topologies/services/presence/audit"
	"relapse/topologies/services/presence/history"
)

// TestAPausedOwnerActsNoMore stops an owner with a player in hand until its lease is
// over and another one has handled the player.
func TestAPausedOwnerActsNoMore(t *testing.T) {
	for _, tc := range []struct {
		fenced bool
		marks  int
	}{{true, 1}, {false, 2}} {
		t.Run(fmt.Sprint("fenced=", tc.fenced), func(t *testing.T) {
			r := newRig(t)
			check := r.audit()
			a := r.process("a", "--work=250ms", fmt.Sprint("--fenced=", tc.fenced))
			eventually(t, "it has all partitions", func() bool { return owns(a) == api.Partitions })
			player := int64(-1)
			eventually(t, "it is stopped with a player in hand", func() bool {
				player++
				r.beat(at(r.now()), player)
				eventually(t, "a player is in hand", func() bool { return a.value("relapse_presence_in_hand") == 1 })
				a.signal(syscall.SIGSTOP)
				if r.marked()[player] == 0 {
					return true
				}
				a.signal(syscall.SIGCONT) // it had just been marked
				return false
			})
			b := r.start("b", func(c *presence.Config) { c.Unfenced = !tc.fenced })
			eventually(t, "the other one has marked the player", func() bool { return r.marked()[player] == 1 })
			eventually(t, "the other one has all partitions", func() bool { return owns(b) == api.Partitions })
			a.signal(syscall.SIGCONT)
			eventually(t, "what it had in hand is done with", func() bool {
				return a.value("relapse_presence_refused_total")+a.value("relapse_presence_actions_total") == float64(player)+1
			})
			if have := r.marked()[player]; have != tc.marks {
				t.Errorf("have %d marks, want %d", have, tc.marks)
			}
			refused := a.value("relapse_presence_refused_total")
			if want := float64(2 - tc.marks); refused != want {
				t.Errorf("have %v refused, want %v", refused, want)
			}
			check.settled()
			for invariant, want := range map[string]int{history.HandledTwice: tc.marks - 1, history.WithoutClaim: tc.marks - 1} {
				if have := check.violations(invariant); have != want {
					t.Errorf("%s: have %d, want %d", invariant, have, want)
				}
			}
		})
	}
}

// gate is a link to Redis that can be cut: what is written goes nowhere.
type gate struct{ cut atomic.Bool }

type gated struct {
	net.Conn
	gate *gate
}

func (g gated) Write(b []byte) (int, error) {
	if g.gate.cut.Load() {
		return len(b), nil
	}
	return g.Conn.Write(b)
}

func (g *gate) client(address string) *redis.Client {
	return redis.NewClient(&redis.Options{
		Addr: address, Protocol: 2, DisableIdentity: true, MaxRetries: -1, DialerRetries: 1,
		DialTimeout: lease / 3, ReadTimeout: lease / 3, ContextTimeoutEnabled: true,
		Dialer: func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := new(net.Dialer).DialContext(ctx, network, address)
			return gated{conn, g}, err
		},
	})
}

// TestAnOwnerCutOffFromTheClaimsStopsByItself has it reach the lists all the time, which
// check nothing: only its own clock keeps it from acting on.
func TestAnOwnerCutOffFromTheClaimsStopsByItself(t *testing.T) {
	r := newRig(t)
	check := r.audit()
	unfenced := func(c *presence.Config) { c.Unfenced = true }
	var link gate
	a := r.start("a", unfenced, func(c *presence.Config) {
		c.Claims.Close()
		c.Claims = link.client(r.claims.Address)
	})
	b := r.start("b", unfenced)
	eventually(t, "two instances are even", func() bool { return even(a, b) })
	all := players(0, 2000)
	begin := r.now()
	r.beat(func(p int64) int64 { return begin + p }, all...)
	cut := r.now()
	link.cut.Store(true)
	eventually(t, "it has stopped", func() bool { return owns(a) == 0 })
	eventually(t, "the other one has all partitions", func() bool { return owns(b) == api.Partitions })
	eventually(t, "all are marked", func() bool { return r.marks() >= len(all) })
	if have := r.marked(); !each(have, all, 1) {
		t.Errorf("have %d actions for %d players, want one each", len(r.actions()), len(all))
	}
	taken := map[int]int64{}
	for _, c := range r.claimed() {
		if c.owner == "b" && c.from == "a" && c.at > cut {
			taken[c.partition] = c.at
		}
	}
	after := 0
	for _, action := range r.actions() {
		if action.by != "a" || action.at <= cut {
			continue
		}
		after++
		// Both servers have the clock of this machine.
		if taken, was := taken[action.partition]; was && action.at >= taken {
			t.Errorf("partition %d: it acted at %d, and the other one had claimed it at %d", action.partition, action.at, taken)
		}
	}
	if after == 0 {
		t.Error("it has marked nobody since it was cut off: the lists were out of reach, too")
	}
	if len(taken) != 128 {
		t.Errorf("have %d partitions taken over, want 128", len(taken))
	}
	check.clean()
}

// TestAnOwnerWhoseLeaseNeverEndsGoesOn shows what its own clock is for: without it, two
// instances take themselves for the owner.
func TestAnOwnerWhoseLeaseNeverEndsGoesOn(t *testing.T) {
	r := newRig(t)
	var link gate
	a := r.start("a", func(c *presence.Config) {
		c.Unending = true
		c.Claims.Close()
		c.Claims = link.client(r.claims.Address)
	})
	b := r.start("b")
	eventually(t, "two instances are even", func() bool { return even(a, b) })
	link.cut.Store(true)
	eventually(t, "the other one has all partitions", func() bool { return owns(b) == api.Partitions })
	if have, want := owns(a), api.Partitions/2; have != want {
		t.Errorf("have %d partitions of the one that is cut off, want %d: it does not know better", have, want)
	}
}

// TestAnInstanceCutOffFromTheListsRenewsNothing has it reach the claims all the time.
func TestAnInstanceCutOffFromTheListsRenewsNothing(t *testing.T) {
	r := newRig(t)
	var link gate
	a := r.start("a", func(c *presence.Config) {
		c.Lists.Close()
		c.Lists = link.client(r.lists.Address)
	})
	b := r.start("b")
	eventually(t, "two instances are even", func() bool { return even(a, b) })
	link.cut.Store(true)
	eventually(t, "the other one has all partitions", func() bool { return owns(a) == 0 && owns(b) == api.Partitions })
	if have := a.value("relapse_presence_rounds_total", "failed"); have == 0 {
		t.Error("have no failed rounds, want some")
	}
	link.cut.Store(false)
	eventually(t, "two instances are even again", func() bool { return even(a, b) })
}

func TestClaimsThatAreLost(t *testing.T) {
	for _, tc := range []struct {
		forgetful bool
		handled   bool
	}{{false, true}, {true, false}} {
		t.Run(fmt.Sprint("forgetful=", tc.forgetful), func(t *testing.T) {
			r := newRig(t)
			check := r.audit(func(c *audit.Config) {
				if tc.forgetful {
					c.Slack = history.DefaultSlack // what is missed is missed soon
				}
			})
			forgetful := func(c *presence.Config) { c.Forgetful = tc.forgetful }
			// There have been many claims before.
			r.claimsClient.Set(context.Background(), presence.NumberKey, 100000, 0)
			a, b := r.start("a", forgetful), r.start("b", forgetful)
			eventually(t, "two instances are even", func() bool { return even(a, b) })
			highest := int64(0)
			for _, c := range r.claimed() {
				highest = max(highest, c.number)
			}
			if highest <= 100000 {
				t.Fatalf("have claims up to %d, want them above 100000", highest)
			}
			check.settled()
			// Players become due before, while and after the claims are lost.
			all := players(0, 1000)
			begin := r.now()
			r.beat(func(p int64) int64 { return begin + p }, all...)
			eventually(t, "some are marked", func() bool { return r.marks() > 50 })
			r.claims.Restart()
			eventually(t, "all partitions are claimed again", func() bool { return len(r.claimed()) >= api.Partitions })
			eventually(t, "two instances are even again", func() bool { return even(a, b) })
			lower := 0
			for _, c := range r.claimed() {
				if c.number <= highest {
					lower++
				}
			}
			if have := lower == 0; have != tc.handled {
				t.Errorf("have %d claims under numbers that were there before, up to %d; want none: %v", lower, highest, tc.handled)
			}
			if tc.handled {
				eventually(t, "all are marked", func() bool { return r.marks() >= len(all) })
				check.clean()
			} else {
				eventually(t, "the lists refuse the new owners", func() bool {
					return a.value("relapse_presence_refused_total") > 0 && b.value("relapse_presence_refused_total") > 0
				})
				eventually(t, "players are missed", func() bool { return check.violations(history.Missed) > 0 })
				check.clean(history.Missed)
			}
			if have := r.marked(); len(have) != len(r.actions()) {
				t.Errorf("have %d actions for %d players, want one each", len(r.actions()), len(have))
			}
		})
	}
}

// TestAClaimThatTheListsRefuseIsNumberedAnew has somebody have shown a number by a
// claim that was lost, after the instance asked for the highest one.
func TestAClaimThatTheListsRefuseIsNumberedAnew(t *testing.T) {
	r := newRig(t)
	const shown = 1000000
	k := api.Player(7).Partition()
	r.listsClient.HSet(context.Background(), presence.FencesKey, k, fmt.Sprintf("%d other/1", shown))
	i := r.start("a")
	eventually(t, "it has all partitions", func() bool { return owns(i) == api.Partitions })
	if have := i.value("relapse_presence_claims_total", "anew"); have != 1 {
		t.Errorf("have %v claims numbered anew, want 1", have)
	}
	r.beat(at(r.now()), 7)
	eventually(t, "the player is marked", func() bool { return r.marked()[7] == 1 })
	if have := r.actions()[0].number; have <= shown {
		t.Errorf("have a mark under %d, want it above %d", have, shown)
	}
	fence := r.listsClient.HGet(context.Background(), presence.FencesKey, fmt.Sprint(k)).Val()
	if want := fmt.Sprint(r.actions()[0].number, " a/"); !strings.HasPrefix(fence, want) {
		t.Errorf("have the fence %q, want %q and its life", fence, want)
	}
}

// TestAnInstanceStartsBeforeRedisDoes has both servers be away at first.
func TestAnInstanceStartsBeforeRedisDoes(t *testing.T) {
	r := newRig(t)
	r.lists.Kill()
	r.claims.Kill()
	i := r.start("a")
	r.lists.Restart()
	r.claims.Restart()
	eventually(t, "it has all partitions", func() bool { return owns(i) == api.Partitions })
}
