package replays

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"relapse/replays/samples"
)

// sampleGap is a stretch, in seconds since the first phase began, in which a node
// gave no sample for longer than a play may go without.
type sampleGap struct {
	node     string
	from, to float64
	rig      bool // the tool did not ask, or could not see what it measures itself
}

// gaps lists them as far as the play went, by when they begin.
func (j judge) gaps() []sampleGap {
	var out []sampleGap
	since := func(at time.Time) float64 { return thousandths(at.Sub(j.origin).Seconds()) }
	for _, h := range j.Samples.Health(j.origin, j.at(min(j.played(), j.Plan.Length())), gapBound) {
		if h.Kind == kindContainer || h.Kind == kindRestarts {
			continue // a container that is gone has no usage; its own protocol tells
		}
		for _, g := range h.Gaps {
			unasked := slices.ContainsFunc(h.Misses, func(m samples.Span) bool { return m.From.Before(g.To) && g.From.Before(m.To) })
			own := !slices.Contains(samples.Kinds(), h.Kind)
			out = append(out, sampleGap{h.Node, since(g.From), since(g.To), unasked || own})
		}
	}
	slices.SortStableFunc(out, func(a, b sampleGap) int { return cmp.Compare(a.from, b.from) })
	return out
}

// firstGap is the first gap in a step, as a breach, and why it is none of the
// system's where it is the rig's.
func firstGap(gaps []sampleGap, phase PlannedPhase, until float64) (*Breach, string) {
	for _, g := range gaps {
		if g.to <= phase.Start || g.from >= until {
			continue
		}
		b := &Breach{Node: g.node, At: max(g.from, phase.Start), Missing: true, Reason: fmt.Sprintf("it gave none from %.2f s to %.2f s", g.from, g.to)}
		if g.rig {
			return b, fmt.Sprintf("%s was not measured from %.2f s to %.2f s", g.node, g.from, g.to)
		}
		return b, ""
	}
	return nil, ""
}

// counting is the play as far as its outcome may depend on it. Where the ladder must
// be clean and is not, its first breach decides: what the load, the nodes and the
// machine did after it, or because of it, must not make a rehearsal that failed one
// of which nothing is known.
func (j judge) counting(l *LadderVerdict) judge {
	if l == nil || l.Breach == nil || j.Plan.Ladder.Clean == nil {
		return j
	}
	at := l.Breach.At
	if l.Breach.Missing {
		at -= gapBound.Seconds() // the gap is the breach itself
	}
	return j.before(at)
}

// before is the play as if it had ended at a moment, of which a second at least is
// left. A node that answered until then died after it, if it did.
func (j judge) before(at float64) judge {
	plan, record := *j.Plan, *j.Record
	cut := max(at, j.Plan.Phases[0].Start+gapBound.Seconds())
	plan.Phases, plan.Faults = nil, nil
	for _, p := range j.Plan.Phases {
		// Of less than a second no rate can be read.
		if p.Start+gapBound.Seconds() <= cut {
			p.End = min(p.End, cut)
			plan.Phases = append(plan.Phases, p)
		}
	}
	for _, f := range j.Plan.Faults {
		if f.Start < plan.Length() {
			plan.Faults = append(plan.Faults, f)
		}
	}
	health := j.Samples.Health(j.origin, j.at(plan.Length()), gapBound)
	answered := map[string]bool{}
	record.Targets, record.Events = nil, nil
	for _, t := range j.Targets {
		n := slices.IndexFunc(health, func(h samples.Health) bool { return h.Node == t.Node && h.Kind == t.Kind })
		if n >= 0 {
			t.WorstGap, t.WorstMiss = health[n].WorstGap.Seconds(), health[n].WorstMiss.Seconds()
			answered[t.Node] = t.WorstGap <= gapBound.Seconds()
		}
		record.Targets = append(record.Targets, t)
	}
	for _, e := range j.Events {
		switch e.Event {
		case EventNodeDead:
			if answered[e.Node] {
				continue
			}
		case EventPhasesEnd, EventPhasesCut, EventTrouble:
			// Those of the whole play: what came before this moment is played.
			if j.played() >= plan.Length() {
				continue
			}
		}
		record.Events = append(record.Events, e)
	}
	if j.played() >= plan.Length() {
		end := Event{Event: EventPhasesEnd, At: j.at(plan.Length())}
		end.T = j.Events[0].T + end.At.Sub(j.Events[0].At).Seconds()
		record.Events = append(record.Events, end)
	}
	record.Plan = &plan
	return judge{&record, j.origin}
}
