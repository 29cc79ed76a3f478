package platform

import (
	"net/http"
	"time"

	"relapse/topologies/services/platform/api"
)

// provision has a match be given a server. The lock is held.
func (a *agents) provision(m *match) {
	a.enter(m, api.Provisioning)
	now := time.Now()
	until := now.Add(a.config.BeginWithin)
	a.calls.At(now, func() { a.serve(m, until, 1) })
}

// enter has a match go over into another state, if it has not ended. The lock is held.
func (a *agents) enter(m *match, state string) {
	from, ends := a.states[m.state], state == api.Over || state == api.Failed
	if from == nil {
		return // it has ended
	}
	from.Dec()
	m.state = state
	if !ends {
		a.states[state].Inc()
		return
	}
	a.ended[state].Inc()
	delete(a.matches, m.asked.Match)
	a.old.put(m.asked.Match, m, time.Now())
}

// serve gets a server for a match, and then a game on it.
func (a *agents) serve(m *match, until time.Time, attempt int) {
	asked := api.ServerRequest{
		Op: m.asked.Match + "/server", Match: m.asked.Match, Players: m.asked.Players, Pings: m.asked.Pings,
	}
	var server api.Server
	err := a.p.call(Agents, Provisioning, http.MethodPost, "/servers", asked, &server)
	if err != nil {
		a.retry(m, until, attempt, err, a.serve)
		return
	}
	a.mu.Lock()
	m.server = server
	a.mu.Unlock()
	a.play(m, until, 1)
}

// play has the game of a match begin on its server.
func (a *agents) play(m *match, until time.Time, attempt int) {
	asked := api.GameRequest{
		Op: m.asked.Match + "/game", Server: m.server.Server, Match: m.asked.Match, Players: m.asked.Players,
	}
	if err := a.p.call(Agents, Games, http.MethodPost, "/games", asked, nil); err != nil {
		a.retry(m, until, attempt, err, a.play)
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if m.state != api.Provisioning {
		return // it was over before the answer was here
	}
	a.enter(m, api.Playing)
	a.clock.At(time.Now().Add(a.p.real(a.config.OverWithin)), func() { a.giveUp(m, "no result is known") })
}

// retry has a step of a match be tried again, unless its time is over. A server that
// the match may have by then is given back when its lease ends.
func (a *agents) retry(m *match, until time.Time, attempt int, err error, step func(*match, time.Time, int)) {
	at := a.p.again(attempt)
	if at.After(until) {
		a.giveUp(m, err.Error())
		return
	}
	a.calls.At(at, func() { step(m, until, attempt+1) })
}

func (a *agents) giveUp(m *match, why string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.states[m.state] == nil {
		return // it has ended
	}
	a.p.log(Agents).Warn("a match has failed", "match", m.asked.Match, "state", m.state, "why", why)
	a.enter(m, api.Failed)
}
