package platform_test

import (
	"net/http"
	"slices"
	"testing"
	"time"

	"relapse/topologies/services/platform"
	"relapse/topologies/services/platform/api"
)

// serves has provisioning give a server.
func serves(r *rig) {
	r.peers[platform.Provisioning].answers(func(int, asked) (int, any) {
		return http.StatusCreated, api.Server{Server: "s-1", Centre: "eu"}
	})
}

// begin has ten players select agents for a match.
func (r *rig) begin(t *testing.T, match string) {
	t.Helper()
	asked := api.MatchRequest{Op: match, Match: match, Players: players(0, 10), Pings: map[string]float64{"eu": 200, "na": 1200}}
	if have := r.status(t, "POST", "/matches", asked); have != http.StatusCreated {
		t.Fatalf("have %d, want 201", have)
	}
}

func (r *rig) lock(t *testing.T, match string, p api.Player, agent string) int {
	t.Helper()
	return r.status(t, "POST", "/matches/"+match+"/agents", api.AgentRequest{Player: p, Agent: agent})
}

func (r *rig) state(t *testing.T, match string) (state api.MatchState) {
	t.Helper()
	r.ask(t, "GET", "/matches/"+match, nil, &state)
	return state
}

// until waits for a state of a match.
func (r *rig) until(t *testing.T, match, state string) {
	t.Helper()
	eventually(t, match+" is "+state, func() bool { return r.state(t, match).State == state })
}

func TestAgentsAreLocked(t *testing.T) {
	r := start(t, config(platform.Agents), serves)
	r.begin(t, "m")
	for _, c := range []struct {
		name, match string
		player      api.Player
		agent       string
		want        int
	}{
		{"an agent", "m", 0, "agent-01", 200},
		{"the same again", "m", 0, "agent-01", 200},
		{"another one then", "m", 0, "agent-02", 409},
		{"one that is taken in the team", "m", 4, "agent-01", 409},
		{"another one instead", "m", 4, "agent-02", 200},
		{"one that is taken in the other team", "m", 5, "agent-01", 200},
		{"by somebody else", "m", 10, "agent-03", 404},
		{"in a match that is not there", "n", 0, "agent-03", 404},
		{"none", "m", 1, "", 400},
	} {
		if have := r.lock(t, c.match, c.player, c.agent); have != c.want {
			t.Errorf("%s: have %d, want %d", c.name, have, c.want)
		}
	}
	if have := r.state(t, "m"); have != (api.MatchState{State: api.Selecting}) {
		t.Errorf("have %+v, want that agents are being selected", have)
	}
	r.expect(t, 1, "relapse_matches", api.Selecting)
	r.expect(t, 2, "relapse_handled_total", "lock", "conflict", "agents")
	if have := len(r.peers[platform.Provisioning].all("", "")); have != 0 {
		t.Errorf("provisioning was asked %d times, want not yet", have)
	}
}

func TestAMatchBeginsWhenAllHaveAgents(t *testing.T) {
	r := start(t, config(platform.Agents), serves)
	r.begin(t, "m")
	r.begin(t, "m") // whose answer was lost
	for n, p := range players(0, 10) {
		if have := r.lock(t, "m", p, api.Agents[n%5]); have != http.StatusOK {
			t.Errorf("player %d: have %d, want 200", p, have)
		}
	}
	r.until(t, "m", api.Playing)
	if have, want := r.state(t, "m"), (api.MatchState{State: api.Playing, Server: "s-1", Centre: "eu"}); have != want {
		t.Errorf("have %+v, want %+v", have, want)
	}
	servers, games := r.peers[platform.Provisioning].all("POST", "/servers"), r.peers[platform.Games].all("POST", "/games")
	if len(servers) != 1 || len(games) != 1 {
		t.Fatalf("have %d requests for a server and %d for a game, want one each", len(servers), len(games))
	}
	var server api.ServerRequest
	servers[0].into(t, &server)
	if server.Op == "" || server.Match != "m" || !slices.Equal(server.Players, players(0, 10)) || server.Pings["na"] != 1200 {
		t.Errorf("have %+v, want a server for the match", server)
	}
	var game api.GameRequest
	games[0].into(t, &game)
	if game.Op == "" || game.Match != "m" || game.Server != "s-1" || !slices.Equal(game.Players, players(0, 10)) {
		t.Errorf("have %+v, want the match on the server", game)
	}
	r.expect(t, 1, "relapse_matches", api.Playing)
	for range 2 {
		if have := r.status(t, "POST", "/matches/m/over", api.MatchOver{Op: "o"}); have != http.StatusNoContent {
			t.Errorf("over: have %d, want 204", have)
		}
		if have := r.state(t, "m").State; have != api.Over {
			t.Errorf("have %s, want that it is over", have)
		}
	}
	r.expect(t, 0, "relapse_matches", api.Playing)
	r.expect(t, 1, "relapse_matches_ended_total", api.Over)
}

