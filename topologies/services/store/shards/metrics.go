package shards

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"relapse/topologies/services/platform/api"
)

type refusedBy struct{ op, why string }

// metrics has every series from the start: a rate over a counter that appears with
// its first event misses that event.
type metrics struct {
	tables    [api.Tables]prometheus.Counter
	databases []prometheus.Counter
	refused   map[refusedBy]prometheus.Counter
	loads     prometheus.Counter
}

func newMetrics(s *Shards, registry *prometheus.Registry) *metrics {
	m := &metrics{refused: map[refusedBy]prometheus.Counter{}}
	if registry == nil {
		registry = prometheus.NewRegistry()
	}
	counters := func(name, help string, labels ...string) *prometheus.CounterVec {
		v := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
		registry.MustRegister(v)
		return v
	}
	tables := counters("relapse_table_operations_total", "Reads and writes of a table that its home let through.", "table")
	databases := counters("relapse_database_operations_total", "Reads and writes that a database let through.", "database")
	refused := counters("relapse_refused_total",
		"Reads and writes that the placement refused, and that were tried again: under an epoch that is not the table's there, while writes are stopped, or after a stop that was overdue.",
		"op", "reason")
	m.loads = counters("relapse_placement_loads_total", "How often it was read where tables are.").WithLabelValues()
	for table := range m.tables {
		m.tables[table] = tables.WithLabelValues(fmt.Sprintf("%02d", table))
	}
	for _, d := range s.databases {
		m.databases = append(m.databases, databases.WithLabelValues(d.name))
	}
	for _, op := range []string{"read", "write"} {
		for _, why := range reasons {
			m.refused[refusedBy{op, why}] = refused.WithLabelValues(op, why)
		}
	}
	for n, d := range s.databases {
		labels := prometheus.Labels{"database": d.name}
		registry.MustRegister(
			prometheus.NewGaugeFunc(prometheus.GaugeOpts{
				Name: "relapse_tables", Help: "Tables of a database, as far as this node knows.", ConstLabels: labels,
			}, func() float64 { return float64(len(s.Homes()[n])) }),
			prometheus.NewGaugeFunc(prometheus.GaugeOpts{
				Name: "relapse_connections_in_use", Help: "Connections to a database that are in use.", ConstLabels: labels,
			}, func() float64 { return float64(d.pool.Stat().AcquiredConns()) }),
			prometheus.NewGaugeFunc(prometheus.GaugeOpts{
				Name: "relapse_connections_limit", Help: "Connections to a database that there may be.", ConstLabels: labels,
			}, func() float64 { return float64(d.pool.Stat().MaxConns()) }),
		)
	}
	return m
}

// operation counts what the fence let through.
func (m *metrics) operation(table, database int) {
	m.tables[table].Inc()
	m.databases[database].Inc()
}
