package topologies

import (
	"context"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// Spoil has a share of an operation's requests, from 0 to 1, sent malformed
// under a name, until [Players.Unspoil]. Shares of several names add up; they
// outlive SetRates. The operation must have a malformed request configured.
func (p *Players) Spoil(ctx context.Context, name, operation string, share float64) error {
	body := struct {
		Operation string  `json:"operation"`
		Share     float64 `json:"share"`
	}{operation, share}
	return p.do(ctx, http.MethodPut, "/malformed/"+url.PathEscape(name), body, nil)
}

// Unspoil takes a share away. One that is not there is no error.
func (p *Players) Unspoil(ctx context.Context, name string) error {
	return p.do(ctx, http.MethodDelete, "/malformed/"+url.PathEscape(name), nil, nil)
}

// Spoiled gives the share of an operation's arrivals that were malformed, as the
// generator itself measured it over the last 500 ms. An operation that has no
// malformed request configured is an error.
func (p *Players) Spoiled(ctx context.Context, operation string) (float64, error) {
	var rates map[string]struct {
		Malformed *struct {
			Arrived float64 `json:"arrived"`
		} `json:"malformed"`
	}
	if err := p.do(ctx, http.MethodGet, "/rates", nil, &rates); err != nil {
		return 0, err
	}
	rate, known := rates[operation]
	switch {
	case !known:
		return 0, fmt.Errorf("players %s: no operation %q", p.node, operation)
	case rate.Malformed == nil:
		return 0, fmt.Errorf("players %s: operation %s has no malformed request; give it one in its configuration: malformed: {method: …, path: …}", p.node, operation)
	}
	return rate.Malformed.Arrived, nil
}

// StartWaves cuts the connections of all sessions at once, now and then every
// period, under a name, until [Players.StopWaves].
func (p *Players) StartWaves(ctx context.Context, name string, every time.Duration) error {
	body := struct {
		Every float64 `json:"every_seconds"`
	}{every.Seconds()}
	return p.do(ctx, http.MethodPut, "/waves/"+url.PathEscape(name), body, nil)
}

// StopWaves ends waves. Ones that are not there are no error.
func (p *Players) StopWaves(ctx context.Context, name string) error {
	return p.do(ctx, http.MethodDelete, "/waves/"+url.PathEscape(name), nil, nil)
}

// Sessions is what a generator says of its long-lived connections.
type Sessions struct {
	Count      int `json:"count"` // 0 for a generator that has none
	Connected  int `json:"connected"`
	Reconnects int `json:"reconnects"` // since its start
	// Waves gives, by name, how many connections that waves cut were opened again
	// over the last 500 ms, per second.
	Waves map[string]float64 `json:"waves"`
}

// Sessions asks how the sessions are.
func (p *Players) Sessions(ctx context.Context) (Sessions, error) {
	var s Sessions
	err := p.do(ctx, http.MethodGet, "/sessions", nil, &s)
	return s, err
}

// Redirect has all that would go to one target go to another one under a name,
// until [Players.EndRedirect]. Both are named as in the generator's
// configuration, with or without their port. Connections of sessions are cut;
// the sessions open them again at the other target.
func (p *Players) Redirect(ctx context.Context, name, from, to string) error {
	body := struct {
		From string `json:"from"`
		To   string `json:"to"`
	}{from, to}
	return p.do(ctx, http.MethodPut, "/redirects/"+url.PathEscape(name), body, nil)
}

// EndRedirect has requests go where they are meant to again. Sessions stay where
// they are until their connection breaks. One that is not there is no error.
func (p *Players) EndRedirect(ctx context.Context, name string) error {
	return p.do(ctx, http.MethodDelete, "/redirects/"+url.PathEscape(name), nil, nil)
}

// Target is what a generator says of one of its targets.
type Target struct {
	Spare    bool    `json:"spare"`               // gets nothing but by a redirect
	Sent     float64 `json:"requests_per_second"` // over the last 500 ms
	Sessions int     `json:"sessions"`            // connected to it
}

// Redirected is what a generator says of a redirect.
type Redirected struct {
	From     string  `json:"from"` // names of targets
	To       string  `json:"to"`
	Moved    float64 `json:"requests_per_second"` // requests that it moved over the last 500 ms, without calls of sessions
	Sessions int     `json:"sessions"`            // that it moved and that are connected
}

// Routing is where a generator's requests go.
type Routing struct {
	Targets   map[string]Target     `json:"targets"`   // by host and port
	Redirects map[string]Redirected `json:"redirects"` // by name
}

// Routing asks where requests go. A redirect that has ended is there until its
// last requests are 500 ms old.
func (p *Players) Routing(ctx context.Context) (Routing, error) {
	var r Routing
	err := p.do(ctx, http.MethodGet, "/targets", nil, &r)
	return r, err
}

// Target gives the one target at a host. None, and several ports of it, are an
// error.
func (p *Players) Target(ctx context.Context, host string) (Target, error) {
	routing, err := p.Routing(ctx)
	if err != nil {
		return Target{}, err
	}
	var found, known []string
	for _, name := range slices.Sorted(maps.Keys(routing.Targets)) {
		at, _, err := net.SplitHostPort(name)
		if name == host || err == nil && at == host {
			found = append(found, name)
		}
		if routing.Targets[name].Spare {
			name += " (a spare)"
		}
		known = append(known, name)
	}
	switch len(found) {
	case 1:
		return routing.Targets[found[0]], nil
	case 0:
		return Target{}, fmt.Errorf("players %s: no target at %s; it has %s: add it to targets: or spares: in its configuration", p.node, host, strings.Join(known, ", "))
	}
	return Target{}, fmt.Errorf("players %s: %s is several of its targets: %s; leave one of them in its configuration", p.node, host, strings.Join(found, ", "))
}
