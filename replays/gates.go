package replays

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"relapse/faults"
	"relapse/replays/samples"
)

// Bounds of the validity gates. A play outside them says nothing about the
// system: it is unknown and played again.
const (
	latenessBound  = 50 * time.Millisecond  // p99 of a load generator's own lateness
	shortfallBound = 0.05                   // of a planned rate
	injectionBound = 500 * time.Millisecond // from when a fault should bite to when it was in place
	gapBound       = time.Second            // without a sample of a node that should answer
	overshootBound = 100 * time.Millisecond // p99 of the worst overshoot of a 1 ms ticker in each quarter second
	stealBound     = 0.10                   // of the machine's CPU time
	heldBound      = 100 * time.Millisecond // from a fault's undo back to its planned end
	clockBound     = time.Millisecond       // between the two times of an event
	phaseBound     = time.Second            // from a planned moment of the timeline to its event
)

func (j judge) gates(timings []FaultTiming) []Gate {
	var out []Gate
	for _, gate := range []func() []Gate{
		j.playComplete,
		func() []Gate { return faultsInEffect(timings) }, j.faultsHeld,
		j.loadOnTime, j.loadComplete, j.samplesComplete, j.machineQuiet, j.nodesAlive,
	} {
		out = append(out, gate()...)
	}
	return out
}

// playComplete asks that every phase began on time, that the last one was played to
// its end, and that neither rig nor person came in between.
func (j judge) playComplete() []Gate {
	var out []Gate
	say := func(format string, args ...any) {
		out = append(out, Gate{"play-complete", fmt.Sprintf(format, args...)})
	}
	end, ended := j.moment(EventPhasesEnd, "")
	if !ended {
		say("the play stopped before its last phase ended%s", j.ending())
		return out
	}
	for _, p := range j.Plan.Phases {
		at, began := j.moment(EventPhase, p.Name)
		switch {
		case !began:
			say("phase %s never began", p.Name)
		case at-p.Start > phaseBound.Seconds():
			say("phase %s began %.2f s late, bound %s", p.Name, at-p.Start, phaseBound)
		case p.Start-at > phaseBound.Seconds():
			say("phase %s began %.2f s early, bound %s", p.Name, p.Start-at, phaseBound)
		}
	}
	if early := j.Plan.Length() - end; early > phaseBound.Seconds() {
		say("the last phase ended %.2f s early, bound %s", early, phaseBound)
	}
	if e, off := j.twoClocks(); off > 0 {
		say("the two times of event %s at %.2f s are %s apart: the journal is not as it was written", e.Event, e.T, off)
	}
	for _, e := range j.Events {
		switch e.Event {
		case EventPhasesCut:
			say("the phases were cut at %.2f s", j.since(e))
		case EventTrouble:
			say("there was trouble: %s", e.Detail)
		}
	}
	return out
}

// moment is when an event first came, of a phase where one is named.
func (j judge) moment(event, phase string) (float64, bool) {
	for _, e := range j.Events {
		if e.Event == event && (phase == "" || e.Phase == phase) {
			return j.since(e), true
		}
	}
	return 0, false
}

// twoClocks finds an event whose two times, which are of one clock, do not agree by
// the first event's.
func (j judge) twoClocks() (Event, time.Duration) {
	started := func(e Event) time.Time { return e.At.Add(-time.Duration(e.T * float64(time.Second))) }
	for _, e := range j.Events {
		if off := started(e).Sub(started(j.Events[0])).Abs(); off > clockBound {
			return e, off.Round(time.Millisecond)
		}
	}
	return Event{}, 0
}

// since is when an event came, in seconds since the first phase began.
func (j judge) since(e Event) float64 { return e.At.Sub(j.origin).Seconds() }

// faultsInEffect asks of every fault that it was in place on time, seen in
// effect, not before its time, and gone afterwards.
func faultsInEffect(timings []FaultTiming) []Gate {
	var out []Gate
	say := func(f FaultTiming, format string, args ...any) {
		out = append(out, Gate{"fault-in-effect", fmt.Sprintf("fault %s %s", f.Name, fmt.Sprintf(format, args...))})
	}
	for _, f := range timings {
		switch {
		case f.Error != "":
			say(f, "failed: %s", f.Error)
		case f.InjectedAt == nil:
			say(f, "was never injected")
		case *f.InjectedAt-f.ScheduledAt > injectionBound.Seconds():
			say(f, "was in place %.2f s late, bound %s", *f.InjectedAt-f.ScheduledAt, injectionBound)
		case f.InEffectAt == nil:
			say(f, "was never seen in effect")
		case f.GoneAt == nil:
			say(f, "was not seen gone after its undo")
		}
	}
	return out
}

