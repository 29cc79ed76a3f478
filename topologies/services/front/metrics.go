package front

import (
	"github.com/prometheus/client_golang/prometheus"

	"relapse/topologies/services/http1"
)

// How a request was answered.
const (
	answeredOK = "ok"      // the node's 2xx
	refused    = "refused" // the node's 503 or 429
	closed     = "closed"  // 403
	limited    = "limited" // the front's 429
	failed     = "failed"  // any other answer of the node, 404 and 502
	timedOut   = "timeout" // 504
)

// answeredBy sorts what nodes answer.
var answeredBy = map[http1.Outcome]string{http1.OK: answeredOK, http1.Refused: refused, http1.Failed: failed}

// unrouted stands for all modes that there is no route for: what players write
// there must not make series.
const unrouted = "unknown"

// metrics go by the mode that a player asked for, also where a request was
// misrouted.
type metrics struct {
	routed   map[string]map[string]prometheus.Counter // by mode and node
	answered map[string]map[string]prometheus.Counter // by mode and how
}

func newMetrics(f *Front, registry *prometheus.Registry) *metrics {
	routed := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "relapse_routed_total",
		Help: "Requests that were sent to a node, by the mode that the player asked for and the node.",
	}, []string{"mode", "node"})
	answered := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "relapse_front_answered_total",
		Help: "Requests that were answered, whether or not the player was still there, by mode (unknown for one without a route) " +
			"and status (ok, refused, closed, limited, failed, timeout).",
	}, []string{"mode", "status"})
	registry.MustRegister(routed, answered)
	m := &metrics{map[string]map[string]prometheus.Counter{}, map[string]map[string]prometheus.Counter{}}
	// Every series is there from the start: a rate over a counter that appears
	// with its first event misses that event.
	for mode, r := range f.routes {
		m.routed[mode], m.answered[mode] = map[string]prometheus.Counter{}, map[string]prometheus.Counter{}
		nodes := r.nodes
		if wrong := f.misroutes[mode]; wrong != nil {
			nodes = append(nodes[:len(nodes):len(nodes)], wrong.to.nodes...)
		}
		for _, n := range nodes {
			m.routed[mode][n.Name] = routed.WithLabelValues(mode, n.Name)
		}
		for _, how := range []string{answeredOK, refused, closed, limited, failed, timedOut} {
			m.answered[mode][how] = answered.WithLabelValues(mode, how)
		}
	}
	m.answered[unrouted] = map[string]prometheus.Counter{failed: answered.WithLabelValues(unrouted, failed)}
	return m
}

// answer counts a request that is answered.
func (m *metrics) answer(mode, how string) {
	if m.answered[mode] == nil {
		mode = unrouted
	}
	m.answered[mode][how].Inc()
}
