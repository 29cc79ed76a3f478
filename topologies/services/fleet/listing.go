package fleet

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"
	"time"

	"relapse/topologies/services"
	"relapse/topologies/services/fleet/history"
	"relapse/topologies/services/matchmaking"
)

// Times of what the fleet says to nodes, real time.
const (
	listEvery   = 50 * time.Millisecond
	listWithin  = time.Second
	retryAfter  = 100 * time.Millisecond // a listing that failed
	bootEvery   = 250 * time.Millisecond
	bootWithin  = 500 * time.Millisecond
	auditWithin = time.Second
)

// node is a matchmaking node as the fleet knows it.
type node struct {
	peer    *matchmaking.Peer
	cluster *cluster
	metrics nodeMetrics

	boot    string           // of its present life; none before its first answer
	life    int              // number of that life
	pending map[*server]bool // what it has yet to acknowledge
	// struck is whom it has yet to strike off its list, with the epochs that it has
	// them under. They may be registered again by then, here or elsewhere.
	struck  map[*server]int64
	met     bool // it has acknowledged something
	failing bool // its last listing was not acknowledged
}

func (n *node) name() string { return n.peer.Name }

// errNoBoot says that an answer does not tell the lives of a node apart.
var errNoBoot = errors.New("the answer names no boot")

// list tells a node what it has yet to acknowledge, again and again. At most one
// listing is on its way.
func (f *Fleet) list(ctx context.Context, n *node) error {
	ticker := time.NewTicker(listEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil
		}
		entries, life := f.batch(n)
		if len(entries) == 0 {
			continue
		}
		var boot matchmaking.Boot
		err := n.peer.Call(http.MethodPost, "/servers", matchmaking.Listing{Entries: entries}, &boot, time.Now().Add(listWithin))
		if err == nil && boot.Boot == "" {
			err = errNoBoot
		}
		f.listed(n, life, entries, boot.Boot, err)
		if err != nil {
			services.Wait(ctx, retryAfter)
		}
	}
}

// batch gives what a node has yet to acknowledge, as it is now, and the life that
// is told.
func (f *Fleet) batch(n *node) (entries []matchmaking.Entry, life int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	byID := func(a, b *server) int { return cmp.Compare(a.id, b.id) }
	for _, s := range slices.SortedFunc(maps.Keys(n.struck), byID) {
		entries = append(entries, matchmaking.Entry{Server: s.id, Region: s.region, Epoch: n.struck[s], Gone: true})
	}
	for _, s := range slices.SortedFunc(maps.Keys(n.pending), byID) {
		entries = append(entries, s.entry())
	}
	return entries, n.life
}

// listed notes what became of a listing.
func (f *Fleet) listed(n *node, life int, entries []matchmaking.Entry, boot string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err != nil {
		n.metrics.failures.Inc()
		if !n.failing {
			f.config.Log.Warn("a listing failed; it is sent again until it is acknowledged", "node", n.name(), "error", err)
		}
		n.failing = true
		return
	}
	n.failing = false
	if !f.answered(n, life, boot) {
		return // its new life is told anew
	}
	n.met = true
	for _, e := range entries {
		s := f.server(e.Server)
		if e.Gone {
			if n.struck[s] == e.Epoch {
				delete(n.struck, s)
			}
			continue
		}
		if s.node != n || s.epoch != e.Epoch || !n.pending[s] {
			continue
		}
		f.settle(s)
		if s.state == free {
			f.add(history.Acknowledged{At: f.now(), Server: s.id, Node: n.name(), Epoch: s.epoch})
		}
	}
}

// settle notes that a server's node knows of it.
func (f *Fleet) settle(s *server) {
	if s.node.pending[s] {
		delete(s.node.pending, s)
		s.node.metrics.registrations.Inc()
	}
}

// askBoot finds out whether a node has restarted.
func (f *Fleet) askBoot(n *node) {
	life := f.lifeOf(n)
	var boot matchmaking.Boot
	if n.peer.Call(http.MethodGet, "/boot", nil, &boot, time.Now().Add(bootWithin)) != nil {
		return // it will answer when it is back
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.answered(n, life, boot.Boot)
}

func (f *Fleet) lifeOf(n *node) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return n.life
}

// answered notes from which life of a node an answer came, to a question that was
// asked in one that the fleet knew of. It gives whether both are the same and the
// present one; a restart is seen to.
func (f *Fleet) answered(n *node, life int, boot string) bool {
	switch {
	case life != n.life || boot == "":
		return false
	case n.boot == "":
		n.boot = boot
	case n.boot != boot:
		f.restarted(n, boot)
		return false
	}
	return true
}

// restarted has everybody registered with a node be listed with it again.
func (f *Fleet) restarted(n *node, boot string) {
	n.boot = boot
	n.life++
	clear(n.struck)
	f.add(history.Restarted{At: f.now(), Node: n.name()})
	count := 0
	for _, s := range f.servers {
		if s.node != n || s.state == gone {
			continue
		}
		count++
		if s.state == free {
			f.register(s)
		}
		n.pending[s] = true
	}
	n.metrics.reregistrations.Add(float64(count))
	f.config.Log.Info("a node has restarted; its servers are registered anew", "node", n.name(), "servers", count)
}
