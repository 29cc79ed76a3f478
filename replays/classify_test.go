package replays_test

import (
	"container/heap"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"relapse/replays"
)

// queue is the reference case of a metastable failure: one server, first come
// first served, whose clients give an attempt up and make the next one while the
// server still has all of them to work through. Only the arrivals come by chance.
type queue struct {
	load     float64 // requests a second
	trigger  float64 // what the server's capacity is multiplied by meanwhile; 0 for no trigger
	lasts    float64 // seconds of it; 0 for 2
	resends  int     // after the first attempt
	bound    int     // attempts that may wait, 0 for any number; what comes on top is dropped, and nobody told
	budget   float64 // resends for each request, 0 for any number
	backoff  float64 // seconds: up to so long before the first resend, twice as long before each next one; by chance
	pushedTo float64 // requests a second, 0 for no push
	seed     uint64
}

const (
	queueCapacity = 500.0 // attempts a second
	clientTimeout = 0.3   // seconds
	triggerEnd    = 12.0
	pushBegin     = 34.0
	pushEnd       = 59.0
	againEnd      = 74.0
)

// attempt is one message of a request.
type attempt struct{ at, born, left float64 }

type attempts []attempt

func (a attempts) Len() int           { return len(a) }
func (a attempts) Less(i, j int) bool { return a[i].at < a[j].at }
func (a attempts) Swap(i, j int)      { a[i], a[j] = a[j], a[i] }
func (a *attempts) Push(x any)        { *a = append(*a, x.(attempt)) }
func (a *attempts) Pop() any {
	last := (*a)[len(*a)-1]
	*a = (*a)[:len(*a)-1]
	return last
}

func (q queue) rate(t float64) float64 {
	if q.pushedTo > 0 && t >= pushBegin && t < pushEnd {
		return q.pushedTo
	}
	return q.load
}

func (q queue) capacity(t float64) float64 {
	lasts := q.lasts
	if lasts == 0 {
		lasts = 2
	}
	if q.trigger > 0 && t >= triggerEnd-lasts && t < triggerEnd {
		return queueCapacity * q.trigger
	}
	return queueCapacity
}

// course plays the queue and reads it as a play is read. Since it serves in the
// order of arrival and cancels nothing, it is known of each attempt as it arrives
// when it will be done.
func (q queue) course() replays.Course {
	end := pushBegin
	if q.pushedTo > 0 {
		end = againEnd
	}
	rng := rand.New(rand.NewPCG(q.seed, 1))
	m := newMeter(end)
	var resent attempts
	var done []float64 // when each attempt is served
	served := 0        // of them, by now
	free, tokens := 0.0, 10.0
	arrival := rng.ExpFloat64() / q.load
	for {
		now := attempt{at: arrival, born: arrival, left: float64(q.resends)}
		if len(resent) > 0 && resent[0].at < arrival {
			now = heap.Pop(&resent).(attempt)
			if q.budget > 0 {
				if tokens < 1 {
					continue // the client gives the request up
				}
				tokens--
			}
		} else {
			arrival += rng.ExpFloat64() / q.load
			if rng.Float64() >= q.rate(now.at)/q.load {
				continue // thinned out to the rate of the moment
			}
			m.count(m.offered, now.at)
			tokens = min(10, tokens+q.budget)
		}
		if now.at >= end {
			return q.read(m, end)
		}
		m.count(m.attempts, now.at)
		for served < len(done) && done[served] <= now.at {
			served++
		}
		if q.bound == 0 || len(done)-served < q.bound {
			start := max(free, now.at)
			free = start + 1/q.capacity(start)
			done = append(done, free)
			if free-now.at <= clientTimeout {
				m.answer(free, free-now.born)
				continue
			}
		}
		if now.left > 0 {
			wait := clientTimeout + rng.Float64()*q.backoff*math.Pow(2, float64(q.resends)-now.left)
			heap.Push(&resent, attempt{now.at + wait, now.born, now.left - 1})
		}
	}
}

func (q queue) read(m *meter, end float64) replays.Course {
	c := replays.Course{
		Goodput: m.rates(m.answers), Offered: m.rates(m.offered), Attempts: m.rates(m.attempts), Latency: m.latencies(),
		Baseline: replays.Window{From: 1, To: 10}, Trigger: replays.Window{From: 10, To: triggerEnd}, Wait: replays.Window{From: triggerEnd, To: pushBegin},
		// Three times what it takes to drain what 400/s leave behind: 600 at 100/s.
		Gone: triggerEnd + 0.02, WaitAtLeast: 18,
	}
	if end > pushBegin {
		c.Push, c.Again = &replays.Window{From: pushBegin, To: pushEnd}, &replays.Window{From: pushEnd, To: againEnd}
	}
	return c
}

