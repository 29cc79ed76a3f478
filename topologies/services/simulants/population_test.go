package simulants_test

import (
	"errors"
	"fmt"
	"math"
	"net/http/httptest"
	"testing"
	"time"

	"relapse/topologies/services/http1"
	"relapse/topologies/services/players"
	"relapse/topologies/services/simulants"
)

func TestAsManyPlayersAsOrdered(t *testing.T) {
	t.Parallel()
	p := newPlatform(0)
	h, _ := run(t, config(t, p.serve(t), "players: 300", pollsOff), nil)
	for _, want := range []float64{1, 100, 30, 300, 0} {
		order(t, h, map[string]float64{"players": want})
		eventually(t, fmt.Sprintf("%v players have signed in", want), func() bool { return signedIn(t, h) == want })
		if have := h.Rates()["players"]; have.Base != want || have.Offered != want || have.Arrived != want {
			t.Errorf("have %+v, want %v ordered and there", have, want)
		}
	}
	p.do(func() {
		if len(p.players) != 300 {
			t.Errorf("have %d numbers of players, want all 300", len(p.players))
		}
	})
}

// A number of players is the same as player-seconds a second: by that the judge sees
// whether the players that were planned were there.
func TestPlayersAreOfferedAsPlayerSeconds(t *testing.T) {
	t.Parallel()
	h, _ := run(t, config(t, newPlatform(0).serve(t)), nil)
	order(t, h, map[string]float64{"players": 100})
	began, before := time.Now(), sum(t, h, "relapse_offered_total", "op", "players")
	eventually(t, "half a second is over", func() bool { return time.Since(began) > 500*time.Millisecond })
	perSecond := (sum(t, h, "relapse_offered_total", "op", "players") - before) / time.Since(began).Seconds()
	if perSecond < 80 || perSecond > 110 {
		t.Errorf("have %.1f player-seconds a second offered, want 100 players' worth", perSecond)
	}
	unsent := sum(t, h, "relapse_requests_total", "op", "players", "outcome", "unsent")
	there := sum(t, h, "relapse_player_seconds_total")
	if offered := sum(t, h, "relapse_offered_total", "op", "players"); math.Abs(offered-unsent-there) > 5 {
		t.Errorf("have %.1f player-seconds offered, %.1f of them missing and %.1f there: they do not add up", offered, unsent, there)
	}
}

func TestPlayersLogInAtTheirRate(t *testing.T) {
	for _, c := range []struct {
		name, config string
		order        map[string]float64
	}{
		{"of the configuration", "login_rate: 100", map[string]float64{"players": 150}},
		{"as ordered", "", map[string]float64{"players": 150, "login": 100}},
		{"without end", "", map[string]float64{"login": 100}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			h, _ := run(t, config(t, newPlatform(0).serve(t), "players: 150", pollsOff, c.config), nil)
			began := time.Now()
			order(t, h, c.order)
			eventually(t, "50 players have signed in", func() bool { return signedIn(t, h) >= 50 })
			if took := time.Since(began); took < 400*time.Millisecond || took > 2*time.Second {
				t.Errorf("50 logins of 100/s: have %v, want about half a second", took)
			}
			if have := sum(t, h, "relapse_offered_total", "op", "login"); have > 110*time.Since(began).Seconds()+2 {
				t.Errorf("have %v logins after %v, want 100 a second", have, time.Since(began))
			}
		})
	}
}

// A login for which there is no number is not made, and shows.
func TestLoginsBeyondTheNumbersAreUnsent(t *testing.T) {
	t.Parallel()
	h, _ := run(t, config(t, newPlatform(0).serve(t), "players: 30", pollsOff), nil)
	order(t, h, map[string]float64{"login": 500})
	eventually(t, "20 logins are unsent", func() bool {
		return sum(t, h, "relapse_requests_total", "op", "login", "outcome", "unsent") >= 20
	})
	if have := signedIn(t, h); have != 30 {
		t.Errorf("have %v players, want one for each of the 30 numbers", have)
	}
}

