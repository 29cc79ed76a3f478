package limiter

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct {
	limit, cap, oldest, full, override prometheus.Gauge
	polls, failures                    prometheus.Counter
}

func newMetrics(registry *prometheus.Registry) *metrics {
	gauge := func(name, help string) prometheus.Gauge {
		g := prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
		registry.MustRegister(g)
		return g
	}
	counter := func(name, help string) prometheus.Counter {
		c := prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
		registry.MustRegister(c)
		return c
	}
	return &metrics{
		limit:    gauge("relapse_start_limit", "Games of Clash that may begin in a documented minute."),
		cap:      gauge("relapse_start_cap", "What the limit may be at most, whatever hosts answer."),
		oldest:   gauge("relapse_oldest_reading_seconds", "Age of the oldest reading that the limit goes by, documented seconds."),
		full:     gauge("relapse_hosts_counted_full", "Hosts that count as full, since they did not answer or their reading is no good."),
		override: gauge("relapse_start_override", "1 while an operator's limit is in force."),
		polls:    counter("relapse_polls_total", "Polls of all hosts."),
		failures: counter("relapse_poll_failures_total", "Nodes of hosts that did not answer a poll."),
	}
}

func (m *metrics) show(l Limit, hosts []Host, oldest time.Duration) {
	full, override := 0, 0.0
	for _, h := range hosts {
		if h.Full {
			full++
		}
	}
	if l.Override {
		override = 1
	}
	m.limit.Set(l.Limit)
	m.cap.Set(l.Cap)
	m.oldest.Set(oldest.Seconds())
	m.full.Set(float64(full))
	m.override.Set(override)
	m.polls.Inc()
}
