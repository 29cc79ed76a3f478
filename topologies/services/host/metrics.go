package host

import "github.com/prometheus/client_golang/prometheus"

// metrics are what an agent tells of itself; what its host uses is measured from
// outside.
type metrics struct {
	refused prometheus.Counter
	edges   *edges
}

func newMetrics(registry prometheus.Registerer, a *Agent) *metrics {
	refused := prometheus.NewCounter(prometheus.CounterOpts{
		Name: "relapse_host_leak_refused_total",
		Help: "Writes of leaks that the kernel refused, with no space or no memory.",
	})
	unheard := prometheus.NewCounter(prometheus.CounterOpts{
		Name: "relapse_host_edge_unheard_total",
		Help: "Questions for open connections that an edge did not answer.",
	})
	gauge := func(name, help string, read func() float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, read)
	}
	registry.MustRegister(refused, unheard,
		gauge("relapse_host_leaked_bytes", "Bytes that leaks hold.", a.leaked),
		gauge("relapse_host_hog_cores", "Cores that hogs are told to use.", a.hogCores),
		gauge("relapse_host_edge_connections", "Open connections of the edges, as the leaks last counted them.", a.connections),
	)
	return &metrics{refused: refused, edges: newEdges(unheard)}
}
