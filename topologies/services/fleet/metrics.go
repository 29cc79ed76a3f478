package fleet

import (
	"github.com/prometheus/client_golang/prometheus"

	"relapse/topologies/services/fleet/history"
)

// group is the servers of one region in one cluster.
type group struct{ cluster, region string }

type modeMetrics struct {
	outcomes map[string]prometheus.Counter // of reservations
	matches  map[string]prometheus.Counter // by cluster
	players  prometheus.Counter
}

type nodeMetrics struct {
	audits          prometheus.Counter
	registrations   prometheus.Counter
	reregistrations prometheus.Counter
	failures        prometheus.Counter
}

// metrics has every series from the start: a rate over a counter that appears with
// its first event misses that event.
type metrics struct {
	collectors []prometheus.Collector

	servers      map[group][len(stateNames)]prometheus.Gauge
	modes        map[string]modeMetrics
	moves        map[string]prometheus.Counter // by cluster
	movesBack    map[string]prometheus.Counter // by cluster
	movesRefused prometheus.Counter
	violations   map[string]prometheus.Counter // by invariant
	nodes        map[string]nodeMetrics

	added    map[string]prometheus.Counter  // by cluster
	unused   map[string]prometheus.Gauge    // by cluster
	firstUse map[string]prometheus.Observer // by cluster
}

func newMetrics(c Config) *metrics {
	m := &metrics{
		servers: map[group][len(stateNames)]prometheus.Gauge{}, modes: map[string]modeMetrics{},
		moves: map[string]prometheus.Counter{}, movesBack: map[string]prometheus.Counter{}, violations: map[string]prometheus.Counter{}, nodes: map[string]nodeMetrics{},
		added: map[string]prometheus.Counter{}, unused: map[string]prometheus.Gauge{}, firstUse: map[string]prometheus.Observer{},
	}
	counters := func(name, help string, labels ...string) *prometheus.CounterVec {
		v := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
		m.collectors = append(m.collectors, v)
		return v
	}
	servers := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "relapse_servers",
		Help: "Game servers by what they do: free (whether or not their nodes know it yet), in a match, ended (not back from one), or gone.",
	}, []string{"cluster", "region", "state"})
	unused := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "relapse_added_unused_servers",
		Help: "Servers that were added and have taken no match since, those that are not registered yet too.",
	}, []string{"cluster"})
	firstUse := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "relapse_added_first_use_seconds",
		Help:    "Time from when a server was added to its first match.",
		Buckets: []float64{.1, .2, .5, 1, 2, 5, 10, 20, 30, 60},
	}, []string{"cluster"})
	m.collectors = append(m.collectors, servers, unused, firstUse)
	added := counters("relapse_added_servers_total", "Servers that were gone and have been registered as new ones.", "cluster")
	reservations := counters("relapse_reservations_total",
		"Requests for a server that were answered, by outcome (ok, a repeated request included; taken, stale, gone, unknown).", "mode", "outcome")
	matches := counters("relapse_matches_total", "Matches that a server has taken, by the server's cluster.", "mode", "cluster")
	players := counters("relapse_matched_players_total", "Players in the matches that a server has taken.", "mode")
	moves := counters("relapse_moves_total", "Servers registered with the receiver of a transfer, another node than before.", "cluster")
	movesBack := counters("relapse_moves_back_total", "Servers registered again with the donor of a transfer whose receiver did not answer; they have gone nowhere.", "cluster")
	refused := counters("relapse_moves_refused_total", "Servers that were to move and did not: gone or no longer free, or not under that epoch.")
	violations := counters("relapse_violations_total", "Violations of an invariant that the history shows.", "invariant")
	audits := counters("relapse_audits_total", "Lists that were read and checked.", "node")
	registrations := counters("relapse_registrations_total", "Registrations that the node has acknowledged, of servers that were added too.", "node")
	reregistrations := counters("relapse_reregistrations_total", "Servers that were registered anew since the node had restarted.", "node")
	failures := counters("relapse_listing_failures_total", "Listings that the node did not acknowledge; they are sent again.", "node")

	for _, cl := range c.Clusters {
		m.moves[cl.Name], m.movesBack[cl.Name] = moves.WithLabelValues(cl.Name), movesBack.WithLabelValues(cl.Name)
		m.added[cl.Name], m.unused[cl.Name] = added.WithLabelValues(cl.Name), unused.WithLabelValues(cl.Name)
		m.firstUse[cl.Name] = firstUse.WithLabelValues(cl.Name)
		for _, r := range c.Regions {
			var states [len(stateNames)]prometheus.Gauge
			for s, name := range stateNames {
				states[s] = servers.WithLabelValues(cl.Name, r.Name, name)
			}
			m.servers[group{cl.Name, r.Name}] = states
		}
		for _, n := range cl.Nodes {
			m.nodes[n.Name] = nodeMetrics{
				audits: audits.WithLabelValues(n.Name), registrations: registrations.WithLabelValues(n.Name),
				reregistrations: reregistrations.WithLabelValues(n.Name), failures: failures.WithLabelValues(n.Name),
			}
		}
	}
	for mode := range c.Modes {
		mm := modeMetrics{map[string]prometheus.Counter{}, map[string]prometheus.Counter{}, players.WithLabelValues(mode)}
		for _, outcome := range []string{accepted, taken, stale, notThere, unknown} {
			mm.outcomes[outcome] = reservations.WithLabelValues(mode, outcome)
		}
		for _, cl := range c.Clusters {
			mm.matches[cl.Name] = matches.WithLabelValues(mode, cl.Name)
		}
		m.modes[mode] = mm
	}
	m.movesRefused = refused.WithLabelValues()
	for _, invariant := range history.Invariants {
		m.violations[invariant] = violations.WithLabelValues(invariant)
	}
	return m
}

func (m *metrics) register(registry *prometheus.Registry, f *Fleet) {
	registry.MustRegister(m.collectors...)
	registry.MustRegister(
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "relapse_missing_servers", Help: "Free servers that are in no list now, though their nodes acknowledged them.",
		}, f.missing),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "relapse_stale_entries", Help: "Entries in the latest snapshots that would be handed out and refused, since their epoch is not current.",
		}, f.stale),
	)
}
