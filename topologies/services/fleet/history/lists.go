package history

import (
	"fmt"
	"slices"
	"time"

	"relapse/topologies/services/matchmaking"
)

// node is what the snapshots of a node's list say.
type node struct {
	name  string
	asked time.Duration // for the latest snapshot; a restart counts like one
	round int           // number of the latest snapshot
	stale int           // entries in it
	wrong map[complaint]bool
}

// complaint is a violation that a snapshot shows. As long as the next one shows it
// too, it is the same.
type complaint struct {
	invariant string
	server    int
}

// sighting is a server in the list of one node under an epoch, in one round and
// in those before it without a gap.
type sighting struct {
	node    *node
	epoch   int64
	round   int // the last one that it was seen in
	times   int // in that round
	inRow   int // rounds up to that one
	doubles int // of these, the last ones in which it was there more than once
}

func (c *Checker) node(name string) *node {
	n := c.nodes[name]
	if n == nil {
		n = &node{name: name, asked: -1}
		c.nodes[name] = n
	}
	return n
}

// restart begins a new life. It leaves a gap in the rounds: what was seen in the
// life before is not in a row with what comes.
func (n *node) restart(at time.Duration) {
	n.asked, n.stale, n.wrong = at, 0, nil
	n.round++
}

func (c *Checker) seen(e Seen) (found []Violation) {
	n := c.node(e.Node)
	if e.Began <= n.asked {
		return nil // late
	}
	n.asked, n.stale = e.Began, 0
	n.round++
	wrong := map[complaint]bool{}
	complain := func(s *server, invariant, says string) {
		is := complaint{invariant, s.id}
		if !n.wrong[is] && !wrong[is] {
			found = append(found, s.violation(invariant, n.name, says, e.At))
		}
		wrong[is] = true
	}
	for _, entry := range e.Entries {
		s := c.servers[entry.Server]
		if s == nil || !s.registered {
			complain(&server{id: entry.Server}, Unknown, "it is listed, and there is no such server")
			continue
		}
		if entry.Region != s.region {
			complain(s, Region, fmt.Sprintf("it is listed for %s and is in %s", entry.Region, s.region))
		}
		if entry.Epoch != s.epoch || !s.free() {
			// What changed after the question may have changed after the answer.
			if entry.State == matchmaking.Free && s.changed <= e.Began {
				n.stale++
			}
			continue
		}
		if says := s.sight(n); says != "" && !s.doubled {
			s.doubled = true
			found = append(found, s.violation(ListedTwice, n.name, says, e.At))
		}
	}
	n.wrong = wrong
	return append(found, c.lost(n, e)...)
}

// lost looks for the servers that the node's list should have.
func (c *Checker) lost(n *node, e Seen) (found []Violation) {
	for _, s := range c.ordered {
		switch {
		case s.home != n || !s.free() || !s.acknowledged:
		case s.listed(n):
			c.found(s)
		case e.Began-s.changed >= c.config.Grace:
			s.missed++
			if s.missed < rounds || s.lost {
				continue
			}
			s.lost = true
			c.missing++
			found = append(found, s.violation(Lost, n.name, fmt.Sprintf(
				"it is free under epoch %d, and not in the list of its node as of %s, nor in the one before", s.epoch, seconds(e.Began)), e.At))
		}
	}
	return found
}

// listed says whether the latest snapshot of a node has the server under its
// current epoch.
func (s *server) listed(n *node) bool {
	return slices.ContainsFunc(s.sightings, func(g sighting) bool {
		return g.node == n && g.epoch == s.epoch && g.round == n.round
	})
}

// sight notes that the server is in the latest snapshot of a node under its
// current epoch, and says how it is listed twice if it is.
func (s *server) sight(n *node) (twice string) {
	i := slices.IndexFunc(s.sightings, func(g sighting) bool { return g.node == n })
	if i < 0 {
		i = len(s.sightings)
		s.sightings = append(s.sightings, sighting{node: n, round: -1})
	}
	g := &s.sightings[i]
	switch same := g.epoch == s.epoch; {
	case same && g.round == n.round:
		g.times++
		if g.times == 2 {
			g.doubles++
		}
	case same && g.round == n.round-1:
		g.inRow++
		if g.times < 2 {
			g.doubles = 0
		}
		g.round, g.times = n.round, 1
	default:
		*g = sighting{node: n, epoch: s.epoch, round: n.round, times: 1, inRow: 1}
	}
	if g.times > 1 && g.doubles >= rounds {
		return fmt.Sprintf("it is %d times in one list under epoch %d, and was so in the snapshot before", g.times, s.epoch)
	}
	if g.inRow < rounds {
		return ""
	}
	for _, other := range s.sightings {
		if other.node != n && other.epoch == s.epoch && other.round == other.node.round && other.inRow >= rounds {
			return fmt.Sprintf("it is in the lists of %s and of %s under epoch %d, and was so in the snapshots before", other.node.name, n.name, s.epoch)
		}
	}
	return ""
}
