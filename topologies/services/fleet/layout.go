package fleet

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

// deal makes the servers of all clusters and decides who is where, who is held
// and who is in a match.
//
// Every node of a cluster gets the same number, and every region of a node its
// share, within one. So does what is held, and what is in a match. What is at
// random is which servers these are: nodes list them by number, and the free ones
// of each region are spread among the others.
func deal(c Config, clusters []*cluster, rng *rand.Rand) []*server {
	var all []*server
	for i, cl := range clusters {
		groups := newServers(cl, c.Clusters[i].Servers, c.Regions)
		ofCluster := slices.Concat(groups...)
		rng.Shuffle(len(ofCluster), func(i, j int) { ofCluster[i], ofCluster[j] = ofCluster[j], ofCluster[i] })
		for _, s := range ofCluster {
			all = append(all, s)
			s.id = len(all)
		}
		cl.hold(groups, c.Held)
		var occupied share
		for _, g := range groups {
			there := slices.DeleteFunc(slices.Clone(g), func(s *server) bool { return s.state == held })
			for _, s := range there[:occupied.of(len(there), c.Occupied/100)] {
				s.state = inMatch
				s.left = time.Duration(rng.Float64() * float64(c.Length))
			}
		}
	}
	return all
}

// newServers makes the servers of a cluster, a group for each region of each node.
func newServers(cl *cluster, servers int, regions []Region) [][]*server {
	weights := 0.0
	for _, r := range regions {
		weights += r.Weight
	}
	var groups [][]*server
	var byNode share
	for _, n := range cl.nodes {
		ofNode := byNode.of(servers, 1/float64(len(cl.nodes)))
		var byRegion share
		for _, r := range regions {
			g := make([]*server, byRegion.of(ofNode, r.Weight/weights))
			for i := range g {
				g[i] = &server{cluster: cl, node: n, region: r.Name, state: free}
			}
			groups = append(groups, g)
		}
	}
	return groups
}

// hold holds a percentage of every group. Whatever share of them joins is spread
// over the groups as the servers are, and evenly over the nodes.
func (c *cluster) hold(groups [][]*server, percent float64) {
	regions := len(groups) / len(c.nodes)
	type place struct {
		server *server
		at     float64 // in its group, from 0 to 1
		group  int
	}
	var places []place
	var kept share
	for i, g := range groups {
		n := kept.of(len(g), percent/100)
		for j, s := range g[:n] {
			s.state = held
			places = append(places, place{s, (float64(j) + .5) / float64(n), i})
		}
	}
	slices.SortStableFunc(places, func(a, b place) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.group%regions, b.group%regions), cmp.Compare(a.group, b.group))
	})
	for _, p := range places {
		c.held = append(c.held, p.server)
	}
	c.kept = len(places)
}

// share takes a part of one number after the other so that the sum is right, within
// one half.
type share struct {
	exact float64
	taken int
}

func (s *share) of(n int, part float64) int {
	s.exact += float64(n) * part
	taken := int(math.Round(s.exact)) - s.taken
	s.taken += taken
	return taken
}
