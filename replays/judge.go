package replays

import (
	"fmt"
	"math"
	"strings"
	"time"

	"relapse/replays/samples"
)

// sampleEvery is the time between two samples, and so the step at which
// "always" and "eventually" read a phase.
const sampleEvery = 250 * time.Millisecond

// readOver is what $phase stands for in a check that "eventually" holds: it is read
// at moments, and this long before each.
const readOver = 4 * sampleEvery

// JudgePlay judges one play from its record alone. A gate that did not hold
// makes the play unknown, whatever its findings say: it tells nothing about the
// system.
func JudgePlay(r *Record) PlayVerdict {
	v := PlayVerdict{
		Arm: r.Plan.Arm, Seed: r.Plan.Seed, Seconds: r.Environment.Seconds, Phases: r.played(),
		Findings: []Finding{}, Faults: r.faultTimings(), Validity: []Gate{}, Record: r.Dir,
	}
	origin, ok := r.Origin()
	if !ok {
		v.Outcome = Unknown
		v.Validity = append(v.Validity, Gate{"play-complete", "the first phase never began" + r.ending()})
		return v
	}
	j := judge{r, origin}
	v.Ladder = j.ladder()
	counting := j.counting(v.Ladder)
	v.Validity = append(v.Validity, counting.gates(counting.faultTimings())...)
	// First, since what a rehearsal failed by is told by its first breach.
	v.Findings = append(v.Findings, j.ladderFindings(v.Ladder)...)
	for _, c := range r.Plan.Checks {
		v.Findings = append(v.Findings, j.check(c)...)
	}
	if f, ok := j.outage(v.Findings); ok {
		v.Findings = append(v.Findings, f)
	}
	v.Findings = append(v.Findings, j.alerts()...)
	v.Class = j.class(v.Faults)
	if f, ok := j.classFinding(v.Class); ok {
		v.Findings = append(v.Findings, f)
	}
	var outcomes []Outcome
	for _, f := range v.Findings {
		if f.Expected != nil {
			outcomes = append(outcomes, f.Outcome)
		}
	}
	v.Outcome = Worst(outcomes...)
	if len(v.Validity) > 0 {
		v.Outcome = Unknown
	}
	return v
}

type judge struct {
	*Record
	origin time.Time
}

func (j judge) at(seconds float64) time.Time {
	return j.origin.Add(time.Duration(seconds * float64(time.Second)))
}

// check reads a check in each of its phases and weighs the readings together: a
// check that should hold must hold in every phase; one that should not must
// fail in at least one.
func (j judge) check(c PlannedCheck) []Finding {
	query, err := samples.ParseQuery(c.Query)
	var out []Finding
	failedSomewhere := false
	for _, name := range c.During {
		f := Finding{Check: c.ID, Kind: c.Kind, Says: c.Says, Phase: name, Expected: c.Expected, Query: c.Query}
		phase, ok := j.Plan.Phase(name)
		switch {
		case err != nil:
			f.Reason = fmt.Sprintf("the query cannot be read: %v", err)
		case !ok:
			f.Reason = fmt.Sprintf("the plan has no phase %s", name)
		default:
			result := j.read(query, c, phase)
			f.Got, f.Want, f.Margin, f.Reason = result.Got, result.Want, result.Margin, result.Reason
			if result.State != samples.NoData {
				held := result.State == samples.Held
				f.Held = &held
				failedSomewhere = failedSomewhere || !held
			}
		}
		out = append(out, f)
	}
	for k := range out {
		f := &out[k]
		switch {
		case f.Held == nil:
			f.Outcome = Unknown
		case f.Expected == nil || *f.Held == *f.Expected:
			f.Outcome = Pass
		case !*f.Expected && failedSomewhere:
			// Another phase decides; nothing is promised for this one.
			f.Expected, f.Outcome = nil, Pass
		default:
			f.Outcome = Fail
		}
	}
	return j.baseline(c, out)
}

// baseline makes the phases before anything is broken count where an outage is
// expected: an outage that was there from the start is not the documented one.
func (j judge) baseline(c PlannedCheck, findings []Finding) []Finding {
	if !j.Plan.goesDown() || c.Kind != KindObjective {
		return findings
	}
	for k := range findings {
		f := &findings[k]
		phase, ok := j.Plan.Phase(f.Phase)
		if !ok || phase.End > j.Plan.firstTrigger() {
			continue
		}
		f.Expected = always(true)
		if f.Held != nil && !*f.Held {
			f.Outcome = Fail
			f.Reason = "the objective fails before the trigger"
		}
	}
	return findings
}

// goesDown says whether the arm should be an outage as documented: un-fixed, or a
// step of a sweep that says so.
func (p *Plan) goesDown() bool {
	return p.Role == RoleUnfixed || p.Step != nil && p.Step.Outage
}

// firstTrigger is when the first fault that is no condition begins. Where no fault
// brings the outage about, it is when a ladder's second step begins, since the first
// one is the load that all of them are held against; without a ladder it is the play's
// start.
func (p *Plan) firstTrigger() float64 {
	first := math.Inf(1)
	for _, f := range p.Faults {
		if !f.Condition {
			first = min(first, f.Start)
		}
	}
	if !math.IsInf(first, 1) {
		return first
	}
	if p.Ladder == nil || len(p.Ladder.Steps) < 2 {
		return 0
	}
	second, _ := p.Phase(p.Ladder.Steps[1].Phase)
	return second.Start
}

