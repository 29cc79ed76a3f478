package rebalancer

import "relapse/topologies/services/matchmaking"

// Unbounded is a defect, to show that a bound on moves is checked: in each round
// one node gives all that it has to the next one, whatever they have.
const Unbounded = "unbounded"

// Defects lists what a rebalancer can be told to do wrong.
var Defects = []string{Unbounded}

// shift is what a rebalancer plans in a round that moves everything on. The nodes
// take turns.
func shift(counts []matchmaking.Counts, round int) []Order {
	if len(counts) < 2 {
		return nil
	}
	from, to := counts[round%len(counts)], counts[(round+1)%len(counts)]
	var out []Order
	for _, region := range regions(counts) {
		if n := from.Free[region]; n > 0 {
			out = append(out, Order{Region: region, From: from.Node, To: to.Node, Count: n})
		}
	}
	return out
}
