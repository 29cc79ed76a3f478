package mms

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"relapse/topologies/services"
	"relapse/topologies/services/matchmaking"
)

const (
	// looksAgain is how often the list is read again because the server that it
	// gave refused.
	looksAgain = 3
	// reservesAgain is how often a server is asked again that did not answer.
	reservesAgain = 3
)

// request is what a server is looked for with.
type request struct {
	caller  context.Context // ends when the caller leaves
	came    time.Time
	kind    string // own or peer
	mode    string
	region  string
	players int
	match   string // its id
	// awaited has nothing be done for a caller who has left, where it is noticed.
	awaited bool
}

// abandoned says that nothing is to be done any more.
func (r *request) abandoned() bool { return r.awaited && r.caller.Err() != nil }

// finding is what became of looking for a server.
type finding int

const (
	found   finding = iota // and reserved
	none                   // nobody has a free one
	unknown                // a server may have taken the match, or not
	refused                // too many wait for the CPU
	left                   // the caller has, and nothing is done for it
)

// assigned answers a request.
type assigned struct {
	Match  string `json:"match,omitempty"`
	Server int    `json:"server"`
}

// read reads a request; a bad one is answered 400 and gives nil.
func (n *Node) read(w http.ResponseWriter, r *http.Request, kind string) *request {
	query := r.URL.Query()
	players, err := strconv.Atoi(query.Get("players"))
	read := &request{
		caller: r.Context(), came: time.Now(), kind: kind,
		mode: query.Get("mode"), region: query.Get("region"), players: players, match: query.Get("match"),
	}
	switch {
	case !slices.Contains(n.Modes, read.mode):
		err = fmt.Errorf("mode %q: want one of %s", read.mode, strings.Join(n.Modes, ", "))
	case !slices.Contains(n.Regions, read.region):
		err = fmt.Errorf("region %q: want one of %s", read.region, strings.Join(n.Regions, ", "))
	case err != nil || players < 1:
		err = fmt.Errorf("players %q: want a number, 1 or more", query.Get("players"))
	case kind == peer && read.match == "":
		err = errors.New("match: a peer names the one that it asks for")
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return nil
	}
	return read
}

// serveMatch answers the front: 201 with the match and its server, or 503. A
// caller who leaves is not waited for; the work goes on.
func (n *Node) serveMatch(w http.ResponseWriter, r *http.Request) {
	read := n.read(w, r, own)
	if read == nil {
		return
	}
	read.awaited = n.DropAbandoned
	type result struct {
		outcome string
		assigned
	}
	ended := make(chan result, 1)
	go func() {
		server, outcome := n.match(read)
		n.metrics.handled[read.mode][outcome].Inc()
		if outcome != handledRefused {
			n.metrics.seconds[read.mode].Observe(time.Since(read.came).Seconds())
		}
		ended <- result{outcome, assigned{read.match, server}}
	}()
	select {
	case a := <-ended:
		if a.outcome != handledOK {
			http.Error(w, "no server: "+a.outcome, http.StatusServiceUnavailable)
			return
		}
		matchmaking.Answer(w, http.StatusCreated, a.assigned)
	case <-r.Context().Done(): // nobody reads an answer
	}
}

// match looks for a server until there is one or a bound ends it, and gives the
// outcome.
func (n *Node) match(r *request) (server int, outcome string) {
	n.name(r)
	for try := 1; ; try++ {
		where := own
		server, became := n.fromList(r)
		if became == none {
			if try == 1 {
				n.metrics.misses.Inc()
			}
			where = peer
			server, became = n.fromPeers(r)
		}
		switch became {
		case found:
			n.metrics.assigned[r.mode][where].Inc()
			if r.caller.Err() != nil {
				return 0, handledUnclaimed
			}
			return server, handledOK
		case refused:
			return 0, handledRefused
		case left:
			return 0, handledAbandoned
		case unknown:
			n.name(r)
		}
		if try == n.Tries {
			return 0, handledGivenUp
		}
		if !n.wait(r) {
			return 0, handledAbandoned
		}
	}
}

// name gives a match a new id. One that a server may have taken without saying so
// keeps its own, which nobody will ask for: no match is in two servers.
func (n *Node) name(r *request) {
	r.match = fmt.Sprintf("%s-%s-%d", n.Name, n.boot, n.matches.Add(1))
}

// wait lets the time pass until a request goes again; false if it need not.
func (n *Node) wait(r *request) bool {
	n.again.Add(1)
	defer n.again.Add(-1)
	return services.Wait(n.life, n.AgainAfter) && !r.abandoned()
}

