package replays

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"time"

	"relapse/replays/samples"
	"relapse/topologies"
)

// toolNode is the node label of what the tool measures of its own machine.
const toolNode = "relapse"

// measuring is the scraping of a play's nodes while it runs.
type measuring struct {
	p      *play
	cancel context.CancelFunc
	done   chan struct{}
}

// kindContainer and kindRestarts are what the engine and the kernel know of a
// node.
const (
	kindContainer = "container"
	kindRestarts  = "restarts"
)

// measure starts to scrape every node: over its own protocol where the compose
// file says how, and what its container uses; every host; and the machine
// itself.
func (p *play) measure(machine *noise) (*measuring, error) {
	targets := []*samples.Target{samples.NewFunc(toolNode, "machine", machine.sample)}
	for _, n := range p.plan.nodes.Nodes {
		instance, err := p.sys.Instance(n.Name)
		if err != nil {
			return nil, err
		}
		var on []string
		if n.Host != "" {
			on = []string{"host", n.Host}
		}
		targets = append(targets, samples.NewFunc(n.Name, kindContainer, func() (map[string]float64, error) {
			u, err := instance.Usage()
			if err != nil {
				return nil, err
			}
			return map[string]float64{
				"relapse_container_cpu_seconds_total":           u.CPUSeconds,
				"relapse_container_cpu_throttled_seconds_total": u.ThrottledSeconds,
				"relapse_container_memory_bytes":                float64(u.MemoryBytes),
			}, nil
		}, on...))
		if n.Restart != "" {
			targets = append(targets, samples.NewFunc(n.Name, kindRestarts, func() (map[string]float64, error) { return restarts(instance) }, on...))
		}
		if n.Metrics == nil {
			continue
		}
		target, err := samples.NewTarget(samples.Endpoint{
			Node: n.Name, Host: n.Host, Kind: n.Metrics.Kind, Path: n.Metrics.Path, Environment: n.Environment,
			Address: net.JoinHostPort(instance.Address().String(), strconv.Itoa(int(n.Metrics.Port))),
		})
		if err != nil {
			return nil, err
		}
		targets = append(targets, target)
	}
	for _, h := range p.plan.nodes.Hosts {
		host, err := p.sys.Host(h.Name)
		if err != nil {
			return nil, err
		}
		targets = append(targets, samples.NewFunc(h.Name, "host", func() (map[string]float64, error) { return hostUsage(host) }, "host", h.Name))
	}
	for _, l := range p.plan.proxied() {
		targets = append(targets, samples.NewFunc(l.String(), "link", func() (map[string]float64, error) { return p.linkUsage(l) }))
	}
	scraper, err := samples.NewScraper(p.store, targets...)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	m := &measuring{p, cancel, make(chan struct{})}
	go func() {
		defer close(m.done)
		scraper.Run(ctx)
	}()
	return m, nil
}

// restarts asks the engine, which takes longer than to read the kernel's files:
// only of nodes that it may start again.
func restarts(i *topologies.Instance) (map[string]float64, error) {
	ctx, cancel := context.WithTimeout(context.Background(), samples.Deadline)
	defer cancel()
	state, err := i.State(ctx)
	if err != nil {
		return nil, err
	}
	return map[string]float64{"relapse_node_restarts_total": float64(state.Restarts)}, nil
}

// hostUsage is what the kernel counts for all nodes of a host together. A host
// without a limit of memory has no series of it.
func hostUsage(h *topologies.HostInstance) (map[string]float64, error) {
	u, err := h.Usage()
	if err != nil {
		return nil, err
	}
	limits, err := h.Limits()
	if err != nil {
		return nil, err
	}
	out := map[string]float64{
		"relapse_host_cpu_seconds_total":   u.CPUSeconds,
		"relapse_host_memory_bytes":        float64(u.MemoryBytes),
		"relapse_host_shared_memory_bytes": float64(u.SharedMemoryBytes),
	}
	if limits.MemoryBytes > 0 {
		out["relapse_host_memory_limit_bytes"] = float64(limits.MemoryBytes)
	}
	return out, nil
}

// linkUsage is what the relay says of a proxied link. Its wait is how long a
// byte that arrives now is held back by the narrowest limit on the link's
// bandwidth, zero where there is none.
func (p *play) linkUsage(l topologies.Link) (map[string]float64, error) {
	ctx, cancel := context.WithTimeout(context.Background(), samples.Deadline)
	defer cancel()
	state, err := p.sys.Relay().State(ctx, l.String())
	if err != nil {
		return nil, err
	}
	wait := time.Duration(0)
	for _, b := range state.Buckets {
		wait = max(wait, b.Backlog)
	}
	return map[string]float64{
		"relapse_link_wait_seconds":                wait.Seconds(),
		"relapse_link_connections":                 float64(state.Open),
		"relapse_link_connections_total":           float64(state.Accepted),
		"relapse_link_unreached_total":             float64(state.Unreached),
		"relapse_link_client_sent_bytes_total":     float64(state.BytesUp),
		"relapse_link_server_sent_bytes_total":     float64(state.BytesDown),
		"relapse_link_client_received_bytes_total": float64(state.BytesDownSent),
	}, nil
}

// stop ends the scraping, one period after the last phase so that its end is
// measured, and says how it went between two moments.
func (m *measuring) stop(from, to time.Time) []TargetHealth {
	last := time.NewTimer(time.Until(to.Add(samples.Period)))
	<-last.C
	m.cancel()
	<-m.done
	var out []TargetHealth
	for _, h := range m.p.store.Health(from, to, gapBound) {
		if h.Kind == kindContainer || h.Kind == kindRestarts {
			continue // a container that is gone has no usage; its own protocol tells
		}
		t := TargetHealth{
			Node: h.Node, Kind: h.Kind, Rounds: h.Ticks, Failed: h.Failed, Missed: h.Missed,
			WorstGap: h.WorstGap.Seconds(), WorstMiss: h.WorstMiss.Seconds(),
		}
		if n, ok := m.p.plan.nodes.Node(h.Node); ok && n.Metrics != nil {
			t.GapsAreEvidence = n.Metrics.GapsAreEvidence
		}
		out = append(out, t)
	}
	return out
}

// interrupted is the error of a play that was ended before its end.
func interrupted(ctx context.Context) error {
	return fmt.Errorf("the play was interrupted: %w", context.Cause(ctx))
}