func (j judge) read(q *samples.Query, c PlannedCheck, phase PlannedPhase) samples.Result {
	from := phase.Start + c.Settle[phase.Name]
	window := time.Duration((phase.End - from) * float64(time.Second))
	switch c.Holds {
	case HoldsAlways:
		return worstOf(q.Range(j.Samples, j.at(from), j.at(phase.End), sampleEvery, window))
	case HoldsEventually:
		// Not before what is read lies in the phase: what the phase before it left
		// must not pass for something that happened in this one.
		back := q.LooksBack(readOver).Seconds()
		if back > c.Within {
			return samples.Result{State: samples.NoData, Reason: fmt.Sprintf("it reads the %g s before a moment, and so has none within %g s of the phase's start", back, c.Within)}
		}
		return firstHeld(q.Range(j.Samples, j.at(phase.Start+back), j.at(phase.Start+c.Within), sampleEvery, readOver))
	default:
		return q.Instant(j.Samples, j.at(phase.End), window)
	}
}

// worstOf is the reading of a check that must hold at every sample: the first
// that does not hold, else the first without data, else the tightest.
func worstOf(results []samples.Result) samples.Result {
	worst := samples.Result{State: samples.NoData, Reason: "the phase holds no sample"}
	for n, r := range results {
		switch {
		case r.State == samples.NotHeld:
			return r
		case n == 0, worst.State == samples.Held && (r.State == samples.NoData || tighter(r, worst)):
			worst = r
		}
	}
	return worst
}

func tighter(a, b samples.Result) bool {
	return a.Margin != nil && b.Margin != nil && *a.Margin < *b.Margin
}

// firstHeld is the reading of a check that must hold at some sample: the first
// that does, else the last that was seen.
func firstHeld(results []samples.Result) samples.Result {
	last := samples.Result{State: samples.NoData, Reason: "the phase holds no sample"}
	for _, r := range results {
		switch {
		case r.State == samples.Held:
			return r
		case r.State == samples.NotHeld || last.State == samples.NoData:
			last = r
		}
	}
	return last
}

// outageCheck is the id of the finding that is made of all objectives.
const outageCheck = "outage"

// outage is the finding that makes an arm an outage that should be one: at least
// one objective fails after the trigger.
func (j judge) outage(findings []Finding) (Finding, bool) {
	if !j.Plan.goesDown() {
		return Finding{}, false
	}
	f := Finding{
		Check: outageCheck, Kind: KindObjective, Says: "At least one objective fails un-fixed", Expected: always(true),
		Want: ">= 1 objective failing", Outcome: Unknown,
	}
	var failing, unread []string
	for _, o := range findings {
		switch {
		case o.Kind != KindObjective:
			continue
		case o.Held == nil:
			unread = append(unread, o.Check+" in "+o.Phase)
			continue
		}
		if !*o.Held && o.Reason == "" {
			failing = append(failing, o.Check+" in "+o.Phase)
			if f.Phase == "" {
				f.Phase = o.Phase
			}
		}
	}
	f.Got = strings.Join(failing, ", ")
	held := len(failing) > 0
	if !held && len(unread) > 0 {
		f.Reason = "none fails, and these could not be read: " + strings.Join(unread, ", ")
		return f, true
	}
	f.Held = &held
	f.Outcome = Pass
	if !held {
		f.Got, f.Outcome = "none", Fail
	}
	return f, true
}

// alerts evaluates the incident's rules over the record.
func (j judge) alerts() []Finding {
	if len(j.Plan.Alerts) == 0 {
		return nil
	}
	spans, err := j.alertSpans()
	var out []Finding
	for _, a := range j.Plan.Alerts {
		f := Finding{Check: a.Alert, Kind: KindAlert, Phase: a.During, Expected: a.Expected, Query: "ALERTS{alertname=\"" + a.Alert + "\"}"}
		phase, _ := j.Plan.Phase(a.During)
		limit := phase.End
		f.Says, f.Want = fmt.Sprintf("%s fires during %s", a.Alert, a.During), "fires in the phase"
		if a.Within > 0 {
			limit = phase.Start + a.Within
			f.Says = fmt.Sprintf("%s fires within %gs of the start of %s", a.Alert, a.Within, a.During)
			f.Want = fmt.Sprintf("fires within %gs", a.Within)
		}
		if err != nil {
			f.Outcome, f.Reason = Unknown, err.Error()
			out = append(out, f)
			continue
		}
		if missing := j.Rules.Missing(j.Samples, a.Alert); len(missing) > 0 {
			f.Outcome, f.Reason = Unknown, "no samples match "+strings.Join(missing, " or ")+": there is no series of that name"
			out = append(out, f)
			continue
		}
		held := false
		f.Got = "silent"
		for _, s := range spans {
			begin, end := s.From.Sub(j.origin).Seconds(), s.To.Sub(j.origin).Seconds()
			if s.Alert != a.Alert || s.State != samples.Firing || begin > limit || end <= phase.Start {
				continue
			}
			held = true
			f.Got = fmt.Sprintf("fires after %.2fs", max(0, begin-phase.Start))
			break
		}
		f.Held, f.Outcome = &held, Pass
		if a.Expected != nil && held != *a.Expected {
			f.Outcome = Fail
		}
		out = append(out, f)
	}
	return out
}

func (j judge) alertSpans() ([]samples.AlertSpan, error) {
	if j.Rules == nil {
		return nil, fmt.Errorf("the record holds no alert rules")
	}
	return j.Rules.Evaluate(j.Samples, j.origin, j.at(j.Plan.Length()), sampleEvery)
}