// faultsHeld asks of every fault that none of its undo came before its planned end.
func (j judge) faultsHeld() []Gate {
	var out []Gate
	for _, f := range j.Plan.Faults {
		for _, e := range j.Events {
			step := faults.Step(e.Step)
			if e.Event != EventFault || e.Fault != f.Name || step != faults.Undoing && step != faults.Undone && step != faults.Gone {
				continue
			}
			if early := f.End - j.since(e); early > heldBound.Seconds() {
				out = append(out, Gate{"fault-in-effect", fmt.Sprintf("fault %s was %s %.2f s before its planned end, bound %s", f.Name, step, early, heldBound)})
				break
			}
		}
	}
	return out
}

// query evaluates one comparison of a gate over the whole play or a part of it.
func (j judge) query(from, to float64, format string, args ...any) samples.Result {
	text := fmt.Sprintf(format, args...)
	q, err := samples.ParseQuery(text)
	if err != nil {
		return samples.Result{State: samples.NoData, Reason: fmt.Sprintf("gate query %s: %v", text, err)}
	}
	return q.Instant(j.Samples, j.at(to), time.Duration((to-from)*float64(time.Second)))
}

func (j judge) loadOnTime() []Gate {
	var out []Gate
	for _, source := range j.Plan.Load {
		r := j.query(0, j.Plan.Length(),
			`histogram_quantile(0.99, sum by (le) (rate(relapse_lateness_seconds_bucket{node=%q}[$phase]))) <= %g`,
			source.Node, latenessBound.Seconds())
		switch r.State {
		case samples.NotHeld:
			out = append(out, Gate{"load-on-time", fmt.Sprintf("load generator %s was late: p99 lateness %s s, bound %s", source.Node, r.Got, latenessBound)})
		case samples.NoData:
			out = append(out, Gate{"load-on-time", fmt.Sprintf("lateness of load generator %s cannot be read: %s", source.Node, r.Reason)})
		}
	}
	if len(j.Plan.Load) == 0 {
		out = append(out, Gate{"load-on-time", "the topology has no load generator"})
	}
	return out
}

// loadComplete compares what was really sent with the plan, per operation and
// phase: what an operation counts itself, and where faults have a share of its
// requests malformed, the good and the malformed ones together. Of an operation
// that has only malformed ones nothing else would be looked at.
func (j judge) loadComplete() []Gate {
	var out []Gate
	for _, phase := range j.Plan.Phases {
		for node, rates := range phase.Traffic {
			for op, rate := range rates {
				good, all := rate*j.Plan.surge(node, op, phase), rate*j.Plan.arrivals(node, op, phase)
				out = append(out, j.sent(phase, node, op, fmt.Sprintf("op=%q", op), good)...)
				if good < all {
					both := fmt.Sprintf("op=~%q", regexp.QuoteMeta(op)+"("+malformedSuffix+")?")
					out = append(out, j.sent(phase, node, op+" and "+op+malformedSuffix, both, all)...)
				}
			}
		}
	}
	slices.SortFunc(out, func(a, b Gate) int { return strings.Compare(a.Reason, b.Reason) })
	return out
}

// malformedSuffix stands behind an operation's name where its malformed requests
// are counted.
const malformedSuffix = "-malformed"

// sent compares what was sent of operations, by a matcher in PromQL, with a rate.
// One so low that two arrivals are more than the bound is allowed those two.
func (j judge) sent(phase PlannedPhase, node, what, ops string, want float64) []Gate {
	if want == 0 {
		return nil
	}
	from := phase.Start + 0.25 // rates are set at the start; the first sample of the new rate comes after it
	short := max(want*shortfallBound, 2/(phase.End-from))
	r := j.query(from, phase.End,
		`sum(rate(relapse_offered_total{node=%q,%s}[$phase])) - (sum(rate(relapse_requests_total{node=%q,%s,outcome="unsent"}[$phase])) or vector(0)) >= %g`,
		node, ops, node, ops, want-short)
	switch r.State {
	case samples.NotHeld:
		return []Gate{{"load-complete", fmt.Sprintf("%s sent %s %s/s during %s, planned %.4g", node, r.Got, what, phase.Name, want)}}
	case samples.NoData:
		return []Gate{{"load-complete", fmt.Sprintf("what %s sent of %s during %s cannot be read: %s", node, what, phase.Name, r.Reason)}}
	}
	return nil
}

