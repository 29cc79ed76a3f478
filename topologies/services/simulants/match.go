package simulants

import (
	"slices"
	"time"

	"relapse/topologies/services/platform/api"
)

// hasAgent in the place of the agents that a player has asked for says that it has one.
const hasAgent = 255

// maxParty is how many players a party can have: a team.
const maxParty = 5

// group is a party on its way through a match. Its first member leads it: it makes the
// party, queues and asks for the ticket, and the others hear of the match from it, as
// from the platform's messages.
//
//	leader: party -> queue -> ticket -.----- no patience left -> unqueue -.
//	                                  v                                    |
//	everyone:                       wallet -> agent -> match -> wallet     |
//	leader:                                                       '-> disband
type group struct {
	party   string
	ticket  string
	match   string
	began   time.Duration // when it queued; when it had its match
	members [maxParty]member
	size    int8
	here    int8 // members who have not left it
	gaveUp  bool
}

type member struct {
	place int32
	here  bool
}

// meet has players who are free meet in a party and play.
func (s *shard) meet(at time.Duration) {
	g := s.newGroup()
	size := min(s.partySize(), len(s.idle))
	one := &s.groups[g]
	one.size, one.here = int8(size), int8(size)
	for n := range size {
		place := s.pick()
		s.population[place].where = g
		one.members[n] = member{place, true}
	}
	for n, m := range one.members[:size] {
		first := matchWait
		if n == 0 {
			first = matchParty
		}
		s.start(m.place, queueing, first, at)
	}
}

func (s *shard) newGroup() int32 {
	if last := len(s.noGroups) - 1; last >= 0 {
		g := s.noGroups[last]
		s.noGroups = s.noGroups[:last]
		return g
	}
	s.groups = append(s.groups, group{})
	return int32(len(s.groups) - 1)
}

// partySize draws how many players a party has.
func (s *shard) partySize() int {
	weights := s.h.config.Match.Parties
	all := 0.0
	for _, weight := range weights {
		all += weight
	}
	at := s.rng.Float64() * all
	for n, weight := range weights {
		if at -= weight; at < 0 {
			return n + 1
		}
	}
	return 1
}

// numbers are those of a group's members.
func (s *shard) numbers(g int32) (numbers []api.Player) {
	for _, m := range s.groups[g].members[:s.groups[g].size] {
		if m.here {
			numbers = append(numbers, s.population[m.place].id())
		}
	}
	return numbers
}

// leads says whether a player leads its group.
func (s *shard) leads(place int32) bool {
	return s.groups[s.population[place].where].members[0].place == place
}

// quit takes a player out of its group. Those who still wait for its leader's word
// have failed to get a match, then.
func (s *shard) quit(place int32) {
	p := &s.population[place]
	g := p.where
	one := &s.groups[g]
	p.where = nowhere
	for n := range one.members[:one.size] {
		if m := &one.members[n]; m.place == place && m.here {
			m.here = false
			one.here--
		}
	}
	if one.members[0].place == place {
		how := broken
		if one.gaveUp {
			how = gaveUp
		}
		for _, m := range one.members[1:one.size] {
			if m.here && s.population[m.place].step == matchWait {
				s.end(m.place, how)
			}
		}
	}
	if one.here == 0 && one.size > 0 {
		*one = group{}
		s.noGroups = append(s.noGroups, g)
	}
}

// matched goes on with a match.
func (s *shard) matched(a *action, r *result, now time.Duration) {
	place := a.place
	p := &s.population[place]
	c := &s.h.config.Match
	g := &s.groups[p.where]
	switch {
	case p.step == matchAgent && r.became == declined:
		// Somebody else has it, or the time is over: the match says which.
		p.item++
		s.enter(place, matchWatch, s.think(), now)
	case p.step == matchUnqueue:
		s.enter(place, matchDisband, 0, now)
	case p.step == matchDisband:
		how := done
		if g.gaveUp {
			how = gaveUp
		}
		s.end(place, how)
	case r.became != succeeded:
		s.abandon(place, broken)
	case p.step == matchParty:
		g.party = r.answer.Party
		s.enter(place, matchQueue, s.think(), now)
	case p.step == matchQueue:
		g.ticket, g.began = r.answer.Ticket, now
		s.enter(place, matchTicket, s.h.config.played(c.Ask), now)
	case p.step == matchTicket:
		s.asked(place, r, now)
	case p.step == matchWallet:
		p.item = 0
		s.enter(place, matchAgent, s.think(), now)
	case p.step == matchAgent:
		p.item = hasAgent
		s.enter(place, matchWatch, s.around(s.h.config.played(c.Ask), 0.5), now)
	case p.step == matchWatch:
		s.watched(place, r, now)
	case p.step == matchResult:
		s.resulted(place, r, now)
	}
}

