package account

import "github.com/prometheus/client_golang/prometheus"

// Outcomes of a handled request.
const (
	ok200        = "ok"
	unknownToken = "unknown_token"
	shed         = "shed"
	abandoned    = "abandoned" // the caller left before its reply
)

// callMetrics are one call's metrics, looked up once rather than per request.
type callMetrics struct {
	outcome map[string]prometheus.Counter
	shed    prometheus.Counter
	seconds prometheus.Observer
}

type metrics struct {
	calls map[string]callMetrics
}

func newMetrics(registry *prometheus.Registry) *metrics {
	handled := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "relapse_handled_total",
		Help: "Requests that reached the application, by call and outcome (ok, unknown_token, shed, abandoned).",
	}, []string{"op", "outcome"})
	shedTotal := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "relapse_shed_total",
		Help: "Requests that the application's own overload protection refused, by call.",
	}, []string{"op"})
	seconds := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "relapse_handle_seconds",
		Help:    "Time that a handled request spent in the application, refused ones excepted.",
		Buckets: []float64{.002, .005, .01, .02, .05, .1, .2, .5},
	}, []string{"op"})
	registry.MustRegister(handled, shedTotal, seconds)
	m := &metrics{calls: map[string]callMetrics{}}
	for _, call := range Calls {
		c := callMetrics{
			outcome: map[string]prometheus.Counter{},
			shed:    shedTotal.WithLabelValues(call),
			seconds: seconds.WithLabelValues(call),
		}
		// Every series is there from the start: a rate over a counter that
		// appears with its first event misses that event.
		for _, outcome := range []string{ok200, unknownToken, shed, abandoned} {
			c.outcome[outcome] = handled.WithLabelValues(call, outcome)
		}
		m.calls[call] = c
	}
	return m
}
