package simulants

import (
	"context"
	"slices"
	"time"
)

// Ranges says which of the ranges of players' numbers a harness plays. A range is
// played by one harness at a time, so that no player is there twice.
type Ranges interface {
	// Keep renews what a harness holds, gives back what it does not ask to keep, and
	// takes what is its due. An error says that nothing is known to have been renewed;
	// what was held is held until the lease ends.
	Keep(context.Context, Ask) (Holding, error)
	// Leave gives everything back. What was not given back is free once the lease ends.
	Leave(context.Context) error
}

// Ask is what a harness has to say when it asks for ranges.
type Ask struct {
	Keep []int // the numbers of ranges that it holds and has not cleared
	// Players is how many players were ordered of this harness; nil before the first
	// order of one that has just begun, which then plays its share of what was ordered
	// of the others and, before it died, of itself.
	Players *float64
}

// Holding is what a harness plays.
type Holding struct {
	Ranges []int // numbers, in rising order
	// Spare is how many of them, from the end, the harness is to clear and to give back
	// when it asks next, which it does at once.
	Spare int
	// Players is how many players it plays on all of these: what was ordered of all
	// harnesses together, those that died as well, by its part of all ranges.
	Players float64
	// Lease is how long it may do so, from before it asked; 0 stands for ever.
	Lease time.Duration
}

// alone holds all ranges, so many of them, for ever.
type alone int

// Keep gives all.
func (n alone) Keep(_ context.Context, ask Ask) (Holding, error) {
	var all Holding
	for r := range int(n) {
		all.Ranges = append(all.Ranges, r)
	}
	if ask.Players != nil {
		all.Players = *ask.Players
	}
	return all, nil
}

// Leave has nobody to give anything to.
func (alone) Leave(context.Context) error { return nil }

// The harness's side: what is held is divided among the shards.

// perLease is how often a lease is renewed in its time, so that two renewals in a row
// can fail.
const perLease = 3

// keepAgain is when a harness asks again that got no answer.
const keepAgain = 100 * time.Millisecond

// keepOn asks for ranges again and again until the context ends.
func (h *Harness) keepOn(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-h.keepNow:
		}
		again, err := h.keep(ctx)
		if err != nil {
			if ctx.Err() != nil {
				return
			}
			h.log.Warn("cannot keep ranges", "error", err)
			again = keepAgain
		}
		timer.Reset(again)
	}
}

// keepSoon has ranges asked for without waiting.
func (h *Harness) keepSoon() {
	select {
	case h.keepNow <- struct{}{}:
	default:
	}
}

// keep asks for ranges once, and has the shards play those that there are. It gives
// after how long to ask again.
func (h *Harness) keep(ctx context.Context) (again time.Duration, err error) {
	h.mu.Lock()
	ask := Ask{Keep: h.holds()}
	if h.rates != nil {
		ordered := h.ordered(orderPlayers)
		ask.Players = &ordered
	}
	h.mu.Unlock()
	asked := h.now()
	holding, err := h.ranges.Keep(ctx, ask)
	if err != nil {
		return 0, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.rates == nil || ask.Players != nil && *ask.Players == h.ordered(orderPlayers) {
		h.share = holding.Players // else an order came meanwhile, and will be asked about
	}
	until := time.Duration(0)
	if holding.Lease > 0 {
		until = asked + holding.Lease
	}
	h.divide(holding.Ranges[:len(holding.Ranges)-holding.Spare], until)
	h.apply()
	switch {
	case holding.Lease == 0:
		return time.Hour, nil
	case holding.Spare > 0:
		return 0, nil
	}
	return holding.Lease / perLease, nil
}

// holds are the numbers of the ranges that the shards hold. The harness is locked.
func (h *Harness) holds() (numbers []int) {
	for _, s := range h.shards {
		s.mu.Lock()
		for _, r := range s.held {
			numbers = append(numbers, r.number)
		}
		s.mu.Unlock()
	}
	slices.Sort(numbers)
	return numbers
}

// divide has the shards hold these ranges and no others: what one holds already stays
// where it is, and what is new goes to whoever has the fewest. The harness is locked.
func (h *Harness) divide(numbers []int, until time.Duration) {
	here := map[int]bool{}
	for _, s := range h.shards {
		s.mu.Lock()
		s.dispatch(h.now()) // what was due before
		s.until = until
		s.held = slices.DeleteFunc(s.held, func(r *held) bool {
			stays := slices.Contains(numbers, r.number)
			if !stays {
				s.clear(r)
			}
			here[r.number] = here[r.number] || stays
			return !stays
		})
		s.changed = true
		s.mu.Unlock()
	}
	for _, n := range numbers {
		if here[n] {
			continue
		}
		s := slices.MinFunc(h.shards, func(a, b *shard) int { return a.holds() - b.holds() })
		s.mu.Lock()
		s.held, s.changed = append(s.held, h.newHeld(n)), true
		s.mu.Unlock()
	}
}

func (s *shard) holds() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.held)
}

// newHeld is a range without anyone yet.
func (h *Harness) newHeld(number int) *held {
	at := func(n int) int { return h.config.Players * n / h.config.Ranges }
	return &held{number: number, first: uint32(at(number)), size: at(number+1) - at(number)}
}

// apply has the shards play what is ordered, each range its even part. The harness is
// locked.
func (h *Harness) apply() {
	numbers := h.holds()
	unlimited := h.unlimited()
	pace := h.config.LoginRate
	if ordered := h.ordered(orderLogin); ordered > 0 {
		pace = ordered
	}
	// The part that the ranges below the n-th one have.
	below := func(n int) int { return int(h.share * float64(n) / float64(max(1, len(numbers)))) }
	for _, s := range h.shards {
		s.mu.Lock()
		now := h.now()
		s.dispatch(now) // what was due by the old order
		o := order{limited: !unlimited, pace: pace / float64(len(h.shards))}
		for k := range kinds {
			o.factors[k] = h.factor(kindNames[k])
		}
		for _, r := range s.held {
			r.want = r.size
			if !unlimited {
				n, _ := slices.BinarySearch(numbers, r.number)
				want := below(n+1) - below(n)
				o.wanted += float64(want)
				r.want = min(want, r.size)
			}
		}
		if !unlimited && len(numbers) == 0 {
			o.wanted = h.share / float64(len(h.shards)) // nobody can be played, which is to be seen
		}
		s.order, s.pushed, s.changed = o, true, true
		s.dispatch(now) // from when on the new one counts, whenever the shard wakes
		s.mu.Unlock()
		s.poke()
	}
}
