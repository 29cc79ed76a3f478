// Package games is the back end that creates games: what the edges of a cluster
// send players to. It stands for the documented game creation, of which nothing
// is published but that it looked healthy during the incident while little
// traffic reached it.
//
// What creating a game takes is modelled: a request waits for it while it holds
// one of the places in flight, and burns no CPU. A request over the limit of
// places is refused at once with 503, never queued.
//
// With a number of workers the capacity is finite instead: so many games are
// created at once, and other requests wait in line for their turn, up to a bound
// above which they are refused with 503. Work in line goes on when its caller has
// left, unless what is abandoned is dropped; that is modelled too, after what is
// known of servers that collapse under retries.
//
// As a worker burns no CPU, a CPU limit slows down what it is given and not what it
// does, as long as no gap in the CPU time is longer than 50 ms: what timers are late
// by is made up for up to that. A node that is paused or held back for longer does
// no work meanwhile and catches up on no more than that, but its callers' time goes
// on.
//
// A request that names no queue can never succeed. Finding that out can be made
// to take as much as creating a game.
package games

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"relapse/topologies/services"
	"relapse/topologies/services/limits"
)

// Create is the only call: POST /games?queue=…: 201 and {"game": n}.
const Create = "create"

// Calls lists the calls that a limit can name.
var Calls = []string{Create}

// Defaults; the source gives none of them.
const (
	DefaultTakes = 5 * time.Millisecond
	DefaultLimit = 64
)

// Outcomes of a handled request.
const (
	created   = "ok"
	noQueue   = "no_queue" // names no queue: 400, or another status as configured
	shed      = "shed"
	abandoned = "abandoned" // the caller left, and no game was created
	unclaimed = "unclaimed" // a worker created a game for a caller who had left
)

// Config is what a back end is made of.
type Config struct {
	Takes  time.Duration // for one game
	Limits limits.Limits // left out where there are workers
	// Workers is how many games are created at once; 0 for as many as Limits
	// lets in.
	Workers int
	// Queue is how many requests wait for a worker at most, below zero for no
	// bound. Those above it are shed.
	Queue int
	// DropAbandoned has workers pass over requests whose callers have left.
	DropAbandoned bool
	// UnnamedTakes is what it takes to find out that a request names no queue; at
	// zero no place, worker or turn is needed for it.
	UnnamedTakes time.Duration
	// UnnamedStatus is what is answered then; 0 for 400.
	UnnamedStatus int
}

// Games is a running back end.
type Games struct {
	Config
	limits  *limits.Limiter // nil where there are workers
	line    *line           // nil where there are none
	last    atomic.Int64    // game's number
	created prometheus.Counter
	handled map[string]prometheus.Counter // by outcome
	seconds prometheus.Histogram
}

// New makes a back end; its metrics go to the registry.
func New(c Config, registry *prometheus.Registry) (*Games, error) {
	if c.UnnamedStatus == 0 {
		c.UnnamedStatus = http.StatusBadRequest
	}
	switch {
	case c.Takes < 0:
		return nil, fmt.Errorf("games: a game takes %v: want zero or more", c.Takes)
	case c.UnnamedTakes < 0:
		return nil, fmt.Errorf("games: a request without a queue takes %v: want zero or more", c.UnnamedTakes)
	case c.UnnamedStatus < 400 || c.UnnamedStatus > 599:
		return nil, fmt.Errorf("games: status %d for a request without a queue: want an error, 400 to 599", c.UnnamedStatus)
	case c.Workers < 0:
		return nil, fmt.Errorf("games: %d workers: want 1 or more, or 0 for as many as the limit lets in", c.Workers)
	case c.Workers > 0 && c.Limits != nil:
		return nil, errors.New("games: workers and a limit: bound what waits for a worker instead of what is in flight")
	case c.Workers == 0 && c.DropAbandoned:
		return nil, errors.New("games: nothing waits that could be dropped; say how many workers there are")
	}
	g := &Games{Config: c, handled: map[string]prometheus.Counter{}}
	if c.Workers > 0 {
		g.line = newLine(c.Workers, c.Queue, c.DropAbandoned)
	} else {
		var err error
		if g.limits, err = limits.New(c.Limits, Calls); err != nil {
			return nil, err
		}
		g.limits.Register(registry)
	}
	g.line.register(registry)
	handled := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "relapse_handled_total",
		Help: "Requests that reached the back end, by operation and outcome (ok, no_queue, shed, abandoned, unclaimed).",
	}, []string{"op", "outcome"})
	g.created = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "relapse_games_created_total", Help: "Games created whose caller was there to be told.",
	})
	g.seconds = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name:    "relapse_handle_seconds",
		Help:    "Time that creating a game took in the back end, with the wait for a worker, refused ones excepted.",
		Buckets: []float64{.002, .005, .01, .02, .05, .1, .2, .5},
	})
	registry.MustRegister(handled, g.created, g.seconds)
	// Every series is there from the start: a rate over a counter that appears
	// with its first event misses that event.
	for _, outcome := range []string{created, noQueue, shed, abandoned, unclaimed} {
		g.handled[outcome] = handled.WithLabelValues(Create, outcome)
	}
	return g, nil
}

// Handler answers the edges.
func (g *Games) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /games", g.create)
	mux.HandleFunc("GET /health", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
	return mux
}

func (g *Games) create(w http.ResponseWriter, r *http.Request) {
	began := time.Now()
	takes, as := g.Takes, created
	if r.URL.Query().Get("queue") == "" {
		takes, as = g.UnnamedTakes, noQueue
	}
	became := as
	switch {
	case as == noQueue && takes == 0:
		g.handled[noQueue].Inc()
	case g.line != nil:
		became = g.inLine(r.Context(), takes, as)
	default:
		became = g.atOnce(r.Context(), takes, as)
		g.handled[became].Inc()
	}
	switch became {
	case shed:
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(http.StatusServiceUnavailable)
	case noQueue:
		http.Error(w, "queue: name one", g.UnnamedStatus)
	case created:
		g.created.Inc()
		g.seconds.Observe(time.Since(began).Seconds())
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		fmt.Fprintf(w, "{\"game\":%d}\n", g.last.Add(1))
	}
}

// atOnce has a request hold one of the places in flight while its cost passes,
// and gives what became of it.
func (g *Games) atOnce(ctx context.Context, takes time.Duration, as string) string {
	release, ok := g.limits.Take(Create)
	if !ok {
		return shed
	}
	defer release()
	if !services.Wait(ctx, takes) {
		return abandoned
	}
	return as
}

// inLine has a request wait for a worker and gives what became of it. A caller
// who leaves is not waited for; what becomes of the work is counted when a worker
// has come to it.
func (g *Games) inLine(ctx context.Context, takes time.Duration, as string) string {
	ended := make(chan string, 1)
	entered := g.line.enter(&job{caller: ctx, takes: takes, came: time.Now(), ended: func(worked, left bool) {
		became := as
		switch {
		case !worked:
			became = abandoned
		case left && as == created:
			became = unclaimed
		}
		g.handled[became].Inc()
		ended <- became
	}})
	if !entered {
		g.handled[shed].Inc()
		return shed
	}
	select {
	case became := <-ended:
		return became
	case <-ctx.Done():
		return abandoned // for the answer that nobody reads
	}
}
