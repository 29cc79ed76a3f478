// Package fleet plays all the game servers of a matchmaking topology. It is the
// authority on who is registered with which node and who is in which match, it
// writes the history of both, and it checks the nodes against that history.
//
// What a server does is modelled: it takes a match for as long as the seed says,
// then is away for the relist delay, and burns no CPU. Lengths and delays are in
// documented time and pass faster by the speed, which is the incident's clock;
// timeouts on the network are in real time.
//
// # A server
//
//	       taken          ends          delay is over
//	free ───────▶ match ───────▶ ended ───────────▶ free
//	│    ▲                                          epoch + 1
//	└────┘ moves, or its node restarts: epoch + 1
//
//	                ordered away          added
//	free or ended ───────────────▶ gone ────────▶ free
//	match ────────▶ when it ends                  epoch + 1, at the node it comes to
//
// The rules, each carried out under one lock:
//
//   - Every server is registered with one node under one epoch. The epoch rises
//     by one when the server comes back from a match or is added, when it moves
//     while free, and when its node restarts while it is free. It does not rise in
//     a match, so that the match may be asked for again.
//   - A reservation is taken if the server is free and the epoch is the one that it
//     is registered under. The match that took it may ask again until the server
//     is registered anew, and gets the same answer.
//   - A move is taken for each server that is free under the epoch named, and
//     belongs to the receiver's cluster. What the first request for a transfer to
//     a node was answered, every later one is answered too.
//   - A server that is gone takes no match and does not move. Who goes while free
//     tells nobody, so that its node finds out when it hands it out; who goes after
//     a match is struck off the node's list.
//   - A server counts as free from when its epoch rises. Its node is told in the
//     next listing, and may hand it out before its acknowledgement is back.
//   - What a node has yet to acknowledge is a set of servers, and a listing is
//     made from what they are when it is sent: one that was taken meanwhile is known
//     to the node and not listed again, one that moved away is the receiver's,
//     and one whose epoch has risen is listed under the new one. An acknowledgement
//     counts for a server that is still registered with that node under the
//     epoch that was listed.
//   - A node names its life in every answer. In a new one it knows nobody: all
//     that are registered with it are listed again, those in a match as busy. An
//     answer to a question that was asked before the last restart was noticed says
//     nothing, since either life may have given it.
//
// Matches that are on at the start have a part of their length left. That time
// begins with the first reservation, so that however long the nodes take to start,
// all servers are as they were.
//
// # The checks
//
// Package history states what must not be. The fleet hands it every change, and
// once a second the list of each node.
package fleet

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"relapse/topologies/services/fleet/history"
	"relapse/topologies/services/matchmaking"
)

// printed is how many violations are written out. What matters is how they began;
// the metrics count all of them.
const printed = 20

const pruneEvery = time.Second

// Streams of the seed: what one of them draws does not depend on the others.
const (
	streamLayout = iota
	streamLengths
	streamDraws
)

// Fleet is a running fleet.
type Fleet struct {
	config   Config
	start    time.Time // of the history's clock
	metrics  *metrics
	clusters []*cluster
	nodes    []*node // of all clusters
	byName   map[string]*node

	mu      sync.Mutex // of what follows, and of what servers and nodes are
	servers []*server  // server n is at n-1
	checker *history.Checker
	said    int // violations
	lengths *rand.Rand
	draws   *rand.Rand           // who goes, and where who is added comes to
	losses  map[string]LossState // in force, by name
	due     dueTimes
	begun   bool // somebody has reserved a server
	moved   map[answer][]matchmaking.Entry
}

// cluster is a number of nodes and the servers that are shared out among them.
type cluster struct {
	name  string
	nodes []*node
}

