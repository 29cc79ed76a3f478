package topologies

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// Fleet drives a fleet: the node that plays all game servers of a matchmaking
// topology.
type Fleet struct {
	node string
	control
}

func newFleet(node, address string) *Fleet {
	return &Fleet{node: node, control: newControl("fleet "+node, address)}
}

// Lose has a share of the servers of each region, from 0 to 1, go under a name, until
// [Fleet.EndLoss]: those of one cluster, or of all where it is "". Servers in a match
// play it to the end. The same order may be given again; a share that comes to no
// server, or to more than are left, is an error.
func (f *Fleet) Lose(ctx context.Context, name, cluster string, share float64) error {
	body := struct {
		Cluster string  `json:"cluster"`
		Share   float64 `json:"share"`
	}{cluster, share}
	return f.do(ctx, http.MethodPut, "/losses/"+url.PathEscape(name), body, nil)
}

// EndLoss has the servers that went added again, as new ones. A loss that is not
// there is no error.
func (f *Fleet) EndLoss(ctx context.Context, name string) error {
	return f.do(ctx, http.MethodDelete, "/losses/"+url.PathEscape(name), nil, nil)
}

// Servers is what a fleet says of its servers: how many there are, and how many of
// them are ordered away.
type Servers struct {
	All   int `json:"servers"` // those that are not there too
	Gone  int `json:"gone"`    // ordered away, and gone
	Going int `json:"going"`   // ordered away, and in a match until then
}

// Servers counts those of a cluster, of all clusters where it is "". One that the
// fleet does not have is an error.
func (f *Fleet) Servers(ctx context.Context, cluster string) (Servers, error) {
	var state struct {
		Clusters map[string]Servers `json:"clusters"`
	}
	if err := f.do(ctx, http.MethodGet, "/losses", nil, &state); err != nil {
		return Servers{}, err
	}
	if cluster != "" {
		servers, known := state.Clusters[cluster]
		if !known {
			return Servers{}, &UnknownClusterError{f.node, cluster, slices.Sorted(maps.Keys(state.Clusters))}
		}
		return servers, nil
	}
	var sum Servers
	for _, servers := range state.Clusters {
		sum.All += servers.All
		sum.Gone += servers.Gone
		sum.Going += servers.Going
	}
	return sum, nil
}

// UnknownClusterError is a cluster that a fleet does not have.
type UnknownClusterError struct {
	Fleet, Cluster string
	Known          []string // those that it has, sorted
}

func (e *UnknownClusterError) Error() string {
	return fmt.Sprintf("fleet %s: no cluster %s; there are: %s: name it in a --cluster of its command or settings",
		e.Fleet, e.Cluster, strings.Join(e.Known, ", "))
}
