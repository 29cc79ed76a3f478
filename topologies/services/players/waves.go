package players

import (
	"errors"
	"fmt"
	"time"

	"relapse/topologies/services"
)

// ErrNoSessions says that an order is about sessions where there are none.
var ErrNoSessions = errors.New("no sessions are configured")

// shortestWave refuses a period that can only be a mistake.
const shortestWave = 10 * time.Millisecond

// wave cuts the connections of all sessions, again and again.
type wave struct {
	every  time.Duration
	recent services.Recent // connections that were opened again after a cut
}

// SessionState is what a generator says of its sessions.
type SessionState struct {
	Count      int `json:"count"` // 0 where none are configured
	Connected  int `json:"connected"`
	Reconnects int `json:"reconnects"` // since the start
	// Waves gives, by name, how many connections that a wave cut were opened
	// again over the last half second, per second.
	Waves map[string]float64 `json:"waves"`
}

// StartWaves cuts the connections of all sessions at once, now and then again
// every period, under a name, in place of what the name stood for before: what
// happens when a balancer is restarted, or load is moved. A connection is reset,
// so that both sides know at once.
func (g *Generator) StartWaves(name string, every time.Duration) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.sessions == nil {
		return ErrNoSessions
	}
	if every < shortestWave {
		return fmt.Errorf("waves %s: every %v: want %v or more", name, every, shortestWave)
	}
	w := &wave{every: every}
	g.sessions.waves[name] = w
	g.cut(name, w, g.now())
	g.poke()
	return nil
}

// StopWaves cuts no more; waves that are not there are no error.
func (g *Generator) StopWaves(name string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.sessions != nil {
		delete(g.sessions.waves, name)
	}
}

// cut cuts once, and has itself called again.
func (g *Generator) cut(name string, w *wave, at time.Duration) {
	if g.sessions.waves[name] != w {
		return // stopped, or replaced
	}
	for _, s := range g.sessions.all {
		s.mu.Lock()
		if s.conn != nil {
			s.cut, s.cutBy = true, w
			s.conn.Reset()
		}
		s.mu.Unlock()
	}
	g.at(at+w.every, func(at time.Duration) { g.cut(name, w, at) })
}

// SessionState says how the sessions are.
func (g *Generator) SessionState() SessionState {
	g.mu.Lock()
	defer g.mu.Unlock()
	state := SessionState{Waves: map[string]float64{}}
	if g.sessions == nil {
		return state
	}
	state.Count, state.Reconnects = g.sessions.Count, g.sessions.opened
	for name, w := range g.sessions.waves {
		state.Waves[name] = w.recent.PerSecond(g.now())
	}
	for _, s := range g.sessions.all {
		s.mu.Lock()
		if s.conn != nil {
			state.Connected++
		}
		s.mu.Unlock()
	}
	return state
}
