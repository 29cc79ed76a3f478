package platform_test

import (
	"fmt"
	"net/http"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"relapse/topologies/services/platform"
	"relapse/topologies/services/platform/api"
)

// game begins a match of ten players on a server.
func (r *rig) game(t *testing.T, match, server string) {
	t.Helper()
	asked := api.GameRequest{Op: match + "/game", Server: server, Match: match, Players: players(0, 10)}
	if have := r.status(t, "POST", "/games", asked); have != http.StatusCreated {
		t.Fatalf("have %d, want 201", have)
	}
}

func TestAResultIsToldUntilItIsAcknowledged(t *testing.T) {
	c := config(platform.Games)
	c.Games.Length = 20 * time.Millisecond
	var ready atomic.Bool
	r := start(t, c, func(r *rig) {
		r.peers[platform.Results].answers(func(int, asked) (int, any) {
			if !ready.Load() {
				return http.StatusServiceUnavailable, "not now"
			}
			return http.StatusCreated, struct{}{}
		})
	})
	results, servers, agents := r.peers[platform.Results], r.peers[platform.Provisioning], r.peers[platform.Agents]
	began := time.Now()
	r.game(t, "m", "s")
	eventually(t, "the result was told again", func() bool { return len(results.all("POST", "/results")) > 1 })
	if took := time.Since(began); took < 20*time.Millisecond {
		t.Errorf("the result came after %v, want 20 ms at least", took)
	}
	r.expect(t, 1, "relapse_games_running")
	if have := servers.all("DELETE", ""); len(have) != 0 {
		t.Errorf("have %v, want that the server is held meanwhile", have)
	}
	ready.Store(true)
	eventually(t, "the server is given back", func() bool { return len(servers.all("DELETE", "/servers/s")) == 1 })
	eventually(t, "agent select is told", func() bool { return len(agents.all("POST", "/matches/m/over")) == 1 })
	var first api.ResultRequest
	for n, a := range results.all("POST", "/results") {
		var result api.ResultRequest
		a.into(t, &result)
		if n == 0 {
			first = result
		}
		if result.Op == "" || result.Op != first.Op || result.Match != "m" || !slices.Equal(result.Players, first.Players) {
			t.Errorf("have %+v, want %+v each time", result, first)
		}
	}
	if have := len(first.Players); have != 10 {
		t.Fatalf("have %d players, want 10", have)
	}
	for n, p := range first.Players {
		if p.Player != api.Player(n) || p.Won != first.Players[n/5*5].Won {
			t.Errorf("player %d: have %+v, want that a team wins or loses together", n, p)
		}
	}
	if first.Players[0].Won == first.Players[5].Won {
		t.Error("both teams have won, or none has")
	}
	r.expect(t, 0, "relapse_games_running")
	r.expect(t, 1, "relapse_results_acknowledged_total")
	r.expect(t, 1, "relapse_result_delay_seconds")
}

func TestAGameBeginsOnce(t *testing.T) {
	r := start(t, config(platform.Games))
	r.game(t, "m", "s")
	r.game(t, "m", "s")
	r.expect(t, 1, "relapse_games_started_total")
	for _, c := range []struct {
		name string
		have api.GameRequest
		want int
	}{
		{"under another operation", api.GameRequest{Op: "o", Server: "s", Match: "m", Players: players(0, 10)}, 409},
		{"without an operation", api.GameRequest{Server: "s", Match: "n", Players: players(0, 10)}, 400},
		{"without a server", api.GameRequest{Op: "o", Match: "n", Players: players(0, 10)}, 400},
		{"without a match", api.GameRequest{Op: "o", Server: "s", Players: players(0, 10)}, 400},
		{"without players", api.GameRequest{Op: "o", Server: "s", Match: "n"}, 400},
	} {
		if have := r.status(t, "POST", "/games", c.have); have != c.want {
			t.Errorf("%s: have %d, want %d", c.name, have, c.want)
		}
	}
	r.expect(t, 1, "relapse_games_running")
}

