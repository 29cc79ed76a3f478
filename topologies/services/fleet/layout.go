package fleet

import (
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

// deal makes the servers of all clusters and decides who is where and who is
// in a match.
//
// Every node of a cluster gets the same number, and every region of a node its
// share, within one. So does what is in a match. What is at
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
		var occupied share
		for _, g := range groups {
			for _, s := range g[:occupied.of(len(g), c.Occupied/100)] {
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
