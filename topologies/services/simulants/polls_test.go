package simulants_test

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"slices"
	"testing"
	"time"

	"relapse/topologies/services/simulants"
)

// pollsOff is what a harness does that knows scenarios only.
const pollsOff = "polls: {off: true}"

func TestPollsAreAsOftenAsPlanned(t *testing.T) {
	h, _ := run(t, config(t, newPlatform(0).serve(t), "polls: {renew: 30s, config: 30s}"), nil)
	play(t, h, 120)
	names := []string{"renew", "config", "heartbeat"}
	before, since := map[string]float64{}, sum(t, h, "relapse_player_signed_in_seconds_total")
	for _, name := range names {
		before[name] = sum(t, h, "relapse_offered_total", "op", name)
	}
	eventually(t, "120 players have been there for two seconds", func() bool {
		return sum(t, h, "relapse_player_signed_in_seconds_total")-since > 240
	})
	minutes := (sum(t, h, "relapse_player_signed_in_seconds_total") - since) / 60
	for _, name := range names {
		have := (sum(t, h, "relapse_offered_total", "op", name) - before[name]) / minutes
		want := sum(t, h, "relapse_player_planned_per_minute", "kind", "poll", "name", name)
		if math.Abs(have/want-1) > 0.05 {
			t.Errorf("%s: have %.1f a player-minute, want %.1f, within 5 %%", name, have, want)
		}
	}
	if have := sum(t, h, "relapse_player_mismatch_total"); have != 0 {
		t.Errorf("have %v mismatches, want none", have)
	}
}

// Without background polls a test asks for far less than real clients do.
func TestWithoutPollsTheLoadIsUnderstated(t *testing.T) {
	t.Parallel()
	const scenarios = "scenarios: {match: 45m, buy: 1h, skin: 30m}"
	requests := func(changes ...string) float64 {
		h, stop := run(t, config(t, newPlatform(100*time.Millisecond).serve(t), changes...), nil)
		defer stop()
		order(t, h, map[string]float64{"players": 100})
		eventually(t, "100 players have been there for half a second", func() bool {
			return sum(t, h, "relapse_player_signed_in_seconds_total") > 50
		})
		order(t, h, nil)
		all := sum(t, h, "relapse_offered_total") - sum(t, h, "relapse_offered_total", "op", "players") - sum(t, h, "relapse_offered_total", "op", "login")
		return all / sum(t, h, "relapse_player_seconds_total")
	}
	with, without := requests(scenarios), requests(scenarios, pollsOff)
	if without > 0.7*with {
		t.Errorf("have %.2f requests a player-second without polls and %.2f with them, want over 30 %% fewer", without, with)
	}
}

// An open loop asks a platform that answers nothing as often as one that answers; a
// closed one waits, and so hides that the platform is overloaded.
func TestAStalledPlatformIsAskedAsOften(t *testing.T) {
	for _, c := range []struct {
		name, config string
		least, most  float64 // heartbeats a player, in the time of two
	}{
		{"open loop", "", 1.3, 2.7},
		{"closed loop", "closed: true", 0, 1.1},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newPlatform(0)
			h, _ := run(t, config(t, p.serve(t), "timeout: 10s", c.config), nil)
			play(t, h, 40)
			gate := make(chan struct{})
			p.do(func() { p.gate = gate })
			defer close(gate)
			before, since := sum(t, h, "relapse_offered_total", "op", "heartbeat"), sum(t, h, "relapse_player_seconds_total")
			eventually(t, "40 players have been there for half a second", func() bool {
				return sum(t, h, "relapse_player_seconds_total")-since > 20
			})
			have := (sum(t, h, "relapse_offered_total", "op", "heartbeat") - before) / 40
			if have < c.least || have > c.most {
				t.Errorf("have %.1f heartbeats a player within half a second, want %v to %v", have, c.least, c.most)
			}
		})
	}
}

// What finds no slot is late, and unsent if it is late for longer than anybody waits.
func TestRequestsWithoutASlotAreCounted(t *testing.T) {
	p := newPlatform(0)
	// In lockstep, so that what has no slot at its time has none until its end: a slot
	// is free again when whoever had it before has waited for as long.
	h, _ := run(t, config(t, p.serve(t), "workers: 1", "in_flight: 4", "timeout: 200ms", "lockstep: true"), nil)
	play(t, h, 30)
	gate := make(chan struct{})
	p.do(func() { p.gate = gate })
	eventually(t, "requests are overdue", func() bool { return sum(t, h, "relapse_overdue_total") > 50 })
	eventually(t, "requests are unsent", func() bool {
		return sum(t, h, "relapse_requests_total", "op", "heartbeat", "outcome", "unsent") > 20
	})
	p.do(func() { p.gate = nil })
	close(gate)
	order(t, h, nil)
	eventually(t, "all that was offered has ended", func() bool {
		return sum(t, h, "relapse_offered_total", "op", "heartbeat") == sum(t, h, "relapse_requests_total", "op", "heartbeat")
	})
}

