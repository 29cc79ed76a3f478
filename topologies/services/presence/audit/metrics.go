package audit

import (
	"github.com/prometheus/client_golang/prometheus"

	"relapse/topologies/services/presence/history"
)

// metrics has every series from the start: a rate over a counter that appears with
// its first event misses that event.
type metrics struct {
	violations       map[string]prometheus.Counter // by invariant
	audits, failures prometheus.Counter
	marks, moves     prometheus.Counter
}

func newMetrics(registry *prometheus.Registry, a *Audit) *metrics {
	counter := func(name, help string) prometheus.Counter {
		c := prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
		registry.MustRegister(c)
		return c
	}
	gauge := func(name, help string, value func(latest) int) {
		registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 {
			a.mu.Lock()
			defer a.mu.Unlock()
			return float64(value(a.latest))
		}))
	}
	violations := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "relapse_presence_violations_total", Help: "Violations of an invariant that the history shows.",
	}, []string{"invariant"})
	registry.MustRegister(violations)
	m := &metrics{
		violations: map[string]prometheus.Counter{},
		audits:     counter("relapse_presence_audits_total", "Readings of the history that were checked."),
		failures:   counter("relapse_presence_audit_failures_total", "Readings that failed; what happened is checked with the next one."),
		marks:      counter("relapse_presence_marks_total", "Marks in the log of actions."),
		moves:      counter("relapse_presence_moved_total", "Claims in the log of claims of a partition that another instance had last."),
	}
	for _, invariant := range history.Invariants {
		m.violations[invariant] = violations.WithLabelValues(invariant)
	}
	gauge("relapse_presence_players", "Players with a heartbeat on the lists.", func(l latest) int { return l.players })
	gauge("relapse_presence_registered", "Instances whose registration is not over.", func(l latest) int { return l.instances })
	gauge("relapse_presence_spread", "Partitions of the instance with the most, less those of the one with the fewest.", func(l latest) int { return l.spread })
	gauge("relapse_presence_unowned", "Partitions without an owner.", func(l latest) int { return l.unowned })
	return m
}
