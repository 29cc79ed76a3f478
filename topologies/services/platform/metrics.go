package platform

import (
	"net/http"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"relapse/topologies/services/http1"
)

// Outcomes of a request.
const (
	ok200     = "ok"
	malformed = "malformed" // 400
	unknown   = "unknown"   // 401 and 404
	conflict  = "conflict"  // 409: taken already
	refused   = "refused"   // 503: the role has none of what is asked for
	shed      = "shed"      // 503: no worker was free
	failed    = "failed"    // 502, 503 and 504: a peer failed
	abandoned = "abandoned" // the caller left
)

var outcomes = []string{ok200, malformed, unknown, conflict, refused, shed, failed, abandoned}

// outcomeOf sorts the statuses of refusals.
func outcomeOf(status int) string {
	switch status {
	case http.StatusBadRequest:
		return malformed
	case http.StatusUnauthorized, http.StatusNotFound:
		return unknown
	case http.StatusConflict:
		return conflict
	case http.StatusServiceUnavailable:
		return refused
	}
	return failed
}

// metrics are those that all roles have. Each role makes its own beside them.
type metrics struct {
	handled *prometheus.CounterVec
	seconds *prometheus.HistogramVec
	late    map[string]prometheus.Observer                        // by role
	calls   map[[2]string][len(http1.Outcomes)]prometheus.Counter // by role and peer
}

// routeMetrics are one route's, looked up once rather than per request.
type routeMetrics struct {
	outcomes map[string]prometheus.Counter
	seconds  prometheus.Observer
}

func newMetrics(roles []string, registry *prometheus.Registry) *metrics {
	m := &metrics{
		handled: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "relapse_handled_total",
			Help: "Requests that were answered or abandoned, by role, operation and outcome " +
				"(ok, malformed, unknown, conflict, refused, shed, failed, abandoned).",
		}, []string{"role", "op", "outcome"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "relapse_handle_seconds",
			Help:    "Time that a request held a worker, by role and operation.",
			Buckets: []float64{.001, .002, .005, .01, .02, .05, .1, .2, .5, 1, 2, 5},
		}, []string{"role", "op"}),
		late:  map[string]prometheus.Observer{},
		calls: map[[2]string][len(http1.Outcomes)]prometheus.Counter{},
	}
	late := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "relapse_late_seconds",
		Help:    "Time by which a role began late what was due (ends of matches and of selections, calls and retries): its own workers were busy.",
		Buckets: []float64{.001, .002, .005, .01, .02, .05, .1, .2, .5, 1, 2, 5},
	}, []string{"role"})
	calls := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "relapse_calls_total",
		Help: "Calls to other services that ended, by the role that made them, the peer and outcome (ok, refused, error, timeout).",
	}, []string{"role", "peer", "outcome"})
	registry.MustRegister(m.handled, m.seconds, late, calls)
	// Every series is there from the start: a rate over a counter that appears with
	// its first event misses that event.
	for _, k := range kinds {
		if !slices.Contains(roles, k.name) {
			continue
		}
		m.late[k.name] = late.WithLabelValues(k.name)
		for _, peer := range k.peers {
			var ended [len(http1.Outcomes)]prometheus.Counter
			for _, o := range http1.Outcomes {
				ended[o] = calls.WithLabelValues(k.name, peer, o.String())
			}
			m.calls[[2]string{k.name, peer}] = ended
		}
	}
	return m
}

func (m *metrics) route(role, op string) routeMetrics {
	r := routeMetrics{outcomes: map[string]prometheus.Counter{}, seconds: m.seconds.WithLabelValues(role, op)}
	for _, outcome := range outcomes {
		r.outcomes[outcome] = m.handled.WithLabelValues(role, op, outcome)
	}
	return r
}

func (m *metrics) called(role, peer string, o http1.Outcome) {
	m.calls[[2]string{role, peer}][o].Inc()
}

// lateness is told how late a role is with what was due.
func (p *Platform) lateness(role string) func(time.Duration) {
	late := p.metrics.late[role]
	return func(d time.Duration) { late.Observe(d.Seconds()) }
}

// counter makes a counter of a role's own.
func (p *Platform) counter(name, help string) prometheus.Counter {
	c := prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	p.registry.MustRegister(c)
	return c
}

// counters makes a counter for each value of a label.
func (p *Platform) counters(name, help, label string, values ...string) map[string]prometheus.Counter {
	v := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{label})
	p.registry.MustRegister(v)
	made := map[string]prometheus.Counter{}
	for _, value := range values {
		made[value] = v.WithLabelValues(value)
	}
	return made
}

// gauge makes a gauge that is asked when it is read.
func (p *Platform) gauge(name, help string, read func() float64) {
	p.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, read))
}

// seconds makes a histogram of times.
func (p *Platform) seconds(name, help string, buckets ...float64) prometheus.Histogram {
	h := prometheus.NewHistogram(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets})
	p.registry.MustRegister(h)
	return h
}