// Players that are all alike poll at the same moment, which makes peaks that real ones
// never do.
func TestLockstepMakesPeaks(t *testing.T) {
	const heartbeat = 250 * time.Millisecond
	busiest := func(changes ...string) float64 {
		p := newPlatform(0)
		h, stop := run(t, config(t, p.serve(t), changes...), nil)
		defer stop()
		play(t, h, 50)
		p.do(func() { p.beats = nil })
		eventually(t, "every player has some heartbeats", func() bool { return p.count("heartbeat") >= 200 })
		tenths := [10]int{}
		p.do(func() {
			for _, at := range p.beats {
				tenths[time.Duration(at.UnixNano())%heartbeat/(heartbeat/10)]++
			}
		})
		most, all := 0, 0
		for n, count := range tenths {
			// A moment may lie at the edge of two tenths.
			most = max(most, count+tenths[(n+1)%10])
			all += count
		}
		return float64(most) / float64(all)
	}
	if have := busiest("lockstep: true"); have < 0.8 {
		t.Errorf("in lockstep: have %.0f %% of the heartbeats in a fifth of the time, want nearly all", 100*have)
	}
	if have := busiest(); have > 0.45 {
		t.Errorf("with jitter: have %.0f %% of the heartbeats in a fifth of the time, want about 20 %%", 100*have)
	}
}

// Whoever is signed out signs in again, and what a token was said to last is held to.
func TestTokens(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name       string
		lastsMS    int64
		mismatches bool
	}{
		{"forgotten before their time", 60_000, true},
		{"of which nothing was promised", 0, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newPlatform(0)
			p.lastsMS = c.lastsMS
			h, _ := run(t, config(t, p.serve(t), "polls: {renew: 12s}"), nil)
			play(t, h, 20)
			p.do(func() { clear(p.tokens) })
			eventually(t, "all are signed in again", func() bool {
				p.mu.Lock()
				defer p.mu.Unlock()
				return len(p.tokens) == 20
			})
			if have := sum(t, h, "relapse_player_signouts_total"); have < 20 {
				t.Errorf("have %v players signed out, want all 20", have)
			}
			if have := sum(t, h, "relapse_player_mismatch_total", "what", "token"); (have > 0) != c.mismatches {
				t.Errorf("have %v tokens that were not known, want some: %v", have, c.mismatches)
			}
			if have := signedIn(t, h); have != 20 {
				t.Errorf("have %v players who have signed in, want 20: the client signs in by itself", have)
			}
		})
	}
}

// A platform that is down for a while has its players back, not all at once.
func TestLoginsAreTriedAgain(t *testing.T) {
	t.Parallel()
	p := newPlatform(0)
	p.lie = func(w http.ResponseWriter, _ *http.Request) bool {
		w.WriteHeader(http.StatusServiceUnavailable)
		return true
	}
	h, _ := run(t, config(t, p.serve(t)), nil)
	order(t, h, map[string]float64{"players": 30})
	eventually(t, "logins are tried again", func() bool { return sum(t, h, "relapse_offered_total", "op", "relogin") > 30 })
	if have := sum(t, h, "relapse_offered_total", "op", "login"); have != 30 {
		t.Errorf("have %v first logins, want one for each of 30 players", have)
	}
	p.do(func() { p.lie = nil })
	eventually(t, "all have signed in", func() bool { return signedIn(t, h) == 30 })
}

// A harness that comes late says so, and the latency counts from when the requests were
// meant to be sent.
func TestLatenessIsMeasured(t *testing.T) {
	h, err := simulants.New(t.Context(), config(t, newPlatform(0).serve(t), pollsOff), nil)
	if err != nil {
		t.Fatal(err)
	}
	order(t, h, map[string]float64{"login": 200})
	began := time.Now()
	eventually(t, "half a second is over", func() bool { return time.Since(began) > 500*time.Millisecond })
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- h.Run(ctx) }()
	eventually(t, "the logins that were due are made", func() bool { return signedIn(t, h) >= 90 })
	cancel()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if have := h.LatenessP99(); have < 400*time.Millisecond {
		t.Errorf("lateness p99: have %v, want about half a second", have)
	}
	// A hundred logins, late by 0 to 500 ms, evenly: 25 s of lateness in all.
	late, took := seconds(t, h, "relapse_lateness_seconds"), seconds(t, h, "relapse_request_duration_seconds", "op", "login", "outcome", "ok")
	if late < 20 || took < late {
		t.Errorf("have %.1f s of lateness and %.1f s of latency in all, want 20 s at least, and no less latency than lateness", late, took)
	}
}

// Equal seeds draw equal players: here by who polls first. What comes at nearly the same
// moment is left to the network.
func TestEqualSeedsPlayAlike(t *testing.T) {
	t.Parallel()
	first := func(seed int) []string {
		p := newPlatform(0)
		var asked []string
		p.lie = func(_ http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path == "/heartbeat" {
				asked = append(asked, r.URL.Query().Get("player"))
			}
			return false
		}
		h, stop := run(t, config(t, p.serve(t), "workers: 1", "login_rate: 100", "polls: {heartbeat: 1m}", fmt.Sprintf("seed: %d", seed)), nil)
		defer stop()
		play(t, h, 16)
		eventually(t, "eight heartbeats", func() bool {
			p.mu.Lock()
			defer p.mu.Unlock()
			return len(asked) >= 8
		})
		p.mu.Lock()
		defer p.mu.Unlock()
		return asked[:8]
	}
	shared := func(a, b []string) (n int) {
		for _, player := range a {
			if slices.Contains(b, player) {
				n++
			}
		}
		return n
	}
	one, same, other := first(1), first(1), first(2)
	if have := shared(one, same); have < 7 {
		t.Errorf("the same seed: have %d of 8 players alike in %v and %v, want all but those at the edge", have, one, same)
	}
	if have := shared(one, other); have > 6 {
		t.Errorf("another seed: have %d of 8 players alike in %v and %v, want others", have, one, other)
	}
}
