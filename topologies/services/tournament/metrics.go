package tournament

import "github.com/prometheus/client_golang/prometheus"

type metrics struct {
	games, starts            *prometheus.GaugeVec
	forfeits, refused, total prometheus.Gauge
	peak, limit              prometheus.Gauge
	failures                 prometheus.Counter
}

func newMetrics(registry *prometheus.Registry) *metrics {
	vec := func(name, help, label string) *prometheus.GaugeVec {
		v := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, []string{label})
		registry.MustRegister(v)
		return v
	}
	gauge := func(name, help string) prometheus.Gauge {
		g := prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
		registry.MustRegister(g)
		return g
	}
	m := &metrics{
		games:    vec("relapse_tournament_games", "Games of the tournament by where they are: locked, waiting, selecting, expired (past Champ Select and held), placing, begun.", "state"),
		starts:   vec("relapse_tournament_starts", "Tries to enter Champ Select since the start, by outcome: ok or failed.", "outcome"),
		forfeits: gauge("relapse_tournament_forfeits", "Games since the start that teams lost because they could not begin."),
		refused:  gauge("relapse_tournament_refused", "Games since the start of teams that were not let in."),
		total:    gauge("relapse_tournament_games_in_all", "Games of teams that locked in, those that were not let in too."),
		peak:     gauge("relapse_tournament_ready_peak", "Games that became ready within one documented minute, at most since the start."),
		limit:    gauge("relapse_tournament_limit", "Limit that is obeyed, starts in a documented minute; 0 too where no limiter is alive."),
		failures: prometheus.NewCounter(prometheus.CounterOpts{Name: "relapse_placing_failures_total", Help: "Batches of games that a node of hosts did not take."}),
	}
	registry.MustRegister(m.failures)
	return m
}

func (m *metrics) show(s *Stage, limit float64) {
	sizes := s.Sizes()
	for state, n := range map[string]int{
		"locked": sizes.Locked, "waiting": sizes.Waiting, "selecting": sizes.Selecting, "expired": sizes.Expired, "placing": sizes.Placing, "begun": s.Begun,
	} {
		m.games.WithLabelValues(state).Set(float64(n))
	}
	m.starts.WithLabelValues("ok").Set(float64(s.Started))
	m.starts.WithLabelValues("failed").Set(float64(s.Failed))
	m.forfeits.Set(float64(s.Forfeits))
	m.refused.Set(float64(s.Refused))
	m.total.Set(float64(s.Games + s.Refused))
	m.peak.Set(float64(s.Peak))
	m.limit.Set(limit)
}