func TestAGameThatCrashesIsJustGone(t *testing.T) {
	c := config(platform.Games)
	c.Games.Length, c.Games.CrashShare, c.Provisioning.Lease = 300*time.Millisecond, 100, 40*time.Millisecond
	r := start(t, c)
	servers := r.peers[platform.Provisioning]
	r.game(t, "m", "s")
	eventually(t, "its lease is renewed", func() bool { return len(servers.all("POST", "/leases")) > 0 })
	eventually(t, "it has crashed", func() bool { return r.value(t, "relapse_games_crashed_total") == 1 })
	r.expect(t, 0, "relapse_games_running")
	// While another match is on, what is renewed is its server alone.
	renewed := len(servers.all("POST", "/leases"))
	r.game(t, "n", "other")
	eventually(t, "leases were renewed three times more", func() bool { return len(servers.all("POST", "/leases")) > renewed+3 })
	var leases api.Leases
	servers.all("POST", "/leases")[renewed+2].into(t, &leases)
	if want := []string{"other"}; !slices.Equal(leases.Servers, want) {
		t.Errorf("have leases of %v, want %v", leases.Servers, want)
	}
	if have := r.peers[platform.Results].all("", ""); len(have) != 0 {
		t.Errorf("have %v, want no result", have)
	}
	if have := servers.all("DELETE", ""); len(have) != 0 {
		t.Errorf("have %v, want that no server is given back", have)
	}
}

func TestResultsAreLate(t *testing.T) {
	c := config(platform.Games)
	c.Games.Length, c.Games.LateShare, c.Games.LateBy = 1, 100, 1100*time.Millisecond
	r := start(t, c)
	began := time.Now()
	r.game(t, "m", "s")
	eventually(t, "it is acknowledged", func() bool { return r.value(t, "relapse_results_acknowledged_total") == 1 })
	if took := time.Since(began); took < 1100*time.Millisecond {
		t.Errorf("it took %v, want 1.1 s at least", took)
	}
	r.expect(t, 1, "relapse_results_late_total")
}

func TestServersThatWereLostAreCounted(t *testing.T) {
	c := config(platform.Games)
	c.Provisioning.Lease = 40 * time.Millisecond
	r := start(t, c, func(r *rig) {
		r.peers[platform.Provisioning].answers(func(int, asked) (int, any) {
			return http.StatusOK, api.Lost{Lost: []string{"s"}}
		})
	})
	r.game(t, "m", "s")
	eventually(t, "it is counted", func() bool { return r.value(t, "relapse_leases_lost_total") > 0 })
}

func TestWhoIsToldThatAMatchIsOverNeedNotKnowIt(t *testing.T) {
	c := config(platform.Games)
	c.Games.Length = 1
	r := start(t, c, func(r *rig) {
		r.peers[platform.Agents].answers(func(int, asked) (int, any) { return http.StatusNotFound, "no match" })
		r.peers[platform.Provisioning].answers(func(n int, _ asked) (int, any) {
			if n < 2 {
				return http.StatusServiceUnavailable, "not now"
			}
			return http.StatusNoContent, nil
		})
	})
	r.game(t, "m", "s")
	servers := r.peers[platform.Provisioning]
	eventually(t, "agent select is told", func() bool { return len(r.peers[platform.Agents].all("", "")) == 1 })
	eventually(t, "the server is given back at the third try", func() bool { return len(servers.all("DELETE", "/servers/s")) == 3 })
	if have := len(r.peers[platform.Agents].all("", "")); have != 1 {
		t.Errorf("agent select was told %d times, want once", have)
	}
}

func TestAMatchIsNoGoroutine(t *testing.T) {
	r := start(t, config(platform.Games))
	r.game(t, "first", "s")
	before := runtime.NumGoroutine()
	const matches = 300
	for n := range matches {
		r.game(t, fmt.Sprint("m", n), fmt.Sprint("s", n))
	}
	r.expect(t, matches+1, "relapse_games_running")
	if more := runtime.NumGoroutine() - before; more > matches/10 {
		t.Errorf("have %d goroutines more for %d matches", more, matches)
	}
}
