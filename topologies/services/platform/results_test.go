package platform_test

import (
	"net/http"
	"slices"
	"sync"
	"testing"

	"relapse/topologies/services/platform"
	"relapse/topologies/services/platform/api"
)

// outcome is a result in which the first of two teams of five has won.
func outcome(op string) api.ResultRequest {
	asked := api.ResultRequest{Op: op, Match: "m"}
	for _, p := range players(0, 10) {
		asked.Players = append(asked.Players, api.PlayerResult{Player: p, Won: p < 5})
	}
	return asked
}

// granted gives the grants that the store was asked for, by player.
func (r *rig) granted(t *testing.T) (grants []api.GrantRequest) {
	t.Helper()
	for _, a := range r.peers[platform.Store].all("POST", "/grant") {
		var g api.GrantRequest
		a.into(t, &g)
		grants = append(grants, g)
	}
	return grants
}

func TestAResultGrantsEachPlayer(t *testing.T) {
	r := start(t, config(platform.Results))
	for range 2 { // the second time the answer was lost
		if have := r.status(t, "POST", "/results", outcome("o")); have != http.StatusCreated {
			t.Errorf("have %d, want 201", have)
		}
	}
	grants := r.granted(t)
	if len(grants) != 10 {
		t.Fatalf("have %d grants, want one for each player", len(grants))
	}
	ops := map[string]bool{}
	for n, g := range grants {
		want := int64(10)
		if n < 5 {
			want = 20
		}
		if g.Player != api.Player(n) || g.Amount != want {
			t.Errorf("have %+v, want %d for player %d", g, want, n)
		}
		ops[g.Op] = true
	}
	if len(ops) != 10 || ops[""] {
		t.Errorf("have operations %v, want one for each grant", ops)
	}
	r.expect(t, 1, "relapse_results_recorded_total")
	r.expect(t, 150, "relapse_granted_total")
	r.expect(t, 0, "relapse_results_open")
	r.expect(t, 10, "relapse_calls_total", "ok", platform.Store, platform.Results)
}

func TestAResultThatFailsHalfWayIsTakenUpThere(t *testing.T) {
	r := start(t, config(platform.Results), func(r *rig) {
		r.peers[platform.Store].answers(func(n int, _ asked) (int, any) {
			if n == 3 {
				return http.StatusInternalServerError, "no"
			}
			return http.StatusOK, struct{}{}
		})
	})
	if have := r.status(t, "POST", "/results", outcome("o")); have != http.StatusBadGateway {
		t.Errorf("at first: have %d, want 502", have)
	}
	r.expect(t, 1, "relapse_results_open")
	r.expect(t, 0, "relapse_results_recorded_total")
	if have := r.status(t, "POST", "/results", outcome("o")); have != http.StatusCreated {
		t.Errorf("then: have %d, want 201", have)
	}
	var have []api.Player
	for _, g := range r.granted(t) {
		have = append(have, g.Player)
	}
	if want := slices.Concat(players(0, 4), players(3, 7)); !slices.Equal(have, want) {
		t.Errorf("have grants of %v, want %v: the one that failed is made again", have, want)
	}
	r.expect(t, 1, "relapse_results_recorded_total")
	r.expect(t, 150, "relapse_granted_total")
}

func TestAResultIsRecordedByOneAtATime(t *testing.T) {
	r := start(t, config(platform.Results))
	release := r.peers[platform.Store].stuck(t)
	var recording sync.WaitGroup
	recording.Go(func() {
		response, err := r.try(t.Context(), "POST", "/results", outcome("o"), nil)
		if err != nil || response.StatusCode != http.StatusCreated {
			t.Errorf("the first: have %v, %v; want 201", response, err)
		}
	})
	eventually(t, "it is under way", func() bool { return len(r.granted(t)) == 1 })
	if have := r.status(t, "POST", "/results", outcome("o")); have != http.StatusServiceUnavailable {
		t.Errorf("the same meanwhile: have %d, want 503", have)
	}
	release()
	recording.Wait()
	if have := len(r.granted(t)); have != 10 {
		t.Errorf("have %d grants, want 10", have)
	}
}

func TestWhatBringsInNothingIsNotGranted(t *testing.T) {
	c := config(platform.Results)
	c.Results.Loss = 0
	r := start(t, c)
	if have := r.status(t, "POST", "/results", outcome("o")); have != http.StatusCreated {
		t.Errorf("have %d, want 201", have)
	}
	if have := len(r.granted(t)); have != 5 {
		t.Errorf("have %d grants, want those of the winners", have)
	}
}

func TestResultsRefuses(t *testing.T) {
	r := start(t, config(platform.Results))
	for name, change := range map[string]func(*api.ResultRequest){
		"no operation":   func(a *api.ResultRequest) { a.Op = "" },
		"no match":       func(a *api.ResultRequest) { a.Match = "" },
		"nobody":         func(a *api.ResultRequest) { a.Players = nil },
		"a player twice": func(a *api.ResultRequest) { a.Players[1] = a.Players[0] },
	} {
		asked := outcome("o")
		change(&asked)
		if have := r.status(t, "POST", "/results", asked); have != http.StatusBadRequest {
			t.Errorf("%s: have %d, want 400", name, have)
		}
	}
	if have := len(r.granted(t)); have != 0 {
		t.Errorf("have %d grants, want none", have)
	}
}
