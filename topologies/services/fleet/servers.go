package fleet

import (
	"errors"
	"fmt"
	"time"

	"relapse/topologies/services/fleet/history"
	"relapse/topologies/services/matchmaking"
)

// state is what a server is doing; the documentation of the package has the
// diagram.
type state int

const (
	free    state = iota // registered, and to be had
	inMatch              // registered, and in a match
	ended                // still registered under the epoch that its match used up
	gone                 // not there
)

var stateNames = [...]string{free: "free", inMatch: "match", ended: "ended", gone: "gone"}

type server struct {
	id      int
	cluster *cluster
	region  string
	node    *node // that it is registered with; of one that was added and is not there yet, the one that it comes to
	epoch   int64
	state   state
	match   string        // that took it since it was registered last
	turn    int           // rises with every change of the state
	left    time.Duration // of a match that is on at the start, documented time

	loss  string        // that has it go, "" for none
	fresh bool          // it was added and has taken no match since
	added time.Duration // when
}

func (s *server) group() group { return group{s.cluster.name, s.region} }

func (s *server) entry() matchmaking.Entry {
	return matchmaking.Entry{Server: s.id, Region: s.region, Epoch: s.epoch, Busy: s.state != free}
}

// become changes a server's state. What was due of the state before is not any
// more.
func (f *Fleet) become(s *server, to state) {
	gauges := f.metrics.servers[s.group()]
	gauges[s.state].Dec()
	gauges[to].Inc()
	s.state = to
	s.turn++
}

// register has a server free under a new epoch, at the node that it was registered
// with last, which is yet to be told.
func (f *Fleet) register(s *server) {
	s.epoch++
	s.match = ""
	if s.state != free {
		f.become(s, free)
	}
	s.node.pending[s] = true
	f.add(history.Registered{At: f.now(), Server: s.id, Region: s.region, Node: s.node.name(), Epoch: s.epoch})
}

// reservation is one asked for.
type reservation struct {
	server  int
	epoch   int64
	match   string
	mode    string
	node    string // that asks
	players int
}

// Outcomes of a reservation.
const (
	accepted = "ok"
	taken    = "taken"   // in another match, or not back from it
	stale    = "stale"   // registered under another epoch
	notThere = "gone"    // whatever the epoch
	unknown  = "unknown" // no such server
)

// reserve asks a server to take a match. If it does not, why says what it is
// doing.
func (f *Fleet) reserve(r reservation) (outcome, why string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	defer func() { f.metrics.modes[r.mode].outcomes[outcome].Inc() }()
	s := f.server(r.server)
	switch {
	case s == nil:
		return unknown, fmt.Sprintf("there is no server %d", r.server)
	case s.match == r.match && (s.epoch == r.epoch || f.config.Unfenced):
		return accepted, "" // the same request, come twice
	case f.config.Unfenced:
	case s.state == gone:
		return notThere, fmt.Sprintf("server %d is not there", s.id)
	case s.epoch != r.epoch:
		return stale, fmt.Sprintf("server %d is registered under epoch %d with %s", s.id, s.epoch, s.node.name())
	case s.state == ended:
		return taken, fmt.Sprintf("server %d is not back from match %s", s.id, s.match)
	case s.state != free:
		return taken, fmt.Sprintf("server %d is in match %s", s.id, s.match)
	}
	f.begin()
	if s.epoch == r.epoch {
		f.settle(s) // who asks for it under its epoch has been told
	}
	f.use(s)
	s.match = r.match
	f.become(s, inMatch)
	f.add(history.Reserved{At: f.now(), Server: s.id, Epoch: r.epoch, Match: r.match, Mode: r.mode, Node: r.node})
	f.schedule(s, f.now()+f.real(f.length()))
	m := f.metrics.modes[r.mode]
	m.matches[s.cluster.name].Inc()
	m.players.Add(float64(r.players))
	return accepted, ""
}

// length draws how long a match lasts, documented time.
func (f *Fleet) length() time.Duration {
	off := f.config.LengthSpread / 100 * (2*f.lengths.Float64() - 1)
	return time.Duration(float64(f.config.Length) * (1 + off))
}

// begin starts the time of the matches that are on at the start.
func (f *Fleet) begin() {
	if f.begun {
		return
	}
	f.begun = true
	for _, s := range f.servers {
		if s.state == inMatch {
			f.schedule(s, f.now()+f.real(s.left))
		}
	}
}

// end has a match end that should have ended at a time, which is when the server's
// delay begins, unless it goes.
func (f *Fleet) end(s *server, at time.Duration) {
	f.become(s, ended)
	f.add(history.Ended{At: f.now(), Server: s.id, Match: s.match})
	if s.loss != "" {
		f.leave(s)
		return
	}
	f.schedule(s, at+f.real(f.config.RelistAfter))
}

// answer names what a move was answered: that of one transfer to one node.
type answer struct{ transfer, to string }

// errOtherLife says that a move was asked for by a life of a node that is not the
// one that the fleet knows of: one that has ended, or one so new that the fleet
// has yet to hear of it and the node may ask again.
var errOtherLife = errors.New("boot: not the life of the node that its servers know of; ask again")

// move has servers registered with another node. It gives those that are.
func (f *Fleet) move(m matchmaking.Move) ([]matchmaking.Entry, error) {
	to := f.byName[m.To]
	switch {
	case m.Transfer == "":
		return nil, errors.New("transfer: give its id; without one it cannot be told from others")
	case to == nil:
		return nil, fmt.Errorf("to: no node %q", m.To)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if to.boot != "" && m.Boot != to.boot {
		return nil, errOtherLife
	}
	key := answer{m.Transfer, m.To}
	if said, again := f.moved[key]; again {
		return said, nil
	}
	moved := []matchmaking.Entry{}
	for _, e := range m.Entries {
		s := f.server(e.Server)
		if s == nil || s.state != free || s.epoch != e.Epoch || s.cluster != to.cluster {
			f.metrics.movesRefused.Inc()
			continue
		}
		from := s.node
		// Whoever gives it away has been told of it, acknowledged or not.
		f.settle(s)
		s.node = to
		s.epoch++
		f.add(history.Moved{At: f.now(), Server: s.id, From: from.name(), To: to.name(), Epoch: s.epoch, Transfer: m.Transfer})
		counted := f.metrics.moves
		if from == to {
			counted = f.metrics.movesBack
		}
		counted[s.cluster.name].Inc()
		moved = append(moved, s.entry())
	}
	// Answers are kept for good: who sleeps for long may ask at any time, and a run
	// lasts minutes.
	f.moved[key] = moved
	return moved, nil
}

// server gives a server by its number, nil if there is none.
func (f *Fleet) server(id int) *server {
	if id < 1 || id > len(f.servers) {
		return nil
	}
	return f.servers[id-1]
}