// fromList reserves a server of the node's own list.
func (n *Node) fromList(r *request) (server int, became finding) {
	for range 1 + looksAgain {
		e, became := n.look(r)
		if became != found {
			return 0, became
		}
		// Whoever has left while the list was read needs no server.
		if r.abandoned() {
			n.list.settle(e, free)
			return 0, left
		}
		if became := n.reserve(r, e); became != none {
			return e.Server, became
		}
	}
	return 0, none
}

// look reads the list once, on the CPU. What it found is marked as reserving.
func (n *Node) look(r *request) (e matchmaking.Entry, became finding) {
	switch n.cpu.do(r.caller, r.mode, func() time.Duration {
		var visited int
		var ok bool
		e, visited, ok = n.list.find(r.region)
		if !ok {
			became = none
		}
		n.metrics.lookups[r.kind].Inc()
		n.metrics.visited.Add(float64(visited))
		if !ok && !n.Index {
			n.metrics.fullScans.Inc()
			n.metrics.fullVisits.Add(float64(visited))
		}
		return n.LookupCost + time.Duration(visited)*n.EntryCost
	}) {
	case overfull:
		became = refused
	case passedOver:
		became = left
	}
	return e, became
}

// reserve asks a server to take a match; none if it refuses. One that does not
// answer is asked again for the same match, which it takes once. In the end it is
// free as far as the node knows, and the next match will tell.
func (n *Node) reserve(r *request, e matchmaking.Entry) finding {
	path := "/reserve?" + url.Values{
		"server": {strconv.Itoa(e.Server)}, "epoch": {strconv.FormatInt(e.Epoch, 10)}, "node": {n.Name},
		"match": {r.match}, "mode": {r.mode}, "players": {strconv.Itoa(r.players)},
	}.Encode()
	pause := n.Pause
	for again := 0; ; again++ {
		err := n.Fleet.Call(http.MethodPost, path, nil, nil, time.Now().Add(n.ReserveTimeout))
		switch status := statusOf(err); {
		case err == nil:
			n.list.settle(e, busy)
			return found
		case status == http.StatusConflict || status == http.StatusNotFound:
			// Its server knows better: it is gone, or will be registered anew where it
			// belongs.
			n.list.forget(e)
			n.metrics.refused.Inc()
			return none
		case again == reservesAgain || !services.Wait(n.life, pause):
			n.list.settle(e, free)
			return unknown
		}
		pause *= 2
	}
}

// statusOf gives the status of an answer that is no success; 0 if there was no
// answer.
func statusOf(err error) int {
	var said *matchmaking.StatusError
	if errors.As(err, &said) {
		return said.Status
	}
	return 0
}

// fromPeers asks the peers one after another until one gives a server. Each round
// begins with another one.
func (n *Node) fromPeers(r *request) (server int, became finding) {
	if n.Ask == AskNone {
		return 0, none
	}
	first := n.rounds.Add(1) - 1
	for i := range uint64(len(n.Peers)) {
		if r.abandoned() {
			return 0, left
		}
		switch server, became := n.ask(n.Peers[(first+i)%uint64(len(n.Peers))], r); became {
		case found:
			return server, found
		case unknown:
			n.name(r)
		}
	}
	return 0, none
}

// ask asks a peer for a server.
func (n *Node) ask(p *matchmaking.Peer, r *request) (server int, became finding) {
	var a assigned
	err := p.Call(http.MethodPost, "/take?"+url.Values{
		"mode": {r.mode}, "region": {r.region}, "players": {strconv.Itoa(r.players)}, "match": {r.match},
	}.Encode(), nil, &a, time.Now().Add(n.AskTimeout))
	status := statusOf(err)
	switch {
	case err == nil:
		n.metrics.asks[askFound].Inc()
		return a.Server, found
	case status == http.StatusNotFound:
		n.metrics.asks[askEmpty].Inc()
		return 0, none
	}
	n.metrics.asks[askFailed].Inc()
	if status == http.StatusServiceUnavailable {
		return 0, none // it refused
	}
	return 0, unknown
}

// serveTake answers a peer from the node's own list: 201 with the server, which
// has taken the peer's match; 404 if there is none; 503 if too many wait for the
// CPU; 502 if the server that was found may have taken the match or not. A peer
// that asks no longer is given none: it has asked elsewhere by then.
func (n *Node) serveTake(w http.ResponseWriter, r *http.Request) {
	read := n.read(w, r, peer)
	if read == nil {
		return
	}
	read.awaited = true
	n.metrics.asked.Inc()
	switch server, became := n.fromList(read); became {
	case found:
		matchmaking.Answer(w, http.StatusCreated, assigned{Server: server})
	case none:
		http.Error(w, "no free server in "+read.region, http.StatusNotFound)
	case unknown:
		http.Error(w, "a server that did not answer may have taken the match", http.StatusBadGateway)
	default:
		http.Error(w, "too many wait", http.StatusServiceUnavailable)
	}
}
