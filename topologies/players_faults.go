package topologies

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
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
