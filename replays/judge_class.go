package replays

import (
	"fmt"
	"math"
	"strings"
)

// classCheck is the id of the finding that says what kind of outage it is.
const classCheck = "class"

// class finds out what kind of outage the play is; nil where the incident does
// not say how. What cannot be read makes it unknown.
func (j judge) class(timings []FaultTiming) *Class {
	p := j.Plan.Class
	if p == nil {
		return nil
	}
	course, err := j.course(p, timings)
	if err != nil {
		return &Class{Is: ClassUnknown, Evidence: []string{err.Error()}}
	}
	c := Classify(course)
	if p.WaitReason != "" {
		c.Evidence = append(c.Evidence, fmt.Sprintf("the wait may be as short as %g s: %s", p.WaitAtLeast, p.WaitReason))
	}
	return &c
}

func (j judge) course(p *PlannedClass, timings []FaultTiming) (Course, error) {
	c := Course{WaitAtLeast: p.WaitAtLeast}
	for _, q := range []struct {
		what, query string
		into        *[]Reading
	}{{"goodput", p.Goodput, &c.Goodput}, {"offered", p.Offered, &c.Offered}, {"attempts", p.Attempts, &c.Attempts}, {"latency", p.Latency, &c.Latency}} {
		if q.query == "" {
			continue
		}
		var err error
		if *q.into, err = j.readings(q.query); err != nil {
			return c, fmt.Errorf("%s cannot be read: %w", q.what, err)
		}
	}
	var missing error
	window := func(name string, settle bool) Window {
		phase, ok := j.Plan.Phase(name)
		if !ok {
			missing = fmt.Errorf("the plan has no phase %s", name)
		}
		if settle {
			phase.Start += phase.Settle
		}
		return Window{phase.Start, phase.End}
	}
	c.Baseline, c.Trigger, c.Wait = window(p.Baseline, true), window(p.Trigger, false), window(p.Wait, false)
	if p.Push != "" && p.Again != "" {
		push, again := window(p.Push, false), window(p.Again, false)
		c.Push, c.Again = &push, &again
	}
	if missing != nil {
		return c, missing
	}
	var err error
	c.Gone, err = j.triggerGone(c, timings)
	return c, err
}

// triggerGone is when the last of the trigger's faults was seen gone: what was
// scheduled proves nothing. Without one, as in the healthy arm, it is the end of
// the phase.
func (j judge) triggerGone(c Course, timings []FaultTiming) (float64, error) {
	gone := c.Trigger.To
	first := true
	for n, f := range j.Plan.Faults {
		if !j.Plan.triggers(f) {
			continue
		}
		at := timings[n].GoneAt
		if at == nil {
			return 0, fmt.Errorf("fault %s was not seen gone, so that nothing can be said of what comes after it", f.Name)
		}
		if first || *at > gone {
			gone, first = *at, false
		}
	}
	return gone, nil
}

// triggers says whether a fault is of the trigger whose end the class is judged
// by: it is held during that phase and no longer once the wait begins. One that
// is held on, as a leak may be, is a part of the system.
func (p *Plan) triggers(f PlannedFault) bool {
	trigger, _ := p.Phase(p.Class.Trigger)
	wait, _ := p.Phase(p.Class.Wait)
	return !f.Condition && f.Start < wait.Start && f.End > trigger.Start && f.End <= wait.Start
}

// readings evaluates a query of one series at every sample of the play.
func (j judge) readings(query string) ([]Reading, error) {
	if absent := j.Samples.Absent(query); len(absent) > 0 {
		return nil, fmt.Errorf("no samples match %s: there is no series of that name", strings.Join(absent, " or "))
	}
	curves, err := j.Samples.Curves(query, j.origin, j.at(j.Plan.Length()), sampleEvery)
	switch {
	case err != nil:
		return nil, err
	case len(curves) == 0:
		return nil, fmt.Errorf("%s gives no series", query)
	case len(curves) > 1:
		return nil, fmt.Errorf("%s gives %d series: put sum(…) around it", query, len(curves))
	}
	out := []Reading{} // nil would say that it is not measured
	for _, p := range curves[0].Points {
		// To the millisecond, as samples are: moments of one step must be equal.
		out = append(out, Reading{math.Round(p.At.Sub(j.origin).Seconds()*1000) / 1000, p.Value})
	}
	return out, nil
}

// classFinding holds the class against what the arm says; false where it says
// nothing.
func (j judge) classFinding(c *Class) (Finding, bool) {
	if c == nil || len(j.Plan.Class.Expected) == 0 {
		return Finding{}, false
	}
	p := j.Plan.Class
	f := Finding{
		Check: classCheck, Kind: KindClass, Says: "What becomes of the outage once its trigger is gone", Phase: p.Wait, Expected: always(true),
		Want: strings.Join(p.Expected, " or "), Query: p.Goodput, Outcome: Unknown,
	}
	if c.Is == ClassUnknown {
		f.Reason = strings.Join(c.Evidence, "; ")
		return f, true
	}
	held := false
	for _, name := range p.Expected {
		held = held || name == string(c.Is)
	}
	f.Got, f.Held, f.Outcome = string(c.Is), &held, Pass
	if !held {
		f.Outcome = Fail
	}
	return f, true
}
