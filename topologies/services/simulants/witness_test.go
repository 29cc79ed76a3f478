package simulants_test

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"relapse/topologies/services/platform/api"
	"relapse/topologies/services/simulants"
)

// Scenarios so often that a few players play each of them many times in a second.
const (
	buying  = pollsOff + "\nscenarios: {buy: 12s}"
	buysAll = pollsOff + "\nscenarios: {buy: 12s, skin: 12s}"
	matches = pollsOff + "\nscenarios: {match: 12s}"
)

// A platform that keeps its word is found to: every claim but that of matches is
// checked, and nothing is amiss.
func TestPlayersWhoShop(t *testing.T) {
	t.Parallel()
	p := newPlatform(0)
	h, _ := run(t, config(t, p.serve(t), buysAll), nil)
	play(t, h, 40)
	eventually(t, "items are bought and put on", func() bool {
		return sum(t, h, "relapse_player_scenarios_total", "name", "buy", "ending", "done") >= 60 &&
			sum(t, h, "relapse_player_scenarios_total", "name", "skin", "ending", "done") >= 20
	})
	agrees(t, h, "balance", "wallet", "items", "equipped", "answer")
	for _, kind := range []string{"buy", "skin"} {
		if have := sum(t, h, "relapse_player_scenarios_total", "name", kind, "ending", "failed"); have != 0 {
			t.Errorf("%s: have %v failed, want none", kind, have)
		}
	}
}

// agrees holds that claims were checked and that none did not hold.
func agrees(t *testing.T, h *simulants.Harness, checked ...string) {
	t.Helper()
	for _, what := range checked {
		if sum(t, h, "relapse_player_checks_total", "what", what) == 0 {
			t.Errorf("%s: have no check, want some", what)
		}
	}
	for _, what := range []string{"answer", "player", "token", "balance", "wallet", "wallet_stale", "items", "equipped", "refused", "match"} {
		if have := sum(t, h, "relapse_player_mismatch_total", "what", what); have != 0 {
			t.Errorf("%s: have %v mismatches, want none", what, have)
		}
	}
}

func TestPlayersWhoPlay(t *testing.T) {
	t.Parallel()
	p := newPlatform(100 * time.Millisecond)
	h, _ := run(t, config(t, p.serve(t), matches), nil)
	play(t, h, 40)
	eventually(t, "matches are played", func() bool {
		return sum(t, h, "relapse_player_scenarios_total", "name", "match", "ending", "done") >= 60
	})
	agrees(t, h, "match", "answer")
	// A party is one request of its leader, whatever its size.
	parties, players := sum(t, h, "relapse_offered_total", "op", "party"), sum(t, h, "relapse_player_scenarios_started_total", "name", "match")
	if parties >= players {
		t.Errorf("have %v parties of %v players, want fewer than players", parties, players)
	}
	if have := sum(t, h, "relapse_player_scenarios_total", "name", "match", "ending", "failed"); have != 0 {
		t.Errorf("have %v players whose match failed, want none", have)
	}
	order(t, h, nil)
	eventually(t, "everyone has left", func() bool { return sum(t, h, "relapse_players") == 0 })
}

// Whoever waits for a match for too long leaves the queue, with the whole party.
func TestPartiesGiveUp(t *testing.T) {
	t.Parallel()
	p := newPlatform(0)
	p.noMatches = true
	h, _ := run(t, config(t, p.serve(t), matches, "match: {patience: 10s}"), nil)
	play(t, h, 40)
	eventually(t, "players give up", func() bool {
		return sum(t, h, "relapse_player_scenarios_total", "name", "match", "ending", "gave_up") >= 40
	})
	if have := sum(t, h, "relapse_requests_total", "op", "unqueue", "outcome", "ok"); have == 0 {
		t.Error("have no party that left the queue, want all of those that gave up")
	}
	if have := sum(t, h, "relapse_player_scenarios_total", "name", "match", "ending", "failed"); have != 0 {
		t.Errorf("have %v players whose match failed, want none: they gave up", have)
	}
}

