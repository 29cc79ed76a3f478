package simulants

import (
	"net/http"
	"time"
)

// renewWithin is the part of a token's life after which it is renewed, where that is
// sooner than the poll: as clients do, so that one renewal can fail.
const renewWithin = 0.8

// pollOps are the requests of polls.
var pollOps = [...]op{onSession: opRenew, onConfig: opConfig, onHeartbeat: opHeartbeat}

// period draws what passes until a player's next poll.
func (s *shard) period(a activity) time.Duration {
	every := s.h.config.every(a)
	if s.h.config.Lockstep {
		return every
	}
	return s.around(every, s.h.config.Jitter)
}

// around draws a time that differs from another by a part of it at most.
func (s *shard) around(d time.Duration, by float64) time.Duration {
	return time.Duration(float64(d) * (1 + by*(2*s.rng.Float64()-1)))
}

// begin has a player poll who has just signed in: at first anywhere in the period, so
// that players who sign in together do not stay together. Where is drawn for the number
// of the player, so that it does not depend on whose answer came first.
func (s *shard) begin(place int32, now time.Duration) {
	if s.h.config.Polls.Off {
		return
	}
	for _, a := range polls {
		every := s.h.config.every(a)
		part := float64(spread(s.h.config.Seed, uint64(s.population[place].number), uint64(a))>>11) / (1 << 53)
		first := now + time.Duration(part*float64(every))
		if s.h.config.Lockstep {
			first = (now/every + 1) * every
		}
		s.wheel.set(entry(place, a), tickAfter(first))
	}
}

// poll has a player poll, and once more for every period that was missed: the
// platform must be asked as often as planned, by a harness that was held up as well.
func (s *shard) poll(place int32, a activity, at, now time.Duration) {
	p := &s.population[place]
	if p.token == "" {
		if a == onSession {
			s.send(p, action{place: place, op: opRelogin, by: onSession, due: at})
			return
		}
		if p.state == signingIn {
			return
		}
	}
	for {
		s.h.metrics.polls[a].Inc()
		s.send(p, action{place: place, op: pollOps[a], by: a, due: at, id: p.token})
		if s.h.config.Closed {
			return // goOn sets the next one
		}
		at += s.period(a)
		if at > now {
			break
		}
	}
	s.wheel.set(entry(place, a), tickAfter(at))
}

// login has a player be signed in, or try again after a while.
func (s *shard) login(a *action, r *result, now time.Duration) {
	p := &s.population[a.place]
	if r.became != succeeded || r.bad != nil || r.foreign {
		s.wheel.set(entry(a.place, onSession), tickAfter(now+s.around(s.h.config.LoginAgain, 0.5)))
		return
	}
	if p.state == signingIn {
		s.become(p, idle)
		s.list(a.place)
		s.begin(a.place, now)
	} else if !s.h.config.Polls.Off {
		s.wheel.set(entry(a.place, onSession), tickAfter(now+s.period(onSession)))
	}
	s.keepToken(a, r, now)
}

// keepToken notes a token, and brings its renewal forward where it must be.
func (s *shard) keepToken(a *action, r *result, now time.Duration) {
	p := &s.population[a.place]
	lasts := time.Duration(r.answer.LastsMS) * time.Millisecond
	p.token = r.answer.Token
	p.learn(knowsToken)
	// From the time at which it was asked for: the platform has given it later.
	p.lasts = ticks(a.due + lasts)
	session := entry(a.place, onSession)
	by := tickAfter(max(a.due+time.Duration(renewWithin*float64(lasts)), now+shortestPoll))
	if lasts > 0 && !s.h.config.Polls.Off && (s.wheel.at(session) == 0 || s.wheel.at(session) > by) {
		s.wheel.set(session, by)
	}
}

// renewed has a player keep its new token, or sign in again if its own is not known.
func (s *shard) renewed(a *action, r *result, now time.Duration) {
	p := &s.population[a.place]
	switch {
	case r.became == succeeded && r.bad == nil && !r.foreign:
		s.keepToken(a, r, now)
	case r.status == http.StatusUnauthorized && a.id == p.token:
		s.check(p, saysToken, !p.knowing(knowsToken) || ticks(now) >= p.lasts, "its token is not known, which lasts %v more",
			p.lasts.time()-now)
		p.token = ""
		s.h.metrics.signouts.Inc()
		s.wheel.set(entry(a.place, onSession), tickAfter(now+s.around(s.h.config.LoginAgain, 0.5)))
	case !r.definite():
		// The platform may have changed the token without the player knowing.
		p.forget(knowsToken)
	}
}
