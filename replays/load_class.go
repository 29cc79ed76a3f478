package replays

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"relapse/replays/samples"
)

// class checks how the kind of outage is found out, so far as no plan is needed
// for that; see classLoad for the rest.
func (l *loader) class() error {
	c := l.inc.Class
	if c == nil {
		return nil
	}
	for _, r := range []struct {
		field string
		empty bool
		hint  string
	}{
		{"goodput", c.Goodput == "", `write goodput: PromQL of what is answered a second, such as sum(rate(relapse_requests_total{outcome="ok"}[1s]))`},
		{"offered", c.Offered == "", "write offered: PromQL of what is asked for a second, such as sum(rate(relapse_offered_total[1s]))"},
		{"baseline", c.Baseline == "", "name the phase before the trigger: baseline: healthy"},
		{"trigger", c.Trigger == "", "name the phase of the trigger: trigger: burst"},
		{"wait", c.Wait == "", "name the phase after the trigger, in which the load is unchanged: wait: quiet"},
		{"unfixed", len(c.Unfixed) == 0, "say what the documented outage is: unfixed: one of " + strings.Join(outageClasses, ", ")},
		{"client_timeout", c.ClientTimeout == 0, fmt.Sprintf("say how long a client waits for an answer: client_timeout: 300ms; the wait lasts %d of them or more", clientTimeouts)},
	} {
		if r.empty {
			return l.fail(fmt.Sprintf("class has no %s", r.field), r.hint, keyOf("class"))
		}
	}
	for _, q := range []struct{ field, query string }{{"goodput", c.Goodput}, {"offered", c.Offered}, {"attempts", c.Attempts}, {"latency", c.Latency}} {
		if q.query == "" {
			continue
		}
		if err := samples.CheckCurve(q.query); err != nil {
			return l.queryError(err, "class: "+q.field, "class", q.field)
		}
	}
	if err := l.classPhases(c); err != nil {
		return err
	}
	if err := l.classWait(c); err != nil {
		return err
	}
	return l.classes(c.Unfixed, "class", "unfixed")
}

// classPhases holds that the phases are there, in the order of the procedure.
func (l *loader) classPhases(c *ClassTest) error {
	if (c.Push == "") != (c.Again == "") {
		field := "push"
		if c.Push == "" {
			field = "again"
		}
		return l.fail("push and again go together", "name the phase in which the load is cut, push:, and the one in which it is back, again:", "class", keyOf(field))
	}
	names := l.inc.phaseNames()
	before, last := "", -1
	for _, p := range []struct{ field, name string }{{"baseline", c.Baseline}, {"trigger", c.Trigger}, {"wait", c.Wait}, {"push", c.Push}, {"again", c.Again}} {
		if p.name == "" {
			continue
		}
		if err := l.known("phase", p.name, names, "class", p.field); err != nil {
			return err
		}
		at := slices.Index(names, p.name)
		if at <= last {
			return l.fail(fmt.Sprintf("%s: phase %s does not come after phase %s", p.field, p.name, before), "the order is baseline, trigger, wait, push, again", "class", p.field)
		}
		before, last = p.name, at
	}
	return nil
}

// WaitFor is how long the wait must be to tell anything.
func (c *ClassTest) WaitFor() time.Duration {
	if c.WaitAtLeast != nil {
		return c.WaitAtLeast.Lasts
	}
	return max(waitBound, clientTimeouts*c.ClientTimeout)
}

// classWait holds that the wait is long enough, or that the file says why less
// is.
func (l *loader) classWait(c *ClassTest) error {
	// A trigger is seen gone a moment after the wait begins.
	if least := shortestWait + goneBound; c.WaitAtLeast != nil {
		switch {
		case strings.TrimSpace(c.WaitAtLeast.Reason) == "":
			return l.fail("wait_at_least has no reason", "say why so short a wait shows what becomes of the outage: wait_at_least: {lasts: 8s, reason: …}", "class", keyOf("wait_at_least"))
		case c.WaitAtLeast.Lasts < least:
			return l.fail(fmt.Sprintf("wait_at_least is %s: of less than %s nothing can be read", c.WaitAtLeast.Lasts, least), "write lasts: 4s or more", "class", "wait_at_least", "lasts")
		}
	}
	if c.ClientTimeout < 0 {
		return l.fail("client_timeout is below zero", "write how long a client waits for an answer: client_timeout: 300ms", "class", "client_timeout")
	}
	if lasts, least := l.inc.phase(c.Wait).Lasts, c.WaitFor(); lasts < least {
		return l.fail(fmt.Sprintf("phase %s lasts %s: to see what becomes of the outage takes %s", c.Wait, lasts, least),
			"make it longer, or say why less is enough: wait_at_least: {lasts: 8s, reason: …}", "class", "wait")
	}
	return l.classPush(c)
}

// classPush holds that a push is long enough to be read, and that all of the load
// is there after it for long enough to take the system down again: clients must
// have had the time to give up and try again, as in the wait.
func (l *loader) classPush(c *ClassTest) error {
	if c.Push == "" {
		return nil
	}
	for _, p := range []struct {
		field, name, shows string
		least              time.Duration
	}{
		{"push", c.Push, "to read what a cut in load does", shortestWait},
		{"again", c.Again, "to see whether all of the load is carried again", max(shortestWait, min(clientTimeouts*c.ClientTimeout, c.WaitFor()))},
	} {
		if lasts := l.inc.phase(p.name).Lasts; lasts < p.least {
			return l.fail(fmt.Sprintf("phase %s lasts %s: %s takes %s", p.name, lasts, p.shows, p.least), "make it longer", "class", p.field)
		}
	}
	return nil
}

