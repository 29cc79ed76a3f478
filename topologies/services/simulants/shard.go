package simulants

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"relapse/topologies/services"
	"relapse/topologies/services/http1"
	"relapse/topologies/services/players"
)

const (
	// longestRest bounds how long a shard rests with nothing due.
	longestRest = 100 * time.Millisecond
	tidyEvery   = time.Second
	// maxLate is the most lateness that is told apart.
	maxLate = time.Minute
)

// shard is a part of a harness's players, and all that plays them.
type shard struct {
	h       *Harness
	rng     *rand.Rand
	wake    chan struct{}
	clients [roles]*http1.Client
	working sync.WaitGroup

	mu         sync.Mutex
	population []player
	vacant     []int32 // places of nobody
	idle       []int32 // places of players to whom a scenario can be handed out
	count      [states]int
	wheel      wheel
	fired      []due // kept for its memory
	groups     []group
	noGroups   []int32 // places of none
	catalog    catalog

	held    []*held
	order   order
	until   time.Duration // when the lease on the ranges ends; 0 for never
	changed bool          // the ranges or the order, so that players may have to leave
	missing int           // players, while nothing has changed
	logins  *players.Schedule
	paced   float64 // of logins, a second
	hands   [kinds]*players.Schedule
	handed  int     // players who were signed in when the rates of hands were set
	pushed  bool    // the order has changed since then
	added   float64 // up to when players are accounted for, in seconds since the start

	mostSlots int
	slots     int
	parked    []*slot // the one that was used last at the end
	waiting   []action
	first     int // of waiting
	stopped   bool

	lateness *hdrhistogram.Histogram // microseconds
	recent   [1 + kinds]services.Recent
}

// order is what a shard is to play.
type order struct {
	wanted  float64 // players, were there numbers for all of them
	limited bool    // to that; else as many as log in
	pace    float64 // logins a second
	factors [kinds]float64
}

func newShard(h *Harness, n, of int) *shard {
	s := &shard{
		h: h, wake: make(chan struct{}, 1),
		rng:       random(h.config.Seed, fmt.Sprintf("players of shard %d", n)),
		mostSlots: max(1, h.config.InFlight/of),
		lateness:  newLateness(),
	}
	s.logins = players.NewSchedule(h.config.Arrivals, rand.New(rand.NewPCG(s.rng.Uint64(), s.rng.Uint64())))
	for k := range kinds {
		s.hands[k] = players.NewSchedule(h.config.Arrivals, rand.New(rand.NewPCG(s.rng.Uint64(), s.rng.Uint64())))
		s.order.factors[k] = 1
	}
	return s
}

// newLateness counts microseconds, to two digits.
func newLateness() *hdrhistogram.Histogram {
	return hdrhistogram.New(1, int64(maxLate/time.Microsecond), 2)
}

// run plays until the context ends, and then waits for the answers on their way.
func (s *shard) run(ctx context.Context) {
	defer func() {
		for _, c := range s.clients {
			c.Close()
		}
	}()
	defer s.working.Wait()
	timer := time.NewTimer(0)
	defer timer.Stop()
	tidied := s.h.now()
	for {
		select {
		case <-ctx.Done():
			s.mu.Lock()
			s.stop()
			s.mu.Unlock()
			return
		case <-timer.C:
		case <-s.wake:
		}
		s.mu.Lock()
		now := s.h.now()
		s.dispatch(now)
		tidy := now-tidied > tidyEvery
		if tidy {
			s.retire(now)
		}
		next := s.rest(now)
		s.mu.Unlock()
		if tidy {
			tidied = now
			for _, c := range s.clients {
				c.Prune(time.Now())
			}
		}
		timer.Reset(next - s.h.now())
	}
}

// poke has the shard look at what is due again.
func (s *shard) poke() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// dispatch does what is due. The shard is locked, as in all methods that are not said
// to be otherwise.
func (s *shard) dispatch(now time.Duration) {
	if s.until > 0 && now >= s.until {
		s.lapse()
	}
	s.account(now)
	s.expire(now)
	s.fit(now)
	s.hand(now)
	s.fired = s.wheel.advance(ticks(now), s.fired[:0])
	for _, d := range s.fired {
		s.fire(d.entry/int32(activities), activity(d.entry%int32(activities)), d.at.time(), now)
	}
}

// rest gives when there is something to do next.
func (s *shard) rest(now time.Duration) time.Duration {
	next := s.wheel.upcoming(ticks(longestRest)).time()
	sooner := func(at time.Duration, ok bool) {
		if ok {
			next = min(next, at)
		}
	}
	if s.paced > 0 {
		sooner(s.logins.Next())
	}
	for _, schedule := range s.hands {
		sooner(schedule.Next())
	}
	if s.first < len(s.waiting) {
		sooner(s.waiting[s.first].due+s.h.config.Timeout, true)
	}
	if s.until > 0 {
		sooner(s.until, true)
	}
	return max(next, now)
}

// fire has a player do what is due.
func (s *shard) fire(place int32, a activity, at, now time.Duration) {
	p := &s.population[place]
	switch {
	case p.state == absent || s.defers(p, a):
	case a == onScenario:
		s.act(place, at)
	default:
		s.poll(place, a, at, now)
	}
}

// defers says whether a player of a closed loop puts something off, since it waits for
// an answer.
func (s *shard) defers(p *player, a activity) bool {
	if !s.h.config.Closed || p.flying == 0 {
		return false
	}
	p.waits |= 1 << a
	return true
}

// send has a player make a request.
func (s *shard) send(p *player, a action) {
	if s.stopped {
		return
	}
	a.life, a.player, a.number = p.life, p.id(), p.ops
	s.h.metrics.ops[a.op].offered.Inc()
	p.flying++
	s.give(a)
}

// ended has a player go on who has an answer, or who will have none.
func (s *shard) ended(a *action, r *result, now time.Duration) {
	if r.became != unsent {
		// An error would say that the value is over a minute: it is recorded as one.
		_ = s.lateness.RecordValue(min(max(r.late, time.Microsecond), maxLate).Microseconds())
	}
	p := &s.population[a.place]
	if p.life != a.life {
		return // who asked is gone
	}
	p.flying--
	s.witness(p, a, r)
	switch a.op {
	case opLogin, opRelogin:
		s.login(a, r, now)
	case opRenew:
		s.renewed(a, r, now)
	case opConfig, opHeartbeat:
	default:
		s.stepEnded(a, r, now)
	}
	if s.h.config.Closed {
		s.goOn(a, now)
	}
}

// goOn has a player of a closed loop do what waited for the answer, with the time of
// the answer for the one that it was meant to be done at.
func (s *shard) goOn(a *action, now time.Duration) {
	p := &s.population[a.place]
	if p.life != a.life || p.flying > 0 {
		return
	}
	if a.by != onScenario && !s.h.config.Polls.Off && p.state >= idle && s.wheel.at(entry(a.place, a.by)) == 0 {
		s.wheel.set(entry(a.place, a.by), tickAfter(now+s.period(a.by)))
	}
	for waiting := range activities {
		if p.waits&(1<<waiting) != 0 {
			s.wheel.set(entry(a.place, waiting), tickAfter(now))
		}
	}
	p.waits = 0
}
