package rebalancer_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"relapse/topologies/services/matchmaking"
	"relapse/topologies/services/rebalancer"
)

var usual = rebalancer.Settings{Tolerance: rebalancer.DefaultTolerance, Most: rebalancer.DefaultMost}

// nodes are the counts of nodes a, b, c, ... in one region.
func nodes(region string, free ...int) []matchmaking.Counts {
	var out []matchmaking.Counts
	for i, n := range free {
		out = append(out, matchmaking.Counts{Node: string(rune('a' + i)), Free: map[string]int{region: n}})
	}
	return out
}

func TestPlan(t *testing.T) {
	for _, c := range []struct {
		name     string
		counts   []matchmaking.Counts
		settings rebalancer.Settings
		want     string
	}{
		{"nobody answered", nil, usual, "[]"},
		{"one node", nodes("eu", 500), usual, "[]"},
		{"nothing is free", nodes("eu", 0, 0, 0), usual, "[]"},
		{"all the same", nodes("eu", 100, 100, 100, 100), usual, "[]"},
		{"one server over the mean", nodes("eu", 10, 10, 11), usual, "[]"},
		{"two servers over the mean", nodes("eu", 12, 9, 9), usual, "[]"},
		{"three servers over the mean", nodes("eu", 13, 10, 7), usual, "[3 of eu from a to c]"},
		{"within two percent", nodes("eu", 1020, 990, 990), usual, "[]"},
		{"over two percent", nodes("eu", 1021, 990, 989), usual, "[11 of eu from a to c 10 of eu from a to b]"},
		{"within a tolerance of ten percent", nodes("eu", 1100, 950, 950), rebalancer.Settings{Tolerance: 10, Most: 400}, "[]"},
		{"one is empty", nodes("eu", 0, 120, 120, 120), usual, "[30 of eu from b to a 30 of eu from c to a 30 of eu from d to a]"},
		{"one has all", nodes("eu", 400, 0, 0, 0), usual, "[100 of eu from a to b 100 of eu from a to c 100 of eu from a to d]"},
		{"two have all", nodes("eu", 300, 0, 0, 100), usual, "[100 of eu from a to b 100 of eu from a to c]"},
		{"largest to largest", nodes("eu", 150, 210, 50, 0, 90), usual, "[100 of eu from b to d 50 of eu from a to c 10 of eu from b to e]"},
		{"one that is under, and many that are a little over", nodes("eu", 97, 101, 101, 101), usual, "[]"},
		{"what does not divide stays where most is", nodes("eu", 11, 0, 0), usual, "[4 of eu from a to b 3 of eu from a to c]"},
		{"more than an order may move", nodes("eu", 2000, 0), usual, "[400 of eu from a to b]"},
		{"more than an order may move, to several", nodes("eu", 3000, 0, 0), usual, "[400 of eu from a to b 400 of eu from a to c]"},
		{"a newcomer", nodes("eu", 900, 900, 900, 0), rebalancer.Settings{Tolerance: 2, Most: 100},
			"[100 of eu from a to d 100 of eu from b to d 100 of eu from c to d]"},
		{"each region by itself", []matchmaking.Counts{
			{Node: "a", Free: map[string]int{"na": 100, "eu": 0}},
			{Node: "b", Free: map[string]int{"na": 0, "eu": 60}},
		}, usual, "[30 of eu from b to a 50 of na from a to b]"},
		{"a region that a node does not speak of", []matchmaking.Counts{
			{Node: "a", Free: map[string]int{"na": 40}}, {Node: "b", Free: map[string]int{}},
		}, usual, "[20 of na from a to b]"},
	} {
		if have := fmt.Sprint(rebalancer.Plan(c.counts, c.settings)); have != c.want {
			t.Errorf("%s: have %s, want %s", c.name, have, c.want)
		}
	}
}

// carryOut does what orders say, and says whether each could be done.
func carryOut(counts []matchmaking.Counts, orders []rebalancer.Order) (after []matchmaking.Counts, err error) {
	for _, c := range counts {
		free := map[string]int{}
		for region, n := range c.Free {
			free[region] = n
		}
		after = append(after, matchmaking.Counts{Node: c.Node, Free: free})
	}
	find := func(name string) int {
		return slices.IndexFunc(after, func(c matchmaking.Counts) bool { return c.Node == name })
	}
	for _, o := range orders {
		from, to := find(o.From), find(o.To)
		switch {
		case from < 0 || to < 0:
			return nil, fmt.Errorf("%s: one of them did not answer", o)
		case from == to:
			return nil, fmt.Errorf("%s: they are the same", o)
		case o.Count < 1:
			return nil, fmt.Errorf("%s: nothing is moved", o)
		case after[from].Free[o.Region] < o.Count:
			return nil, fmt.Errorf("%s, which has %d", o, after[from].Free[o.Region])
		}
		after[from].Free[o.Region] -= o.Count
		after[to].Free[o.Region] += o.Count
	}
	return after, nil
}

