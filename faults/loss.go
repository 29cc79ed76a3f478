package faults

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"relapse/topologies"
	"relapse/topologies/relay"
)

func init() {
	Register(Kind{
		Name:    "loss",
		Group:   GroupLink,
		Summary: "A share of the packets is lost",
		Doc: `The packet filter loses each packet of the link with the given chance, in each direction
on its own, of open connections and of new ones. TCP repeats what was lost: a small
exchange then takes 200 ms longer or more, a new connection 1 s. Which packets are lost is
the kernel's draw: two plays of one seed lose different ones.`,
		Seen: `exchanges are repeated over the link, up to the number at which none would meet a loss
in one look of a thousand. One of them takes 150 ms longer than the quickest, as the
retransmission of a lost packet does, and the kernel's count of packets that it dropped on
the link has grown meanwhile.`,
		Example: `links: ["client -> server"]
percent: 5%`,
	}, func() Fault { return &loss{} })
}

type loss struct {
	Links   `yaml:",inline"`
	Percent Percent `yaml:"percent" doc:"of packets, from 0.1% to 50%"`
}

const (
	leastLoss = 0.1
	mostLoss  = 50
	// retransmission is what a lost packet adds to an exchange, less some noise:
	// Linux waits for 200 ms at least.
	retransmission = 150 * time.Millisecond
)

func (f *loss) Validate() error {
	if err := f.validate(); err != nil {
		return err
	}
	switch {
	case f.Percent == 0:
		return &FieldError{"percent", "is missing or zero", "write percent: 2%"}
	case f.Percent < leastLoss:
		return &FieldError{"percent", fmt.Sprintf("is %s: less than %v%% cannot be seen within a second", f.Percent, leastLoss), "write percent: 2%"}
	case f.Percent > mostLoss:
		return &FieldError{"percent", fmt.Sprintf("is %s, above %v%%: hardly a connection would come about", f.Percent, mostLoss), "use the kind blackhole to lose everything"}
	}
	return nil
}

type armedLoss struct {
	*onLinks
	exchanges int // of a look
}

func (f *loss) Arm(ctx context.Context, sys *topologies.System, rng *rand.Rand) (Armed, error) {
	a, name, err := f.arm(sys, "loss", rng)
	if err != nil {
		return nil, err
	}
	if err := a.needAnswers(); err != nil {
		return nil, err
	}
	if err := a.needRule(ctx, relay.Loss); err != nil {
		return nil, err
	}
	a.change.rules = []relay.Rule{{Name: name, Action: relay.Loss, Percent: float64(f.Percent)}}
	// A question and an answer are two packets that may be lost.
	unseen := math.Log(1-float64(f.Percent)/100) * 2
	armed := &armedLoss{a, int(math.Ceil(math.Log(0.001) / unseen))}
	a.look = armed.loses
	return armed, nil
}

// SeenWithin leaves room for looks at several thousand exchanges.
func (a *armedLoss) SeenWithin() time.Duration { return 5 * time.Second }

func (a *armedLoss) loses(ctx context.Context, p *probe) (bool, error) {
	before, err := a.lost(ctx, p)
	if err != nil {
		return false, err
	}
	slow, err := a.meetsDelay(ctx, p)
	if err != nil || !slow {
		return false, err
	}
	after, err := a.lost(ctx, p)
	return after > before, err
}

// lost is how many packets this fault has lost on a link, as the kernel counts.
func (a *armedLoss) lost(ctx context.Context, p *probe) (uint64, error) {
	state, err := a.relay.State(ctx, p.link.String())
	if err != nil {
		return 0, fmt.Errorf("link %s: %w", p.link, err)
	}
	i := slices.IndexFunc(state.Rules, func(r relay.RuleState) bool { return r.Name == a.change.rules[0].Name })
	if i < 0 {
		return 0, nil
	}
	return state.Rules[i].Packets, nil
}

// meetsDelay repeats exchanges on four connections until one of them takes as
// long as a retransmission, or there have been enough without.
func (a *armedLoss) meetsDelay(ctx context.Context, p *probe) (bool, error) {
	const lanes = 4
	var slow atomic.Bool
	var group errgroup.Group
	for range lanes {
		group.Go(func() error {
			began := time.Now()
			conn, err := p.over(ctx)
			if err != nil {
				return outer(ctx, fmt.Errorf("link %s: %w", p.link, err))
			}
			defer conn.Close()
			if time.Since(began) > retransmission {
				slow.Store(true)
				return nil
			}
			quickest := time.Hour
			for range (a.exchanges + lanes - 1) / lanes {
				if slow.Load() {
					return nil
				}
				took, err := exchangeOn(ctx, conn, p.ask, 2*retransmission)
				switch {
				case err == nil && took < quickest+retransmission:
					quickest = min(quickest, took)
				case err == nil || unanswered(err):
					slow.Store(true)
					return nil
				default:
					return fmt.Errorf("link %s: %w", p.link, err)
				}
			}
			return nil
		})
	}
	err := group.Wait()
	return slow.Load(), err
}
