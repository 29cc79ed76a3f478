// Package tournament is a tournament whose games all want to begin: teams that lock in,
// tiers, brackets, scouting, Champ Select and the placing of games on hosts. [Stage] is
// the state of it, which is pure; [Tournament] is the service around it.
//
//	players -> tournament: POST /brackets, POST /games?mode=NAME
//	tournament -> limiter: GET /limit
//	tournament -> hosts:   GET /hosts, POST /games
//	audit -> tournament:   GET /log, pages of [Event]
//
// Only the first round of each bracket is played, a game of every two teams.
package tournament

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"
)

// Where the limit of starts is put.
const (
	GateNone   = "none"
	GateBefore = "before" // Champ Select
	GateBehind = "behind" // Champ Select: between it and a game server
)

// Gates lists them.
var Gates = []string{GateNone, GateBefore, GateBehind}

// Rules are those of a tournament. All times are documented ones.
type Rules struct {
	FirstTier    time.Duration // when the first tier begins, after the first order
	Tiers        []float64     // shares of the brackets, of their sum
	TierEvery    time.Duration // documented as 30 minutes
	Immediate    bool          // a bracket's games are ready one by one, as it locked in, and not all of a tier at once
	Bracket      int           // teams in one
	Gate         string
	Slots        int           // lobbies that Champ Select takes at once
	Select       time.Duration // how long they are in it; documented as about 7 minutes
	Again        time.Duration // from a start that failed to the next try
	ForfeitAfter time.Duration // a game that has not started by then is lost for its teams; 0 to extend scouting instead
	MostTeams    int           // that may take part; 0 for all
}

// Validate checks rules.
func (r Rules) Validate() error {
	switch {
	case len(r.Tiers) == 0 || slices.ContainsFunc(r.Tiers, func(s float64) bool { return !(s > 0) || math.IsInf(s, 1) }):
		return fmt.Errorf("tournament: tiers %v: want one share above zero for each", r.Tiers)
	case r.FirstTier < 0 || r.TierEvery <= 0 || r.Select <= 0 || r.Again <= 0 || r.ForfeitAfter < 0:
		return fmt.Errorf("tournament: first tier at %v, one every %v, Champ Select of %v, again after %v, forfeits after %v: want more than zero, but for the first and the last",
			r.FirstTier, r.TierEvery, r.Select, r.Again, r.ForfeitAfter)
	case r.Bracket < 2 || r.Bracket%2 != 0:
		return fmt.Errorf("tournament: brackets of %d teams: want an even number", r.Bracket)
	case !slices.Contains(Gates, r.Gate):
		return fmt.Errorf("tournament: a gate %q: want one of %q", r.Gate, Gates)
	case r.Slots < 1:
		return errors.New("tournament: Champ Select has no lobby: want one at least")
	case r.MostTeams < 0:
		return fmt.Errorf("tournament: %d teams at most: want zero, for all, or more", r.MostTeams)
	}
	return nil
}

// Kinds of events.
const (
	EventEligible = "eligible" // a game may start
	EventEntered  = "entered"  // it is in Champ Select
	EventPassed   = "passed"   // a gate behind Champ Select let it go
	EventForfeit  = "forfeit"
	EventPlaced   = "placed" // a host has it
)

// Event is what happened to a game.
type Event struct {
	At   time.Duration `json:"at"`
	Kind string        `json:"kind"`
	Game int64         `json:"game"`
	Tier int           `json:"tier"`
}

// burstOf is how much of a minute's starts may be granted at once.
const burstOf = 6 * time.Second

type pairing struct {
	id       int64
	tier     int
	eligible time.Duration
	next     time.Duration // try
	until    time.Duration // in Champ Select
}

// Stage is a tournament as it is. It is used by one goroutine at a time.
type Stage struct {
	rules     Rules
	brackets  int
	assigned  []int // brackets by tier
	ids       int64
	locked    [][]*pairing // by tier, in order
	waiting   []*pairing
	selecting []*pairing
	expired   []*pairing // past Champ Select, and held by a gate behind it
	placing   map[int64]*pairing
	level     float64 // starts that may be granted now
	now       time.Duration
	minute    []time.Duration // when games became eligible, of the last minute
	note      func(Event)
	Counts
}

// Counts are what has happened to games since the start.
type Counts struct {
	Games    int // of teams that take part
	Refused  int // of teams that may not
	Started  int // entered Champ Select
	Failed   int // tries to
	Forfeits int
	Begun    int // on a host
	Peak     int // games that became ready within one minute, at most
}

// NewStage makes a tournament without teams; note gets each event.
func NewStage(r Rules, note func(Event)) (*Stage, error) {
	if err := r.Validate(); err != nil {
		return nil, err
	}
	return &Stage{rules: r, assigned: make([]int, len(r.Tiers)), locked: make([][]*pairing, len(r.Tiers)), placing: map[int64]*pairing{}, note: note}, nil
}

