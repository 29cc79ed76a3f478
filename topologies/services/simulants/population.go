package simulants

import (
	runtimemetrics "runtime/metrics"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// population shows who there is, and what they cost this process.
type population struct {
	h       *Harness
	states  *prometheus.Desc
	wanted  *prometheus.Desc
	ranges  *prometheus.Desc
	planned *prometheus.Desc
	slots   *prometheus.Desc
	cpu     *prometheus.Desc
	memory  *prometheus.Desc
	bytes   *prometheus.Desc
}

func newPopulation(h *Harness) *population {
	describe := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, labels, nil)
	}
	return &population{
		h:       h,
		states:  describe("relapse_players", "Players by state (signing_in, idle, shop, skin, queue, agents, match).", "state"),
		wanted:  describe("relapse_players_wanted", "Players that this harness is to play; those that there are, where logins were ordered."),
		ranges:  describe("relapse_player_ranges", "Ranges of numbers that this harness holds."),
		planned: describe("relapse_player_planned_per_minute", "What one player is to do a minute as played, by kind (poll, scenario) and name.", "kind", "name"),
		slots:   describe("relapse_player_slots", "Slots for requests, by state (busy, free).", "state"),
		cpu:     describe("relapse_player_cpu_seconds_total", "CPU time of this process, user and system: its rate over that of relapse_player_seconds_total, times 1000, is what 1,000 players cost."),
		memory:  describe("relapse_player_memory_bytes", "Memory of this process that the Go runtime has mapped and not given back."),
		bytes:   describe("relapse_player_bytes", "The same over the players that there are; 0 with none."),
	}
}

// Describe and Collect make it a [prometheus.Collector].
func (p *population) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{p.states, p.wanted, p.ranges, p.planned, p.slots, p.cpu, p.memory, p.bytes} {
		out <- d
	}
}

// Collect reads the shards one after the other: each for as long as it takes to copy
// some numbers.
func (p *population) Collect(out chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	var count [states]int
	var ranges, slots, parked, present int
	wanted := 0.0
	for _, s := range p.h.shards {
		s.mu.Lock()
		for st := signingIn; st < states; st++ {
			count[st] += s.count[st]
		}
		ranges += len(s.held)
		slots += s.slots
		parked += len(s.parked)
		present += s.present()
		if s.order.limited {
			wanted += s.order.wanted
		} else {
			wanted += float64(s.present())
		}
		s.mu.Unlock()
	}
	for st := signingIn; st < states; st++ {
		gauge(p.states, float64(count[st]), stateNames[st])
	}
	gauge(p.wanted, wanted)
	gauge(p.ranges, float64(ranges))
	gauge(p.slots, float64(slots-parked), "busy")
	gauge(p.slots, float64(parked), "free")
	p.plan(gauge)
	out <- prometheus.MustNewConstMetric(p.cpu, prometheus.CounterValue, cpuTime().Seconds())
	memory := mapped()
	gauge(p.memory, float64(memory))
	if present > 0 {
		gauge(p.bytes, float64(memory)/float64(present))
	} else {
		gauge(p.bytes, 0)
	}
}

// plan shows what one player is to do: what a measured mix of requests is held to.
func (p *population) plan(gauge func(d *prometheus.Desc, v float64, labels ...string)) {
	c := &p.h.config
	for _, a := range polls {
		perMinute := 0.0
		if !c.Polls.Off {
			perMinute = time.Minute.Seconds() / c.every(a).Seconds()
		}
		gauge(p.planned, perMinute, "poll", pollNames[a])
	}
	for k := range kinds {
		gauge(p.planned, time.Minute.Seconds()*c.perSecond(k), "scenario", kindNames[k])
	}
}

// cpuTime is what this process has used.
func cpuTime() time.Duration {
	var usage syscall.Rusage
	// It fails for nothing but an argument that is none.
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &usage)
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// mapped is the memory that the runtime has and has not given back, read without
// stopping the world.
func mapped() uint64 {
	read := []runtimemetrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	runtimemetrics.Read(read)
	return read[0].Value.Uint64() - read[1].Value.Uint64()
}
