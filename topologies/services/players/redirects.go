package players

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"time"

	"relapse/topologies/services"
)

var (
	// ErrUnknownTarget says that an order names a target that the generator does
	// not have.
	ErrUnknownTarget = errors.New("unknown target")
	// ErrRedirected says that an order would redirect what another redirect has to
	// do with.
	ErrRedirected = errors.New("redirects do not add up")
)

// redirect has what would go to one target go to another one.
type redirect struct {
	from, to *target
	sent     services.Recent // requests that it moved
	ended    bool
	endedAt  time.Duration
}

// TargetState is what a generator says of one of its targets.
type TargetState struct {
	Spare bool `json:"spare,omitempty"`
	// Sent is what was handed to the network for the target over the last half
	// second, per second: first and further attempts, and the calls of sessions.
	Sent     float64 `json:"requests_per_second"`
	Sessions int     `json:"sessions"` // connected to it
}

// RedirectState is what a generator says of a redirect.
type RedirectState struct {
	From string `json:"from"`
	To   string `json:"to"`
	// Moved is how many requests it had go to another target over the last half
	// second, per second: first and further attempts. The calls of sessions go
	// where these are connected.
	Moved float64 `json:"requests_per_second"`
	// Sessions are those that it moved and that are connected to its target; none
	// once it has ended, whoever stayed there.
	Sessions int `json:"sessions"`
}

// Routing is where requests go. Targets are named as in the configuration, such
// as edge-1:8080.
type Routing struct {
	Targets map[string]TargetState `json:"targets"`
	// Redirects are those in force, and by name the last one that has ended for as
	// long as its requests are within the last half second.
	Redirects map[string]RedirectState `json:"redirects"`
}

// Redirect has all that would go to one target go to another one from now on,
// under a name, in place of what the name stood for before: what happens when an
// operator moves load by hand. Connections of sessions are reset, and opened
// again at the other target as the retries say; connections that wait for a
// request are given up; what is on its way is left alone. A target is named with
// or without its port; spares are targets, too. On an error nothing has changed.
//
// A target has one redirect at most, and none leads to a target that has one:
// in which order they lead where would be anyone's guess.
func (g *Generator) Redirect(name, from, to string) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	a, err := g.find(from)
	if err != nil {
		return fmt.Errorf("redirect %s: from: %w", name, err)
	}
	b, err := g.find(to)
	if err != nil {
		return fmt.Errorf("redirect %s: to: %w", name, err)
	}
	if err := g.fits(name, a, b); err != nil {
		return fmt.Errorf("redirect %s: %w", name, err)
	}
	now := g.now()
	g.dispatch(now) // what was due before
	if r := g.redirects[name]; r != nil && !r.ended {
		if r.from == a && r.to == b {
			return nil // an order whose answer was lost, and that came again
		}
		g.end(r, now)
	}
	r := &redirect{from: a, to: b}
	g.redirects[name], a.redirect = r, r
	a.Close()
	if g.sessions != nil {
		g.sessions.move(r)
	}
	return nil
}

// fits says whether a redirect can be beside those in force under other names.
func (g *Generator) fits(name string, from, to *target) error {
	if from == to {
		return fmt.Errorf("from and to are both %s: %w; name two targets", from.Host, ErrRedirected)
	}
	for _, other := range slices.Sorted(maps.Keys(g.redirects)) {
		r := g.redirects[other]
		switch {
		case other == name || r.ended:
		case r.from == from:
			return fmt.Errorf("%s is redirected to %s already, by %s: %w; end that one first", from.Host, r.to.Host, other, ErrRedirected)
		case r.from == to:
			return fmt.Errorf("to is %s, which %s redirects to %s: %w; name a target that is not redirected itself", to.Host, other, r.to.Host, ErrRedirected)
		case r.to == from:
			return fmt.Errorf("from is %s, where %s sends what is meant for %s: %w; end that one first", from.Host, other, r.from.Host, ErrRedirected)
		}
	}
	return nil
}

// DropRedirect has requests go where they are meant to again; a redirect that is
// not there is no error. Sessions that were moved stay until their connection
// breaks: whoever moves load back takes care not to cut it a second time.
func (g *Generator) DropRedirect(name string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if r := g.redirects[name]; r != nil && !r.ended {
		now := g.now()
		g.dispatch(now)
		g.end(r, now)
	}
}

func (g *Generator) end(r *redirect, now time.Duration) {
	r.ended, r.endedAt = true, now
	r.from.redirect = nil
}

// Routing says where requests go.
func (g *Generator) Routing() Routing {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.now()
	out := Routing{map[string]TargetState{}, map[string]RedirectState{}}
	at, by := g.sessions.places()
	for _, t := range g.all() {
		out.Targets[t.Host] = TargetState{t.spare, t.sent.PerSecond(now), at[t]}
	}
	for name, r := range g.redirects {
		if r.ended && now-r.endedAt > services.RecentGone {
			delete(g.redirects, name)
			continue
		}
		state := RedirectState{From: r.from.Host, To: r.to.Host, Moved: r.sent.PerSecond(now)}
		if !r.ended {
			state.Sessions = by[r]
		}
		out.Redirects[name] = state
	}
	return out
}

// all gives the targets and the spares.
func (g *Generator) all() []*target { return slices.Concat(g.targets, g.spares) }

// find gives the target of a name, with or without its port.
func (g *Generator) find(name string) (*target, error) {
	var found []*target
	var named, known []string
	for _, t := range g.all() {
		known = append(known, t.Host)
		host, _, err := net.SplitHostPort(t.Host)
		if name == t.Host || err == nil && name == host {
			found, named = append(found, t), append(named, t.Host)
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return nil, fmt.Errorf("%w %q; known: %q", ErrUnknownTarget, name, known)
	}
	return nil, fmt.Errorf("%w %q: it may be any of %q; write the port as well", ErrUnknownTarget, name, named)
}

// route gives whom the n-th request goes to: one target after the other, or where
// the target's redirect leads, which is given as well. The generator is locked.
func (g *Generator) route(n int) (*target, *redirect) {
	t := g.targets[n%len(g.targets)]
	if r := t.redirect; r != nil {
		return r.to, r
	}
	return t, nil
}

// take gives whom the n-th request goes to and counts it there. The generator is
// locked.
func (g *Generator) take(n int) *target {
	t, r := g.route(n)
	now := g.now()
	t.sent.Add(now)
	if r != nil {
		r.sent.Add(now)
	}
	return t
}

// prune closes the connections that were idle for too long, and those to a
// target that is redirected: a request that was on its way has left its own.
func (g *Generator) prune(now time.Time) {
	for _, t := range g.all() {
		g.mu.Lock()
		away := t.redirect != nil
		g.mu.Unlock()
		if away {
			t.Close()
		} else {
			t.Prune(now)
		}
	}
}

// move cuts the connections of all sessions to a redirect's target and sends
// these to the other one.
func (s *sessions) move(r *redirect) {
	for _, one := range s.all {
		one.mu.Lock()
		if one.conn != nil && one.at == r.from {
			one.cut, one.moved = true, r
			one.conn.Reset()
		}
		one.mu.Unlock()
	}
}

// places counts the connected sessions by their target, and by the redirect that
// had them go there.
func (s *sessions) places() (at map[*target]int, by map[*redirect]int) {
	at, by = map[*target]int{}, map[*redirect]int{}
	if s == nil {
		return at, by
	}
	for _, one := range s.all {
		one.mu.Lock()
		if one.conn != nil {
			at[one.at]++
			by[one.through]++
		}
		one.mu.Unlock()
	}
	return at, by
}
