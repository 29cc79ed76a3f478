// Package gamehosts is machines that each run many games, modelled: a game costs CPU by
// its mode and age ([Curve]), and no CPU time is burnt for it.
//
// A host whose games cost more than it has is late with its ticks ([Late]). One that
// stays above 100 % for a minute shuts a tenth of its games down, the oldest first, and
// again each minute until it has room: that such a host loses games in the middle of a
// match is documented, how is a choice.
//
//	whoever places games -> hosts: POST /games [Placement]…, GET /hosts [Inventory]…
//	limiter -> hosts:              GET /readings [Answer]
//	audit -> hosts:                GET /log [Page] of [Entry]
package gamehosts

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"
)

// HostConfig is one host.
type HostConfig struct {
	Name     string
	Kind     string  // hardware type
	Capacity float64 // games at their dearest that fill its CPU
}

// overFor is how long a host is above 100 % before it shuts games down, and from then
// on how often it does. Documented time.
const overFor = time.Minute

// downShare is the part of a host's games that it shuts down at once.
const downShare = 0.1

// Hosts is a number of hosts with their games. It knows no clock: time comes with each
// call and never goes back. It is used by one goroutine at a time.
type Hosts struct {
	hosts  []*host
	byName map[string]*host
	placed map[int64]bool
	now    time.Duration
	totals map[string]*Totals // by mode
}

// Totals are what has happened to games of a mode.
type Totals struct{ Begun, Ended, Killed int }

type game struct {
	id    int64
	mode  int
	began time.Duration
}

type host struct {
	HostConfig
	games []game
	load  float64 // of its CPU; above 1 where games want more than it has
	over  bool
	since time.Duration // that it is over, or has shut games down
}

// New makes hosts without games.
func New(configs []HostConfig) (*Hosts, error) {
	if len(configs) == 0 {
		return nil, errors.New("gamehosts: no hosts: want one at least")
	}
	h := &Hosts{byName: map[string]*host{}, placed: map[int64]bool{}, totals: map[string]*Totals{}}
	for _, c := range configs {
		switch {
		case c.Name == "" || c.Kind == "":
			return nil, fmt.Errorf("gamehosts: host %q of kind %q: want a name and a kind", c.Name, c.Kind)
		case h.byName[c.Name] != nil:
			return nil, fmt.Errorf("gamehosts: host %s is there twice", c.Name)
		case !(c.Capacity > 0):
			return nil, fmt.Errorf("gamehosts: host %s holds %v games: want more than zero", c.Name, c.Capacity)
		}
		one := &host{HostConfig: c}
		h.hosts, h.byName[c.Name] = append(h.hosts, one), one
	}
	for _, m := range Modes {
		h.totals[m.Name] = &Totals{}
	}
	return h, nil
}

// Place has a game begin. It gives false if that game was placed before, as when a
// message comes twice.
func (h *Hosts) Place(now time.Duration, p Placement) (bool, error) {
	one, mode := h.byName[p.Host], modeNumber(p.Mode)
	switch {
	case one == nil:
		return false, fmt.Errorf("game %d: no host %q", p.Game, p.Host)
	case mode < 0:
		return false, fmt.Errorf("game %d: no mode %q", p.Game, p.Mode)
	case p.Age < 0:
		return false, fmt.Errorf("game %d: an age of %v: want zero or more", p.Game, p.Age)
	case h.placed[p.Game]:
		return false, nil
	}
	h.placed[p.Game] = true
	one.games = append(one.games, game{p.Game, mode, now - p.Age})
	h.totals[p.Mode].Begun++
	return true, nil
}

// Advance lets time pass: games end, and hosts that are over their CPU for long shut
// some down.
func (h *Hosts) Advance(now time.Duration) {
	h.now = max(h.now, now)
	for _, one := range h.hosts {
		h.end(one)
		one.measure(h.now)
		if one.load <= 1 {
			one.over = false
			continue
		}
		if !one.over {
			one.over, one.since = true, h.now
		}
		if h.now-one.since >= overFor {
			h.shutDown(one)
			one.since = h.now
			one.measure(h.now)
		}
	}
}

func (h *Hosts) end(one *host) {
	left := one.games[:0]
	for _, g := range one.games {
		if mode := Modes[g.mode]; h.now-g.began >= mode.Length() {
			h.totals[mode.Name].Ended++
			continue
		}
		left = append(left, g)
	}
	one.games = left
}

func (h *Hosts) shutDown(one *host) {
	slices.SortStableFunc(one.games, func(a, b game) int { return cmp.Compare(a.began, b.began) })
	down := max(1, int(downShare*float64(len(one.games))))
	for _, g := range one.games[:down] {
		h.totals[Modes[g.mode].Name].Killed++
	}
	one.games = slices.Delete(one.games, 0, down)
}

func (one *host) measure(now time.Duration) {
	cost := 0.0
	for _, g := range one.games {
		cost += Modes[g.mode].At(now - g.began)
	}
	one.load = cost / one.Capacity
}

// State is one host as it is.
type State struct {
	HostConfig
	Load  float64 // of its CPU; above 1 where games want more than it has
	Games map[string]int
}

// States gives all hosts as they were when time last passed.
func (h *Hosts) States() []State {
	out := make([]State, len(h.hosts))
	for n, one := range h.hosts {
		out[n] = State{one.HostConfig, one.load, one.count()}
	}
	return out
}

func (one *host) count() map[string]int {
	games := map[string]int{}
	for _, g := range one.games {
		games[Modes[g.mode].Name]++
	}
	return games
}

// Totals gives what has happened to games of a mode.
func (h *Hosts) Totals(mode string) Totals {
	if t := h.totals[mode]; t != nil {
		return *t
	}
	return Totals{}
}

// Readings gives what every host would say of itself.
func (h *Hosts) Readings() []Reading {
	out := make([]Reading, len(h.hosts))
	for n, one := range h.hosts {
		out[n] = Reading{Host: one.Name, Kind: one.Kind, At: h.now, CPU: min(1, one.load), Games: one.count()}
	}
	return out
}