// samplesComplete asks for a sample a second of every measured node, except of
// those that a fault stops and those whose gaps are evidence of the failure.
// Rounds that the tool itself missed count always.
func (j judge) samplesComplete() []Gate {
	var out []Gate
	if len(j.Targets) == 0 {
		return []Gate{{"samples-complete", "no node was measured"}}
	}
	for _, missing := range j.unmeasured() {
		out = append(out, Gate{"samples-complete", missing})
	}
	for _, t := range j.Targets {
		if t.Rounds < 1 {
			out = append(out, Gate{"samples-complete", t.Node + " was asked in no round"})
		}
		if t.WorstMiss > gapBound.Seconds() {
			out = append(out, Gate{"samples-complete", fmt.Sprintf("%s was not asked for %.2fs, bound %s", t.Node, t.WorstMiss, gapBound)})
		}
		if t.GapsAreEvidence || slices.Contains(j.Plan.Stopped, t.Node) {
			continue
		}
		if t.WorstGap > gapBound.Seconds() {
			out = append(out, Gate{"samples-complete", fmt.Sprintf("%s gave no sample for %.2fs, bound %s", t.Node, t.WorstGap, gapBound)})
		}
	}
	return out
}

// unmeasured says of which nodes and links there should be a target or samples, and
// is none. What should be measured is what the plan names, and all that left samples,
// since older plans name load generators and proxied links alone; and of a target
// that answered there are samples.
func (j judge) unmeasured() []string {
	targets, asked, measured := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, t := range j.Targets {
		targets[t.Node] = true
	}
	for _, s := range j.Samples.Series() {
		node := s.Labels["node"]
		switch {
		case strings.HasPrefix(s.Name, "relapse_container_"), s.Name == "relapse_node_restarts_total":
			continue // of the engine's, not the node's own
		case s.Labels["kind"] == kindContainer, s.Labels["kind"] == kindRestarts:
			continue
		case strings.HasPrefix(s.Name, "relapse_scrape_"):
			asked[node] = true
		default:
			measured[node] = true
		}
	}
	wanted := slices.Concat(slices.Collect(maps.Keys(asked)), slices.Collect(maps.Keys(measured)), j.Plan.Proxied, j.Plan.Measured)
	for _, source := range j.Plan.Load {
		wanted = append(wanted, source.Node)
	}
	slices.Sort(wanted)
	var out []string
	for _, node := range slices.Compact(wanted) {
		if node != "" && !targets[node] {
			out = append(out, node+" is no target of the measuring")
		}
	}
	for _, t := range j.Targets {
		if t.Rounds > t.Failed && !measured[t.Node] {
			out = append(out, "no samples of "+t.Node+", which answered")
		}
	}
	return out
}

func (j judge) machineQuiet() []Gate {
	var out []Gate
	length := j.Plan.Length()
	for _, g := range []struct{ what, query string }{
		{"a 1 ms ticker overshot", fmt.Sprintf(`quantile_over_time(0.99, relapse_tool_overshoot_seconds[$phase]) <= %g`, overshootBound.Seconds())},
		{"the hypervisor took CPU time away", fmt.Sprintf(`rate(relapse_machine_steal_seconds_total[$phase]) <= %g`, stealBound)},
	} {
		r := j.query(0, length, "%s", g.query)
		switch r.State {
		case samples.NotHeld:
			out = append(out, Gate{"machine-quiet", fmt.Sprintf("%s: %s, want %s", g.what, r.Got, r.Want)})
		case samples.NoData:
			out = append(out, Gate{"machine-quiet", fmt.Sprintf("whether %s cannot be read: %s", g.what, r.Reason)})
		}
	}
	return out
}

func (j judge) nodesAlive() []Gate {
	var out []Gate
	for _, e := range j.Events {
		if e.Event == EventNodeDead && !slices.Contains(j.Plan.Stopped, e.Node) {
			out = append(out, Gate{"nodes-alive", fmt.Sprintf("node %s is dead (%s) and no fault killed it", e.Node, e.Detail)})
		}
	}
	return out
}
