package mover

import (
	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct {
	moved       prometheus.Counter
	copied      prometheus.Counter
	caughtUp    prometheus.Counter
	rehashed    prometheus.Counter
	failures    prometheus.Counter
	stopsOver   prometheus.Counter
	stopSeconds prometheus.Histogram
}

func newMetrics(m *Mover, registry *prometheus.Registry) *metrics {
	counter := func(name, help string) prometheus.Counter {
		c := prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
		registry.MustRegister(c)
		return c
	}
	rows := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "relapse_rows_copied_total", Help: "Rows that moved with their tables: copied in the first snapshot, or again since their player was written (catch_up).",
	}, []string{"how"})
	made := &metrics{
		moved:     counter("relapse_tables_moved_total", "Tables whose move was finished by this mover."),
		copied:    rows.WithLabelValues("copy"),
		caughtUp:  rows.WithLabelValues("catch_up"),
		rehashed:  counter("relapse_rows_rehashed_total", "Rows that were moved one by one since the number of databases changed, with hash-mod-n."),
		failures:  counter("relapse_move_failures_total", "How often the move could not go on and was tried again."),
		stopsOver: counter("relapse_write_stops_overdue_total", "Write stops that were over before the table was cut over."),
		stopSeconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "relapse_write_stop_seconds", Help: "For how long the writes of a table were stopped.",
			Buckets: []float64{.005, .01, .02, .05, .1, .2, .5, 1, 2},
		}),
	}
	registry.MustRegister(rows, made.stopSeconds, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "relapse_move_done", Help: "1 once all databases have the same number of tables, within one.",
	}, func() float64 {
		if m.Done() {
			return 1
		}
		return 0
	}))
	return made
}
