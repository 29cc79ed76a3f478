package mms

import (
	"fmt"
	"net/http"
	"slices"
	"time"

	"relapse/topologies/services"
	"relapse/topologies/services/matchmaking"
)

const (
	// mostGiving is how many transfers a donor has in flight at most. A rebalancer
	// gives its orders at once, and with 3 regions and 3 other nodes 9 of a round can
	// go to one donor; the rest is for those that outlast their round.
	mostGiving = 16
	// pushes is how often a transfer is sent before it is taken back.
	pushes = 3
	// mostPause is the longest one between attempts that go on until one succeeds.
	mostPause = time.Second
)

// serveGive moves free servers to a peer. It answers when that is at an end: 200
// with what moved, or 504 if the peer did not answer, so that what could be was
// taken back. 409 means that nothing was begun: too many transfers are in flight,
// or no server is free. Whoever asked and has left is not waited for.
func (n *Node) serveGive(w http.ResponseWriter, r *http.Request) {
	var give matchmaking.Give
	if !matchmaking.Read(w, r, &give) {
		return
	}
	to := slices.IndexFunc(n.Peers, func(p *matchmaking.Peer) bool { return p.Name == give.To })
	var bad string
	switch {
	case to < 0:
		bad = fmt.Sprintf("to %q: want the name of a peer", give.To)
	case !slices.Contains(n.Regions, give.Region):
		bad = fmt.Sprintf("region %q: want one of %q", give.Region, n.Regions)
	case give.Count < 1:
		bad = fmt.Sprintf("count %d: want 1 or more", give.Count)
	}
	if bad != "" {
		http.Error(w, bad, http.StatusBadRequest)
		return
	}
	select {
	case n.giving <- struct{}{}:
	default:
		http.Error(w, fmt.Sprintf("%d transfers are in flight; ask again when one has ended", mostGiving), http.StatusConflict)
		return
	}
	entries := n.list.pick(give.Region, give.Count, n.Defect.onTheWay())
	if len(entries) == 0 {
		<-n.giving
		http.Error(w, "no server is free in "+give.Region, http.StatusConflict)
		return
	}
	t := matchmaking.Transfer{ID: fmt.Sprintf("%s-%s-t%d", n.Name, n.boot, n.transfers.Add(1)), From: n.Name, Entries: entries}
	type result struct {
		moved   matchmaking.Moved
		outcome string
	}
	ended := make(chan result, 1)
	go func() {
		moved, outcome := n.transfer(t, n.Peers[to])
		n.metrics.transfers[outcome].Inc()
		<-n.giving
		ended <- result{moved, outcome}
	}()
	select {
	case a := <-ended:
		if a.outcome != transferMoved {
			http.Error(w, fmt.Sprintf("%s did not answer: %s", give.To, a.outcome), http.StatusGatewayTimeout)
			return
		}
		matchmaking.Answer(w, http.StatusOK, a.moved)
	case <-r.Context().Done(): // nobody reads an answer
	}
}

// transfer moves servers to a peer. What did not move in the end is back in the
// list, or its server said that it belongs elsewhere or said nothing, being gone:
// no entry of such a one goes on from node to node and has a list look full.
func (n *Node) transfer(t matchmaking.Transfer, to *matchmaking.Peer) (moved matchmaking.Moved, outcome string) {
	moved, err := n.push(t, to)
	if err == nil {
		// What did not move has refused to: it is in a match, gone, or registered anew.
		n.list.forget(t.Entries...)
		n.metrics.moved[movedOut].Add(float64(len(moved.Entries)))
		return moved, transferMoved
	}
	if n.Defect.forgetsUnanswered() {
		n.list.forget(t.Entries...)
		return moved, transferFailed
	}
	return moved, n.takeBack(t)
}

// push sends a transfer until it is answered, or was sent often enough. Each time
// it is the same, so that it can arrive more than once.
func (n *Node) push(t matchmaking.Transfer, to *matchmaking.Peer) (moved matchmaking.Moved, err error) {
	pause := n.Pause
	for try := 1; ; try++ {
		err = to.Call(http.MethodPost, "/transfers", t, &moved, time.Now().Add(n.PushTimeout))
		if err == nil || try == pushes || !services.Wait(n.life, pause) {
			return moved, err
		}
		pause *= 2
	}
}

// takeBack registers the servers of a transfer with this node again, whose fate is
// unknown. Those that have moved refuse: their registration with the receiver is
// newer. So do those that are gone. Those that are accepted will refuse the
// receiver, should it still ask.
func (n *Node) takeBack(t matchmaking.Transfer) (outcome string) {
	back, ok := n.move(t.ID+"-back", t.Entries)
	if !ok {
		return transferFailed
	}
	n.list.register(back)
	n.list.forget(t.Entries...) // as they were registered before
	if len(back) == 0 {
		return transferFailed
	}
	return transferReturned
}

// move asks servers to be registered with this node, again and again until they
// say whether they are: what was asked may have been done. False means that the
// node was closed before.
func (n *Node) move(transfer string, entries []matchmaking.Entry) (moved []matchmaking.Entry, ok bool) {
	move := matchmaking.Move{Transfer: transfer, To: n.Name, Boot: n.boot, Entries: entries}
	for pause := n.Pause; ; pause = min(2*pause, mostPause) {
		var said matchmaking.Moved
		err := n.Fleet.Call(http.MethodPost, "/moves", move, &said, time.Now().Add(n.ReserveTimeout))
		if err == nil && n.known(said.Entries) == nil {
			return said.Entries, true
		}
		if !services.Wait(n.life, pause) {
			return nil, false
		}
	}
}
