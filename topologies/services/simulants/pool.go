package simulants

import "time"

// held is a range of numbers that a shard plays. Its players have the numbers from
// first on, in the order in which they came; whoever came last leaves first.
type held struct {
	number int // of the range
	first  uint32
	size   int
	want   int     // players
	in     []int32 // their places
}

// lapse has everyone leave because the lease on the ranges is over: somebody else may
// play these players from now on. A harness that slept through the end of its lease
// comes by here before it sends anything.
func (s *shard) lapse() {
	s.until = 0
	s.h.metrics.lapses.Inc()
	for _, r := range s.held {
		s.clear(r)
	}
	s.held, s.changed = nil, true
	s.h.keepSoon()
}

// clear has all players of a range leave.
func (s *shard) clear(r *held) {
	for _, place := range r.in {
		s.leave(place)
	}
	r.in = nil
}

// fit has players leave who are too many, and log in who are too few.
func (s *shard) fit(now time.Duration) {
	if s.changed {
		s.changed, s.missing = false, 0
		for _, r := range s.held {
			for len(r.in) > r.want {
				last := len(r.in) - 1
				s.leave(r.in[last])
				r.in = r.in[:last]
			}
			s.missing += r.want - len(r.in)
		}
	}
	pace := s.order.pace
	if s.missing == 0 && s.order.limited {
		pace = 0 // nobody comes
	}
	if pace != s.paced {
		s.logins.SetRate(now, pace)
		s.paced = pace
	}
	for s.paced > 0 {
		at, ok := s.logins.Next()
		if !ok || at > now {
			return
		}
		s.logins.Take()
		s.recent[0].Add(now)
		if s.missing == 0 {
			// Logins were ordered, and every number there is has a player.
			s.h.metrics.ops[opLogin].offered.Inc()
			s.h.metrics.ops[opLogin].end(unsent, 0)
			continue
		}
		s.create(s.neediest(), at)
		if s.missing--; s.missing == 0 && s.order.limited {
			s.logins.SetRate(now, 0)
			s.paced = 0
		}
	}
}

// neediest is the range that most players are missing of.
func (s *shard) neediest() (r *held) {
	for _, one := range s.held {
		if r == nil || one.want-len(one.in) > r.want-len(r.in) {
			r = one
		}
	}
	return r
}

// hand hands out scenarios. Their rates follow from how many players are signed in,
// and from nothing else: a scenario for which nobody is free is counted.
func (s *shard) hand(now time.Duration) {
	if in := s.signedIn(); in != s.handed || s.pushed {
		s.handed, s.pushed = in, false
		for k := range kinds {
			rate := float64(in) * s.h.config.perSecond(k) * s.order.factors[k]
			if k == matching {
				rate /= s.h.config.Match.partySize()
			}
			s.hands[k].SetRate(now, rate)
		}
	}
	for k, schedule := range s.hands {
		for {
			at, ok := schedule.Next()
			if !ok || at > now {
				break
			}
			schedule.Take()
			s.handOut(kind(k), at)
		}
	}
}

// account adds up player-seconds: those that were ordered, and those that there were.
func (s *shard) account(now time.Duration) {
	seconds := now.Seconds() - s.added
	s.added += seconds
	present := float64(s.present())
	m := s.h.metrics
	m.playerSeconds.Add(present * seconds)
	m.signedInSeconds.Add(float64(s.signedIn()) * seconds)
	if s.order.limited {
		m.wantedSeconds.Add(s.order.wanted * seconds)
		m.missingSeconds.Add(max(0, s.order.wanted-present) * seconds)
	}
}