// meter counts in quarters of a second and reads rates over a second.
type meter struct {
	answers, offered, attempts []float64
	waits                      [][]float64
}

func newMeter(end float64) *meter {
	n := int(end * 4)
	return &meter{make([]float64, n), make([]float64, n), make([]float64, n), make([][]float64, n)}
}

func (m *meter) count(into []float64, t float64) {
	if n := int(t * 4); n < len(into) {
		into[n]++
	}
}

func (m *meter) answer(t, wait float64) {
	if n := int(t * 4); n < len(m.waits) {
		m.answers[n]++
		m.waits[n] = append(m.waits[n], wait)
	}
}

func (m *meter) rates(counts []float64) []replays.Reading {
	var out []replays.Reading
	for n := 3; n < len(counts); n++ {
		out = append(out, replays.Reading{T: float64(n+1) / 4, V: counts[n-3] + counts[n-2] + counts[n-1] + counts[n]})
	}
	return out
}

func (m *meter) latencies() []replays.Reading {
	out := []replays.Reading{}
	for n := 3; n < len(m.waits); n++ {
		all := slices.Sorted(slices.Values(slices.Concat(m.waits[n-3 : n+1]...)))
		if len(all) > 0 {
			out = append(out, replays.Reading{T: float64(n+1) / 4, V: all[len(all)*99/100]})
		}
	}
	return out
}

// TestReferenceQueue classifies the reference case and its variants, each with
// five seeds. An attempt's amplification of 5 and the server's capacity of 500/s
// make 100/s the load that it carries whatever happened before: its hidden
// capacity.
func TestReferenceQueue(t *testing.T) {
	is := func(classes ...replays.OutageClass) []replays.OutageClass { return classes }
	const none, bound, metastable = replays.ClassNoFailure, replays.ClassTriggerBound, replays.ClassMetastable
	yes, no := true, false
	for _, tc := range []struct {
		name          string
		have          queue
		want          []replays.OutageClass
		amplification float64 // about; 0 for any
		hysteresis    *bool
	}{
		{"400/s, a fifth of the capacity", queue{load: 400, trigger: 0.2, resends: 4}, is(metastable), 5, nil},
		{"200/s, half of the capacity", queue{load: 200, trigger: 0.5, resends: 4}, is(none, bound), 0, nil},
		{"200/s, a fifth of the capacity", queue{load: 200, trigger: 0.2, resends: 4}, is(metastable), 5, nil},
		{"450/s, no trigger", queue{load: 450, resends: 4}, is(none), 1, nil},
		{"no resends", queue{load: 400, trigger: 0.2}, is(bound), 1, nil},
		{"a hundred may wait", queue{load: 400, trigger: 0.2, resends: 4, bound: 100}, is(bound), 1, nil},
		{"a resend for ten requests", queue{load: 400, trigger: 0.2, resends: 4, budget: 0.1}, is(bound), 1, nil},
		{"backoff alone", queue{load: 400, trigger: 0.2, resends: 4, backoff: 0.1}, is(metastable), 5, nil},
		{"one resend", queue{load: 400, trigger: 0.2, resends: 1}, is(metastable), 2, nil},
		// After any longer wait an unbounded queue holds more than 25 s can drain, so
		// here it holds 12 s of work.
		{"pushed to 60/s for 25 s", queue{load: 400, trigger: 0.2, resends: 4, bound: 6000, pushedTo: 60}, is(metastable), 5, &no},
		{"pushed to 40/s for 25 s", queue{load: 400, trigger: 0.2, resends: 4, bound: 6000, pushedTo: 40}, is(metastable), 5, &yes},

		{"control: no trigger", queue{load: 400, resends: 4}, is(none), 1, nil},
		{"control: above the capacity", queue{load: 600, resends: 4}, is(replays.ClassOverload), 0, nil},
		{"control: 400/s, a fifth for a second", queue{load: 400, trigger: 0.2, lasts: 1, resends: 4}, is(metastable), 5, nil},
		{"control: 0.3 of the capacity, a fifth for a second", queue{load: 150, trigger: 0.2, lasts: 1, resends: 4}, is(bound), 1, nil},
		// Two seconds are too much even for that: 150/s are more than the hidden
		// capacity. Below it a worse trigger does nothing that lasts.
		{"control: 0.3 of the capacity, a fifth", queue{load: 150, trigger: 0.2, resends: 4}, is(metastable), 5, nil},
		{"control: below the hidden capacity, a tenth", queue{load: 80, trigger: 0.1, resends: 4}, is(bound), 1, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for seed := range uint64(5) {
				q := tc.have
				q.seed = seed + 1
				c := replays.Classify(q.course())
				if !slices.Contains(tc.want, c.Is) {
					t.Errorf("seed %d is %s, want %v: %s", q.seed, c.Is, tc.want, strings.Join(c.Evidence, "; "))
				}
				if tc.amplification > 0 && (c.Amplification == nil || math.Abs(*c.Amplification-tc.amplification) > 0.1*tc.amplification) {
					t.Errorf("seed %d: amplification %v, want about %g", q.seed, show(c.Amplification), tc.amplification)
				}
				if (c.Hysteresis == nil) != (tc.hysteresis == nil) || c.Hysteresis != nil && *c.Hysteresis != *tc.hysteresis {
					t.Errorf("seed %d: hysteresis %v, want %v: %s", q.seed, show(c.Hysteresis), show(tc.hysteresis), strings.Join(c.Evidence, "; "))
				}
				if (c.Is == bound) != (c.RecoveredAfter != nil) {
					t.Errorf("seed %d is %s and recovered after %v", q.seed, c.Is, show(c.RecoveredAfter))
				}
			}
		})
	}
}

