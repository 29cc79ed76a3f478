package players

import (
	"math/rand/v2"
	"time"
)

// Arrivals is how the arrivals of an operation are spaced.
type Arrivals string

const (
	// Even spaces arrivals by 1/rate, from a phase drawn once, so that
	// operations of one rate do not arrive together.
	Even Arrivals = "even"
	// Poisson draws the gaps from the exponential distribution of mean 1/rate.
	Poisson Arrivals = "poisson"
)

// Schedule gives the arrivals of one operation, as times since a start. It is
// pure: equal seeds and equal rate changes give equal arrivals, whatever
// happens to the requests.
//
// An arrival comes when the integral of the rate has grown by a gap of mean 1;
// a rate that changes in between stretches what is left of the gap, so that
// frequent changes lose no arrivals and make none up.
type Schedule struct {
	kind Arrivals
	rng  *rand.Rand
	rate float64       // per second
	from time.Duration // since when rate holds, or the last arrival if later
	left float64       // of the gap, at from
}

// NewSchedule makes a schedule of rate zero.
func NewSchedule(kind Arrivals, rng *rand.Rand) *Schedule {
	s := &Schedule{kind: kind, rng: rng}
	s.left = s.gap()
	if kind == Even {
		s.left = rng.Float64()
	}
	return s
}

func (s *Schedule) gap() float64 {
	if s.kind == Poisson {
		return s.rng.ExpFloat64()
	}
	return 1
}

// SetRate changes the rate from a time on. Arrivals due by then must have been
// taken before.
func (s *Schedule) SetRate(now time.Duration, perSecond float64) {
	s.left = max(0, s.left-s.rate*(now-s.from).Seconds())
	s.from, s.rate = now, perSecond
}

// Next gives the next arrival; false if the rate is zero.
func (s *Schedule) Next() (time.Duration, bool) {
	if s.rate <= 0 {
		return 0, false
	}
	return s.from + time.Duration(s.left/s.rate*float64(time.Second)), true
}

// Take takes the next arrival, so that the one after it comes next.
func (s *Schedule) Take() {
	if next, ok := s.Next(); ok {
		s.from, s.left = next, s.gap()
	}
}
