package platform_test

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"relapse/topologies/services/platform"
	"relapse/topologies/services/platform/api"
)

var (
	nearEU = map[string]float64{"eu": 20, "na": 120}
	nearNA = map[string]float64{"eu": 110, "na": 30}
)

// enter queues players under an operation, and gives their ticket.
func (r *rig) enter(t *testing.T, op string, players []api.Player, pings map[string]float64) string {
	t.Helper()
	var ticket api.Ticket
	response := r.ask(t, "POST", "/queue", api.QueueRequest{Op: op, Party: "p", Players: players, Pings: pings}, &ticket)
	if response.StatusCode != http.StatusAccepted || ticket.Ticket == "" {
		t.Fatalf("have %d %+v, want a ticket", response.StatusCode, ticket)
	}
	return ticket.Ticket
}

func (r *rig) ticket(t *testing.T, id string) (status int, state api.TicketState) {
	t.Helper()
	response := r.ask(t, "GET", "/queue/"+id, nil, &state)
	return response.StatusCode, state
}

// matched waits for a ticket's match.
func (r *rig) matched(t *testing.T, id string) (match string) {
	t.Helper()
	eventually(t, "ticket "+id+" is matched", func() bool {
		_, state := r.ticket(t, id)
		match = state.Match
		return state.State == api.Matched
	})
	return match
}

// made gives the match that agent select was told of n-th, from 0.
func (r *rig) made(t *testing.T, n int) (match api.MatchRequest) {
	t.Helper()
	told := r.peers[platform.Agents].all("POST", "/matches")
	if n >= len(told) {
		t.Fatalf("agent select was told of %d matches, want more than %d", len(told), n)
	}
	told[n].into(t, &match)
	return match
}

func TestTenPlayersNearOneDataCentreMakeAMatch(t *testing.T) {
	r := start(t, config(platform.Queue))
	var far, near []string
	for n := range 9 {
		far = append(far, r.enter(t, fmt.Sprint("far", n), players(100+n, 1), nearNA))
	}
	for n := range 10 {
		near = append(near, r.enter(t, fmt.Sprint("near", n), players(n, 1), nearEU))
	}
	match := r.matched(t, near[0])
	for _, id := range near {
		if have := r.matched(t, id); have != match {
			t.Errorf("have match %q, want %q for all", have, match)
		}
	}
	made := r.made(t, 0)
	if made.Match != match || made.Op == "" || !slices.Equal(slices.Sorted(slices.Values(made.Players)), players(0, 10)) {
		t.Errorf("have %+v, want %s with players 0 to 9", made, match)
	}
	if want := map[string]float64{"eu": 200, "na": 1200}; !maps.Equal(made.Pings, want) {
		t.Errorf("pings: have %v, want %v", made.Pings, want)
	}
	for _, id := range far {
		if status, state := r.ticket(t, id); status != http.StatusOK || state != (api.TicketState{State: api.Waiting}) {
			t.Errorf("have %d %+v, want that nine wait", status, state)
		}
	}
	r.expect(t, 9, "relapse_queued_players")
	r.expect(t, 1, "relapse_matches_made_total", "full")
	r.expect(t, 10, "relapse_queue_wait_seconds")
}

func TestPartiesStayInOneTeam(t *testing.T) {
	r := start(t, config(platform.Queue))
	r.enter(t, "1", players(0, 3), nearEU)
	r.enter(t, "2", players(10, 4), nearEU)
	late := r.enter(t, "3", players(20, 3), nearEU) // fits in no team any more
	r.enter(t, "4", players(30, 2), map[string]float64{"eu": 40, "asia": 200})
	last := r.enter(t, "5", players(40, 1), nearEU)
	r.matched(t, last)
	made := r.made(t, 0)
	want := slices.Concat(players(0, 3), players(30, 2), players(10, 4), players(40, 1))
	if !slices.Equal(made.Players, want) {
		t.Errorf("have %v, want %v: the first team, then the second", made.Players, want)
	}
	// Eight players at 20 ms and two at 40; the other centres not all of them know.
	if want := map[string]float64{"eu": 240}; !maps.Equal(made.Pings, want) {
		t.Errorf("pings: have %v, want %v", made.Pings, want)
	}
	if _, state := r.ticket(t, late); state.State != api.Waiting {
		t.Errorf("have %+v, want that the party waits", state)
	}
}

func TestWhoHasWaitedIsMatchedWithAnybody(t *testing.T) {
	c := config(platform.Queue)
	c.Queue.WidenAfter = time.Minute
	c.Speed = 600 // 100 ms
	r := start(t, c)
	began := time.Now()
	first := r.enter(t, "1", players(0, 5), nearEU)
	r.enter(t, "2", players(10, 5), nearNA)
	r.matched(t, first)
	if took := time.Since(began); took < 100*time.Millisecond {
		t.Errorf("it took %v, want 100 ms at least", took)
	}
	if have := r.made(t, 0).Players; len(have) != 10 {
		t.Errorf("have %v, want all ten", have)
	}
	r.expect(t, 1, "relapse_matches_made_total", "widened")
}