func TestAgentsArePickedAtTheEndOfTheTime(t *testing.T) {
	c := config(platform.Agents)
	c.Speed, c.Agents.SelectFor, c.Agents.OverWithin = 180, 90*time.Second, time.Hour // half a second, and 20
	r := start(t, c, serves)
	r.begin(t, "m")
	if have := r.lock(t, "m", 1, "agent-01"); have != http.StatusOK {
		t.Errorf("have %d, want 200", have)
	}
	r.until(t, "m", api.Playing)
	for _, c := range []struct {
		name   string
		player api.Player
		agent  string
		want   int
	}{
		{"who had one keeps it", 1, "agent-01", 200},
		{"the first one gets the first that is free", 0, "agent-02", 200},
		{"the next the one after it", 2, "agent-03", 200},
		{"the other team has its own", 5, "agent-01", 200},
		{"nobody gets another one", 9, "agent-11", 409},
	} {
		if have := r.lock(t, "m", c.player, c.agent); have != c.want {
			t.Errorf("%s: have %d, want %d", c.name, have, c.want)
		}
	}
}

func TestAMatchThatCannotBeginIsTriedAgainAndFails(t *testing.T) {
	for _, c := range []struct {
		name  string
		peer  string // that refuses
		fails int    // times; below zero for ever
		want  string
	}{
		{"no server at first", platform.Provisioning, 2, api.Playing},
		{"no game at first", platform.Games, 2, api.Playing},
		{"never a server", platform.Provisioning, -1, api.Failed},
		{"never a game", platform.Games, -1, api.Failed},
	} {
		t.Run(c.name, func(t *testing.T) {
			conf := config(platform.Agents)
			conf.Agents.SelectFor = 1
			if c.want == api.Failed {
				conf.Agents.BeginWithin = 500 * time.Millisecond
			}
			r := start(t, conf, serves, func(r *rig) {
				well := r.peers[c.peer].answer
				r.peers[c.peer].answers(func(n int, a asked) (int, any) {
					switch {
					case c.fails < 0 || n < c.fails:
						return http.StatusServiceUnavailable, "not now"
					case well != nil:
						return well(n, a)
					}
					return http.StatusCreated, struct{}{}
				})
			})
			r.begin(t, "m")
			r.until(t, "m", c.want)
			requests := r.peers[c.peer].all("POST", "")
			if len(requests) < 2 {
				t.Fatalf("%s was asked %d times, want more", c.peer, len(requests))
			}
			for _, a := range requests {
				var first, this struct{ Op string }
				requests[0].into(t, &first)
				a.into(t, &this)
				if this.Op == "" || this.Op != first.Op {
					t.Errorf("have operation %q, want %q each time", this.Op, first.Op)
				}
			}
			if c.want == api.Failed {
				r.expect(t, 1, "relapse_matches_ended_total", api.Failed)
			}
		})
	}
}

func TestAMatchWithoutAResultFails(t *testing.T) {
	c := config(platform.Agents)
	c.Agents.SelectFor, c.Agents.OverWithin = 1, 1
	r := start(t, c, serves)
	r.begin(t, "m")
	r.until(t, "m", api.Failed)
	if have := r.status(t, "POST", "/matches/m/over", api.MatchOver{Op: "o"}); have != http.StatusNoContent {
		t.Errorf("a result that comes later: have %d, want 204", have)
	}
	if have := r.state(t, "m").State; have != api.Failed {
		t.Errorf("have %s, want that it stays so", have)
	}
	r.expect(t, 0, "relapse_matches", api.Playing)
}

func TestAMatchMayBeOverBeforeItIsKnownToHaveBegun(t *testing.T) {
	c := config(platform.Agents)
	c.Agents.SelectFor = 1
	r := start(t, c, serves)
	release := r.peers[platform.Games].stuck(t)
	r.begin(t, "m")
	eventually(t, "the game is asked for", func() bool { return len(r.peers[platform.Games].all("", "")) > 0 })
	if have := r.status(t, "POST", "/matches/m/over", api.MatchOver{Op: "o"}); have != http.StatusNoContent {
		t.Errorf("have %d, want 204", have)
	}
	release()
	eventually(t, "the game has answered", func() bool {
		return r.value(t, "relapse_calls_total", "ok", platform.Games, platform.Agents) == 1
	})
	if have := r.state(t, "m").State; have != api.Over {
		t.Errorf("have %s, want that it stays over", have)
	}
	r.expect(t, 0, "relapse_matches", api.Playing)
	r.expect(t, 0, "relapse_matches", api.Provisioning)
}

func TestAgentSelectRefuses(t *testing.T) {
	r := start(t, config(platform.Agents))
	r.begin(t, "m")
	for _, c := range []struct {
		name string
		have api.MatchRequest
		want int
	}{
		{"no operation", api.MatchRequest{Match: "n", Players: players(0, 2)}, 400},
		{"no match", api.MatchRequest{Op: "1", Players: players(0, 2)}, 400},
		{"nobody", api.MatchRequest{Op: "1", Match: "n"}, 400},
		{"a ping below zero", api.MatchRequest{Op: "1", Match: "n", Players: players(0, 2), Pings: map[string]float64{"eu": -1}}, 400},
		{"a match that is there", api.MatchRequest{Op: "1", Match: "m", Players: players(0, 2)}, 409},
	} {
		if have := r.status(t, "POST", "/matches", c.have); have != c.want {
			t.Errorf("%s: have %d, want %d", c.name, have, c.want)
		}
	}
	for _, c := range []struct {
		method, path string
		body         any
		want         int
	}{
		{"GET", "/matches/n", nil, 404},
		{"POST", "/matches/n/over", api.MatchOver{Op: "o"}, 404},
		{"POST", "/matches/m/over", api.MatchOver{}, 400},
	} {
		if have := r.status(t, c.method, c.path, c.body); have != c.want {
			t.Errorf("%s %s: have %d, want %d", c.method, c.path, have, c.want)
		}
	}
}
