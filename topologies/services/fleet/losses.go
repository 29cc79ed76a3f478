package fleet

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"relapse/topologies/services/fleet/history"
)

var (
	// ErrUnknownCluster says that an order names a cluster that there is not.
	ErrUnknownCluster = errors.New("unknown cluster")
	// ErrOtherLoss says that the name of an order stands for another loss.
	ErrOtherLoss = errors.New("the name stands for another loss")
	// ErrTooFew says that an order is for more servers than are left.
	ErrTooFew = errors.New("too few servers are left")
	// ErrNobody says that an order is for no server at all.
	ErrNobody = errors.New("the share comes to no server")
)

// LossState is a loss as it was ordered.
type LossState struct {
	Cluster string  `json:"cluster"` // whose servers go; "" for all clusters
	Share   float64 `json:"share"`   // of the servers of each region, 0 to 1
}

// ClusterState is how many servers a cluster has, and how many of them are not
// there.
type ClusterState struct {
	Servers int `json:"servers"` // those that are not there too
	Gone    int `json:"gone"`    // ordered away, and gone
	Going   int `json:"going"`   // ordered away, and in a match until then
	Joining int `json:"joining"` // added, and not registered yet
}

// Losses is what a fleet says of its servers that are not there.
type Losses struct {
	Clusters map[string]ClusterState `json:"clusters"` // by name
	Losses   map[string]LossState    `json:"losses"`   // those in force, by name
}

// Lose has a share of the servers of each region of a cluster, or of all clusters,
// go under a name, until [Fleet.EndLoss]. Which ones is drawn. Those in a match play
// it to the end; all others are gone at once. The same order may come again; on an
// error nothing has changed.
//
// A share is of all servers. Several losses take what they are ordered to from
// those that none of the others has.
func (f *Fleet) Lose(name, cluster string, of float64) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	wants := LossState{cluster, of}
	was, again := f.losses[name]
	switch {
	case name == "":
		return errors.New("loss: give its name; without one it cannot be ended")
	case !within(of, 0, 1):
		return fmt.Errorf("loss %s: a share of %v: want 0 to 1", name, of)
	case again && was != wants:
		return fmt.Errorf("loss %s: %w, of a share of %v of cluster %q; end that one first", name, ErrOtherLoss, was.Share, was.Cluster)
	case again:
		return nil
	}
	chosen, err := f.choose(cluster, of)
	if err != nil {
		return fmt.Errorf("loss %s: %w", name, err)
	}
	f.losses[name] = wants
	for _, s := range chosen {
		s.loss = name
		f.noLongerFresh(s)
		switch s.state {
		case inMatch: // it goes when that is over
		case gone: // it was added, and will not be registered after all
			s.turn++
		default:
			f.leave(s)
		}
	}
	return nil
}

// choose draws a share of the servers of each region, to within one server, from
// those that no loss has.
func (f *Fleet) choose(cluster string, of float64) ([]*server, error) {
	if !f.known(cluster) {
		return nil, fmt.Errorf("%w %q; there are %q", ErrUnknownCluster, cluster, f.clusterNames())
	}
	all, left := map[group]int{}, map[group][]*server{}
	for _, s := range f.servers {
		all[s.group()]++
		if s.loss == "" {
			left[s.group()] = append(left[s.group()], s)
		}
	}
	var chosen []*server
	var part share
	for _, cl := range f.clusters {
		if cluster != "" && cl.name != cluster {
			continue
		}
		for _, r := range f.config.Regions {
			g := group{cl.name, r.Name}
			count, from := part.of(all[g], of), left[g]
			if count > len(from) {
				return nil, fmt.Errorf("%w in %s of cluster %s: %d are to go, and other losses have all but %d", ErrTooFew, r.Name, cl.name, count, len(from))
			}
			f.draws.Shuffle(len(from), func(i, j int) { from[i], from[j] = from[j], from[i] })
			chosen = append(chosen, from[:count]...)
		}
	}
	if len(chosen) == 0 {
		return nil, fmt.Errorf("a share of %v: %w", of, ErrNobody)
	}
	return chosen, nil
}

func (f *Fleet) known(cluster string) bool {
	return cluster == "" || slices.Contains(f.clusterNames(), cluster)
}

func (f *Fleet) clusterNames() []string {
	names := make([]string, len(f.clusters))
	for i, cl := range f.clusters {
		names[i] = cl.name
	}
	return names
}

// leave has a server go that is in no match. If it is free it tells nobody: its
// node has it in its list, hands it out and is refused. A node never asks for a
// server whose match it knows of, and would keep it for good; it is told to strike
// it off.
func (f *Fleet) leave(s *server) {
	if s.state != free {
		s.node.struck[s] = s.epoch
	}
	delete(s.node.pending, s)
	f.become(s, gone)
	f.add(history.Gone{At: f.now(), Server: s.id})
}

// EndLoss has the servers of a loss that are gone added to the fleet again, and
// those that are not gone yet stay. A loss that is not there is no error.
func (f *Fleet) EndLoss(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, on := f.losses[name]; !on {
		return
	}
	delete(f.losses, name)
	var added []*server
	for _, s := range f.servers {
		if s.loss != name {
			continue
		}
		s.loss = ""
		if s.state == gone {
			added = append(added, s)
		}
	}
	f.join(added)
}

// Losses says which servers are not there.
func (f *Fleet) Losses() Losses {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := Losses{map[string]ClusterState{}, maps.Clone(f.losses)}
	for _, cl := range f.clusters {
		var state ClusterState
		for _, s := range f.servers {
			if s.cluster != cl {
				continue
			}
			state.Servers++
			switch {
			case s.loss != "" && s.state == gone:
				state.Gone++
			case s.loss != "":
				state.Going++
			case s.state == gone:
				state.Joining++
			}
		}
		out.Clusters[cl.name] = state
	}
	return out
}
