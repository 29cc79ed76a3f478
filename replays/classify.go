package replays

import (
	"fmt"
	"math"
	"time"
)

// Course is what was measured of a play, every quarter of a second, and when its
// phases were.
type Course struct {
	Goodput  []Reading // requests answered as they should be, per second
	Offered  []Reading // requests made, each once, per second
	Attempts []Reading // with what was sent again, per second; nil where it is not counted
	Latency  []Reading // seconds, the 99th percentile; nil where it is not measured
	Baseline Window    // without what it needs to settle
	Trigger  Window
	Wait     Window
	Push     *Window // load cut to near nothing; nil where none is made
	Again    *Window // load back; nil where no push is made
	Gone     float64 // when the trigger was seen gone
	// WaitAtLeast is how many seconds of waiting tell anything: the larger of 15 s,
	// ten timeouts of the clients, and three times what the trigger's own backlog
	// takes to drain. Only the author knows the last one.
	WaitAtLeast float64
}

// The bounds of the procedure.
const (
	waitBound      = 15 * time.Second
	clientTimeouts = 10 // in a wait
	// shortestWait is the least that can be read at all: thirds of a second each.
	shortestWait = 3 * time.Second
	// goneBound is how late a trigger may be seen gone and still leave a wait of
	// the length asked for.
	goneBound = time.Second

	backShare     = 0.95 // of the baseline's goodput: from there on it is back
	downShare     = 0.80 // of the baseline's goodput: below it is down
	servedShare   = 0.95 // of what the baseline offers: below, the load is more than the system carries
	steadySeconds = 5.0  // in a row for which it must be back; a third of a shorter wait
	latencyFactor = 1.5  // of the baseline's latency: up to there it is back
	amplified     = 1.2  // attempts a request, times the baseline's where that is more than one
	nearNothing   = 0.12 // of the baseline's load: a tenth and what reading it is off by
	loadTolerance = 0.10 // of the baseline's load: up to there it is unchanged
	riseBound     = 0.05 // over a third of the wait, of the baseline: less is no trend
	extension     = 3    // waits within which what is on its way must be back
)

// Classify tells the kind of an outage. It is pure. What is missing makes the
// class unknown: it is never evidence of anything.
//
// The question is whether goodput comes back once the trigger is gone, with the
// load unchanged. Where it does not, attempts above the load, or that a cut in
// load brings it back for good, tell a system that keeps itself down from one
// that is broken.
func Classify(c Course) Class {
	k := &classifier{Course: c, found: Class{Evidence: []string{}}}
	k.found.Is = ClassUnknown
	for _, step := range []func() OutageClass{k.baseline, k.wait, k.fall, k.recovery, k.trend, k.feedback} {
		if is := step(); is != undecided {
			k.found.Is = is
			break
		}
	}
	return k.found
}

// undecided leaves the class to the next step.
const undecided OutageClass = ""

type classifier struct {
	Course
	found   Class
	goodput float64   // of the baseline, per second
	offered float64   // of the baseline, per second
	latency float64   // of the baseline, seconds
	share   []Reading // goodput as a share of the baseline's
	floor   float64   // share from which it is back
	left    Window    // of the wait, once the trigger was seen gone
	low     float64   // mean share in the last third of it
	blind   bool      // a reading that was needed is missing
}

func (k *classifier) say(format string, args ...any) {
	k.found.Evidence = append(k.found.Evidence, fmt.Sprintf(format, args...))
}

// missing says where a quantity has no value for over a second.
func (k *classifier) missing(what string, readings []Reading, w Window) bool {
	in := within(readings, w)
	last := w.From
	for _, r := range append(in, Reading{T: w.To}) {
		if len(in) == 0 || r.T-last > gapBound.Seconds()+instant {
			k.say("%s has no value from %.2f s to %.2f s", what, last, r.T)
			return true
		}
		last = r.T
	}
	return false
}

// baseline reads what the system did before anything triggered.
func (k *classifier) baseline() OutageClass {
	b := k.Baseline
	if k.missing("goodput", k.Goodput, b) || k.missing("the load", k.Offered, b) {
		return ClassUnknown
	}
	k.goodput, k.offered = mean(k.Goodput, b), mean(k.Offered, b)
	if !(k.offered > 0) {
		k.say("nothing was offered in the baseline")
		return ClassUnknown
	}
	served := k.goodput / k.offered
	k.say("in the baseline, %.1f s, goodput was %.4g/s of %.4g/s offered", b.length(), k.goodput, k.offered)
	if served < servedShare {
		k.say("without any trigger that is %s: the load is more than the system carries (bound %s)", percent(served), percent(servedShare))
		return ClassOverload
	}
	if k.Latency != nil {
		if k.missing("latency", k.Latency, b) {
			return ClassUnknown
		}
		k.latency = mean(k.Latency, b)
	}
	return undecided
}