// classes checks a list of kinds of outage: they must exist, and there must be
// something that could tell them.
func (l *loader) classes(names Names, keys ...any) error {
	c := l.inc.Class
	for n, name := range names {
		at := append(slices.Clone(keys), n)
		if err := l.known("kind of outage", name, outageClasses, at...); err != nil {
			return err
		}
		switch {
		case c == nil:
			return l.fail("the incident does not say how the kind of outage is found out", "write class: {goodput: …, offered: …, baseline: …, trigger: …, wait: …, unfixed: …} at the top", at...)
		case OutageClass(name) == ClassMetastable && c.Attempts == "" && c.Push == "":
			return l.fail("nothing tells what is metastable", "count attempts, or cut the load to push it back: class: {attempts: …} or {push: …, again: …}", at...)
		case OutageClass(name) == ClassPermanent && c.Push == "":
			return l.fail("nothing tells what is permanent", "cut the load, to see that this does not bring it back: class: {push: …, again: …}", at...)
		}
	}
	return nil
}

// classLoad holds, in every arm whose kind of outage is looked at, that the
// trigger ends, that the load is the same before and after it, that a push cuts
// it, and that faults leave alone what comes after the trigger.
func (l *loader) classLoad(plans map[string]*Plan, arms []string) error {
	c := l.inc.Class
	if c == nil {
		return nil
	}
	for _, arm := range arms {
		p := plans[arm]
		if len(p.Class.Expected) == 0 {
			continue
		}
		where, cutHint := "", "give that phase traffic near nothing"
		if arm != "unfixed" {
			where, cutHint = "arm "+arm+": ", "the traffic of a change counts in every phase, that one too: leave the arm's class out, or change something else"
		}
		baseline, _ := p.Phase(c.Baseline)
		trigger, _ := p.Phase(c.Trigger)
		if arm == "unfixed" && !slices.ContainsFunc(p.Faults, p.triggers) && p.asksOtherwise(trigger, baseline) == "" {
			return l.fail(fmt.Sprintf("no fault ends with phase %s", c.Trigger), "name the phase that holds the trigger, and do not hold that during the wait", "class", "trigger")
		}
		for _, same := range []struct{ field, name string }{{"wait", c.Wait}, {"again", c.Again}} {
			phase, ok := p.Phase(same.name)
			if !ok {
				continue // none is made
			}
			if differs := p.asksOtherwise(phase, baseline); differs != "" {
				return l.fail(fmt.Sprintf("%sphase %s does not ask for what phase %s does: %s", where, same.name, c.Baseline, differs),
					"leave the load as it was before the trigger, or nothing can be said of what becomes of the outage", "class", same.field)
			}
		}
		push, ok := p.Phase(c.Push)
		if cut, whole := p.load(push), p.load(baseline); ok && cut >= whole {
			return l.fail(fmt.Sprintf("%sphase %s does not cut the load: it asks for %g/s, and phase %s for %g/s", where, c.Push, cut, c.Baseline, whole),
				cutHint, "class", "push")
		}
		if err := l.classFaults(p, where); err != nil {
			return err
		}
	}
	return nil
}

// classFaults holds that no fault comes or goes once the trigger is gone. What one
// does there would be taken for what becomes of the outage: a fault that begins in
// the wait keeps a system down that is well, and one that ends with the push brings
// back a system that is not.
func (l *loader) classFaults(p *Plan, where string) error {
	c := p.Class
	baseline, _ := p.Phase(c.Baseline)
	last, pushed := p.Phase(c.Again)
	if !pushed {
		last, _ = p.Phase(c.Wait)
	}
	for _, f := range p.Faults {
		if f.Condition || f.Start <= baseline.Start && f.End >= last.End {
			continue
		}
		for _, in := range []struct{ field, name string }{{"wait", c.Wait}, {"push", c.Push}, {"again", c.Again}} {
			if phase, ok := p.Phase(in.name); ok && f.Start < phase.End && f.End > phase.Start {
				hint := fmt.Sprintf("end it with phase %s, hold it in all of these phases or make it a condition", c.Trigger)
				if where != "" {
					hint += "; or leave the arm's class out"
				}
				return l.fail(fmt.Sprintf("%sfault %s is held in phase %s, and not all the time from phase %s to phase %s", where, nameOf(f), in.name, c.Baseline, last.Name),
					hint, "class", in.field)
			}
		}
	}
	return nil
}

// asksOtherwise says what one phase asks for otherwise than another, "" where it
// is the same.
func (p *Plan) asksOtherwise(phase, other PlannedPhase) string {
	a, b := p.asked(phase), p.asked(other)
	for _, what := range slices.Sorted(maps.Keys(a)) {
		if a[what] != b[what] {
			return fmt.Sprintf("%s %g/s, and %g/s", what, a[what], b[what])
		}
	}
	for _, what := range slices.Sorted(maps.Keys(b)) {
		if _, ok := a[what]; !ok && b[what] != 0 {
			return fmt.Sprintf("%s 0/s, and %g/s", what, b[what])
		}
	}
	return ""
}

// load is all that a phase asks for, per second.
func (p *Plan) load(phase PlannedPhase) float64 {
	sum := 0.0
	for _, rate := range p.asked(phase) {
		sum += rate
	}
	return sum
}
