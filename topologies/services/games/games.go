// Package games is the back end that creates games: what the edges of a cluster
// send players to. It stands for the documented game creation, of which nothing
// is published but that it looked healthy during the incident while little
// traffic reached it.
//
// What creating a game takes is modelled: a request waits for it while it holds
// one of the places in flight, and burns no CPU. A request over the limit of
// places is refused at once with 503, never queued.
package games

import (
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
	noQueue   = "no_queue" // names no queue: 400
	shed      = "shed"
	abandoned = "abandoned" // the caller left before its reply
)

// Config is what a back end is made of.
type Config struct {
	Takes  time.Duration // for one game
	Limits limits.Limits
}

// Games is a running back end.
type Games struct {
	takes   time.Duration
	limits  *limits.Limiter
	last    atomic.Int64 // game's number
	created prometheus.Counter
	handled map[string]prometheus.Counter // by outcome
	seconds prometheus.Histogram
}

// New makes a back end; its metrics go to the registry.
func New(c Config, registry *prometheus.Registry) (*Games, error) {
	if c.Takes < 0 {
		return nil, fmt.Errorf("games: a game takes %v: want zero or more", c.Takes)
	}
	limiter, err := limits.New(c.Limits, Calls)
	if err != nil {
		return nil, err
	}
	limiter.Register(registry)
	handled := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "relapse_handled_total",
		Help: "Requests that reached the back end, by operation and outcome (ok, no_queue, shed, abandoned).",
	}, []string{"op", "outcome"})
	g := &Games{
		takes: c.Takes, limits: limiter, handled: map[string]prometheus.Counter{},
		created: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "relapse_games_created_total", Help: "Games created.",
		}),
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "relapse_handle_seconds",
			Help:    "Time that creating a game took in the back end, refused ones excepted.",
			Buckets: []float64{.002, .005, .01, .02, .05, .1, .2, .5},
		}),
	}
	registry.MustRegister(handled, g.created, g.seconds)
	// Every series is there from the start: a rate over a counter that appears
	// with its first event misses that event.
	for _, outcome := range []string{created, noQueue, shed, abandoned} {
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
	if r.URL.Query().Get("queue") == "" {
		g.handled[noQueue].Inc()
		http.Error(w, "queue: name one", http.StatusBadRequest)
		return
	}
	release, ok := g.limits.Take(Create)
	if !ok {
		g.handled[shed].Inc()
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	defer release()
	began := time.Now()
	if !services.Wait(r.Context(), g.takes) {
		g.handled[abandoned].Inc()
		return
	}
	g.created.Inc()
	g.handled[created].Inc()
	g.seconds.Observe(time.Since(began).Seconds())
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusCreated)
	fmt.Fprintf(w, "{\"game\":%d}\n", g.last.Add(1))
}