// wait asks for enough time after the trigger, and for the load of before.
func (k *classifier) wait() OutageClass {
	k.left = Window{max(k.Wait.From, k.Gone), k.Wait.To}
	needed := max(k.WaitAtLeast, (shortestWait + goneBound).Seconds())
	if k.left.length() < needed-goneBound.Seconds()-instant {
		k.say("the trigger was seen gone at %.2f s, which leaves %.1f s of the wait: %g s are needed", k.Gone, max(0, k.left.length()), needed)
		return ClassUnknown
	}
	seen := Window{k.Trigger.From, k.Wait.To}
	if k.missing("goodput", k.Goodput, seen) || k.missing("the load", k.Offered, seen) || !k.sameLoad("wait", k.left) {
		return ClassUnknown
	}
	if there, _, ok := k.amplification(); ok {
		k.found.Amplification = thousandth(there)
	}
	return undecided
}

// sameLoad compares a window's load with the baseline's. The more requests both
// hold, the closer they must be: arrivals by chance differ by the root of their
// number.
func (k *classifier) sameLoad(what string, w Window) bool {
	w = w.settled()
	load := mean(k.Offered, w)
	tolerance := max(loadTolerance, 4*math.Sqrt(1/(k.offered*k.Baseline.length())+1/(k.offered*w.length())))
	if math.Abs(load/k.offered-1) <= tolerance {
		return true
	}
	k.say("in the %s %.4g/s were offered, and %.4g/s in the baseline: the load did not stay the same", what, load, k.offered)
	return false
}

// fall looks for a moment without the baseline's goodput.
func (k *classifier) fall() OutageClass {
	k.share = shares(k.Goodput, k.Offered, k.goodput, k.offered)
	scatter := seconds(k.share, k.Baseline)
	if len(scatter) < 4 {
		k.say("the baseline is too short to tell how much its goodput scatters")
		return ClassUnknown
	}
	// A system that scatters by more than the bound leaves room for is not down
	// whenever it is below it.
	noise := 3 * deviation(scatter)
	if k.floor = min(backShare, 1-noise); !(k.floor >= downShare) {
		k.say("the baseline's goodput scatters by %s, too much to tell a fall", percent(noise))
		return ClassUnknown
	}
	seen := seconds(k.share, Window{k.Trigger.From, k.Wait.To})
	if len(seen) == 0 {
		k.say("nothing was offered from the trigger on")
		return ClassUnknown
	}
	worst := seen[0]
	for _, s := range seen {
		if s.V < worst.V {
			worst = s
		}
	}
	if worst.V >= k.floor {
		k.say("goodput never fell below %s of the baseline, at %.1f s (bound %s)", percent(worst.V), worst.T, percent(k.floor))
		return ClassNoFailure
	}
	k.say("goodput fell to %s of the baseline, at %.1f s (bound %s)", percent(worst.V), worst.T, percent(k.floor))
	return undecided
}

// recovery looks for the moment from which the baseline's goodput and latency
// are back.
func (k *classifier) recovery() OutageClass {
	from, back := k.backIn(k.left)
	third := k.left.lastThird()
	k.low = mean(k.share, third)
	if k.blind || math.IsNaN(k.low) {
		return ClassUnknown
	}
	k.say("in the last third of the wait, %.1f s to %.1f s, goodput was %s of the baseline", third.From, third.To, percent(k.low))
	switch {
	case back && k.low >= downShare:
		after := max(0, from-k.Gone)
		k.found.RecoveredAfter = thousandth(after)
		k.say("the trigger was seen gone at %.2f s, and %.1f s later goodput was back for %.1f s in a row", k.Gone, after, k.steady(k.left))
		return ClassTriggerBound
	case back:
		k.say("goodput was back %.1f s after the trigger was seen gone, and went down again", from-k.Gone)
	}
	return undecided
}

// steady is how many seconds in a row of a window it must be back for.
func (k *classifier) steady(w Window) float64 { return min(steadySeconds, w.length()/3) }

// backIn is from when on, in a window, goodput and latency are as in the
// baseline for long enough.
func (k *classifier) backIn(w Window) (from float64, ok bool) {
	all := seconds(k.share, w)
	for n, first := range all {
		end := first.T + k.steady(w)
		if end > w.To+instant {
			break
		}
		steady := true
		for _, s := range all[n:] {
			if s.T+1 > end && s.T > first.T {
				break
			}
			steady = steady && s.V >= k.floor
		}
		if steady && k.quick(Window{first.T, end}) {
			return first.T, true
		}
		if k.blind {
			break
		}
	}
	return 0, false
}

// quick says whether latency is the baseline's again. The load generator itself
// may be as late as the validity gates allow, so that much is no slowness.
func (k *classifier) quick(w Window) bool {
	if k.Latency == nil {
		return true
	}
	if len(within(k.Latency, w)) == 0 {
		k.say("latency has no value from %.2f s to %.2f s", w.From, w.To)
		k.blind = true
		return false
	}
	return mean(k.Latency, w) <= k.latencyBound()
}

