package gamehosts

import (
	"github.com/prometheus/client_golang/prometheus"
)

// metrics are what hosts really do, whatever they answer the limiter. Every series is
// there from the start.
type metrics struct {
	load           map[string]prometheus.Gauge // by host
	used, capacity map[string]prometheus.Gauge // by kind
	late           map[string]prometheus.Gauge // by kind
	games          map[string]prometheus.Gauge // by mode
	begun, ended   map[string]prometheus.Gauge // by mode
	killed         map[string]prometheus.Gauge // by mode
	kinds          map[string]bool
}

func newMetrics(registry *prometheus.Registry, c Config) *metrics {
	gauge := func(name, help string, labels ...string) *prometheus.GaugeVec {
		v := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, labels)
		registry.MustRegister(v)
		return v
	}
	load := gauge("relapse_gamehost_load_ratio", "What a host's games cost, modelled, as a part of its CPU; above 1 where they want more than it has.", "gamehost", "kind")
	used := gauge("relapse_gamehosts_used", "What all games cost, modelled, in games at their dearest.", "kind")
	capacity := gauge("relapse_gamehosts_capacity", "Games at their dearest that fill the CPU of all hosts that are there.", "kind")
	late := gauge("relapse_gamehosts_late_ratio", "Share of the ticks that come late, by the model, of the host with most.", "kind")
	games := gauge("relapse_games", "Games that are played.", "mode")
	begun := gauge("relapse_games_begun", "Games that began.", "mode")
	ended := gauge("relapse_games_ended", "Games that were played to their end.", "mode")
	killed := gauge("relapse_games_killed", "Games that an overloaded host shut down.", "mode")
	m := &metrics{
		load: map[string]prometheus.Gauge{}, used: map[string]prometheus.Gauge{}, capacity: map[string]prometheus.Gauge{}, late: map[string]prometheus.Gauge{},
		games: map[string]prometheus.Gauge{}, begun: map[string]prometheus.Gauge{}, ended: map[string]prometheus.Gauge{}, killed: map[string]prometheus.Gauge{},
		kinds: map[string]bool{},
	}
	for _, h := range c.Hosts {
		m.load[h.Name] = load.WithLabelValues(h.Name, h.Kind)
		m.used[h.Kind], m.capacity[h.Kind], m.late[h.Kind] = used.WithLabelValues(h.Kind), capacity.WithLabelValues(h.Kind), late.WithLabelValues(h.Kind)
		m.kinds[h.Kind] = true
	}
	for _, mode := range Modes {
		m.games[mode.Name], m.begun[mode.Name] = games.WithLabelValues(mode.Name), begun.WithLabelValues(mode.Name)
		m.ended[mode.Name], m.killed[mode.Name] = ended.WithLabelValues(mode.Name), killed.WithLabelValues(mode.Name)
	}
	return m
}

func (m *metrics) show(h *Hosts, open bool) {
	used, capacity, late, games := map[string]float64{}, map[string]float64{}, map[string]float64{}, map[string]int{}
	for _, s := range h.States() {
		m.load[s.Name].Set(s.Load)
		used[s.Kind] += s.Load * s.Capacity
		if open {
			capacity[s.Kind] += s.Capacity
		}
		late[s.Kind] = max(late[s.Kind], Late(s.Load))
		for mode, n := range s.Games {
			games[mode] += n
		}
	}
	for kind := range m.kinds {
		m.used[kind].Set(used[kind])
		m.capacity[kind].Set(capacity[kind])
		m.late[kind].Set(late[kind])
	}
	for _, mode := range Modes {
		t := h.Totals(mode.Name)
		m.games[mode.Name].Set(float64(games[mode.Name]))
		m.begun[mode.Name].Set(float64(t.Begun))
		m.ended[mode.Name].Set(float64(t.Ended))
		m.killed[mode.Name].Set(float64(t.Killed))
	}
}
