package fleet

import (
	"net/http"
	"time"

	"relapse/topologies/services/fleet/history"
	"relapse/topologies/services/matchmaking"
)

// audit reads the list of a node and has it checked. A node that does not answer is
// not checked, and not counted as audited.
func (f *Fleet) audit(n *node) {
	life := f.lifeOf(n)
	began := f.now()
	var snapshot matchmaking.Snapshot
	if n.peer.Call(http.MethodGet, "/entries", nil, &snapshot, time.Now().Add(auditWithin)) != nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.answered(n, life, snapshot.Boot) {
		return
	}
	n.metrics.audits.Inc()
	f.add(history.Seen{At: f.now(), Node: n.name(), Began: began, Entries: snapshot.Entries})
}
