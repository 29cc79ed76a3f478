package fleet

// Ways in which servers that are added come to the nodes of their cluster. The
// source names recovery when capacity is added as something to be seen to, and
// tells neither how servers came to nodes nor how long they took.
const (
	// JoinSpread shares them out: all nodes get as many of each region, within one.
	// Who gets which is drawn.
	JoinSpread = "spread"
	// JoinOneNode has all of them come to the first node of their cluster.
	JoinOneNode = "one-node"
)

// Joins lists all of them.
var Joins = []string{JoinSpread, JoinOneNode}

// join adds servers that are gone to the fleet: as new ones, each registered under
// a new epoch with the node that it comes to, once the delay is over.
func (f *Fleet) join(added []*server) {
	f.draws.Shuffle(len(added), func(i, j int) { added[i], added[j] = added[j], added[i] })
	next := map[group]int{} // place of the node whose turn it is in a region
	for _, s := range added {
		nodes, g := s.cluster.nodes, s.group()
		if _, begun := next[g]; !begun {
			next[g] = f.draws.IntN(len(nodes))
		}
		s.node = nodes[0]
		if f.config.Joins == JoinSpread {
			s.node = nodes[next[g]%len(nodes)]
		}
		next[g]++
		s.fresh, s.added = true, f.now()
		f.metrics.unused[s.cluster.name].Inc()
		if f.config.JoinAfter == 0 {
			f.arrive(s)
		} else {
			f.schedule(s, f.now()+f.real(f.config.JoinAfter))
		}
	}
}

// arrive registers a server that was added.
func (f *Fleet) arrive(s *server) {
	f.register(s)
	f.metrics.added[s.cluster.name].Inc()
}

// use notes that a server takes a match. If it was added, this may be its first.
func (f *Fleet) use(s *server) {
	if s.fresh {
		f.metrics.firstUse[s.cluster.name].Observe((f.now() - s.added).Seconds())
	}
	f.noLongerFresh(s)
}

// noLongerFresh notes that a server is none of those that were added and not used
// yet: it is used, or goes again.
func (f *Fleet) noLongerFresh(s *server) {
	if s.fresh {
		s.fresh = false
		f.metrics.unused[s.cluster.name].Dec()
	}
}
