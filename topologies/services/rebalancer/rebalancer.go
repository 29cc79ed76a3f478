// Package rebalancer moves free game servers from matchmaking nodes that have many
// to nodes that have few, all the time and in bulk: what the documented fix does,
// of which no more is published.
//
// Every round it asks all nodes at once for their counts, plans for those that
// answer (see [Plan]), and orders what it has planned. An order goes to the node
// that gives, which sends the servers to the other one itself. All orders of a round
// are given at once, so that a node that is slow to receive holds up no order to
// another one. A round is over when its orders are answered, and the next one does not
// begin before: what is on its way is in nobody's counts.
//
// It can be made to act on counts that are old, as one does whose counts come by way
// of something that collects them. It knows that they are, and what it has ordered
// since: it plans as if that were carried out, since otherwise every round would
// order once more what the first one that saw an imbalance has ordered. What becomes
// of orders, and what the nodes themselves hand out and get back, it does not know
// before the counts say so.
package rebalancer

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"relapse/topologies/services/matchmaking"
)

const (
	// DefaultEvery is the time from one round to the next.
	DefaultEvery = 500 * time.Millisecond
	// countsWithin is how long a node has to say what it has.
	countsWithin = 400 * time.Millisecond
	// orderWithin is how long a round waits for its orders to be carried out. What
	// takes longer goes on, and later rounds see what came of it.
	orderWithin = time.Second
)

// Config is what a rebalancer is made of.
type Config struct {
	Nodes []*matchmaking.Peer
	Every time.Duration // from one round to the next
	Settings
	// CountsAge has it act on counts that are that old: on what was read in the
	// last round that is so long ago, as if all that was ordered since were carried
	// out. Until there was one it plans nothing.
	CountsAge time.Duration
	// Defect is one of [Defects], or "" for none.
	Defect string
}

// Rebalancer is a running rebalancer.
type Rebalancer struct {
	Config
	metrics *metrics
	rounds  int
	read    []reading // not older than what is needed, the oldest first
	given   []given   // since the oldest of those, the oldest first
}

// reading is what the nodes that answered had in one round.
type reading struct {
	at     time.Time
	counts []matchmaking.Counts
}

// given is what was ordered in one round.
type given struct {
	at     time.Time // of the round's reading, which was before
	orders []Order
}

// New makes a rebalancer; its metrics go to the registry.
func New(c Config, registry *prometheus.Registry) (*Rebalancer, error) {
	switch {
	case len(c.Nodes) < 2:
		return nil, fmt.Errorf("rebalancer: %d nodes: want 2 or more, between which servers can be moved", len(c.Nodes))
	case c.Every <= 0:
		return nil, fmt.Errorf("rebalancer: every %v: want more than zero", c.Every)
	case !(c.Tolerance >= 0) || math.IsInf(c.Tolerance, 0):
		return nil, fmt.Errorf("rebalancer: a tolerance of %v percent: want 0 or more", c.Tolerance)
	case c.Most < 1:
		return nil, fmt.Errorf("rebalancer: %d servers an order at most: want 1 or more", c.Most)
	case c.CountsAge < 0:
		return nil, fmt.Errorf("rebalancer: counts of an age of %v: want 0 or more", c.CountsAge)
	case c.Defect != "" && !slices.Contains(Defects, c.Defect):
		return nil, fmt.Errorf("rebalancer: no defect %q; known: %s", c.Defect, strings.Join(Defects, ", "))
	}
	seen := map[string]bool{}
	for _, n := range c.Nodes {
		if seen[n.Name] {
			return nil, fmt.Errorf("rebalancer: node %s is there twice", n.Name)
		}
		seen[n.Name] = true
	}
	return &Rebalancer{Config: c, metrics: newMetrics(c.Nodes, registry)}, nil
}

// Run plays rounds until the context ends, and the last one to its end, which takes
// 1.4 s at most. It can be called once.
func (r *Rebalancer) Run(ctx context.Context) error {
	tick := time.NewTicker(r.Every)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			r.round()
		case <-ctx.Done():
			return nil
		}
	}
}

func (r *Rebalancer) round() {
	now := time.Now()
	fresh := r.ask(now.Add(countsWithin))
	for _, region := range regions(fresh) {
		r.metrics.spread.WithLabelValues(region).Set(spread(region, fresh))
	}
	orders := r.plan(r.known(reading{now, fresh}))
	r.given = append(r.given, given{now, orders})
	deadline := time.Now().Add(orderWithin)
	var group errgroup.Group
	for _, o := range orders {
		group.Go(func() error {
			r.metrics.orders[r.order(o, deadline)].Inc()
			return nil // what did not come about is seen in the next counts
		})
	}
	_ = group.Wait() // always nil
	r.rounds++
	r.metrics.rounds.Inc()
}

// ask reads the counts of all nodes at once and gives those of the nodes that
// answered, in the nodes' order.
func (r *Rebalancer) ask(deadline time.Time) []matchmaking.Counts {
	answers := make([]*matchmaking.Counts, len(r.Nodes))
	var group errgroup.Group
	for i, n := range r.Nodes {
		group.Go(func() error {
			var counts matchmaking.Counts
			if err := n.Call(http.MethodGet, "/counts", nil, &counts, deadline); err != nil {
				r.metrics.failed[n.Name].Inc()
				return nil // nothing is planned for it in this round
			}
			counts.Node = n.Name // what orders call it, whatever it calls itself
			answers[i] = &counts
			return nil
		})
	}
	_ = group.Wait() // always nil
	var out []matchmaking.Counts
	for _, a := range answers {
		if a != nil {
			out = append(out, *a)
		}
	}
	return out
}

// known adds what was read now and gives the counts to act on: the latest of those
// that are old enough, as they are after what was ordered since. Where they are
// those of now, nothing was.
func (r *Rebalancer) known(now reading) []matchmaking.Counts {
	r.read = append(r.read, now)
	at := -1
	for i, old := range r.read {
		if now.at.Sub(old.at) >= r.CountsAge {
			at = i
		}
	}
	if at < 0 {
		return nil
	}
	r.read = slices.Delete(r.read, 0, at)
	counts, since := r.read[0].counts, r.read[0].at
	r.given = slices.DeleteFunc(r.given, func(g given) bool { return g.at.Before(since) })
	for _, g := range r.given {
		counts = after(counts, g.orders)
	}
	return counts
}

// plan is what a round orders.
func (r *Rebalancer) plan(counts []matchmaking.Counts) []Order {
	if r.Defect == Unbounded {
		return shift(counts, r.rounds)
	}
	return Plan(counts, r.Settings)
}

// order gives one order and says what became of it.
func (r *Rebalancer) order(o Order, deadline time.Time) (outcome string) {
	giver := r.Nodes[slices.IndexFunc(r.Nodes, func(n *matchmaking.Peer) bool { return n.Name == o.From })]
	give := matchmaking.Give{Region: o.Region, Count: o.Count, To: o.To}
	err := giver.Call(http.MethodPost, "/gives", give, nil, deadline)
	var said *matchmaking.StatusError
	switch {
	case err == nil:
		return carriedOut
	case errors.As(err, &said):
		return refused
	}
	return failed
}