func TestAfter(t *testing.T) {
	eu := func(count int, from, to string) rebalancer.Order {
		return rebalancer.Order{Region: "eu", From: from, To: to, Count: count}
	}
	for _, c := range []struct {
		name   string
		counts []matchmaking.Counts
		orders []rebalancer.Order
		want   []matchmaking.Counts
	}{
		{"nothing is ordered", nodes("eu", 10, 20), nil, nodes("eu", 10, 20)},
		{"nobody answered", nil, []rebalancer.Order{eu(5, "a", "b")}, nil},
		{"one order", nodes("eu", 10, 20), []rebalancer.Order{eu(5, "b", "a")}, nodes("eu", 15, 15)},
		{"one after the other", nodes("eu", 10, 20, 0), []rebalancer.Order{eu(5, "b", "a"), eu(15, "a", "c"), eu(1, "b", "c")}, nodes("eu", 0, 14, 16)},
		{"more than there is", nodes("eu", 10, 20), []rebalancer.Order{eu(15, "a", "b")}, nodes("eu", 0, 35)},
		{"to one without counts", nodes("eu", 10, 20), []rebalancer.Order{eu(5, "a", "z")}, nodes("eu", 5, 20)},
		{"from one without counts", nodes("eu", 10, 20), []rebalancer.Order{eu(5, "z", "a")}, nodes("eu", 15, 20)},
		{
			"of a region that the other one does not speak of",
			[]matchmaking.Counts{{Node: "a", Free: map[string]int{"eu": 10, "na": 1}}, {Node: "b"}}, []rebalancer.Order{eu(4, "a", "b")},
			[]matchmaking.Counts{{Node: "a", Free: map[string]int{"eu": 6, "na": 1}}, {Node: "b", Free: map[string]int{"eu": 4}}},
		},
	} {
		before := fmt.Sprint(c.counts)
		if have, want := fmt.Sprint(rebalancer.After(c.counts, c.orders)), fmt.Sprint(c.want); have != want {
			t.Errorf("%s: have %s, want %s", c.name, have, want)
		}
		if have := fmt.Sprint(c.counts); have != before {
			t.Errorf("%s: the counts that it began with: have %s, want %s", c.name, have, before)
		}
	}
}

func sum(counts []matchmaking.Counts, region string) (n int) {
	for _, c := range counts {
		n += c.Free[region]
	}
	return n
}

// Whatever nodes have: servers are conserved, nobody gives what it does not have,
// and once all is carried out nothing is left to do.
func TestPlanOfAnything(t *testing.T) {
	const seed = 7
	random := rand.New(rand.NewPCG(seed, 0))
	for n := range 2000 {
		var counts []matchmaking.Counts
		for i := range 1 + random.IntN(8) {
			counts = append(counts, matchmaking.Counts{Node: fmt.Sprint("mms-", i), Free: map[string]int{
				"na": random.IntN(1 + random.IntN(3000)), "eu": random.IntN(1 + random.IntN(30)),
			}})
		}
		s := rebalancer.Settings{Tolerance: float64(random.IntN(10)), Most: 1 << 20}
		after, err := carryOut(counts, rebalancer.Plan(counts, s))
		if err != nil {
			t.Fatalf("%d of seed %d: %v: %v", n, seed, counts, err)
		}
		for _, region := range []string{"na", "eu"} {
			if have, want := sum(after, region), sum(counts, region); have != want {
				t.Fatalf("%d of seed %d: %v: have %d in %s after the plan, want %d", n, seed, counts, have, region, want)
			}
		}
		if again := rebalancer.Plan(after, s); len(again) != 0 {
			t.Fatalf("%d of seed %d: %v: a second plan has %v, want nothing", n, seed, counts, again)
		}
	}
}

// Orders that are cut short lead to the same in more rounds, and no node that gave
// gets anything back.
func TestPlansWithSmallOrdersComeToAnEnd(t *testing.T) {
	const seed = 11
	random := rand.New(rand.NewPCG(seed, 0))
	for n := range 200 {
		counts := nodes("eu", random.IntN(500), random.IntN(500), random.IntN(500), random.IntN(500))
		s := rebalancer.Settings{Tolerance: 2, Most: 20}
		gave := map[string]bool{}
		rounds := 0
		for after := counts; ; rounds++ {
			orders := rebalancer.Plan(after, s)
			if len(orders) == 0 {
				break
			}
			for _, o := range orders {
				gave[o.From] = true
				if gave[o.To] || o.Count > s.Most {
					t.Fatalf("%d of seed %d: %v: %s, want no more than %d and none for one that gave", n, seed, counts, o, s.Most)
				}
			}
			var err error
			if after, err = carryOut(after, orders); err != nil {
				t.Fatalf("%d of seed %d: %v: %v", n, seed, counts, err)
			}
		}
		if rounds > 25 { // of 20 servers each from one node to another
			t.Errorf("%d of seed %d: %v: %d rounds", n, seed, counts, rounds)
		}
	}
}