// asked goes on once the ticket says matched, or the party has no patience left.
func (s *shard) asked(place int32, r *result, now time.Duration) {
	p := &s.population[place]
	c := &s.h.config
	g := &s.groups[p.where]
	switch {
	case r.answer.State == api.Matched:
		g.match, g.began = r.answer.Match, now
		for _, m := range g.members[:g.size] {
			if m.here {
				s.become(&s.population[m.place], selecting)
				s.enter(m.place, matchWallet, s.think(), now)
			}
		}
	case now-g.began > c.played(c.Match.Patience):
		g.gaveUp = true
		s.doubt(p.where)
		s.enter(place, matchUnqueue, 0, now)
	default:
		p.tries = 0
		s.again(place, c.played(c.Match.Ask), now)
	}
}

// watched goes on once the match is over.
func (s *shard) watched(place int32, r *result, now time.Duration) {
	p := &s.population[place]
	c := &s.h.config
	g := &s.groups[p.where]
	ask := c.Match.Ask
	switch said := r.answer.State; {
	case said == api.Over:
		p.item = 0
		s.enter(place, matchResult, s.think(), now)
		return
	case said == api.Failed:
		s.abandon(place, broken)
		return
	case now-g.began > c.played(c.Match.Longest):
		s.abandon(place, gaveUp)
		return
	case said == api.Selecting && p.item != hasAgent:
		s.enter(place, matchAgent, 0, now)
		return
	case said == api.Playing:
		if p.state == selecting {
			s.become(p, playing)
		}
		ask = c.Match.AskPlaying
	}
	p.tries = 0
	s.again(place, s.around(c.played(ask), c.Jitter), now)
}

// resulted goes on once the wallet shows what the match has granted, or should have.
func (s *shard) resulted(place int32, r *result, now time.Duration) {
	p := &s.population[place]
	c := &s.h.config
	balance := *r.answer.Balance
	switch by := balance - p.balance; {
	case !p.knowing(knowsWallet):
	case by != 0:
		s.check(p, saysMatch, c.Match.granted(by), "its wallet has changed by %d with a match, grants are %v", by, c.Match.Grants)
	default:
		// Asked for the item-th time.
		if p.item++; time.Duration(p.item)*c.RetryAfter < c.Match.GrantedWithin {
			s.again(place, c.RetryAfter, now)
			return
		}
		s.check(p, saysMatch, false, "its wallet has not changed from %d within %v after its match", balance, c.Match.GrantedWithin)
		p.learn(mayBeGranted)
	}
	p.noteWallet(balance, uint32(r.answer.Version))
	if s.leads(place) {
		s.enter(place, matchDisband, s.think(), now)
		return
	}
	s.end(place, done)
}

// granted says whether a wallet can have grown by so much by one match.
func (m *Match) granted(by int64) bool {
	return by > 0 && (len(m.Grants) == 0 || slices.Contains(m.Grants, by))
}

// abandon has a player leave a match that it may still be in for the platform, which
// may grant it something later; before there was one, the others as well.
func (s *shard) abandon(place int32, how ending) {
	p := &s.population[place]
	if p.step <= matchTicket {
		s.doubt(p.where)
	} else {
		p.learn(mayBeGranted)
	}
	s.end(place, how)
}

// doubt has all of a group reckon with a match that comes after they gave up.
func (s *shard) doubt(g int32) {
	for _, m := range s.groups[g].members[:s.groups[g].size] {
		if m.here {
			s.population[m.place].learn(mayBeGranted)
		}
	}
}
