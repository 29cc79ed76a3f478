package players

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"relapse/topologies/services/http1"
)

// outcome is what became of a request: that of its last attempt, or unsent.
type outcome int

const (
	succeeded = outcome(http1.OK)
	timedOut  = outcome(http1.TimedOut)
	unsent    = outcome(len(http1.Outcomes)) // too many requests in flight; never sent
	outcomes  = len(http1.Outcomes) + 1
)

func (o outcome) String() string {
	if o == unsent {
		return "unsent"
	}
	return http1.Outcome(o).String()
}

// metrics are what every operation shares.
type metrics struct {
	registry *prometheus.Registry
	requests *prometheus.CounterVec
	attempts *prometheus.CounterVec
	duration *prometheus.HistogramVec
	offered  *prometheus.CounterVec
	lateness prometheus.Histogram
}

func newMetrics() *metrics {
	m := &metrics{
		registry: prometheus.NewRegistry(),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "relapse_requests_total",
			Help: "Requests that ended, by operation and the outcome of their last attempt (ok, refused, error, timeout), or unsent.",
		}, []string{"op", "outcome"}),
		attempts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "relapse_attempts_total",
			Help: "Attempts of requests that ended, by operation and outcome (ok, refused, error, timeout).",
		}, []string{"op", "outcome"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "relapse_request_duration_seconds",
			Help: "Time from when a request was meant to be sent to the end of its reply, by operation and outcome.",
			// Close together around the documented timeout of 100 ms, so that a
			// reply that waited for it can be told from one that was just slow.
			Buckets: []float64{.002, .005, .01, .025, .05, .08, .09, .1, .11, .12, .15, .25, .5, 1, 2},
		}, []string{"op", "outcome"}),
		offered: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "relapse_offered_total",
			Help: "Arrivals by the schedule, by operation, whatever became of them.",
		}, []string{"op"}),
		lateness: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "relapse_lateness_seconds",
			Help:    "Time by which the generator itself was late to send a request.",
			Buckets: []float64{.001, .002, .005, .01, .02, .05, .1, .2, .5, 1},
		}),
	}
	m.registry.MustRegister(m.requests, m.attempts, m.duration, m.offered, m.lateness)
	return m
}

// opMetrics are one operation's metrics, looked up once rather than per
// request. All its series are there from the start: a rate over a counter that
// appears with its first event misses that event.
type opMetrics struct {
	ended     [outcomes]prometheus.Counter
	attempted [len(http1.Outcomes)]prometheus.Counter
	duration  [len(http1.Outcomes)]prometheus.Observer
	offered   prometheus.Counter
}

func (m *metrics) op(name string) opMetrics {
	o := opMetrics{offered: m.offered.WithLabelValues(name)}
	for i := range outcomes {
		o.ended[i] = m.requests.WithLabelValues(name, outcome(i).String())
	}
	for i, outcome := range http1.Outcomes {
		o.attempted[i] = m.attempts.WithLabelValues(name, outcome.String())
		o.duration[i] = m.duration.WithLabelValues(name, outcome.String())
	}
	return o
}

// attempt counts an attempt that ended.
func (o *opMetrics) attempt(as outcome) { o.attempted[as].Inc() }

// end counts a request that ended.
func (o *opMetrics) end(as outcome, took time.Duration) {
	o.ended[as].Inc()
	if as != unsent {
		o.duration[as].Observe(took.Seconds())
	}
}
