package rebalancer

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"

	"relapse/topologies/services/matchmaking"
)

// Order is how many free servers of a region one node shall give to another.
type Order struct {
	Region   string
	From, To string // names of nodes
	Count    int
}

// String writes the order for people.
func (o Order) String() string {
	return fmt.Sprintf("%d of %s from %s to %s", o.Count, o.Region, o.From, o.To)
}

// Settings bound what is planned.
type Settings struct {
	// Tolerance is by how many percent of the mean a node may be over it; two
	// servers over it are always let be.
	Tolerance float64
	// Most is how many servers one order moves at most, 1 or more.
	Most int
}

// Defaults. The source says that sessions are moved in bulk, and not how many.
const (
	DefaultTolerance = 2.0
	DefaultMost      = 400
)

// leastOver is how many servers over the mean are let be, however few there are.
const leastOver = 2

// Plan evens out the free servers of each region over the nodes whose counts there
// are. A node that is over the mean by more than is tolerated gives what it has
// over it to those that are under it: the largest surplus goes where most is
// lacking, so that there are few orders.
//
// In one plan there is one order of a region from one node to another. What does
// not fit into it is left to the next plan, so that no round moves more than a
// bounded part of a list. With that exception there is nothing left to plan once
// all orders are carried out: no server goes back and forth.
func Plan(counts []matchmaking.Counts, s Settings) []Order {
	var out []Order
	for _, region := range regions(counts) {
		out = append(out, planRegion(region, counts, s)...)
	}
	return out
}

// regions gives all that any node has, sorted.
func regions(counts []matchmaking.Counts) []string {
	var out []string
	for _, c := range counts {
		for region := range c.Free {
			out = append(out, region)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// side is a node that gives or that gets.
type side struct {
	node string
	left int // to give, or to get
}

// largestFirst is the order in which they come to their turn; names decide among
// equals, so that a plan depends on the counts alone.
func largestFirst(a, b side) int {
	return cmp.Or(cmp.Compare(b.left, a.left), cmp.Compare(a.node, b.node))
}

func planRegion(region string, counts []matchmaking.Counts, s Settings) []Order {
	givers, getters := sides(region, counts, s)
	given := map[[2]string]bool{}
	var out []Order
	for {
		slices.SortFunc(givers, largestFirst)
		slices.SortFunc(getters, largestFirst)
		from, to := pair(givers, getters, given)
		if from == nil {
			return out
		}
		count := min(from.left, to.left, s.Most)
		from.left -= count
		to.left -= count
		given[[2]string{from.node, to.node}] = true
		out = append(out, Order{Region: region, From: from.node, To: to.node, Count: count})
	}
}

// pair gives the first giver with the first getter that it has given nothing yet;
// nil if there is no such pair.
func pair(givers, getters []side, given map[[2]string]bool) (from, to *side) {
	for i := range givers {
		for j := range getters {
			if givers[i].left > 0 && getters[j].left > 0 && !given[[2]string{givers[i].node, getters[j].node}] {
				return &givers[i], &getters[j]
			}
		}
	}
	return nil, nil
}

// sides says who gives how much and who gets how much. In whole servers, nobody
// gives what it needs for the mean, and nobody gets any who has as much: who gave
// once never gets anything back. What remains of the mean goes to those who get
// something, one each.
func sides(region string, counts []matchmaking.Counts, s Settings) (givers, getters []side) {
	if len(counts) == 0 {
		return nil, nil
	}
	sum := 0
	for _, c := range counts {
		sum += c.Free[region]
	}
	mean := float64(sum) / float64(len(counts))
	tolerated := mean + math.Max(leastOver, mean*s.Tolerance/100)
	// The mean in whole servers.
	lower, upper := sum/len(counts), (sum+len(counts)-1)/len(counts)
	over := 0 // what is given less what is lacking
	for _, c := range counts {
		switch n := c.Free[region]; {
		case float64(n) > tolerated:
			givers = append(givers, side{c.Node, n - upper})
			over += n - upper
		case n < lower:
			getters = append(getters, side{c.Node, lower - n})
			over -= lower - n
		}
	}
	slices.SortFunc(getters, largestFirst)
	for i := range min(max(over, 0), len(getters)) {
		getters[i].left++
	}
	return givers, getters
}

// after gives what nodes have once orders are carried out, and leaves the counts as
// they are. Of nodes that have no counts it says nothing, and none has less than
// nothing: orders that come from other counts may ask for more than there is.
func after(counts []matchmaking.Counts, orders []Order) []matchmaking.Counts {
	out := slices.Clone(counts)
	for i, c := range out {
		out[i].Free = make(map[string]int, len(c.Free))
		maps.Copy(out[i].Free, c.Free)
		for _, o := range orders {
			switch c.Node {
			case o.From:
				out[i].Free[o.Region] = max(0, out[i].Free[o.Region]-o.Count)
			case o.To:
				out[i].Free[o.Region] += o.Count
			}
		}
	}
	return out
}

// spread is how far apart the nodes are in a region: the largest number of free
// servers minus the smallest, over the mean; 0 where nothing is free.
func spread(region string, counts []matchmaking.Counts) float64 {
	if len(counts) == 0 {
		return 0
	}
	least, most, sum := math.MaxInt, 0, 0
	for _, c := range counts {
		n := c.Free[region]
		least, most, sum = min(least, n), max(most, n), sum+n
	}
	if sum == 0 {
		return 0
	}
	return float64(most-least) * float64(len(counts)) / float64(sum)
}
