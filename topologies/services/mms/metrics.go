package mms

import (
	"github.com/prometheus/client_golang/prometheus"
)

// Labels of metrics.
const (
	opMatch = "match"

	// What a match was looked for in, and for whom.
	own  = "own"  // the node's own list; a request of its own
	peer = "peer" // a peer's list; a request of a peer

	handledOK        = "ok"
	handledUnclaimed = "unclaimed" // a match for a caller who had left
	handledRefused   = "refused"   // too many wait for the CPU
	handledGivenUp   = "given_up"  // as many tries as there may be
	handledAbandoned = "abandoned" // the caller left, and no match was made

	askFound  = "found"
	askEmpty  = "empty"  // the peer had none
	askFailed = "failed" // the peer refused, or did not answer in time

	transferMoved    = "moved"    // the receiver said what it has
	transferReturned = "returned" // it did not, and some were taken back
	transferFailed   = "failed"   // it did not, and none could be taken back

	movedOut = "out"
	movedIn  = "in"
)

type metrics struct {
	cpu                   prometheus.Counter
	lookups               map[string]prometheus.Counter // by kind
	visited               prometheus.Counter
	fullScans, fullVisits prometheus.Counter
	misses                prometheus.Counter
	asks                  map[string]prometheus.Counter // by outcome
	asked                 prometheus.Counter
	refused               prometheus.Counter                       // entries
	assigned              map[string]map[string]prometheus.Counter // by mode, and where
	handled               map[string]map[string]prometheus.Counter // by mode and outcome
	seconds               map[string]prometheus.Observer           // by mode
	transfers             map[string]prometheus.Counter            // by outcome
	moved                 map[string]prometheus.Counter            // by direction
}

// newMetrics has every series there from the start: a rate over a counter that
// appears with its first event misses that event.
func newMetrics(registry *prometheus.Registry, modes []string) *metrics {
	counter := func(name, help string) prometheus.Counter {
		c := prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
		registry.MustRegister(c)
		return c
	}
	counters := func(name, help, label string, values ...string) map[string]prometheus.Counter {
		vec := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{label})
		registry.MustRegister(vec)
		by := map[string]prometheus.Counter{}
		for _, value := range values {
			by[value] = vec.WithLabelValues(value)
		}
		return by
	}
	m := &metrics{
		cpu:        counter("relapse_cpu_seconds_total", "Time that the modelled CPU spent on reading the list."),
		lookups:    counters("relapse_lookups_total", "Readings of the list, by for whom (own requests, a peer's).", "kind", own, peer),
		visited:    counter("relapse_entries_visited_total", "Entries of the list that were visited."),
		fullScans:  counter("relapse_full_scans_total", "Readings of the whole list that found no free server; none with an index."),
		fullVisits: counter("relapse_full_scan_entries_total", "Entries that were visited by readings of the whole list."),
		misses:     counter("relapse_misses_total", "Requests that found no server in the node's own list at their first try."),
		asks:       counters("relapse_asks_total", "Questions to peers, by outcome (found, empty, failed).", "outcome", askFound, askEmpty, askFailed),
		asked:      counter("relapse_asked_total", "Questions of peers."),
		refused:    counter("relapse_refused_entries_total", "Servers in the list that refused a match: they were in one, registered anew, gone, or there is none of the number."),
		transfers: counters("relapse_transfers_total", "Transfers that a node began, by outcome (moved, returned, failed).", "outcome",
			transferMoved, transferReturned, transferFailed),
		moved:    counters("relapse_moved_servers_total", "Servers that were moved, by direction (out, in).", "direction", movedOut, movedIn),
		assigned: map[string]map[string]prometheus.Counter{}, handled: map[string]map[string]prometheus.Counter{}, seconds: map[string]prometheus.Observer{},
	}
	assigned := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "relapse_assigned_total", Help: "Servers that requests were given, by mode and whose list had them (own, peer), those for callers who had left too.",
	}, []string{"mode", "where"})
	handled := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "relapse_handled_total", Help: "Requests for a match, by mode and outcome (ok, unclaimed, refused, given_up, abandoned).",
	}, []string{"op", "mode", "outcome"})
	seconds := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "relapse_lookup_seconds",
		Help:    "Time from a request's arrival to its outcome, by mode, refused ones excepted.",
		Buckets: []float64{.001, .002, .005, .01, .02, .05, .1, .2, .5, 1, 2, 5, 10, 20, 30},
	}, []string{"mode"})
	registry.MustRegister(assigned, handled, seconds)
	for _, mode := range modes {
		m.assigned[mode], m.handled[mode] = map[string]prometheus.Counter{}, map[string]prometheus.Counter{}
		for _, where := range []string{own, peer} {
			m.assigned[mode][where] = assigned.WithLabelValues(mode, where)
		}
		for _, outcome := range []string{handledOK, handledUnclaimed, handledRefused, handledGivenUp, handledAbandoned} {
			m.handled[mode][outcome] = handled.WithLabelValues(opMatch, mode, outcome)
		}
		m.seconds[mode] = seconds.WithLabelValues(mode)
	}
	return m
}

// show registers what is read when it is asked for.
func (n *Node) show(registry *prometheus.Registry) {
	registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "relapse_queue_length", Help: "Look-ups that wait for the CPU, and requests that wait to go again.",
	}, func() float64 { return float64(int64(n.cpu.length()) + n.again.Load()) }))
	for _, region := range n.Regions {
		labels := prometheus.Labels{"region": region}
		registry.MustRegister(
			prometheus.NewGaugeFunc(prometheus.GaugeOpts{
				Name: "relapse_free_servers", Help: "Servers in the list that may be handed out, by region.", ConstLabels: labels,
			}, func() float64 { unused, _ := n.list.count(region); return float64(unused) }),
			prometheus.NewGaugeFunc(prometheus.GaugeOpts{
				Name: "relapse_listed_servers", Help: "Servers in the list, those in a match too, by region.", ConstLabels: labels,
			}, func() float64 { _, all := n.list.count(region); return float64(all) }),
		)
	}
}
