package simulants

import (
	"time"

	"relapse/topologies/services/platform/api"
)

// state is what a player is at.
//
//	absent -> signing in -> idle -> shop ----------------------> idle
//	                             -> skin ----------------------> idle
//	                             -> queue -> agents -> match --> idle
//
// A player leaves from any of them. One whose token is not known any more signs in
// again without leaving the state: the client does that by itself.
type state uint8

const (
	absent state = iota
	signingIn
	idle
	shopping
	dressing
	queueing
	selecting
	playing
	states
)

var stateNames = [states]string{"absent", "signing_in", "idle", "shop", "skin", "queue", "agents", "match"}

// activity is what a player can be due with; each has an entry of its own in the
// wheel.
type activity uint8

const (
	onSession activity = iota // signs in, or renews its token
	onConfig
	onHeartbeat
	onScenario // the next step of it
	activities
)

// polls are the activities that the client goes after by itself.
var polls = [...]activity{onSession, onConfig, onHeartbeat}

var pollNames = [...]string{onSession: "renew", onConfig: "config", onHeartbeat: "heartbeat"}

// What a player was told for sure, and what it must reckon with.
const (
	knowsToken    uint8 = 1 << iota
	knowsWallet         // the balance
	knowsItems          // which items it owns
	knowsEquipped       // which of them it has put on
	changedWallet       // since it last read the version
	mayBeGranted        // what a match that it left too early grants
	unsettled           // a purchase of which it was never told how it came out
)

// nowhere is where a player is who is on no list.
const nowhere = -1

// player is one simulated player: 64 bytes, and 32 in the wheel, so that a harness is
// bound by requests and not by memory. Its place in the shard's array stands for it.
type player struct {
	token    string
	owned    uint64 // items that it was told to own, by their number in the catalog
	balance  int64  // as it was last told
	number   uint32 // see [api.Player]
	where    int32  // its place among the idle, or its group while it is in a match
	ops      uint32 // operations it has numbered
	version  uint32 // of its wallet, as it last read it
	lasts    tick   // until when its token must be known, at least
	life     uint16 // tells who has this place from who had it before
	flying   uint16 // its requests on their way
	item     uint8  // that it buys or puts on; agents it has asked for
	equipped uint8  // item, while knowsEquipped
	state    state
	step     step
	tries    uint8 // of the step
	waits    uint8 // closed loop: activities that wait for an answer, a bit each
	knows    uint8
}

func (p *player) id() api.Player { return api.Player(p.number) }

// knowing says whether a player was told all of this.
func (p *player) knowing(what uint8) bool { return p.knows&what == what }

func (p *player) learn(what uint8)  { p.knows |= what }
func (p *player) forget(what uint8) { p.knows &^= what }

// entry is an activity's number in the wheel.
func entry(place int32, a activity) int32 { return place*int32(activities) + int32(a) }

// become has a player be at something else.
func (s *shard) become(p *player, now state) {
	s.count[p.state]--
	s.count[now]++
	p.state = now
}

// signedIn is how many players have signed in once.
func (s *shard) signedIn() (n int) {
	for st := idle; st < states; st++ {
		n += s.count[st]
	}
	return n
}

// present is how many players there are.
func (s *shard) present() int { return s.count[signingIn] + s.signedIn() }

// create has one more player of a range sign in.
func (s *shard) create(r *held, at time.Duration) {
	place := s.vacancy()
	p := &s.population[place]
	*p = player{number: r.first + uint32(len(r.in)), where: nowhere, life: p.life + 1}
	r.in = append(r.in, place)
	s.become(p, signingIn)
	s.send(p, action{place: place, op: opLogin, by: onSession, due: at})
}

// vacancy gives a place that nobody has.
func (s *shard) vacancy() int32 {
	if last := len(s.vacant) - 1; last >= 0 {
		place := s.vacant[last]
		s.vacant = s.vacant[:last]
		return place
	}
	s.population = append(s.population, player{})
	s.wheel.grow(len(s.population) * int(activities))
	return int32(len(s.population) - 1)
}

// leave has a player gone, as when its client is closed: without a word to the
// platform. Answers on their way are nobody's.
func (s *shard) leave(place int32) {
	p := &s.population[place]
	if p.state == idle {
		s.unlist(p)
	} else if p.state > idle {
		s.h.metrics.scenarios[kindOf(p.state)][left].Inc()
	}
	if p.state >= queueing {
		s.quit(place)
	}
	for a := range activities {
		s.wheel.drop(entry(place, a))
	}
	s.become(p, absent)
	*p = player{life: p.life + 1, where: nowhere}
	s.vacant = append(s.vacant, place)
}

// list has a player among those to whom scenarios are handed out.
func (s *shard) list(place int32) {
	s.population[place].where = int32(len(s.idle))
	s.idle = append(s.idle, place)
}

// unlist takes a player from among them.
func (s *shard) unlist(p *player) {
	last := len(s.idle) - 1
	moved := s.idle[last]
	s.idle[p.where] = moved
	s.population[moved].where = p.where
	s.idle = s.idle[:last]
	p.where = nowhere
}
