package history

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// DefaultGrace is the time after which what happened to a server must show in the
// lists: a message between nodes that is sent again arrives within it.
const DefaultGrace = time.Second

// keeps is how many of a server's events a violation tells.
const keeps = 10

// rounds is how many snapshots in a row must show that a server is lost, or listed
// twice.
const rounds = 2

// Config is what a checker must know of the fleet.
type Config struct {
	Grace   time.Duration           // 0 for [DefaultGrace]
	Cluster func(server int) string // that a server belongs to
	Modes   map[string]string       // the cluster of each mode
}

// Checker checks a history while it is written. It is used by one goroutine at a
// time. A snapshot costs time in proportion to its entries and the servers, any
// other event costs next to nothing, except for a restart, which looks at every
// server once.
type Checker struct {
	config  Config
	servers map[int]*server
	ordered []*server // in the order in which they were first heard of
	nodes   map[string]*node
	missing int
}

// server is what the history says of one.
type server struct {
	id           int
	region       string
	registered   bool // some time
	home         *node
	epoch        int64
	used         bool // the epoch, by a match
	acknowledged bool
	gone         bool   // since it was registered
	match        string // the last one since it was registered
	on           bool   // that match
	changed      time.Duration

	missed    int // snapshots in a row
	lost      bool
	doubled   bool // said, of this epoch
	sightings []sighting
	events    []Event
}

// New makes a checker of an empty history.
func New(c Config) (*Checker, error) {
	switch {
	case c.Grace < 0:
		return nil, fmt.Errorf("history: a grace of %v: want zero or more", c.Grace)
	case c.Cluster == nil:
		return nil, errors.New("history: no cluster of a server; without it no match is misrouted")
	case len(c.Modes) == 0:
		return nil, errors.New("history: no modes; without them no match is misrouted")
	}
	if c.Grace == 0 {
		c.Grace = DefaultGrace
	}
	return &Checker{config: c, servers: map[int]*server{}, nodes: map[string]*node{}}, nil
}

// Missing is how many servers are lost now. They may be found again.
func (c *Checker) Missing() int { return c.missing }

// Stale is how many entries the latest snapshots of all nodes have that are to be
// handed out though their epochs were not current when the snapshots were asked
// for.
func (c *Checker) Stale() int {
	n := 0
	for _, node := range c.nodes {
		n += node.stale
	}
	return n
}

// Add takes the next event and gives what it violates.
func (c *Checker) Add(e Event) []Violation {
	switch e := e.(type) {
	case Registered:
		s := c.server(e.Server)
		s.note(e)
		s.region, s.registered = e.Region, true
		s.match, s.on, s.used, s.acknowledged, s.gone = "", false, false, false, false
		c.place(s, e.Node, e.Epoch, e.At)
	case Acknowledged:
		s := c.server(e.Server)
		s.note(e)
		if s.epoch == e.Epoch && s.home == c.node(e.Node) {
			s.acknowledged = true
			c.change(s, e.At)
		}
	case Reserved:
		return c.reserved(e)
	case Ended:
		s := c.server(e.Server)
		s.note(e)
		if s.on && s.match == e.Match {
			s.on = false
			c.change(s, e.At)
		}
	case Moved:
		s := c.server(e.Server)
		s.note(e)
		s.acknowledged = true
		c.place(s, e.To, e.Epoch, e.At)
	case Gone:
		s := c.server(e.Server)
		s.note(e)
		s.gone = true
		c.change(s, e.At)
	case Restarted:
		c.restarted(e)
	case Seen:
		return c.seen(e)
	}
	return nil
}

func (c *Checker) reserved(e Reserved) (found []Violation) {
	s := c.server(e.Server)
	s.note(e)
	if s.match == e.Match && s.used {
		return nil // the same message, come twice
	}
	twice := ""
	switch {
	case !s.registered:
		twice = fmt.Sprintf("match %s took it, and it was never registered", e.Match)
	case s.gone:
		found = append(found, s.violation(NotThere, e.Node, fmt.Sprintf("match %s took it under epoch %d, and it is gone", e.Match, e.Epoch), e.At))
	case s.on:
		twice = fmt.Sprintf("match %s took it under epoch %d while it is in match %s under epoch %d", e.Match, e.Epoch, s.match, s.epoch)
	case e.Epoch != s.epoch:
		twice = fmt.Sprintf("match %s took it under epoch %d; its epoch is %d", e.Match, e.Epoch, s.epoch)
	case s.used:
		twice = fmt.Sprintf("match %s took it under epoch %d, which match %s has used up", e.Match, e.Epoch, s.match)
	}
	if twice != "" {
		found = append(found, s.violation(TwoMatches, e.Node, twice, e.At))
	}
	if is, wants := c.config.Cluster(s.id), c.config.Modes[e.Mode]; e.Mode != "" && is != wants {
		found = append(found, s.violation(Misrouted, e.Node,
			fmt.Sprintf("match %s is of mode %s, whose cluster is %q, and the server is of cluster %q", e.Match, e.Mode, wants, is), e.At))
	}
	s.match, s.on, s.used = e.Match, true, true
	c.change(s, e.At)
	return found
}

func (c *Checker) restarted(e Restarted) {
	n := c.node(e.Node)
	n.restart(e.At)
	for _, s := range c.ordered {
		if s.home == n {
			s.note(e)
			s.acknowledged = false
			s.missed = 0
		}
	}
}

// place has a server registered with a node.
func (c *Checker) place(s *server, node string, epoch int64, at time.Duration) {
	s.home, s.epoch, s.doubled = c.node(node), epoch, false
	c.change(s, at)
}

// change says that something happened to a server, so that it is looked for anew.
func (c *Checker) change(s *server, at time.Duration) {
	s.changed = at
	c.found(s)
}

func (c *Checker) found(s *server) {
	s.missed = 0
	if s.lost {
		s.lost = false
		c.missing--
	}
}

func (c *Checker) server(id int) *server {
	s := c.servers[id]
	if s == nil {
		s = &server{id: id}
		c.servers[id] = s
		c.ordered = append(c.ordered, s)
	}
	return s
}

// free says whether the server's epoch is current.
func (s *server) free() bool { return s.registered && !s.used && !s.gone }

func (s *server) note(e Event) {
	if len(s.events) == keeps {
		copy(s.events, s.events[1:])
		s.events = s.events[:keeps-1]
	}
	s.events = append(s.events, e)
}

func (s *server) violation(invariant, node, says string, at time.Duration) Violation {
	return Violation{Invariant: invariant, Server: s.id, Node: node, Says: says, At: at, Events: slices.Clone(s.events)}
}
