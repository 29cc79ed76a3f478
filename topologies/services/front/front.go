// Package front spreads what players ask for over the nodes of a matchmaking
// topology. It stands for what brought players to a node in the documented
// incident, of which nothing is published: that each region of a mode goes round
// the nodes of its cluster evenly is a choice, and a replay can order a skew.
//
//	POST /matches?mode=M&region=R&players=N    the node's status and body
//	GET  /health                               200
//
// A request goes to one node and is never sent again. The front itself answers
// what does not get that far, or comes to nothing there:
//
//	404    there is no route for the mode
//	403    the mode is closed, or this region of it
//	429    more came for this region of the mode than are admitted in a second
//	502    the node cannot be reached, or broke off
//	504    the node has not answered within the timeout
//
// The front leaves a node at the timeout and not before: a connection that waits
// for an answer has no other end (see [http1.Client]), so that a player who leaves
// earlier is not noticed. Where the timeout is the players' own, as it should be,
// they leave the front and the front leaves the node at the same time.
package front

import (
	"bytes"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"relapse/topologies/services/http1"
	"relapse/topologies/services/matchmaking"
)

// DefaultNodeTimeout is how long a node has to answer.
const DefaultNodeTimeout = 5 * time.Second

// Config is what a front is made of.
type Config struct {
	// Routes are the nodes of each mode's cluster. One node can be in several
	// routes; it is then the same peer in each of them. No two nodes have the same
	// name.
	Routes map[string][]*matchmaking.Peer
	// Closed are the modes, and regions of a mode, that nobody is let into.
	Closed []Where
	// Limits are how many requests a second are admitted, each for one region of a
	// mode. What was not used is kept for a second.
	Limits map[Where]int
	// Misroutes are the modes whose flag is wrong on a share of the requests.
	Misroutes map[string]Misroute
	// NodeTimeout bounds each request to a node, from when the player's came in.
	NodeTimeout time.Duration
	// Seed decides where each round begins, and which request is the first to be
	// misrouted.
	Seed uint64
}

// Front is a running front.
type Front struct {
	timeout time.Duration
	metrics *metrics
	start   time.Time
	modes   []string // that have a route, sorted

	mu        sync.Mutex
	routes    map[string]*route // by mode
	closed    map[Where]bool
	limits    map[Where]*bucket
	misroutes map[string]*misroute
	skews     map[string]*skew
}

// New makes a front; its metrics go to the registry.
func New(c Config, registry *prometheus.Registry) (*Front, error) {
	switch {
	case c.NodeTimeout <= 0:
		return nil, fmt.Errorf("front: a node's timeout of %v: want more than zero", c.NodeTimeout)
	case len(c.Routes) == 0:
		return nil, errors.New("front: no route: name the nodes of at least one mode")
	}
	f := &Front{
		timeout: c.NodeTimeout, start: time.Now(), modes: slices.Sorted(maps.Keys(c.Routes)),
		routes: map[string]*route{}, closed: map[Where]bool{}, limits: map[Where]*bucket{},
		misroutes: map[string]*misroute{}, skews: map[string]*skew{},
	}
	for _, add := range []func(Config) error{f.addRoutes, f.addClosed, f.addLimits, f.addMisroutes} {
		if err := add(c); err != nil {
			return nil, fmt.Errorf("front: %w", err)
		}
	}
	f.metrics = newMetrics(f, registry)
	return f, nil
}

// random gives a source of its own to each purpose, so that one more route does
// not shift the others.
func random(seed uint64, purpose string) *rand.Rand {
	hash := fnv.New64a()
	_, _ = io.WriteString(hash, purpose) // never fails
	return rand.New(rand.NewPCG(seed, hash.Sum64()))
}

// Handler answers players.
func (f *Front) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /matches", f.matches)
	mux.HandleFunc("GET /health", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
	return mux
}

func (f *Front) matches(w http.ResponseWriter, r *http.Request) {
	deadline := time.Now().Add(f.timeout)
	query := r.URL.Query()
	mode := query.Get("mode")
	to, flag, refused := f.admit(mode, query.Get("region"))
	if refused != nil {
		f.metrics.answer(mode, refused.as)
		if refused.status == http.StatusTooManyRequests {
			w.Header().Set("Retry-After", "1")
		}
		http.Error(w, refused.why, refused.status)
		return
	}
	f.metrics.routed[mode][to.Name].Inc()
	path := r.URL.RequestURI()
	if flag != mode {
		query.Set("mode", flag)
		path = r.URL.Path + "?" + query.Encode()
	}
	var reply bytes.Buffer
	status, err := to.Do(to.Request(http.MethodPost, path), deadline, &reply)
	switch became := http1.OutcomeOf(status, err); {
	case err == nil:
		f.metrics.answer(mode, answeredBy[became])
		w.Header()["Content-Type"] = nil // not looked for in what the node said
		w.WriteHeader(status)
		_, _ = w.Write(reply.Bytes()) // an error means that the player is gone
	case became == http1.TimedOut:
		f.metrics.answer(mode, timedOut)
		http.Error(w, to.Name+" does not answer in time", http.StatusGatewayTimeout)
	default:
		f.metrics.answer(mode, failed)
		http.Error(w, to.Name+" cannot be reached", http.StatusBadGateway)
	}
}

// refusal is how a request is answered that goes to no node.
type refusal struct {
	status int
	as     string // in metrics
	why    string
}

// admit gives the node that a request goes to and the mode that its flag names
// there, or why it goes nowhere.
func (f *Front) admit(mode, region string) (to *matchmaking.Peer, flag string, refused *refusal) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.now()
	r, place := f.routes[mode], Where{mode, region}
	switch {
	case r == nil:
		return nil, "", &refusal{http.StatusNotFound, failed, fmt.Sprintf("no route for mode %q; there are: %s", mode, strings.Join(f.modes, ", "))}
	case f.closed[Where{Mode: mode}] || f.closed[place]:
		return nil, "", &refusal{http.StatusForbidden, closed, place.String() + " is closed"}
	case f.limits[place] != nil && !f.limits[place].take(now):
		return nil, "", &refusal{http.StatusTooManyRequests, limited, "more came for " + place.String() + " than are admitted in a second"}
	}
	if m := f.misroutes[mode]; m != nil && m.share.takes() {
		r = m.to
	}
	return r.take(region, now), r.mode, nil
}

// now is the time since the start.
func (f *Front) now() time.Duration { return time.Since(f.start) }
