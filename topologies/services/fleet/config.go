package fleet

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math"
	"slices"
	"time"

	"relapse/topologies/services/matchmaking"
)

// DefaultAuditEvery is how often the list of each node is read and checked.
const DefaultAuditEvery = time.Second

// mostSpeed refuses a speed that can only be a mistake: an hour in 3.6 ms.
const mostSpeed = 1e6

// Config is what a fleet is made of. Percentages go from 0 to 100.
type Config struct {
	Clusters []Cluster
	Modes    map[string]string // the cluster of each mode
	Regions  []Region

	Length       time.Duration // of a match, documented time
	LengthSpread float64       // percent by which lengths differ from that, up or down, evenly drawn
	RelistAfter  time.Duration // from a match's end to the server's next registration, documented time
	Speed        float64       // documented seconds in a real one

	Occupied float64 // percent of the servers that are in a match at the start
	Seed     uint64  // decides who is where, how long matches last, and who goes

	Joins     string        // how servers that are added come to nodes: one of [Joins], "" for [JoinSpread]
	JoinAfter time.Duration // from when they are added to their registration, documented time

	// Unfenced has servers take every reservation, whatever its epoch and
	// whether they are in a match. It shows that the checks see what the fence
	// prevents.
	Unfenced bool

	AuditEvery time.Duration // 0 for [DefaultAuditEvery]
	Grace      time.Duration // see package history; 0 for its default
	Violations io.Writer     // gets the first violations, a line each; nil for nobody
	Log        *slog.Logger  // nil for none
}

// Cluster is a number of nodes and the servers that are registered with them.
type Cluster struct {
	Name    string
	Servers int
	Nodes   []*matchmaking.Peer
}

// Region is where some of the servers are.
type Region struct {
	Name   string
	Weight float64 // share of the servers, of the sum of all weights
}

// complete checks a configuration and gives it with its defaults.
func (c Config) complete() (Config, error) {
	if c.AuditEvery == 0 {
		c.AuditEvery = DefaultAuditEvery
	}
	if c.Joins == "" {
		c.Joins = JoinSpread
	}
	if c.Violations == nil {
		c.Violations = io.Discard
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if err := c.checkClusters(); err != nil {
		return c, err
	}
	if err := c.checkRegions(); err != nil {
		return c, err
	}
	switch {
	case c.Length <= 0:
		return c, fmt.Errorf("fleet: a match lasts %v: want more than zero", c.Length)
	case !within(c.LengthSpread, 0, 99):
		return c, fmt.Errorf("fleet: lengths spread by %v percent: want 0 to 99", c.LengthSpread)
	case c.RelistAfter < 0:
		return c, fmt.Errorf("fleet: a server is listed again after %v: want zero or more", c.RelistAfter)
	case !within(c.Speed, 1/mostSpeed, mostSpeed):
		return c, fmt.Errorf("fleet: a speed of %v: want more than zero, up to %v", c.Speed, float64(mostSpeed))
	case !within(c.Occupied, 0, 100):
		return c, fmt.Errorf("fleet: %v percent of the servers are occupied: want 0 to 100", c.Occupied)
	case !slices.Contains(Joins, c.Joins):
		return c, fmt.Errorf("fleet: servers that are added join by %q: want one of %q", c.Joins, Joins)
	case c.JoinAfter < 0:
		return c, fmt.Errorf("fleet: a server that is added joins after %v: want zero or more", c.JoinAfter)
	case c.AuditEvery < 0:
		return c, fmt.Errorf("fleet: an audit every %v: want more than zero", c.AuditEvery)
	}
	return c, nil
}

func (c Config) checkClusters() error {
	if len(c.Clusters) == 0 {
		return errors.New("fleet: no clusters; without nodes nobody asks for a server")
	}
	clusters, nodes := map[string]bool{}, map[string]bool{}
	for _, cl := range c.Clusters {
		switch {
		case cl.Name == "":
			return errors.New("fleet: a cluster has no name")
		case clusters[cl.Name]:
			return fmt.Errorf("fleet: cluster %s is there twice", cl.Name)
		case len(cl.Nodes) == 0:
			return fmt.Errorf("fleet: cluster %s has no nodes", cl.Name)
		case cl.Servers < len(cl.Nodes):
			return fmt.Errorf("fleet: cluster %s has %d servers for %d nodes: want one for each at least", cl.Name, cl.Servers, len(cl.Nodes))
		}
		clusters[cl.Name] = true
		for _, peer := range cl.Nodes {
			switch {
			case peer.Name == "":
				return fmt.Errorf("fleet: a node of cluster %s has no name", cl.Name)
			case nodes[peer.Name]:
				return fmt.Errorf("fleet: node %s is there twice", peer.Name)
			}
			nodes[peer.Name] = true
		}
	}
	if len(c.Modes) == 0 {
		return errors.New("fleet: no modes; every match is of one")
	}
	for _, mode := range slices.Sorted(maps.Keys(c.Modes)) {
		if mode == "" || !clusters[c.Modes[mode]] {
			return fmt.Errorf("fleet: mode %q is of cluster %q: want a name, and one of the clusters %q",
				mode, c.Modes[mode], slices.Sorted(maps.Keys(clusters)))
		}
	}
	return nil
}

func (c Config) checkRegions() error {
	if len(c.Regions) == 0 {
		return errors.New("fleet: no regions; every server is in one")
	}
	seen := map[string]bool{}
	for _, r := range c.Regions {
		switch {
		case r.Name == "":
			return errors.New("fleet: a region has no name")
		case seen[r.Name]:
			return fmt.Errorf("fleet: region %s is there twice", r.Name)
		case !within(r.Weight, math.SmallestNonzeroFloat64, 1e9):
			return fmt.Errorf("fleet: region %s has weight %v: want more than zero", r.Name, r.Weight)
		}
		seen[r.Name] = true
	}
	return nil
}

// within is false for what is no number, too.
func within(v, least, most float64) bool { return v >= least && v <= most }