// New makes a fleet whose servers are ready to be registered; its metrics go to
// the registry. The history begins here.
func New(c Config, registry *prometheus.Registry) (*Fleet, error) {
	c, err := c.complete()
	if err != nil {
		return nil, err
	}
	f := &Fleet{
		config: c, start: time.Now(), metrics: newMetrics(c), byName: map[string]*node{},
		lengths: rand.New(rand.NewPCG(c.Seed, streamLengths)), draws: rand.New(rand.NewPCG(c.Seed, streamDraws)),
		losses: map[string]LossState{}, moved: map[answer][]matchmaking.Entry{},
	}
	for _, configured := range c.Clusters {
		cl := &cluster{name: configured.Name}
		for _, peer := range configured.Nodes {
			n := &node{peer: peer, cluster: cl, pending: map[*server]bool{}, struck: map[*server]int64{}, metrics: f.metrics.nodes[peer.Name]}
			cl.nodes = append(cl.nodes, n)
			f.nodes = append(f.nodes, n)
			f.byName[peer.Name] = n
		}
		f.clusters = append(f.clusters, cl)
	}
	f.servers = deal(c, f.clusters, rand.New(rand.NewPCG(c.Seed, streamLayout)))
	f.checker, err = history.New(history.Config{
		Grace: c.Grace, Modes: c.Modes,
		Cluster: func(server int) string { return f.servers[server-1].cluster.name },
	})
	if err != nil {
		return nil, err
	}
	f.metrics.register(registry, f)
	f.open()
	return f, nil
}

// open writes the beginning of the history.
func (f *Fleet) open() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, s := range f.servers {
		f.metrics.servers[s.group()][s.state].Inc()
		s.epoch = 1
		s.node.pending[s] = true
		f.add(history.Registered{At: f.now(), Server: s.id, Region: s.region, Node: s.node.name(), Epoch: s.epoch})
		if s.state == inMatch {
			s.match = fmt.Sprintf("start-%d", s.id)
			f.add(history.Reserved{At: f.now(), Server: s.id, Epoch: s.epoch, Match: s.match})
		}
	}
	for _, n := range f.nodes {
		n.met = len(n.pending) == 0
	}
}

// Run registers the servers and plays them until the context ends.
func (f *Fleet) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return every(ctx, passEvery, f.pass) })
	group.Go(func() error {
		return every(ctx, pruneEvery, func() {
			for _, n := range f.nodes {
				n.peer.Prune(time.Now())
			}
		})
	})
	// Each node has loops of its own, so that one that does not answer holds up
	// nobody else.
	for _, n := range f.nodes {
		group.Go(func() error { return f.list(ctx, n) })
		group.Go(func() error { return every(ctx, bootEvery, func() { f.askBoot(n) }) })
		group.Go(func() error { return every(ctx, f.config.AuditEvery, func() { f.audit(n) }) })
	}
	return group.Wait()
}

// every does something again and again until the context ends. What is due while
// it is being done is done once, afterwards.
func every(ctx context.Context, d time.Duration, do func()) error {
	ticker := time.NewTicker(d)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			do()
		case <-ctx.Done():
			return nil
		}
	}
}

// now is the time of the history.
func (f *Fleet) now() time.Duration { return time.Since(f.start) }

// real is how long a documented time takes.
func (f *Fleet) real(documented time.Duration) time.Duration {
	return time.Duration(float64(documented) / f.config.Speed)
}

// add writes the next event of the history. The lock is held.
func (f *Fleet) add(e history.Event) {
	for _, v := range f.checker.Add(e) {
		f.metrics.violations[v.Invariant].Inc()
		f.said++
		if f.said <= printed {
			fmt.Fprintln(f.config.Violations, "violation", v)
		}
	}
}

// Ready says whether every node has acknowledged the servers that were registered
// with it at the start.
func (f *Fleet) Ready() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, n := range f.nodes {
		if !n.met {
			return false
		}
	}
	return true
}

func (f *Fleet) missing() float64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return float64(f.checker.Missing())
}

func (f *Fleet) stale() float64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return float64(f.checker.Stale())
}
