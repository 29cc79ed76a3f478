// Package edge is a process that takes traffic from the internet, filters it
// and sends it to the right service behind it: one of the edge containers of the
// documented incident, of which nothing but that role is published.
//
// What an open connection costs is not modelled but held: as many bytes of
// memory as configured are mapped, touched, and unmapped when the connection
// ends (see [Memory]). The kernel counts them like any other memory of a
// process, and decides who is killed when they are too many.
//
// The filter lets known paths pass. A request that passes and names no queue is
// the documented defect of the clients: it can never be served, and nothing in
// it says so. The edge looks for a back end, which is modelled as a wait, and
// then answers with a status that by default says "try again", so that clients
// take a permanent error for a transient one. Or, if configured so, it sends such
// a request on like any other and leaves it to the back end to find that out.
package edge

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"relapse/topologies/services"
	"relapse/topologies/services/http1"
	"relapse/topologies/services/retry"
)

// Config is what an edge is made of.
type Config struct {
	// Memory is what each open connection holds.
	Memory Memory
	// MaxConnections are how many may be open; one over it is answered 503 and
	// closed. 0 means no limit.
	MaxConnections int
	// Backend is where games are made.
	Backend *http1.Client
	// BackendTimeout bounds each attempt to reach it.
	BackendTimeout time.Duration
	// Retries says when a request to the back end is sent again; nil for never.
	Retries *retry.Policy
	// ForwardUnnamed has requests that name no queue sent on to the back end, whose
	// status the player gets.
	ForwardUnnamed bool
	// UnroutableAfter is how long a back end is looked for that is not there:
	// modelled, since the source does not say what happened meanwhile.
	UnroutableAfter time.Duration
	// UnroutableStatus is what is answered then.
	UnroutableStatus int
}

// Edge is a running edge.
type Edge struct {
	Config
	metrics *metrics
}

// New makes an edge; its metrics go to the registry.
func New(c Config, registry *prometheus.Registry) (*Edge, error) {
	switch {
	case c.Memory < 0:
		return nil, fmt.Errorf("edge: %d bytes for a connection: want 0 or more", c.Memory)
	case c.MaxConnections < 0:
		return nil, fmt.Errorf("edge: %d connections at most: want 0 for no limit, or more", c.MaxConnections)
	case c.Backend == nil:
		return nil, errors.New("edge: no back end")
	case c.BackendTimeout <= 0:
		return nil, fmt.Errorf("edge: a back end's timeout of %v: want more than zero", c.BackendTimeout)
	case c.UnroutableAfter < 0:
		return nil, fmt.Errorf("edge: unroutable after %v: want zero or more", c.UnroutableAfter)
	case c.UnroutableStatus < 400 || c.UnroutableStatus > 599:
		return nil, fmt.Errorf("edge: status %d for what cannot be routed: want an error, 400 to 599", c.UnroutableStatus)
	}
	return &Edge{Config: c, metrics: newMetrics(registry)}, nil
}

// known are the paths that the filter lets pass.
const (
	pathGames  = "/games"
	pathHealth = "/health"
)

// classGames is the class of all requests to the back end, for retries.
const classGames = "games"

// Handler answers players.
func (e *Edge) Handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		e.metrics.accepted.Inc()
		switch r.URL.Path {
		case pathGames:
			e.games(w, r)
		case pathHealth:
			e.metrics.handled[opHealth][handledOK].Inc()
			w.WriteHeader(http.StatusOK)
		default:
			e.metrics.filtered.Inc()
			w.WriteHeader(http.StatusNotFound)
		}
	})
}

// games sends a request to where games are made, or nowhere.
func (e *Edge) games(w http.ResponseWriter, r *http.Request) {
	handled := e.metrics.handled[opGames]
	if r.URL.Query().Get("queue") == "" && !e.ForwardUnnamed {
		if !services.Wait(r.Context(), e.UnroutableAfter) {
			handled[handledAbandoned].Inc()
			return
		}
		handled[handledUnroutable].Inc()
		w.WriteHeader(e.UnroutableStatus)
		return
	}
	e.metrics.forwarded.Inc()
	var reply bytes.Buffer
	status, became, stayed := e.forward(r.Context(), e.Backend.Request(r.Method, r.URL.RequestURI()), &reply)
	if !stayed {
		handled[handledAbandoned].Inc()
		return
	}
	handled[became.String()].Inc()
	switch {
	case status != 0:
		w.Header()["Content-Type"] = nil // not looked for in what the back end said
		w.WriteHeader(status)
		_, _ = w.Write(reply.Bytes()) // an error means that the player is gone
	case became == http1.TimedOut:
		w.WriteHeader(http.StatusGatewayTimeout)
	default:
		w.WriteHeader(http.StatusBadGateway)
	}
}

// forward attempts a request as often as the retries say. It gives the last
// attempt's status, 0 if it got no answer, and false if the player left before
// all was tried.
func (e *Edge) forward(ctx context.Context, request http1.Request, reply *bytes.Buffer) (status int, became http1.Outcome, stayed bool) {
	if e.Retries != nil {
		e.Retries.Request(classGames)
	}
	for attempt := 1; ; attempt++ {
		reply.Reset()
		var err error
		status, err = e.Backend.Do(request, time.Now().Add(e.BackendTimeout), reply)
		became = http1.OutcomeOf(status, err)
		e.metrics.attempts[became].Inc()
		if e.Retries == nil {
			return status, became, true
		}
		if became == http1.OK {
			e.Retries.Success(classGames)
			return status, became, true
		}
		after, again := e.Retries.Next(classGames, attempt, status)
		if !again {
			return status, became, true
		}
		if !services.Wait(ctx, after) {
			return status, became, false
		}
	}
}
