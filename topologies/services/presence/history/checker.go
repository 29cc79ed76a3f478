package history

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// Defaults of a [Config].
const (
	DefaultLag   = time.Second
	DefaultSlack = 250 * time.Millisecond
)

// Config is what a checker must know of the instances; package presence has the
// meanings. Durations are whole milliseconds.
type Config struct {
	Lease, Interval, Tick, OfflineAfter, Late time.Duration

	Lag        time.Duration // that a heartbeat may take to be written; 0 for [DefaultLag]
	Slack      time.Duration // that carrying something out may take; 0 for [DefaultSlack]
	Partitions int
	Partition  func(player int64) int // that a player is in
}

// Checker checks a history while it is read. It is used by one goroutine at a time.
type Checker struct {
	lease, interval, tick, offline, late, lag, slack int64 // ms

	players    map[int64]*player
	partitions []partition
	partition  func(player int64) int

	highest int64 // claim number known
	lost    int64 // the highest at the time of a loss; -1 if there was none
	moves   int
	began   int64 // when anybody first owned a partition
	spread  int
}

// player is what the history says of one.
type player struct {
	beat  int64   // the last one known
	known int64   // since when
	owed  bool    // it is due some time, and not marked or missed yet
	dues  []int64 // ticks for which it was marked
	last  Acted   // the last action, if there was one
	wrong bool    // that was said to be a false mark
}

// New makes a checker of an empty history.
func New(c Config) (*Checker, error) {
	if c.Lag == 0 {
		c.Lag = DefaultLag
	}
	if c.Slack == 0 {
		c.Slack = DefaultSlack
	}
	switch {
	case c.Partitions < 1:
		return nil, fmt.Errorf("history: %d partitions: want one or more", c.Partitions)
	case c.Partition == nil:
		return nil, errors.New("history: no partition of a player; without it every action would be in the right one")
	}
	for what, d := range map[string]time.Duration{
		"lease": c.Lease, "interval": c.Interval, "tick": c.Tick, "time after which a player is offline": c.OfflineAfter,
	} {
		if d < time.Millisecond {
			return nil, fmt.Errorf("history: a %s of %v: want a millisecond or more", what, d)
		}
	}
	if c.Late < 0 || c.Lag < 0 || c.Slack < 0 {
		return nil, fmt.Errorf("history: late by %v, a lag of %v, a slack of %v: want zero or more", c.Late, c.Lag, c.Slack)
	}
	return &Checker{
		lease: c.Lease.Milliseconds(), interval: c.Interval.Milliseconds(), tick: c.Tick.Milliseconds(),
		offline: c.OfflineAfter.Milliseconds(), late: c.Late.Milliseconds(), lag: c.Lag.Milliseconds(), slack: c.Slack.Milliseconds(),
		players: map[int64]*player{}, partitions: make([]partition, c.Partitions), partition: c.Partition,
		lost: -1,
	}, nil
}

// Add takes the next event and gives what it violates.
func (c *Checker) Add(e Event) []Violation {
	switch e := e.(type) {
	case Claimed:
		c.claimed(e)
	case Lost:
		c.lost = max(c.lost, c.highest)
	case Acted:
		return c.acted(e)
	case Heard:
		return c.heard(e)
	case Held:
		return c.held(e)
	}
	return nil
}

func (c *Checker) acted(e Acted) (found []Violation) {
	p := c.player(e.Player)
	say := func(invariant, says string) {
		found = append(found, Violation{Invariant: invariant, Player: e.Player, Partition: e.Partition, At: e.At, Says: says})
	}
	if slices.Contains(p.dues, e.Due) {
		say(HandledTwice, fmt.Sprintf("marked by %s for tick %d, for which it was marked before; the last time was by %s at %s",
			e.Owner, e.Due, p.last.Owner, seconds(p.last.At)))
	}
	if why := c.withoutClaim(e); why != "" {
		say(WithoutClaim, fmt.Sprintf("marked by %s under claim %d: %s", e.Owner, e.Number, why))
	}
	p.dues = append(p.dues, e.Due)
	p.last, p.wrong = e, false
	if at := e.Due * c.tick; e.At < at {
		p.wrong = true
		say(FalseMark, fmt.Sprintf("marked by %s for tick %d, which is at %s only", e.Owner, e.Due, seconds(at)))
	}
	if e.Due >= c.due(p.beat) {
		p.owed = false
	}
	return append(found, c.falsely(p)...)
}

// heard takes what is on the lists, then looks who should have been marked by then.
func (c *Checker) heard(e Heard) (found []Violation) {
	for _, b := range e.Beats {
		p := c.player(b.Player)
		if b.At <= p.beat {
			continue // an older one that was written late, or nothing new
		}
		p.beat, p.known, p.owed = b.At, e.At, !p.marked(c.due(b.At))
		found = append(found, c.falsely(p)...)
	}
	allowed := c.late + c.lease + c.interval + c.tick + c.slack
	for id, p := range c.players {
		if !p.owed {
			continue
		}
		due := c.due(p.beat)
		if from := max(due*c.tick, p.known); e.At > from+allowed {
			p.owed = false
			found = append(found, Violation{
				Invariant: Missed, Player: id, Partition: c.partition(id), At: e.At,
				Says: fmt.Sprintf("last heard of at %s, due at %s, known since %s, and not marked", seconds(p.beat), seconds(due*c.tick), seconds(p.known)),
			})
		}
	}
	return found
}

// falsely says whether the last mark of a player was false, by the last heartbeat
// that is known.
func (c *Checker) falsely(p *player) []Violation {
	at := p.last.Due * c.tick // it was due
	if p.wrong || len(p.dues) == 0 || p.beat <= at-c.offline || p.beat > max(at, p.last.At-c.lag) {
		return nil
	}
	p.wrong = true
	return []Violation{{
		Invariant: FalseMark, Player: p.last.Player, Partition: p.last.Partition, At: p.last.At,
		Says: fmt.Sprintf("marked by %s for tick %d, at %s, though heard of at %s", p.last.Owner, p.last.Due, seconds(at), seconds(p.beat)),
	}}
}

// due is the tick at which a player is due by a heartbeat.
func (c *Checker) due(beat int64) int64 { return (beat + c.offline + c.tick - 1) / c.tick }

// marked says whether the player was marked for a tick or a later one.
func (p *player) marked(due int64) bool { return len(p.dues) > 0 && p.last.Due >= due }

func (c *Checker) player(id int64) *player {
	p := c.players[id]
	if p == nil {
		p = &player{}
		c.players[id] = p
	}
	return p
}
