package store

import (
	"github.com/prometheus/client_golang/prometheus"
)

type handledAs struct{ call, outcome string }

// metrics has every series from the start: a rate over a counter that appears with
// its first event misses that event.
type metrics struct {
	handled   map[handledAs]prometheus.Counter
	seconds   map[string]prometheus.Observer // by call
	purchases map[string]prometheus.Counter  // by outcome
	recovered map[string]prometheus.Counter  // by outcome
	waiting   *prometheus.GaugeVec
	oldest    *prometheus.GaugeVec
}

func newMetrics(c Config, registry *prometheus.Registry) *metrics {
	m := &metrics{
		handled: map[handledAs]prometheus.Counter{}, seconds: map[string]prometheus.Observer{},
		purchases: map[string]prometheus.Counter{}, recovered: map[string]prometheus.Counter{},
		waiting: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "relapse_ledger_unfinished", Help: "Purchases that are unfinished, at the last look at the database; 64 of each table are seen at most.",
		}, []string{"database"}),
		oldest: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "relapse_ledger_oldest_seconds", Help: "For how long the oldest of the unfinished purchases has been so.",
		}, []string{"database"}),
	}
	handled := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "relapse_handled_total",
		Help: "Requests that reached the store, by operation and outcome (ok; not_enough, owned, not_owned, op_reused, locked, unknown_item and malformed are the caller's; unavailable, shed).",
	}, []string{"op", "outcome"})
	seconds := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "relapse_handle_seconds", Help: "Time that a request took in the store, shed ones excepted.",
		Buckets: []float64{.001, .002, .005, .01, .02, .05, .1, .2, .5, 1, 2},
	}, []string{"op"})
	purchases := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "relapse_purchases_total",
		Help: "Purchases that were asked for, by outcome: ok; replayed, finished earlier with the answer still kept; replayed_late, finished earlier with the answer forgotten; otherwise as relapse_handled_total.",
	}, []string{"outcome"})
	recovered := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "relapse_recovered_total",
		Help: "Unfinished purchases that recovery took on, by outcome: settled, released (the money was given back), failed (to be tried again).",
	}, []string{"outcome"})
	registry.MustRegister(handled, seconds, purchases, recovered, m.waiting, m.oldest)
	for _, call := range calls {
		m.seconds[call] = seconds.WithLabelValues(call)
		for _, outcome := range outcomes() {
			m.handled[handledAs{call, outcome}] = handled.WithLabelValues(call, outcome)
		}
	}
	for _, outcome := range append(outcomes(), replayed, replayedLate) {
		m.purchases[outcome] = purchases.WithLabelValues(outcome)
	}
	for _, outcome := range []string{recoveredSettled, recoveredReleased, recoveredFailed} {
		m.recovered[outcome] = recovered.WithLabelValues(outcome)
	}
	for _, database := range c.Shards.Databases {
		m.unfinished(database, nil)
	}
	return m
}

// unfinished shows what a look at a database has found.
func (m *metrics) unfinished(database string, all []left) {
	oldest := 0.0
	for _, l := range all {
		oldest = max(oldest, l.age)
	}
	m.waiting.WithLabelValues(database).Set(float64(len(all)))
	m.oldest.WithLabelValues(database).Set(oldest)
}
