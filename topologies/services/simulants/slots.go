package simulants

import (
	"bytes"
	"time"
)

const (
	// slotIdle is how long a slot waits for work before it ends, so that a surge does
	// not leave thousands of them.
	slotIdle = 5 * time.Second
	// keepBody is the largest buffer that a slot keeps between answers.
	keepBody = 64 << 10
)

// slot makes requests, one at a time, over the shard's kept connections. Which player
// they are of changes with every one.
//
//	working --answer--> parked --work--> working
//	                      '--- idle for too long, or the harness ends --> gone
type slot struct {
	shard *shard
	work  chan action // holds one; closed for the slot to end
	since time.Duration
	body  bytes.Buffer
}

// give has an action carried out: by the slot that was parked last, whose connection
// and memory are the warmest, else by a new one, else when one is free. The shard is
// locked, as in all of this file but for [slot.run] and [slot.do].
func (s *shard) give(a action) {
	if last := len(s.parked) - 1; last >= 0 {
		free := s.parked[last]
		s.parked = s.parked[:last]
		free.work <- a
		return
	}
	if s.slots < s.mostSlots {
		s.slots++
		one := &slot{shard: s, work: make(chan action, 1)}
		one.work <- a
		s.working.Go(one.run)
		return
	}
	s.h.metrics.overdue.Inc()
	s.waiting = append(s.waiting, a)
}

// next gives waiting actions to the slots that are free.
func (s *shard) next() {
	for len(s.parked) > 0 && s.first < len(s.waiting) {
		s.give(s.takeWaiting())
	}
}

func (s *shard) takeWaiting() action {
	a := s.waiting[s.first]
	s.waiting[s.first] = action{}
	if s.first++; s.first == len(s.waiting) {
		s.waiting, s.first = s.waiting[:0], 0
	}
	return a
}

// expire ends the actions that waited for a slot for as long as a player waits for an
// answer: they are never sent.
func (s *shard) expire(now time.Duration) {
	for s.first < len(s.waiting) && now-s.waiting[s.first].due >= s.h.config.Timeout {
		a := s.takeWaiting()
		s.h.metrics.ops[a.op].end(unsent, 0)
		s.ended(&a, &result{became: unsent}, now)
	}
	if s.first > len(s.waiting)/2 && s.first > 1024 {
		s.waiting = append(s.waiting[:0], s.waiting[s.first:]...)
		s.first = 0
	}
}

// retire ends the slots that nobody needed for a while.
func (s *shard) retire(now time.Duration) {
	n := 0
	for n < len(s.parked) && now-s.parked[n].since > slotIdle {
		close(s.parked[n].work)
		n++
	}
	s.slots -= n
	s.parked = append(s.parked[:0], s.parked[n:]...)
}

// stop ends all slots, each once it has its answer, and begins nothing any more.
func (s *shard) stop() {
	s.stopped = true
	for _, one := range s.parked {
		close(one.work)
	}
	s.slots -= len(s.parked)
	s.parked, s.waiting, s.first = nil, nil, 0
}

// run carries out actions until the slot is not needed any more.
func (one *slot) run() {
	s := one.shard
	for a := range one.work {
		r := one.do(&a)
		s.mu.Lock()
		now := s.h.now()
		if s.stopped {
			s.slots--
			s.mu.Unlock()
			return
		}
		// Parked before the player goes on, whose next request may be for now.
		one.since = now
		s.parked = append(s.parked, one)
		s.next()
		s.ended(&a, &r, now)
		s.mu.Unlock()
	}
}

// do carries out an action.
func (one *slot) do(a *action) (r result) {
	h := one.shard.h
	m := &h.metrics.ops[a.op]
	began := h.now()
	deadline := a.due + h.config.Timeout
	r.late = a.late(began)
	if began >= deadline {
		r.became = unsent
		m.end(unsent, 0)
		return r
	}
	h.metrics.lateness.Observe(r.late.Seconds())
	client := one.shard.clients[calls[a.op].role]
	if one.body.Cap() > keepBody {
		one.body = bytes.Buffer{}
	}
	one.body.Reset()
	status, err := client.Do(h.request(client, a), h.start.Add(deadline), &one.body)
	r.status, r.became = status, outcomeOf(status, err)
	if r.became == succeeded {
		r.read(a.op, one.body.Bytes())
	}
	m.end(r.became, h.now()-a.due)
	return r
}