// show is a value that may be missing, in a message.
func show[T any](v *T) any {
	if v == nil {
		return "none"
	}
	return *v
}

// shape is a quantity over time in a course.
type shape func(t float64) float64

func (s shape) readings() []replays.Reading {
	out := []replays.Reading{}
	for n := 1; n <= 42*4; n++ {
		t := float64(n) / 4
		out = append(out, replays.Reading{T: t, V: s(t)})
	}
	return out
}

// calm is a course in which nothing falls: a second to settle, four of baseline,
// two of trigger, fifteen to wait.
func calm() replays.Course {
	return replays.Course{
		Goodput: shape(constant(99)).readings(), Offered: shape(constant(100)).readings(),
		Baseline: replays.Window{From: 1, To: 5}, Trigger: replays.Window{From: 5, To: 7}, Wait: replays.Window{From: 7, To: 22},
		Gone: 7.05, WaitAtLeast: 15,
	}
}

// from gives one value until a moment, and then another. A reading at the moment
// itself tells of what was before it.
func from(t, before, after float64) shape {
	return func(at float64) float64 {
		if at > t {
			return after
		}
		return before
	}
}

// between gives one value in a stretch of time, and another outside of it.
func between(begin, end, in, out float64) shape {
	return func(at float64) float64 {
		if at > begin && at <= end {
			return in
		}
		return out
	}
}

