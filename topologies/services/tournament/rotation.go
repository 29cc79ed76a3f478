package tournament

import "relapse/topologies/services/gamehosts"

// rotation takes hosts in turn, each as often as its size says, and spread over the
// round: placing games by turns spreads load better than by readings of CPU, which are
// old (Riot Games, on choosing servers). One that is added gets its share from then on
// and is not flooded.
type rotation struct{ turns []*turn }

type turn struct {
	node int // that the host is on
	gamehosts.Inventory
	credit float64
}

// update sets the hosts of a node.
func (r *rotation) update(node int, hosts []gamehosts.Inventory) {
	var kept []*turn
	for _, t := range r.turns {
		if t.node != node {
			kept = append(kept, t)
		}
	}
	for _, h := range hosts {
		t := &turn{node: node, Inventory: h}
		for _, before := range r.turns {
			if before.node == node && before.Host == h.Host {
				t.credit = before.credit
			}
		}
		kept = append(kept, t)
	}
	r.turns = kept
}

// next gives the host whose turn it is; nil if there is none.
func (r *rotation) next() *turn {
	var best *turn
	sum := 0.0
	for _, t := range r.turns {
		t.credit += t.Capacity
		sum += t.Capacity
		if best == nil || t.credit > best.credit {
			best = t
		}
	}
	if best != nil {
		best.credit -= sum
	}
	return best
}