// LockIn has the teams of a bracket lock in: for a later tier as those of the first one
// do, so much later. since is how long ago lock-in opened.
func (s *Stage) LockIn(since time.Duration) {
	total, tier := 0.0, 0
	for _, share := range s.rules.Tiers {
		total += share
	}
	s.brackets++
	behind := math.Inf(-1)
	for n, share := range s.rules.Tiers {
		if by := share/total*float64(s.brackets) - float64(s.assigned[n]); by > behind {
			behind, tier = by, n
		}
	}
	s.assigned[tier]++
	for range s.rules.Bracket / 2 {
		if most := s.rules.MostTeams; most > 0 && 2*(s.Games+1) > most {
			s.Refused++
			continue
		}
		s.Games++
		s.ids++
		p := &pairing{id: s.ids, tier: tier, eligible: s.rules.FirstTier + time.Duration(tier)*s.rules.TierEvery}
		if s.rules.Immediate {
			p.eligible += since
		}
		s.locked[tier] = append(s.locked[tier], p)
	}
}

// Step lets time pass under a limit, starts a minute, and gives the games that are to
// be placed on hosts; [Stage.Placed] says when one is.
func (s *Stage) Step(now time.Duration, limit float64) []int64 {
	passed := max(0, now-s.now)
	s.now = max(s.now, now)
	burst := limit*burstOf.Minutes() + 1
	s.level = min(s.level+limit*passed.Minutes(), burst)
	s.ready()
	s.forfeit()
	out := s.leave()
	s.enter()
	return out
}

// ready has games wait whose time has come.
func (s *Stage) ready() {
	for tier := range s.locked {
		for len(s.locked[tier]) > 0 && s.locked[tier][0].eligible <= s.now {
			p := s.locked[tier][0]
			s.locked[tier] = s.locked[tier][1:]
			s.waiting = append(s.waiting, p)
			s.minute = append(s.minute, s.now)
			s.event(EventEligible, p)
		}
	}
	s.minute = slices.DeleteFunc(s.minute, func(at time.Duration) bool { return at <= s.now-time.Minute })
	s.Peak = max(s.Peak, len(s.minute))
}

func (s *Stage) forfeit() {
	if s.rules.ForfeitAfter == 0 {
		return
	}
	s.waiting = slices.DeleteFunc(s.waiting, func(p *pairing) bool {
		late := s.now >= p.eligible+s.rules.ForfeitAfter
		if late {
			s.Forfeits++
			s.event(EventForfeit, p)
		}
		return late
	})
}

// enter has waiting games try to get into Champ Select, those that wait longest first.
func (s *Stage) enter() {
	left := s.waiting[:0]
	for n, p := range s.waiting {
		if s.rules.Gate == GateBefore && s.level < 1 {
			left = append(left, s.waiting[n:]...)
			break
		}
		if p.next > s.now {
			left = append(left, p)
			continue
		}
		if len(s.selecting)+len(s.expired) >= s.rules.Slots {
			s.Failed++
			p.next = s.now + s.rules.Again
			left = append(left, p)
			continue
		}
		if s.rules.Gate == GateBefore {
			s.level--
		}
		s.Started++
		p.until = s.now + s.rules.Select
		s.selecting = append(s.selecting, p)
		s.event(EventEntered, p)
	}
	clear(s.waiting[len(left):])
	s.waiting = left
}

// leave has games go on from Champ Select.
func (s *Stage) leave() (out []int64) {
	for len(s.selecting) > 0 && s.selecting[0].until <= s.now {
		s.expired = append(s.expired, s.selecting[0])
		s.selecting = s.selecting[1:]
	}
	for len(s.expired) > 0 {
		if s.rules.Gate == GateBehind {
			if s.level < 1 {
				break
			}
			s.level--
		}
		p := s.expired[0]
		s.expired = s.expired[1:]
		s.placing[p.id] = p
		s.event(EventPassed, p)
		out = append(out, p.id)
	}
	return out
}

// Placed says that a host has a game.
func (s *Stage) Placed(id int64) {
	if p := s.placing[id]; p != nil {
		delete(s.placing, id)
		s.Begun++
		s.event(EventPlaced, p)
	}
}

func (s *Stage) event(kind string, p *pairing) { s.note(Event{s.now, kind, p.id, p.tier}) }

// Sizes is how many games are where.
type Sizes struct{ Locked, Waiting, Selecting, Expired, Placing int }

// Sizes gives how many games are where now.
func (s *Stage) Sizes() Sizes {
	locked := 0
	for _, tier := range s.locked {
		locked += len(tier)
	}
	return Sizes{locked, len(s.waiting), len(s.selecting), len(s.expired), len(s.placing)}
}