func TestClassify(t *testing.T) {
	nan := math.NaN()
	goodput := func(c *replays.Course, s shape) { c.Goodput = s.readings() }
	attempts := func(c *replays.Course, s shape) { c.Attempts = s.readings() }
	latency := func(c *replays.Course, s shape) { c.Latency = s.readings() }
	// down stays so until a push ends, if one is made.
	down := func(c *replays.Course) { goodput(c, from(6, 100, 10)) }
	push := func(c *replays.Course, to float64, again shape) {
		c.Push, c.Again = &replays.Window{From: 22, To: 27}, &replays.Window{From: 27, To: 42}
		c.Offered = between(22, 27, to, 100).readings()
		goodput(c, func(t float64) float64 {
			if t > 27 {
				return again(t)
			}
			return from(6, 100, 10)(t)
		})
	}
	for _, tc := range []struct {
		name   string
		change func(c *replays.Course)
		want   replays.OutageClass
		says   string // part of the evidence
	}{
		{"nothing falls", func(*replays.Course) {}, replays.ClassNoFailure, "goodput never fell below 100.0 % of the baseline"},
		{"a fall within what the baseline scatters by", func(c *replays.Course) {
			goodput(c, func(t float64) float64 { return 100 + 6*math.Sin(2*t) - between(9, 12, 3, 0)(t) })
		}, replays.ClassNoFailure, "(bound 8"},
		{"a baseline that scatters too much", func(c *replays.Course) {
			goodput(c, func(t float64) float64 { return 100 + 30*math.Sin(2*t) })
		}, replays.ClassUnknown, "scatters by"},
		{"a dip in the load is none of the system's", func(c *replays.Course) {
			c.Offered = between(9, 10.5, 80, 100).readings()
			goodput(c, between(9, 10.5, 80, 100))
		}, replays.ClassNoFailure, ""},
		{"falls with the trigger", func(c *replays.Course) { goodput(c, between(5.5, 10, 0, 100)) }, replays.ClassTriggerBound, "3.2 s later goodput was back for 5.0 s in a row"},
		{"falls after the trigger", func(c *replays.Course) { goodput(c, between(8, 11, 0, 100)) }, replays.ClassTriggerBound, "goodput fell to 0.0 %"},
		{"is back, and latency with it", func(c *replays.Course) {
			goodput(c, between(5.5, 8, 0, 100))
			latency(c, between(5.5, 12, 1, 0.02))
		}, replays.ClassTriggerBound, ""},
		{"is back, but latency is not", func(c *replays.Course) {
			goodput(c, between(5.5, 8, 0, 100))
			latency(c, from(5.5, 0.02, 1))
		}, replays.ClassUnknown, "latency was 1 s there, and 0.02 s in the baseline (bound 0.07 s)"},
		{"is back, and latency on its way", func(c *replays.Course) {
			goodput(c, between(5.5, 8, 0, 100))
			latency(c, func(t float64) float64 {
				if t < 5.5 {
					return 0.02
				}
				return 3 - (t-5.5)/10
			})
		}, replays.ClassSlowRecovery, "at that pace it is back"},
		{"is back again and again", func(c *replays.Course) {
			goodput(c, func(t float64) float64 {
				if t >= 5.5 && math.Mod(t, 4) < 1 {
					return 80
				}
				return 100
			})
		}, replays.ClassUnknown, "in a row"},
		{"rises", func(c *replays.Course) {
			goodput(c, func(t float64) float64 {
				if t < 5.5 {
					return 100
				}
				return 20 + 2*(t-7)
			})
		}, replays.ClassSlowRecovery, "there it rises by 2.0 % a second"},
		{"rises too slowly to tell", func(c *replays.Course) {
			goodput(c, func(t float64) float64 {
				if t < 5.5 {
					return 100
				}
				return 20 + 1.2*(t-7)
			})
		}, replays.ClassUnknown, "3 times the wait"},
		{"neither back nor down", func(c *replays.Course) { goodput(c, from(6, 100, 88)) }, replays.ClassUnknown, "neither back (95.0 %) nor down (80.0 %)"},
		{"stays down and makes work", func(c *replays.Course) { down(c); attempts(c, from(6, 100, 300)) }, replays.ClassMetastable, "3.00 attempts for each request offered, and 1.00 in the baseline"},
		{"goes down again and makes work", func(c *replays.Course) {
			goodput(c, func(t float64) float64 { return between(5.5, 8, 0, 100)(t) * from(15, 1, 0)(t) })
			attempts(c, from(6, 100, 300))
		}, replays.ClassMetastable, "and went down again"},
		{"stays down and makes a little work", func(c *replays.Course) { down(c); attempts(c, from(6, 100, 115)) }, replays.ClassUnknown, "nothing tells"},
		{"stays down and makes the work of before", func(c *replays.Course) { down(c); attempts(c, constant(150)) }, replays.ClassUnknown, "1.50 in the baseline (bound 1.80)"},
		{"stays down", down, replays.ClassUnknown, "count attempts, or cut the load"},
		{"pushed back", func(c *replays.Course) { push(c, 5, constant(100)) }, replays.ClassMetastable, "the load was cut to 5.0 % for 5.0 s, and with all of it again goodput was back"},
		{"not pushed back", func(c *replays.Course) { push(c, 5, constant(10)) }, replays.ClassPermanent, "something is broken"},
		{"not pushed back, though it makes work", func(c *replays.Course) { push(c, 5, constant(10)); attempts(c, from(6, 100, 500)) }, replays.ClassPermanent, "something is broken"},
		{"pushed back for a moment", func(c *replays.Course) { push(c, 5, between(27, 34, 100, 10)) }, replays.ClassPermanent, "something is broken"},
		{"hardly pushed, and it makes work", func(c *replays.Course) { push(c, 30, constant(10)); attempts(c, from(6, 100, 500)) }, replays.ClassMetastable, "not near nothing (12.0 %)"},
		{"hardly pushed", func(c *replays.Course) { push(c, 30, constant(10)) }, replays.ClassUnknown, "tells nothing"},
		{"too much from the start", func(c *replays.Course) { goodput(c, constant(80)) }, replays.ClassOverload, "the load is more than the system carries"},
		{"too much before the trigger", func(c *replays.Course) { goodput(c, from(4, 100, 70)) }, replays.ClassOverload, "without any trigger that is 92.5 %"},
		{"nothing offered", func(c *replays.Course) { c.Offered = shape(constant(0)).readings() }, replays.ClassUnknown, "nothing was offered in the baseline"},
		{"more offered than before", func(c *replays.Course) { down(c); c.Offered = from(7, 100, 140).readings() }, replays.ClassUnknown, "the load did not stay the same"},
		{"more offered after the push", func(c *replays.Course) {
			push(c, 5, constant(100))
			c.Offered = shape(func(t float64) float64 { return between(22, 27, 5, 100)(t) * from(27, 1, 1.4)(t) }).readings()
		}, replays.ClassUnknown, "in the load that came again 140/s were offered"},
		{"the trigger goes late", func(c *replays.Course) { c.Gone = 9 }, replays.ClassUnknown, "leaves 13.0 s of the wait: 15 s are needed"},
		{"the trigger goes after the wait", func(c *replays.Course) { c.Gone = 30 }, replays.ClassUnknown, "leaves 0.0 s of the wait"},
		{"a wait too short for anything", func(c *replays.Course) { c.WaitAtLeast, c.Wait.To = 1, 9 }, replays.ClassUnknown, "leaves 2.0 s of the wait: 4 s are needed"},
		{"a baseline too short for anything", func(c *replays.Course) { c.Baseline.From = 4 }, replays.ClassUnknown, "too short to tell how much its goodput scatters"},
		{"no goodput at all", func(c *replays.Course) { c.Goodput = nil }, replays.ClassUnknown, "goodput has no value from 1.00 s to 5.00 s"},
		{"no goodput for a while", func(c *replays.Course) { goodput(c, between(12, 14, nan, 100)) }, replays.ClassUnknown, "goodput has no value from 12.00 s to 14.25 s"},
		{"no load for a while", func(c *replays.Course) { c.Offered = between(12, 14, nan, 100).readings() }, replays.ClassUnknown, "the load has no value"},
		{"no goodput in the baseline", func(c *replays.Course) { goodput(c, between(2, 4, nan, 100)) }, replays.ClassUnknown, "goodput has no value from 2.00 s"},
		{"no latency in the baseline", func(c *replays.Course) { latency(c, between(1, 4, nan, 0.02)) }, replays.ClassUnknown, "latency has no value"},
		{"no latency once it is back", func(c *replays.Course) {
			goodput(c, between(5.5, 8, 0, 100))
			latency(c, from(5.5, 0.02, nan))
		}, replays.ClassUnknown, "latency has no value"},
		{"no attempts once it is down", func(c *replays.Course) { down(c); attempts(c, between(17, 20, nan, 300)) }, replays.ClassUnknown, "attempts has no value"},
		{"attempts never seen", func(c *replays.Course) { down(c); c.Attempts = []replays.Reading{} }, replays.ClassUnknown, "attempts has no value"},
		{"no load during the push", func(c *replays.Course) {
			push(c, 5, constant(100))
			c.Offered = shape(func(t float64) float64 {
				if t >= 23 && t < 26 {
					return nan
				}
				return 100
			}).readings()
		}, replays.ClassUnknown, "the load has no value"},
		{"no goodput after the push", func(c *replays.Course) { push(c, 5, between(30, 33, nan, 100)) }, replays.ClassUnknown, "goodput has no value"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			course := calm()
			tc.change(&course)
			c := replays.Classify(course)
			evidence := strings.Join(c.Evidence, "; ")
			if c.Is != tc.want {
				t.Errorf("%s, want %s: %s", c.Is, tc.want, evidence)
			}
			if !strings.Contains(evidence, tc.says) {
				t.Errorf("evidence %q, want %q", evidence, tc.says)
			}
			if len(c.Evidence) == 0 {
				t.Error("nothing is said for evidence")
			}
			if (c.Is == replays.ClassTriggerBound) != (c.RecoveredAfter != nil) {
				t.Errorf("%s, and recovered after %v", c.Is, show(c.RecoveredAfter))
			}
		})
	}
}
