package replays

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"time"

	"relapse/replays/samples"
)

// toolNode is the node label of what the tool measures of its own machine.
const toolNode = "relapse"

// measuring is the scraping of a play's nodes while it runs.
type measuring struct {
	p      *play
	cancel context.CancelFunc
	done   chan struct{}
}

// measure starts to scrape every node: over its own protocol where the compose
// file says how, and what its container uses; and the machine itself.
func (p *play) measure(machine *noise) (*measuring, error) {
	targets := []*samples.Target{samples.NewFunc(toolNode, "machine", machine.sample)}
	for _, n := range p.plan.nodes.Nodes {
		instance, err := p.sys.Instance(n.Name)
		if err != nil {
			return nil, err
		}
		targets = append(targets, samples.NewFunc(n.Name, "container", func() (map[string]float64, error) {
			u, err := instance.Usage()
			if err != nil {
				return nil, err
			}
			return map[string]float64{
				"relapse_container_cpu_seconds_total":           u.CPUSeconds,
				"relapse_container_cpu_throttled_seconds_total": u.ThrottledSeconds,
				"relapse_container_memory_bytes":                float64(u.MemoryBytes),
			}, nil
		}))
		if n.Metrics == nil {
			continue
		}
		target, err := samples.NewTarget(samples.Endpoint{
			Node: n.Name, Kind: n.Metrics.Kind, Path: n.Metrics.Path,
			Address: net.JoinHostPort(instance.Address().String(), strconv.Itoa(int(n.Metrics.Port))),
		})
		if err != nil {
			return nil, err
		}
		targets = append(targets, target)
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

// stop ends the scraping, one period after the last phase so that its end is
// measured, and says how it went between two moments.
func (m *measuring) stop(from, to time.Time) []TargetHealth {
	last := time.NewTimer(time.Until(to.Add(samples.Period)))
	<-last.C
	m.cancel()
	<-m.done
	var out []TargetHealth
	for _, h := range m.p.store.Health(from, to, gapBound) {
		if h.Kind == "container" {
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