// Every lie is found, and counted as what it is.
func TestMismatches(t *testing.T) {
	add := func(path, field string, by float64) func(string, map[string]any) map[string]any {
		return func(asked string, body map[string]any) map[string]any {
			if v, is := body[field].(float64); is && strings.HasPrefix(asked, path) {
				body[field] = v + by
			}
			return body
		}
	}
	for _, c := range []struct {
		what, config string
		twist        func(path string, body map[string]any) map[string]any
		lie          func(p *platform) func(w http.ResponseWriter, r *http.Request) bool
	}{
		{"balance", buying, add("/buy", "balance", -1), nil},
		{"wallet", buying, func() func(string, map[string]any) map[string]any {
			reads := 0.0
			return func(path string, body map[string]any) map[string]any {
				if path == "/wallet" {
					reads++
					body["balance"], body["version"] = body["balance"].(float64)+reads, body["version"].(float64)+reads
				}
				return body
			}
		}(), nil},
		{"wallet_stale", buying, func(path string, body map[string]any) map[string]any {
			if path == "/wallet" { // the first page that a cache has kept
				body["balance"], body["version"] = startBalance, 1
			}
			return body
		}, nil},
		{"items", buying, func(path string, body map[string]any) map[string]any {
			if path == "/inventory" {
				body["items"] = []string{}
			}
			return body
		}, nil},
		{"equipped", buysAll, func(path string, body map[string]any) map[string]any {
			if path == "/inventory" {
				body["equipped"] = ""
			}
			return body
		}, nil},
		{"refused", buying, nil, func(*platform) func(http.ResponseWriter, *http.Request) bool {
			return answering("/buy", http.StatusConflict)
		}},
		{"match", matches, nil, func(p *platform) func(http.ResponseWriter, *http.Request) bool {
			return func(w http.ResponseWriter, r *http.Request) bool {
				if r.URL.Path != "/wallet" {
					return false
				}
				p.say(w, r, 200, map[string]int{"balance": 7, "version": 1}) // whatever is granted
				return true
			}
		}},
		{"player", "", func(path string, body map[string]any) map[string]any {
			if path == "/config" { // somebody else's, from a cache
				body["settings"] = map[string]string{"player": "999999"}
			}
			return body
		}, nil},
		{"answer", "", func(path string, body map[string]any) map[string]any {
			if path == "/config" {
				delete(body, "settings")
			}
			return body
		}, nil},
	} {
		t.Run(c.what, func(t *testing.T) {
			t.Parallel()
			p := newPlatform(0)
			p.twist = c.twist
			if c.lie != nil {
				p.lie = c.lie(p)
			}
			h, _ := run(t, config(t, p.serve(t), c.config), nil)
			play(t, h, 20)
			eventually(t, "it is found", func() bool { return sum(t, h, "relapse_player_mismatch_total", "what", c.what) > 0 })
		})
	}
}

// answering has a path answer with a status.
func answering(path string, status int) func(http.ResponseWriter, *http.Request) bool {
	return func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != path {
			return false
		}
		w.WriteHeader(status)
		return true
	}
}

// A purchase whose answer was lost is asked for again by the same operation id, so that
// nobody pays twice, and nothing is amiss.
func TestLostAnswersAreAskedForAgain(t *testing.T) {
	t.Parallel()
	p := newPlatform(0)
	url := p.serve(t)
	var lost atomic.Int64
	p.lie = func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != "/buy" || lost.Load() >= 20 {
			return false
		}
		lost.Add(1)
		asked := read[itemOrder](r)
		one := p.of(asked.Player.String())
		if _, known := p.bought[asked.Op]; !known && one.balance >= itemPrice {
			one.balance -= itemPrice
			one.version++
			one.items = append(one.items, asked.Item)
			p.bought[asked.Op] = one.balance
			p.charges++
		}
		w.WriteHeader(http.StatusBadGateway)
		return true
	}
	h, _ := run(t, config(t, url, buying, "tries: 10"), nil)
	play(t, h, 20)
	eventually(t, "purchases are finished", func() bool {
		return sum(t, h, "relapse_player_scenarios_total", "name", "buy", "ending", "done") >= 40
	})
	agrees(t, h, "balance", "wallet", "items")
	if have := sum(t, h, "relapse_player_retries_total", "op", "buy"); have < 20 {
		t.Errorf("have %v purchases tried again, want the 20 that were lost", have)
	}
	done := sum(t, h, "relapse_requests_total", "op", "buy", "outcome", "ok")
	p.do(func() {
		if float64(p.charges) < done || float64(p.charges) > done+20 {
			t.Errorf("have %d charges for %v answers, want one each, but for those on their way", p.charges, done)
		}
	})
}

// A player who was never told how a purchase came out believes nothing until the next
// one, whenever the platform finishes the first.
func TestPurchasesThatAreNeverAnswered(t *testing.T) {
	t.Parallel()
	p := newPlatform(0)
	tries := map[api.Player]int{}
	p.lie = func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != "/buy" {
			return false
		}
		tries[read[itemOrder](r).Player]++
		w.WriteHeader(http.StatusServiceUnavailable)
		return true
	}
	h, _ := run(t, config(t, p.serve(t), buying, "tries: 2"), nil)
	play(t, h, 20)
	eventually(t, "every player has a purchase that failed", func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		failed := 0
		for _, n := range tries {
			if n > 2 { // a third one is of the next purchase
				failed++
			}
		}
		return failed == 20
	})
	p.do(func() { // recovery finishes them now, for all the players know
		for _, one := range p.wallets {
			one.balance -= itemPrice
			one.version++
			one.items = append(one.items, "skin-00")
		}
		p.lie = nil
	})
	eventually(t, "purchases come out well", func() bool {
		return sum(t, h, "relapse_player_scenarios_total", "name", "buy", "ending", "done") >= 40
	})
	agrees(t, h, "balance", "wallet")
}

// What players send is what the platform reads, strictly: none of it is refused.
func TestRequestsAreAsAgreed(t *testing.T) {
	t.Parallel()
	h, _ := run(t, config(t, newPlatform(50*time.Millisecond).serve(t), "scenarios: {match: 12s, buy: 12s, skin: 12s}"), nil)
	play(t, h, 20)
	eventually(t, "every scenario is played", func() bool {
		for _, kind := range []string{"match", "buy", "skin"} {
			if sum(t, h, "relapse_player_scenarios_total", "name", kind, "ending", "done") == 0 {
				return false
			}
		}
		return true
	})
	if have := sum(t, h, "relapse_requests_total", "outcome", "error"); have != 0 {
		t.Errorf("have %v requests that failed, want none", have)
	}
}
