package front

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"relapse/topologies/services"
	"relapse/topologies/services/matchmaking"
)

// route is where the requests of a mode go: round its nodes, one after the other.
// A skewed route sends a share of them to one of its nodes and goes round the
// others.
//
// Each region has a round of its own. Players who come evenly spaced come in a
// pattern, and in one round for all of them a node could get the same region
// every time.
type route struct {
	mode   string
	nodes  []*matchmaking.Peer
	sent   []services.Recent // to the node of the same place
	skew   *skew             // nil for a route that has none
	rounds map[string]*round
	begin  *rand.Rand // decides where each round begins
}

// round is the turns of one region's requests.
type round struct {
	next   int   // place of the node whose turn is next
	skewed share // of the route's skew
}

// mostRounds are more than there are regions; what players make up beyond them
// has one round together.
const mostRounds = 64

// reservedInModes are the characters that mean something where modes are written.
const reservedInModes = "/=:, "

func (f *Front) addRoutes(c Config) error {
	named := map[string]*matchmaking.Peer{}
	for _, mode := range f.modes {
		nodes := c.Routes[mode]
		switch {
		case mode == "" || strings.ContainsAny(mode, reservedInModes):
			return fmt.Errorf("route %q: want the name of a mode, without any of %q", mode, reservedInModes)
		case mode == unrouted:
			return fmt.Errorf("route %s: the name is what requests of modes without a route are counted under", mode)
		case len(nodes) == 0:
			return fmt.Errorf("route %s: no node", mode)
		}
		seen := map[string]bool{}
		for _, n := range nodes {
			switch {
			case seen[n.Name]:
				return fmt.Errorf("route %s: node %s is there twice", mode, n.Name)
			case named[n.Name] != nil && named[n.Name] != n:
				return fmt.Errorf("route %s: two nodes are named %s", mode, n.Name)
			}
			seen[n.Name], named[n.Name] = true, n
		}
		f.routes[mode] = &route{
			mode: mode, nodes: nodes, sent: make([]services.Recent, len(nodes)),
			rounds: map[string]*round{}, begin: random(c.Seed, "rounds of "+mode),
		}
	}
	return nil
}

// take gives the node that the next request of a region goes to and counts it
// there. The front is locked.
func (r *route) take(region string, now time.Duration) *matchmaking.Peer {
	at := r.turn(r.round(region))
	r.sent[at].Add(now)
	return r.nodes[at]
}

func (r *route) round(region string) *round {
	if r.rounds[region] == nil && len(r.rounds) >= mostRounds {
		region = ""
	}
	if r.rounds[region] == nil {
		r.rounds[region] = &round{next: r.begin.IntN(len(r.nodes)), skewed: r.freshShare()}
	}
	return r.rounds[region]
}

func (r *route) turn(of *round) int {
	if r.skew != nil && of.skewed.takes() {
		return r.place(r.skew.to)
	}
	// A route with a skew has other nodes as well.
	for {
		at := of.next
		of.next = (of.next + 1) % len(r.nodes)
		if r.skew == nil || r.nodes[at].Name != r.skew.to {
			return at
		}
	}
}

// setSkew has the route follow a skew, or none.
func (r *route) setSkew(s *skew) {
	r.skew = s
	for _, of := range r.rounds {
		of.skewed = r.freshShare()
	}
}

// freshShare is the skew's, of which nothing has been taken yet.
func (r *route) freshShare() share {
	if r.skew == nil {
		return share{}
	}
	return newShare(r.skew.of, 0)
}

// place gives where a node is in the route, -1 for one that is not.
func (r *route) place(node string) int {
	for at, n := range r.nodes {
		if n.Name == node {
			return at
		}
	}
	return -1
}
