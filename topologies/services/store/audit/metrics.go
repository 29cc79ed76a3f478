package audit

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"relapse/topologies/services/platform/api"
	"relapse/topologies/services/store/history"
)

// Sums of money that are shown, and states of purchases.
var (
	sums   = []string{"balance", "locked", "granted", "spent"}
	states = []string{history.Locked, history.Settled, history.Released}
)

// totals is what one table sums up to.
type totals struct {
	money   [4]int64 // as sums lists them
	entries map[string]int
}

// metrics has every series from the start: a rate over a counter that appears with
// its first event misses that event. Rows of a table are the exception: a table that
// has no rows on a database has no series for it.
type metrics struct {
	violations map[string]prometheus.Counter // by invariant
	failures   map[string]prometheus.Counter // by database
	audits     prometheus.Counter
	rows       *prometheus.GaugeVec
	money      map[string]prometheus.Gauge
	purchases  map[string]prometheus.Gauge
	last       [api.Tables]totals
}

func newMetrics(c Config, registry *prometheus.Registry) *metrics {
	m := &metrics{
		violations: map[string]prometheus.Counter{}, failures: map[string]prometheus.Counter{},
		audits: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "relapse_audits_total", Help: "Tables that were read from all their databases and checked.",
		}),
		rows: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "relapse_table_rows", Help: "Rows of a table on a database that serves it: wallets, items and ledger entries together.",
		}, []string{"table", "database"}),
		money: map[string]prometheus.Gauge{}, purchases: map[string]prometheus.Gauge{},
	}
	violations := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "relapse_violations_total", Help: "Violations of an invariant that the rows show.",
	}, []string{"invariant"})
	failures := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "relapse_audit_failures_total", Help: "How often a database did not answer the audit.",
	}, []string{"database"})
	money := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "relapse_money", Help: "What all wallets sum up to, as each table was when it was read last.",
	}, []string{"sum"})
	purchases := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "relapse_purchases", Help: "Purchases in the ledger by state, as each table was when it was read last.",
	}, []string{"state"})
	registry.MustRegister(m.audits, m.rows, violations, failures, money, purchases)
	for _, invariant := range history.Invariants {
		m.violations[invariant] = violations.WithLabelValues(invariant)
	}
	for _, database := range c.Shards.Databases {
		m.failures[database] = failures.WithLabelValues(database)
	}
	for _, sum := range sums {
		m.money[sum] = money.WithLabelValues(sum)
	}
	for _, state := range states {
		m.purchases[state] = purchases.WithLabelValues(state)
	}
	return m
}

// show shows a round. One that is incomplete, or without a home, shows nothing.
func (m *metrics) show(r history.Round) {
	is := totals{entries: map[string]int{}}
	table, homes := fmt.Sprintf("%02d", r.Table), 0
	for _, h := range r.Homes {
		if !h.Old {
			homes++
		}
	}
	if r.Incomplete || homes == 0 {
		return
	}
	m.audits.Inc()
	m.rows.DeletePartialMatch(prometheus.Labels{"table": table})
	for _, h := range r.Homes {
		if h.Old {
			continue
		}
		m.rows.WithLabelValues(table, h.Database).Set(float64(len(h.Wallets) + len(h.Items) + len(h.Entries)))
		for _, w := range h.Wallets {
			for i, sum := range []int64{w.Balance, w.Locked, w.Granted, w.Spent} {
				is.money[i] += sum
			}
		}
		for _, e := range h.Entries {
			if e.Kind == history.Purchase {
				is.entries[e.State]++
			}
		}
	}
	was := m.last[r.Table]
	for i, sum := range sums {
		m.money[sum].Add(float64(is.money[i] - was.money[i]))
	}
	for _, state := range states {
		m.purchases[state].Add(float64(is.entries[state] - was.entries[state]))
	}
	m.last[r.Table] = is
}
