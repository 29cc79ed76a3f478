package mms

import (
	"net/http"

	"relapse/topologies/services/matchmaking"
)

// serveServers registers servers, and says which life of the node has them now.
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
	n.serveBoot(w, r)
}

func (n *Node) serveBoot(w http.ResponseWriter, _ *http.Request) {
	matchmaking.Answer(w, http.StatusOK, matchmaking.Boot{Boot: n.boot})
}

func (n *Node) serveEntries(w http.ResponseWriter, _ *http.Request) {
	matchmaking.Answer(w, http.StatusOK, matchmaking.Snapshot{Boot: n.boot, Entries: n.list.snapshot()})
}

func (n *Node) serveCounts(w http.ResponseWriter, _ *http.Request) {
	counts := matchmaking.Counts{Node: n.Name, Free: map[string]int{}, All: map[string]int{}}
	for _, region := range n.Regions {
		counts.Free[region], counts.All[region] = n.list.count(region)
	}
	matchmaking.Answer(w, http.StatusOK, counts)
}
