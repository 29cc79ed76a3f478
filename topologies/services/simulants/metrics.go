package simulants

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// orderPlayers and orderLogin are what rates are set for. The first is a number of
// players and no kind of request: its unit is player-seconds a second.
const (
	orderPlayers = "players"
	orderLogin   = "login"
)

// metrics are what all shards share.
type metrics struct {
	registry *prometheus.Registry
	ops      [ops]opMetrics
	lateness prometheus.Histogram
	overdue  prometheus.Counter

	wantedSeconds   prometheus.Counter // relapse_offered_total of players
	missingSeconds  prometheus.Counter // relapse_requests_total of players, unsent
	playerSeconds   prometheus.Counter
	signedInSeconds prometheus.Counter

	polls      [len(polls)]prometheus.Counter
	started    [kinds]prometheus.Counter
	scenarios  [kinds][endings]prometheus.Counter
	retries    [ops]prometheus.Counter
	signouts   prometheus.Counter
	lapses     prometheus.Counter
	checks     [claims]prometheus.Counter
	mismatches [claims]prometheus.Counter
}

// opMetrics are one kind of request's. All its series but those of answers that took
// their time and were no good are there from the start: a rate over a counter that
// appears with its first event misses that event.
type opMetrics struct {
	name     string
	offered  prometheus.Counter
	ended    [outcomes]prometheus.Counter
	attempts [outcomes]prometheus.Counter
	took     prometheus.Observer // of those that succeeded
	duration *prometheus.HistogramVec
}

// end counts a request that ended.
func (o *opMetrics) end(as outcome, took time.Duration) {
	o.ended[as].Inc()
	switch as {
	case unsent:
		return
	case succeeded:
		o.took.Observe(took.Seconds())
	default:
		o.duration.WithLabelValues(o.name, as.String()).Observe(took.Seconds())
	}
	o.attempts[as].Inc()
}

func newMetrics(h *Harness) *metrics {
	m := &metrics{registry: prometheus.NewRegistry()}
	m.lateness = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name:    "relapse_lateness_seconds",
		Help:    "Time by which the generator itself was late to send a request.",
		Buckets: []float64{.001, .002, .005, .01, .02, .05, .1, .2, .5, 1},
	})
	m.registry.MustRegister(m.lateness)
	m.overdue = m.counter("relapse_overdue_total", "Requests that found no free slot at their time. They are sent once there is one, late, or end as unsent.")
	m.playerSeconds = m.counter("relapse_player_seconds_total", "Time of all players together, in seconds: what a mix of requests is divided by.")
	m.signedInSeconds = m.counter("relapse_player_signed_in_seconds_total", "Time of all players together who have signed in, in seconds.")
	m.signouts = m.counter("relapse_player_signouts_total", "Players whose token was not known any more, and who had to sign in again.")
	m.lapses = m.counter("relapse_range_lapses_total", "Times that the lease on the ranges ended before it was renewed, so that all players left.")
	m.addRequests()
	m.addPlay()
	m.registry.MustRegister(newPopulation(h))
	return m
}

func (m *metrics) counter(name, help string) prometheus.Counter {
	c := prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	m.registry.MustRegister(c)
	return c
}

func (m *metrics) counters(name, help string, labels ...string) *prometheus.CounterVec {
	c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	m.registry.MustRegister(c)
	return c
}

// addRequests adds what load generators of this project show.
func (m *metrics) addRequests() {
	requests := m.counters("relapse_requests_total", "Requests that ended, by operation and outcome (ok, declined, refused, error, timeout), or unsent. Of players, which are no requests: player-seconds that were ordered and missing.", "op", "outcome")
	attempts := m.counters("relapse_attempts_total", "Attempts of requests that ended, by operation and outcome. Each request is attempted once here; a player who tries again makes a request of its own.", "op", "outcome")
	offered := m.counters("relapse_offered_total", "Requests that were due, by operation, whatever became of them. Of players, which are no requests: player-seconds that were ordered.", "op")
	retries := m.counters("relapse_player_retries_total", "Requests of scenarios that repeat one without a definite answer.", "op")
	duration := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "relapse_request_duration_seconds",
		Help:    "Time from when a request was meant to be sent to the end of its reply, by operation and outcome.",
		Buckets: []float64{.002, .005, .01, .02, .05, .1, .2, .5, 1, 2},
	}, []string{"op", "outcome"})
	m.registry.MustRegister(duration)
	for o := range ops {
		name := calls[o].name
		one := &m.ops[o]
		one.name, one.duration = name, duration
		one.offered = offered.WithLabelValues(name)
		one.took = duration.WithLabelValues(name, succeeded.String())
		for as := range outcomes {
			one.ended[as] = requests.WithLabelValues(name, outcome(as).String())
			if outcome(as) != unsent {
				one.attempts[as] = attempts.WithLabelValues(name, outcome(as).String())
			}
		}
		m.retries[o] = retries.WithLabelValues(name)
	}
	m.wantedSeconds = offered.WithLabelValues(orderPlayers)
	m.missingSeconds = requests.WithLabelValues(orderPlayers, unsent.String())
}

// addPlay adds what only players have.
func (m *metrics) addPlay() {
	polled := m.counters("relapse_player_polls_total", "Polls that the clients made, by name (renew, config, heartbeat).", "name")
	for _, a := range polls {
		m.polls[a] = polled.WithLabelValues(pollNames[a])
	}
	started := m.counters("relapse_player_scenarios_started_total", "Scenarios that players began, by name; each player of a party counts.", "name")
	ended := m.counters("relapse_player_scenarios_total", "Scenarios that ended, by name and how: done, failed, gave_up, nothing (to buy or put on), left; or nobody, for those that were handed out with nobody free.", "name", "ending")
	for k := range kinds {
		m.started[k] = started.WithLabelValues(kindNames[k])
		for e := range endings {
			m.scenarios[k][e] = ended.WithLabelValues(kindNames[k], endingNames[e])
		}
	}
	checks := m.counters("relapse_player_checks_total", "Comparisons of what a player is told with what it was told before, by what.", "what")
	mismatches := m.counters("relapse_player_mismatch_total", "Comparisons that did not hold.", "what")
	for c := range claims {
		m.checks[c] = checks.WithLabelValues(claimNames[c])
		m.mismatches[c] = mismatches.WithLabelValues(claimNames[c])
	}
}
