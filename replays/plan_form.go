package replays

import (
	"errors"
	"fmt"
	"slices"
)

// rounding is by how much sums of lengths may be off, in seconds.
const rounding = 1e-3

// form refuses a plan with names or times that none has: the judge reads as far as a
// plan says, and finds files by it.
func (p *Plan) form() error {
	switch {
	case !named(p.Incident):
		return fmt.Errorf("%.100q is no name of an incident", p.Incident)
	case !nameForm.MatchString(p.Arm) || len(p.Arm) > longestArm:
		return fmt.Errorf("%.100q is no name of an arm", p.Arm)
	case p.Rules != "" && !inside(p.Rules):
		return fmt.Errorf("its alert rules are at %.100q, which leads out of the record", p.Rules)
	}
	for _, part := range []func() error{p.phasesForm, p.faultsForm, p.checksForm} {
		if err := part(); err != nil {
			return err
		}
	}
	return nil
}

// phasesForm asks that one phase follows the other, from the play's first moment on.
func (p *Plan) phasesForm() error {
	end := 0.0
	for n, phase := range p.Phases {
		switch length := phase.End - phase.Start; {
		case phase.Name == "":
			return fmt.Errorf("its phase %d has no name", n+1)
		case slices.ContainsFunc(p.Phases[:n], func(o PlannedPhase) bool { return o.Name == phase.Name }):
			return fmt.Errorf("phase %s is there twice", phase.Name)
		case phase.Start != end:
			return fmt.Errorf("phase %s begins at %g s, and what is before it ends at %g s", phase.Name, phase.Start, end)
		case length > longestPhase.Seconds()+rounding:
			return fmt.Errorf("phase %s lasts %g s, longer than %s", phase.Name, length, longestPhase)
		case phase.Settle < 0 || phase.Settle > length+rounding:
			return fmt.Errorf("phase %s settles for %g s of its %g s", phase.Name, phase.Settle, length)
		}
		for node, rates := range phase.Traffic {
			for op, rate := range rates {
				if rate < 0 {
					return fmt.Errorf("phase %s asks %s for %g/s of %s", phase.Name, node, rate, op)
				}
			}
		}
		end = phase.End
	}
	return nil
}

func (p *Plan) faultsForm() error {
	for n, f := range p.Faults {
		switch {
		case f.Name == "":
			return fmt.Errorf("its fault %d has no name", n+1)
		case slices.ContainsFunc(p.Faults[:n], func(o PlannedFault) bool { return o.Name == f.Name }):
			return fmt.Errorf("fault %s is there twice", f.Name)
		case f.Start < 0 || f.End < f.Start || f.End > p.Length()+rounding:
			return fmt.Errorf("fault %s is held from %g s to %g s, of %g s", f.Name, f.Start, f.End, p.Length())
		}
	}
	for _, s := range p.Surges {
		if s.Times < 0 || s.Start < 0 || s.End < s.Start || s.End > p.Length()+rounding {
			return fmt.Errorf("fault %s asks for %g times as much from %g s to %g s, of %g s", s.Fault, s.Times, s.Start, s.End, p.Length())
		}
	}
	return nil
}

// checksForm asks that what is read of a phase lies in it. A phase that the plan does
// not have is for the judge, to whom such a check is unknown.
func (p *Plan) checksForm() error {
	for n, c := range p.Checks {
		if c.ID == "" {
			return fmt.Errorf("its check %d has no id", n+1)
		}
		if !slices.Contains([]string{KindSymptom, KindObjective, KindInvariant}, c.Kind) {
			return fmt.Errorf("check %s is of the unknown kind %.100q", c.ID, c.Kind)
		}
		if !slices.Contains([]string{HoldsOver, HoldsAlways, HoldsEventually}, c.Holds) {
			return fmt.Errorf("check %s reads its phase by %.100q, which is no way to", c.ID, c.Holds)
		}
		for name, settle := range c.Settle {
			phase, ok := p.Phase(name)
			if ok && (settle < 0 || settle > phase.End-phase.Start+rounding) {
				return fmt.Errorf("check %s settles for %g s in %s, which lasts %g s", c.ID, settle, name, phase.End-phase.Start)
			}
		}
		for _, name := range c.During {
			phase, ok := p.Phase(name)
			if ok && (c.Within < 0 || c.Within > phase.End-phase.Start+rounding) {
				return fmt.Errorf("check %s may hold within %g s of the start of %s, which lasts %g s", c.ID, c.Within, name, phase.End-phase.Start)
			}
		}
	}
	for _, a := range p.Alerts {
		if phase, ok := p.Phase(a.During); ok && (a.Within < 0 || a.Within > phase.End-phase.Start+rounding) {
			return fmt.Errorf("alert %s may fire within %g s of the start of %s, which lasts %g s", a.Alert, a.Within, a.During, phase.End-phase.Start)
		}
	}
	return nil
}

// form refuses figures that no play can have had.
func (e *Environment) form() error {
	if e.Seconds < 0 {
		return fmt.Errorf("the play took %g s", e.Seconds)
	}
	for _, t := range e.Targets {
		switch {
		case t.Node == "":
			return errors.New("a target has no name")
		case t.Rounds < 0 || t.Failed < 0 || t.Missed < 0:
			return fmt.Errorf("%s was asked %d times, with %d failed and %d missed", t.Node, t.Rounds, t.Failed, t.Missed)
		case t.WorstGap < 0 || t.WorstMiss < 0:
			return fmt.Errorf("the longest times without a sample of %s are %g s and %g s", t.Node, t.WorstGap, t.WorstMiss)
		}
	}
	return nil
}