func TestOrders(t *testing.T) {
	h, _ := run(t, config(t, newPlatform(0).serve(t)), nil)
	server := httptest.NewServer(h.Control())
	t.Cleanup(server.Close)
	for _, c := range []struct {
		name, method, path, body string
		status                   int
		players, login           float64 // offered afterwards
	}{
		{"players", "PUT", "/rates", `{"players": 20}`, 204, 20, 0},
		{"a scale", "PUT", "/scales/surge", `{"operation": "players", "factor": 3}`, 204, 60, 0},
		{"another in its place", "PUT", "/scales/surge", `{"operation": "players", "factor": 2}`, 204, 40, 0},
		{"logins as well", "PUT", "/rates", `{"players": 10, "login": 5}`, 204, 20, 5},
		{"a scale of logins", "PUT", "/scales/more", `{"operation": "login", "factor": 2}`, 204, 20, 10},
		{"a scale of a scenario", "PUT", "/scales/matches", `{"operation": "match", "factor": 1.5}`, 204, 20, 10},
		{"an unknown operation changes nothing", "PUT", "/rates", `{"players": 99, "x": 1}`, 400, 20, 10},
		{"a poll is none", "PUT", "/rates", `{"heartbeat": 9}`, 400, 20, 10},
		{"a scenario is none", "PUT", "/rates", `{"match": 9}`, 400, 20, 10},
		{"fewer than none", "PUT", "/rates", `{"players": -1}`, 400, 20, 10},
		{"more than there are numbers of", "PUT", "/rates", `{"players": 1001}`, 400, 20, 10},
		{"scaled to more than that", "PUT", "/scales/huge", `{"operation": "players", "factor": 101}`, 400, 20, 10},
		{"a scale of an unknown operation", "PUT", "/scales/s", `{"operation": "x", "factor": 2}`, 400, 20, 10},
		{"a scale without a factor", "PUT", "/scales/s", `{"operation": "players"}`, 400, 20, 10},
		{"a field that means nothing", "PUT", "/scales/s", `{"operation": "players", "factor": 2, "for": "1s"}`, 400, 20, 10},
		{"no rates at all", "PUT", "/rates", ``, 400, 20, 10},
		{"a scale taken away", "DELETE", "/scales/surge", ``, 204, 10, 10},
		{"a scale taken away again", "DELETE", "/scales/surge", ``, 204, 10, 10},
		{"nobody", "PUT", "/rates", `{}`, 204, 0, 0},
		{"no waves", "PUT", "/waves/w", `{"every_seconds": 1}`, 404, 0, 0},
		{"sessions, of which there are none", "GET", "/sessions", ``, 200, 0, 0},
		{"targets", "GET", "/targets", ``, 200, 0, 0},
	} {
		if status := ask(t, c.method, server.URL+c.path, c.body); status != c.status {
			t.Errorf("%s: have status %d, want %d", c.name, status, c.status)
		}
		rates := h.Rates()
		if rates["players"].Offered != c.players || rates["login"].Offered != c.login {
			t.Errorf("%s: have %v players and %v logins/s offered, want %v and %v", c.name, rates["players"].Offered, rates["login"].Offered, c.players, c.login)
		}
	}
}

func TestAnUnknownOperationIsNamed(t *testing.T) {
	h, _ := run(t, config(t, newPlatform(0).serve(t)), nil)
	if err := h.SetRates(map[string]float64{"x": 1}); !errors.Is(err, players.ErrUnknownOperation) {
		t.Errorf("have %v, want %v", err, players.ErrUnknownOperation)
	}
}

func TestForeignTargetsAreRefused(t *testing.T) {
	// Of a network that is set aside for documentation: no interface is in it.
	_, err := simulants.New(t.Context(), config(t, "http://203.0.113.1:80"), nil)
	if !errors.Is(err, http1.ErrForeignTarget) {
		t.Errorf("have %v, want %v", err, http1.ErrForeignTarget)
	}
}
