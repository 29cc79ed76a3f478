package rebalancer

import (
	"github.com/prometheus/client_golang/prometheus"

	"relapse/topologies/services/matchmaking"
)

// What became of an order.
const (
	carriedOut = "ok"
	refused    = "refused" // the node said no
	failed     = "failed"  // it did not answer in time, or broke off
)

type metrics struct {
	rounds prometheus.Counter
	orders map[string]prometheus.Counter // by what became of them
	failed map[string]prometheus.Counter // counts that were not got, by node
	spread *prometheus.GaugeVec
}

func newMetrics(nodes []*matchmaking.Peer, registry *prometheus.Registry) *metrics {
	m := &metrics{
		rounds: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "relapse_rebalance_rounds_total", Help: "Rounds that were played: counts read, and orders given if there were any.",
		}),
		orders: map[string]prometheus.Counter{},
		failed: map[string]prometheus.Counter{},
		// Which regions there are, nodes say: a region is there with the first
		// counts of it.
		spread: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "relapse_rebalance_spread",
			Help: "Largest number of free servers of a node minus the smallest, over the mean, of the nodes that answered last, by region.",
		}, []string{"region"}),
	}
	orders := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "relapse_rebalance_orders_total", Help: "Orders to move servers, by outcome (ok, refused, failed).",
	}, []string{"outcome"})
	counts := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "relapse_rebalance_counts_failed_total", Help: "Times that a node did not say in time what it has.",
	}, []string{"node"})
	registry.MustRegister(m.rounds, orders, counts, m.spread)
	// Every series is there from the start: a rate over a counter that appears
	// with its first event misses that event.
	for _, outcome := range []string{carriedOut, refused, failed} {
		m.orders[outcome] = orders.WithLabelValues(outcome)
	}
	for _, n := range nodes {
		m.failed[n.Name] = counts.WithLabelValues(n.Name)
	}
	return m
}
