package presence

import "github.com/prometheus/client_golang/prometheus"

// metrics has every series from the start: a rate over a counter that appears with
// its first event misses that event.
type metrics struct {
	renewed, unrenewed prometheus.Counter
	free, stolen, anew prometheus.Counter
	moves              prometheus.Counter
	ticks              prometheus.Counter
	actions, passed    prometheus.Counter
	refused, notBegun  prometheus.Counter
	inHand             prometheus.Gauge
	delay              prometheus.Histogram
}

func newMetrics(registry *prometheus.Registry, i *Instance) *metrics {
	counter := func(name, help string) prometheus.Counter {
		c := prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
		registry.MustRegister(c)
		return c
	}
	rounds := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "relapse_presence_rounds_total",
		Help: "Rounds, in which claims are renewed and made, by outcome (ok, failed).",
	}, []string{"outcome"})
	claims := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "relapse_presence_claims_total",
		Help: "Claims made, by how: of what was free, of what another instance had (stolen), or numbered anew since the lists refused the number.",
	}, []string{"how"})
	m := &metrics{
		renewed: rounds.WithLabelValues("ok"), unrenewed: rounds.WithLabelValues("failed"),
		free: claims.WithLabelValues("free"), stolen: claims.WithLabelValues("stolen"), anew: claims.WithLabelValues("anew"),
		moves:    counter("relapse_presence_moves_total", "Partitions claimed that another instance had last, whether it still had them or not."),
		ticks:    counter("relapse_presence_ticks_total", "Times that players who are due were looked for and handled."),
		actions:  counter("relapse_presence_actions_total", "Players marked offline."),
		passed:   counter("relapse_presence_passed_total", "Players in hand who were not marked: heard of meanwhile, or marked for that tick before."),
		refused:  counter("relapse_presence_refused_total", "Players in hand who were not marked since the claim's number is not the highest: refused by the fence."),
		notBegun: counter("relapse_presence_not_begun_total", "Players due who were left to others: the claim was lost, or the lease ends before they would be done."),
		inHand: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "relapse_presence_in_hand", Help: "Players who were read as due and are not marked yet.",
		}),
		delay: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "relapse_presence_delay_seconds", Help: "Time from when a player was due to its mark, on the clock of Redis.",
			Buckets: []float64{.025, .05, .1, .25, .5, .75, 1, 1.5, 2, 2.5, 3, 4, 6, 10},
		}),
	}
	registry.MustRegister(rounds, claims, m.inHand, m.delay,
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "relapse_presence_partitions", Help: "Partitions that the instance may work on; none when its lease is over by its own clock.",
		}, func() float64 { return float64(len(i.owned())) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "relapse_presence_instances", Help: "Instances that were there in the last round, itself included.",
		}, i.instances),
	)
	return m
}

// count counts what was claimed in a round.
func (m *metrics) count(s standing) {
	m.free.Add(float64(s.free))
	m.stolen.Add(float64(s.stolen))
	m.anew.Add(float64(s.anew))
	m.moves.Add(float64(s.moved))
}

func (i *Instance) instances() float64 {
	i.mu.Lock()
	defer i.mu.Unlock()
	return float64(i.known)
}
