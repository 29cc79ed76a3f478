package platform

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"relapse/topologies/services/matchmaking"
	"relapse/topologies/services/platform/api"
	"relapse/topologies/services/platform/due"
)

// AgentsConfig is what agent select is made of.
type AgentsConfig struct {
	SelectFor time.Duration // for which players select, documented time
	// BeginWithin is how long a server and its game are tried for, real time. Then the
	// match has failed.
	BeginWithin time.Duration
	// OverWithin is how long a match is played at most, documented time. A match of
	// which no result is known by then has failed: its game server is gone.
	OverWithin time.Duration
	// Callers are how many matches are given servers and games at once.
	Callers int
}

// mostMatch is how many players a match has at most.
const mostMatch = 100

// agents has players select their agents, and then a server begin the match:
//
//	POST /matches              MatchRequest: 201
//	POST /matches/{id}/agents  AgentRequest: 200; 409 if the agent is taken in the
//	                           team, the player has another one, or the time is over
//	GET  /matches/{id}         200 MatchState; 404 a while after it has ended
//	POST /matches/{id}/over    MatchOver: 204, by the game servers
//
// A match:
//
//	           all have one,            has a server           result is
//	           or the time is over      and a game             recorded
//	selecting ─────────────▶ provisioning ──────────▶ playing ──────────▶ over
//	                              │                      │
//	                              └──────────────────────┴─────▶ failed
//	                               none in time    no result in time
//
// At the end of the time, players without an agent get the first one that is free in
// their team. A match may be over before it is known to have begun.
type agents struct {
	p      *Platform
	config AgentsConfig
	clock  *due.Times // ends of selections and of matches: no calls
	calls  *due.Times

	states map[string]prometheus.Gauge
	ended  map[string]prometheus.Counter

	mu      sync.Mutex
	matches map[string]*match // that have not ended
	old     *answers[*match]
}

func newAgents(p *Platform) (role, error) {
	c := p.config.Agents
	err := positive(map[string]time.Duration{
		"the time to select": c.SelectFor, "the time to begin": c.BeginWithin, "the longest match": c.OverWithin,
	})
	if err != nil {
		return nil, err
	}
	if err := count("callers", c.Callers); err != nil {
		return nil, err
	}
	a := &agents{
		p: p, config: c, clock: due.New(p.lateness(Agents)), calls: due.New(p.lateness(Agents)),
		ended:   p.counters("relapse_matches_ended_total", "Matches that ended, by state (over, failed).", "state", api.Over, api.Failed),
		states:  map[string]prometheus.Gauge{},
		matches: map[string]*match{}, old: newAnswers[*match](p.config.Remember),
	}
	states := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "relapse_matches", Help: "Matches that have not ended, by state (selecting, provisioning, playing).",
	}, []string{"state"})
	p.registry.MustRegister(states)
	for _, state := range []string{api.Selecting, api.Provisioning, api.Playing} {
		a.states[state] = states.WithLabelValues(state)
	}
	return a, nil
}

func (a *agents) routes() []route {
	return []route{
		{"POST /matches", "begin", a.begin},
		{"POST /matches/{id}/agents", "lock", a.lock},
		{"GET /matches/{id}", "poll", a.poll},
		{"POST /matches/{id}/over", "over", a.over},
	}
}

func (a *agents) run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return a.clock.Run(ctx, 1) })
	group.Go(func() error { return a.calls.Run(ctx, a.config.Callers) })
	return group.Wait()
}

// find gives a match, nil if it is not known or was forgotten. The lock is held.
func (a *agents) find(id string, now time.Time) *match {
	if m := a.matches[id]; m != nil {
		return m
	}
	m, _ := a.old.get(id, now)
	return m
}

func (a *agents) begin(w http.ResponseWriter, r *http.Request) error {
	var asked api.MatchRequest
	if err := read(w, r, &asked); err != nil {
		return err
	}
	if err := checkOp(asked.Op); err != nil {
		return bad(err)
	}
	if err := checkPlayers(asked.Players, mostMatch); err != nil {
		return bad(err)
	}
	if err := checkPings(asked.Pings); err != nil {
		return bad(err)
	}
	if asked.Match == "" {
		return refuse(http.StatusBadRequest, "match: name one")
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	now := time.Now()
	switch m := a.find(asked.Match, now); {
	case m == nil:
		m = &match{asked: asked, agents: make([]string, len(asked.Players)), state: api.Selecting}
		a.matches[asked.Match] = m
		a.states[api.Selecting].Inc()
		a.clock.At(now.Add(a.p.real(a.config.SelectFor)), func() { a.timeIsOver(m) })
	case m.asked.Op != asked.Op:
		return refuse(http.StatusConflict, "match %s was begun by another operation", asked.Match)
	}
	w.WriteHeader(http.StatusCreated)
	return nil
}

func (a *agents) lock(w http.ResponseWriter, r *http.Request) error {
	var asked api.AgentRequest
	if err := read(w, r, &asked); err != nil {
		return err
	}
	if asked.Agent == "" {
		return refuse(http.StatusBadRequest, "agent: name one")
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	m := a.find(r.PathValue("id"), time.Now())
	if m == nil {
		return refuse(http.StatusNotFound, "no match %q", r.PathValue("id"))
	}
	at := slices.Index(m.asked.Players, asked.Player)
	switch {
	case at < 0:
		return refuse(http.StatusNotFound, "player %d is not in match %s", asked.Player, m.asked.Match)
	case m.agents[at] == asked.Agent: // asked again
	case m.agents[at] != "":
		return refuse(http.StatusConflict, "player %d has %s already", asked.Player, m.agents[at])
	case m.state != api.Selecting:
		return refuse(http.StatusConflict, "the time to select is over")
	case m.taken(at, asked.Agent):
		return refuse(http.StatusConflict, "%s is taken in the team", asked.Agent)
	default:
		m.agents[at] = asked.Agent
		if !slices.Contains(m.agents, "") {
			a.provision(m)
		}
	}
	w.WriteHeader(http.StatusOK)
	return nil
}

// timeIsOver gives agents to those who have none.
func (a *agents) timeIsOver(m *match) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if m.state != api.Selecting {
		return
	}
	for at, has := range m.agents {
		if has == "" {
			m.agents[at] = m.free(at)
		}
	}
	a.provision(m)
}

func (a *agents) poll(w http.ResponseWriter, r *http.Request) error {
	a.mu.Lock()
	m := a.find(r.PathValue("id"), time.Now())
	if m == nil {
		a.mu.Unlock()
		return refuse(http.StatusNotFound, "no match %q: it has ended a while ago, or never began", r.PathValue("id"))
	}
	state := api.MatchState{State: m.state, Server: m.server.Server, Centre: m.server.Centre}
	a.mu.Unlock()
	matchmaking.Answer(w, http.StatusOK, state)
	return nil
}

func (a *agents) over(w http.ResponseWriter, r *http.Request) error {
	var asked api.MatchOver
	if err := read(w, r, &asked); err != nil {
		return err
	}
	if err := checkOp(asked.Op); err != nil {
		return bad(err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	m := a.find(r.PathValue("id"), time.Now())
	if m == nil {
		return refuse(http.StatusNotFound, "no match %q", r.PathValue("id"))
	}
	a.enter(m, api.Over)
	w.WriteHeader(http.StatusNoContent)
	return nil
}
