package edge

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"relapse/topologies/services/http1"
)

// Operations and outcomes of handled requests. A request that was forwarded has
// the outcome of its last attempt to reach the back end.
const (
	opGames  = "games"
	opHealth = "health"

	handledOK         = "ok"
	handledUnroutable = "unroutable" // passed the filter and named no back end
	handledAbandoned  = "abandoned"  // the player left before its answer
)

type metrics struct {
	open      atomic.Int64
	opened    prometheus.Counter
	refused   prometheus.Counter
	accepted  prometheus.Counter
	filtered  prometheus.Counter
	forwarded prometheus.Counter
	handled   map[string]map[string]prometheus.Counter // by operation and outcome
	attempts  [len(http1.Outcomes)]prometheus.Counter
}

func newMetrics(registry *prometheus.Registry) *metrics {
	counter := func(name, help string) prometheus.Counter {
		c := prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
		registry.MustRegister(c)
		return c
	}
	m := &metrics{
		opened:    counter("relapse_edge_connections_total", "Connections of players that were accepted."),
		refused:   counter("relapse_edge_refused_total", "Connections of players that were answered 503 and closed, since too many were open."),
		accepted:  counter("relapse_edge_accepted_total", "Requests of players that came in."),
		filtered:  counter("relapse_edge_filtered_total", "Requests that the filter did not let pass."),
		forwarded: counter("relapse_edge_forwarded_total", "Requests that were sent on to the back end, each once, however often it was attempted."),
		handled:   map[string]map[string]prometheus.Counter{},
	}
	registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "relapse_edge_connections", Help: "Connections of players that are open; each holds memory.",
	}, func() float64 { return float64(m.open.Load()) }))
	handled := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "relapse_handled_total",
		Help: "Requests that passed the filter, by operation and outcome (ok, refused, error, timeout, unroutable, abandoned).",
	}, []string{"op", "outcome"})
	attempts := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "relapse_edge_attempts_total",
		Help: "Attempts to reach the back end, by outcome (ok, refused, error, timeout).",
	}, []string{"outcome"})
	registry.MustRegister(handled, attempts)
	// Every series is there from the start: a rate over a counter that appears
	// with its first event misses that event.
	m.handled[opHealth] = map[string]prometheus.Counter{handledOK: handled.WithLabelValues(opHealth, handledOK)}
	games := map[string]prometheus.Counter{}
	for _, outcome := range []string{handledUnroutable, handledAbandoned} {
		games[outcome] = handled.WithLabelValues(opGames, outcome)
	}
	for i, outcome := range http1.Outcomes {
		games[outcome.String()] = handled.WithLabelValues(opGames, outcome.String())
		m.attempts[i] = attempts.WithLabelValues(outcome.String())
	}
	m.handled[opGames] = games
	return m
}
