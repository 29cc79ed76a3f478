package mms

import (
	"net/http"

	"relapse/topologies/services/matchmaking"
)

// serveServers registers servers and strikes off those that are gone, and says
// which life of the node has the others now.
func (n *Node) serveServers(w http.ResponseWriter, r *http.Request) {
	var listing matchmaking.Listing
	if !matchmaking.Read(w, r, &listing) {
		return
	}
	if err := n.known(listing.Entries); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	n.list.register(listing.Entries)
	n.told.Store(true)
	n.serveBoot(w, r)
}

func (n *Node) serveBoot(w http.ResponseWriter, _ *http.Request) {
	matchmaking.Answer(w, http.StatusOK, matchmaking.Boot{Boot: n.boot})
}

func (n *Node) serveEntries(w http.ResponseWriter, _ *http.Request) {
	matchmaking.Answer(w, http.StatusOK, matchmaking.Snapshot{Boot: n.boot, Entries: n.list.snapshot()})
}

// serveCounts says how many servers there are: 503 before the node was told of any.
// One that has just started would else look as if it lacked all that it is about to
// be told of, and be given as many.
func (n *Node) serveCounts(w http.ResponseWriter, _ *http.Request) {
	if !n.told.Load() {
		http.Error(w, "no server has been registered here since the start", http.StatusServiceUnavailable)
		return
	}
	counts := matchmaking.Counts{Node: n.Name, Free: map[string]int{}, All: map[string]int{}}
	for _, region := range n.Regions {
		counts.Free[region], counts.All[region] = n.list.count(region)
	}
	matchmaking.Answer(w, http.StatusOK, counts)
}