func (k *classifier) latencyBound() float64 {
	return max(latencyFactor*k.latency, k.latency+latenessBound.Seconds())
}

// trend tells what is on its way back from what stays down.
func (k *classifier) trend() OutageClass {
	third := k.left.lastThird()
	if k.low >= k.floor {
		return k.slowAnswers(third)
	}
	slope, noise := slopeOf(within(k.share, third))
	if rise := slope * third.length(); rise > max(riseBound, noise*third.length()) {
		k.say("there it rises by %s a second, give or take %s", percent(slope), percent(noise))
		return k.onItsWay(third, (k.floor-k.low)/slope)
	}
	if k.low >= downShare {
		k.say("that is neither back (%s) nor down (%s), and it does not rise", percent(k.floor), percent(downShare))
		return ClassUnknown
	}
	k.say("it does not rise there: %+.2f %% a second, give or take %.2f %%", 100*slope, 100*noise)
	return undecided
}

// slowAnswers is for a goodput that is back without the latency.
func (k *classifier) slowAnswers(third Window) OutageClass {
	readings := within(k.Latency, third)
	if len(readings) == 0 || k.quick(third) {
		k.say("it was not back for %.1f s in a row", k.steady(k.left))
		return ClassUnknown
	}
	late := mean(k.Latency, third)
	slope, noise := slopeOf(readings)
	k.say("latency was %.3g s there, and %.3g s in the baseline (bound %.3g s)", late, k.latency, k.latencyBound())
	if fall := -slope * third.length(); fall > max(riseBound*late, noise*third.length()) {
		return k.onItsWay(third, (late-k.latencyBound())/-slope)
	}
	k.say("it does not fall")
	return ClassUnknown
}

// onItsWay judges a trend by where it leads: ahead is how many seconds after the
// middle of the last third.
func (k *classifier) onItsWay(third Window, ahead float64) OutageClass {
	after := third.From + third.length()/2 + ahead - k.Gone
	k.say("at that pace it is back %.1f s after the trigger was seen gone (bound %.1f s, %d times the wait)", after, extension*k.left.length(), extension)
	if after > extension*k.left.length() {
		return ClassUnknown
	}
	return ClassSlowRecovery
}

// amplification is attempts for each request, in the last third of the wait and
// in the baseline; false where they were not counted or not seen.
func (k *classifier) amplification() (there, before float64, ok bool) {
	third := k.left.lastThird()
	there = mean(k.Attempts, third) / mean(k.Offered, third)
	before = mean(k.Attempts, k.Baseline) / k.offered
	return there, before, finite(there) && finite(before)
}

// feedback looks for what keeps it down.
func (k *classifier) feedback() OutageClass {
	fed := false
	if k.Attempts != nil {
		there, before, ok := k.amplification()
		if k.missing("attempts", k.Attempts, k.left.lastThird()) || k.missing("attempts", k.Attempts, k.Baseline) || !ok {
			return ClassUnknown
		}
		bound := amplified * max(1, before)
		fed = there > bound
		k.say("there were %.2f attempts for each request offered, and %.2f in the baseline (bound %.2f)", there, before, bound)
	}
	if k.Push == nil || k.Again == nil {
		if fed {
			k.say("the load was not cut to push it back, so lasting damage is not ruled out")
			return ClassMetastable
		}
		k.say("nothing tells a system that keeps itself down from a broken one: count attempts, or cut the load to push it back")
		return ClassUnknown
	}
	return k.push(fed)
}

// push reads what a cut in load did: two states at one load are hysteresis.
func (k *classifier) push(fed bool) OutageClass {
	if k.missing("the load", k.Offered, *k.Push) || k.missing("goodput", k.Goodput, *k.Again) ||
		k.missing("the load", k.Offered, *k.Again) || !k.sameLoad("load that came again", *k.Again) {
		return ClassUnknown
	}
	_, back := k.backIn(*k.Again)
	back = back && mean(k.share, k.Again.lastThird()) >= downShare
	if k.blind {
		return ClassUnknown
	}
	k.found.Hysteresis = &back
	depth := mean(k.Offered, k.Push.settled()) / k.offered
	cut := fmt.Sprintf("the load was cut to %s for %.1f s", percent(depth), k.Push.length())
	switch {
	case back:
		k.say("%s, and with all of it again goodput was back: two states at one load", cut)
		return ClassMetastable
	case depth <= nearNothing:
		k.say("%s, and that did not bring it back: something is broken", cut)
		return ClassPermanent
	case fed:
		k.say("%s, which is not near nothing (%s) and did not bring it back: lasting damage is not ruled out", cut, percent(nearNothing))
		return ClassMetastable
	}
	k.say("%s, which is not near nothing (%s) and tells nothing", cut, percent(nearNothing))
	return ClassUnknown
}