func TestNobodyWaitsForEver(t *testing.T) {
	c := config(platform.Queue)
	c.Queue.WaitMost = 1
	r := start(t, c)
	r.matched(t, r.enter(t, "1", players(0, 3), nearEU))
	if have := r.made(t, 0).Players; !slices.Equal(have, players(0, 3)) {
		t.Errorf("have %v, want the three who are there", have)
	}
	r.expect(t, 1, "relapse_matches_made_total", "short")
}

func TestAPlayerIsInTheQueueOnce(t *testing.T) {
	r := start(t, config(platform.Queue))
	id := r.enter(t, "1", players(0, 2), nearEU)
	for _, c := range []struct {
		name string
		op   string
		who  []api.Player
	}{{"the same operation", "1", players(0, 2)}, {"another of the same players", "2", []api.Player{1, 0}}, {"and that again", "2", players(0, 2)}} {
		if have := r.enter(t, c.op, c.who, nearEU); have != id {
			t.Errorf("%s: have %q, want %q", c.name, have, id)
		}
	}
	other := api.QueueRequest{Op: "3", Players: players(1, 2), Pings: nearEU}
	if have := r.status(t, "POST", "/queue", other); have != http.StatusConflict {
		t.Errorf("with others: have %d, want 409", have)
	}
	for range 2 {
		if have := r.status(t, "DELETE", "/queue/"+id, nil); have != http.StatusNoContent {
			t.Errorf("leaving: have %d, want 204", have)
		}
	}
	if status, _ := r.ticket(t, id); status != http.StatusNotFound {
		t.Errorf("the ticket that was left: have %d, want 404", status)
	}
	if have := r.status(t, "POST", "/queue", other); have != http.StatusAccepted {
		t.Errorf("with others afterwards: have %d, want 202", have)
	}
}

func TestAMatchIsHandedOnUntilThatIsAcknowledged(t *testing.T) {
	var ready atomic.Bool
	r := start(t, config(platform.Queue), func(r *rig) {
		r.peers[platform.Agents].answers(func(int, asked) (int, any) {
			if !ready.Load() {
				return http.StatusServiceUnavailable, "not now"
			}
			return http.StatusCreated, struct{}{}
		})
	})
	one, other := r.enter(t, "1", players(0, 5), nearEU), r.enter(t, "2", players(5, 5), nearEU)
	tries := func() int { return len(r.peers[platform.Agents].all("POST", "/matches")) }
	eventually(t, "it was tried again", func() bool { return tries() > 1 })
	if have := r.enter(t, "3", players(0, 5), nearEU); have != one {
		t.Errorf("whoever asks again meanwhile: have %q, want %q", have, one)
	}
	if _, state := r.ticket(t, one); state.State != api.Waiting {
		t.Errorf("meanwhile: have %+v, want that the party waits", state)
	}
	ready.Store(true)
	match := r.matched(t, one)
	if have := r.matched(t, other); have != match {
		t.Errorf("have %q, want %q", have, match)
	}
	for n := range tries() {
		if have := r.made(t, n); have.Op != r.made(t, 0).Op || have.Match != match {
			t.Errorf("try %d: have %+v, want the same operation", n, have)
		}
	}
	r.expect(t, float64(tries()-1), "relapse_calls_total", "refused", platform.Agents, platform.Queue)
	r.expect(t, 1, "relapse_calls_total", "ok", platform.Agents, platform.Queue)
	r.expect(t, 0, "relapse_queued_players")
}

func TestTheQueueRefuses(t *testing.T) {
	r := start(t, config(platform.Queue))
	for name, c := range map[string]api.QueueRequest{
		"no operation":        {Players: players(0, 1), Pings: nearEU},
		"nobody":              {Op: "1", Pings: nearEU},
		"more than a team":    {Op: "1", Players: players(0, 6), Pings: nearEU},
		"a player twice":      {Op: "1", Players: []api.Player{1, 1}, Pings: nearEU},
		"no ping":             {Op: "1", Players: players(0, 1)},
		"a ping below zero":   {Op: "1", Players: players(0, 1), Pings: map[string]float64{"eu": -1}},
		"a ping of no centre": {Op: "1", Players: players(0, 1), Pings: map[string]float64{"": 1}},
	} {
		if have := r.status(t, "POST", "/queue", c); have != http.StatusBadRequest {
			t.Errorf("%s: have %d, want 400", name, have)
		}
	}
	if status, _ := r.ticket(t, "nobody's"); status != http.StatusNotFound {
		t.Errorf("a ticket that is not there: have %d, want 404", status)
	}
}
