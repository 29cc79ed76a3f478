package players_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"relapse/topologies/services/players"
)

// take gives the arrivals up to a time.
func take(s *players.Schedule, until time.Duration) []time.Duration {
	var out []time.Duration
	for {
		at, ok := s.Next()
		if !ok || at > until {
			return out
		}
		s.Take()
		out = append(out, at)
	}
}

func source(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 0)) }

func TestEvenArrivals(t *testing.T) {
	s := players.NewSchedule(players.Even, source(1))
	if at, ok := s.Next(); ok {
		t.Fatalf("an arrival at %v without a rate", at)
	}
	s.SetRate(0, 100)
	arrivals := take(s, 10*time.Second)
	if have := len(arrivals); have != 1000 {
		t.Errorf("arrivals in 10 s of 100/s: have %d, want 1000", have)
	}
	for i := 1; i < len(arrivals); i++ {
		if gap := arrivals[i] - arrivals[i-1]; gap.Round(time.Microsecond) != 10*time.Millisecond {
			t.Fatalf("gap %d: have %v, want 10ms", i, gap)
		}
	}
	if arrivals[0] >= 10*time.Millisecond {
		t.Errorf("phase: have %v, want less than a gap", arrivals[0])
	}
}

func TestOperationsOfOneRateDoNotArriveTogether(t *testing.T) {
	a, b := players.NewSchedule(players.Even, source(1)), players.NewSchedule(players.Even, source(2))
	a.SetRate(0, 10)
	b.SetRate(0, 10)
	if take(a, time.Second)[0] == take(b, time.Second)[0] {
		t.Error("both have the same phase")
	}
}

func TestRateChangesLoseNoArrivals(t *testing.T) {
	for _, kind := range []players.Arrivals{players.Even, players.Poisson} {
		steady, changed := players.NewSchedule(kind, source(3)), players.NewSchedule(kind, source(3))
		steady.SetRate(0, 50)
		changed.SetRate(0, 50)
		want := take(steady, 4*time.Second)
		var have []time.Duration
		// Setting the same rate more often than arrivals come changes nothing.
		for now := time.Duration(0); now < 4*time.Second; now += 3 * time.Millisecond {
			have = append(have, take(changed, now)...)
			changed.SetRate(now, 50)
		}
		have = append(have, take(changed, 4*time.Second)...)
		if len(have) != len(want) {
			t.Fatalf("%s: have %d arrivals, want %d", kind, len(have), len(want))
		}
		for i := range have {
			if d := have[i] - want[i]; d.Abs() > time.Microsecond {
				t.Fatalf("%s: arrival %d is off by %v", kind, i, d)
			}
		}
	}
}

func TestARateChangeStretchesWhatIsLeftOfAGap(t *testing.T) {
	for _, c := range []struct {
		name  string
		rates []float64 // one per second, from 0
		want  int
	}{
		{"growth", []float64{80, 1000, 1000, 80}, 2160},
		{"a pause", []float64{100, 0, 100}, 200},
		{"less than one in a second", []float64{0.5, 0.5, 0.5, 0.5}, 2},
	} {
		s := players.NewSchedule(players.Even, source(4))
		have := 0
		for i, rate := range c.rates {
			have += len(take(s, time.Duration(i)*time.Second))
			s.SetRate(time.Duration(i)*time.Second, rate)
		}
		have += len(take(s, time.Duration(len(c.rates))*time.Second))
		if have < c.want-1 || have > c.want+1 {
			t.Errorf("%s: have %d arrivals, want %d, one more or less", c.name, have, c.want)
		}
	}
}

func TestPoissonArrivals(t *testing.T) {
	s := players.NewSchedule(players.Poisson, source(5))
	s.SetRate(0, 1000)
	arrivals := take(s, 100*time.Second)
	// The standard deviation of the count is its root, 316.
	if have := len(arrivals); have < 99_000 || have > 101_000 {
		t.Errorf("arrivals: have %d, want 100000 within three standard deviations", have)
	}
	mean := (arrivals[len(arrivals)-1] - arrivals[0]).Seconds() / float64(len(arrivals)-1)
	var squares float64
	for i := 1; i < len(arrivals); i++ {
		d := (arrivals[i] - arrivals[i-1]).Seconds() - mean
		squares += d * d
	}
	// An exponential distribution's deviation is its mean.
	if cv := math.Sqrt(squares/float64(len(arrivals))) / mean; cv < 0.97 || cv > 1.03 {
		t.Errorf("deviation over mean of the gaps: have %.3f, want 1", cv)
	}
	again := players.NewSchedule(players.Poisson, source(5))
	again.SetRate(0, 1000)
	if !slices.Equal(arrivals, take(again, 100*time.Second)) {
		t.Error("the same seed gave other arrivals")
	}
}
