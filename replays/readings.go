package replays

import (
	"fmt"
	"math"
)

// Reading is one value of a quantity, T seconds after the first phase began.
type Reading struct{ T, V float64 }

// Window is a stretch of a play, in seconds since the first phase began.
type Window struct{ From, To float64 }

func (w Window) length() float64 { return w.To - w.From }

// lastThird is what a wait is judged by: whatever the trigger left behind had
// two thirds of the time to go.
func (w Window) lastThird() Window { return Window{w.To - w.length()/3, w.To} }

// settled leaves out what is still on its way after a change of load.
func (w Window) settled() Window { return Window{w.From + w.length()/3, w.To} }

// instant is how far two moments may lie apart that were meant to be one.
const instant = 0.005

// shares gives goodput as a share of the baseline's. A moment in which less was
// asked for than in the baseline is held to that, since arrivals come by chance
// and a dip of them is none of the system's.
func shares(goodput, offered []Reading, goodputBefore, offeredBefore float64) []Reading {
	asked := map[float64]float64{}
	for _, r := range offered {
		if finite(r.V) {
			asked[r.T] = r.V
		}
	}
	var out []Reading
	for _, r := range goodput {
		if load := asked[r.T]; finite(r.V) && load > 0 {
			out = append(out, Reading{r.T, r.V / (goodputBefore * min(1, load/offeredBefore))})
		}
	}
	return out
}

// seconds gives the mean over each second of a window that begins with a
// reading: what falls for less is not seen.
func seconds(readings []Reading, w Window) []Reading {
	in := within(readings, w)
	var out []Reading
	for n, first := range in {
		if first.T+1-sampleEvery.Seconds() > w.To+instant {
			break
		}
		sum, count := 0.0, 0.0
		for _, r := range in[n:] {
			if r.T > first.T+1-instant {
				break
			}
			sum, count = sum+r.V, count+1
		}
		out = append(out, Reading{first.T, sum / count})
	}
	return out
}

// within gives the readings of a window. One at its very beginning tells of what
// was before it.
func within(readings []Reading, w Window) []Reading {
	var out []Reading
	for _, r := range readings {
		if finite(r.V) && r.T > w.From+instant && r.T <= w.To+instant {
			out = append(out, r)
		}
	}
	return out
}

// mean is not a number where a window holds no reading.
func mean(readings []Reading, w Window) float64 {
	sum, count := 0.0, 0.0
	for _, r := range within(readings, w) {
		sum, count = sum+r.V, count+1
	}
	return sum / count
}

func deviation(readings []Reading) float64 {
	sum := 0.0
	for _, r := range readings {
		sum += r.V
	}
	middle, squares := sum/float64(len(readings)), 0.0
	for _, r := range readings {
		squares += (r.V - middle) * (r.V - middle)
	}
	return math.Sqrt(squares / float64(len(readings)-1))
}

// slopeOf is the least-squares slope of readings, per second, and how far it may
// be off: twice its standard error, and twice that, since readings a quarter of a
// second apart that are rates over a second share most of it.
func slopeOf(readings []Reading) (slope, noise float64) {
	n := float64(len(readings))
	if n < 3 {
		return 0, math.Inf(1)
	}
	var t, v float64
	for _, r := range readings {
		t, v = t+r.T/n, v+r.V/n
	}
	var tt, tv, rest float64
	for _, r := range readings {
		tt, tv = tt+(r.T-t)*(r.T-t), tv+(r.T-t)*(r.V-v)
	}
	slope = tv / tt
	for _, r := range readings {
		off := r.V - v - slope*(r.T-t)
		rest += off * off
	}
	return slope, 4 * math.Sqrt(rest/(n-2)/tt)
}

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

func percent(share float64) string { return fmt.Sprintf("%.1f %%", 100*share) }

// thousandth leaves out digits that no reading has.
func thousandth(v float64) *float64 {
	v = math.Round(v*1000) / 1000
	return &v
}
