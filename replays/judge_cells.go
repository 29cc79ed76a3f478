package replays

import (
	"fmt"
	"slices"
	"strings"
)

// notPlayed is the reason of a cell without a play.
const notPlayed = "not played in this run"

// combinationsOf gives the table of the causes combined, all of them first. It
// is empty where no arm was played that lacks one.
func combinationsOf(plays []Judged, arms []ArmVerdict) []Combination {
	var of []string
	lacking := false
	for _, p := range plays {
		if c := p.Plan.Combination; c != nil {
			of = c.Of
			lacking = lacking || len(c.On) < len(c.Of)
		}
	}
	out := []Combination{}
	if !lacking {
		return out
	}
	for _, off := range combinations(of) {
		c := Combination{On: []string{}, Cell: Cell{Arm: armWithout(off), Reason: notPlayed}}
		for _, cause := range of {
			if !slices.Contains(off, cause) {
				c.On = append(c.On, cause)
			}
		}
		if n := slices.IndexFunc(arms, func(a ArmVerdict) bool { return a.Arm == c.Arm }); n >= 0 {
			c.Cell = arms[n].cell()
		}
		out = append(out, c)
	}
	return out
}

// judgeCombinations holds the table against its claim: an outage with all of the
// causes, and none with fewer. Whether it is one with all of them is for the
// un-fixed arm to say.
func (v *Verdict) judgeCombinations() {
	for n, c := range v.Combinations {
		if n == 0 {
			continue
		}
		played := slices.IndexFunc(v.Arms, func(a ArmVerdict) bool { return a.Arm == c.Arm })
		switch {
		case c.Outage != nil && *c.Outage:
			v.Outcome = Fail
			v.Reasons = append(v.Reasons, fmt.Sprintf("arm %s is an outage, and it should take %s together to make one: %s during %s: got %s, want %s",
				c.Arm, strings.Join(v.Combinations[0].On, ", "), c.DecidedBy, c.Phase, c.Got, c.Want))
		case c.Outage == nil && played >= 0 && v.Arms[played].Outcome != Unknown: // else the arm says so itself
			v.Outcome = Worst(v.Outcome, Unknown)
			v.Reasons = append(v.Reasons, fmt.Sprintf("whether arm %s is an outage is not known: %s", c.Arm, c.Reason))
		}
	}
}

// sweepsOf gives what became of the steps that were played.
func sweepsOf(plays []Judged, arms []ArmVerdict) []SweepVerdict {
	out := []SweepVerdict{}
	for _, a := range arms {
		n := slices.IndexFunc(plays, func(p Judged) bool { return p.Plan.Arm == a.Arm })
		step := plays[n].Plan.Step
		if step == nil {
			continue
		}
		at := slices.IndexFunc(out, func(s SweepVerdict) bool { return s.Name == step.Sweep })
		if at < 0 {
			at = len(out)
			out = append(out, SweepVerdict{Name: step.Sweep})
		}
		out[at].Steps = append(out[at].Steps, StepVerdict{Step: step.Step, Expected: step.Outage, Outcome: a.Outcome, Cell: a.cell()})
	}
	return out
}

// cell says whether the arm is an outage: it is one if any valid play of it is.
// A play of which that is not known says nothing where another one does.
func (a *ArmVerdict) cell() Cell {
	var out Cell
	for n, p := range a.Runs {
		if c := p.cell(); n == 0 || c.weighs(out) {
			out = c
		}
	}
	out.Arm = a.Arm
	return out
}

// weighs says whether a cell speaks for its arm rather than that of another play:
// of two outages the one that is further from none, and of two plays without one
// that which is nearer to it.
func (c Cell) weighs(other Cell) bool {
	rank := func(c Cell) int {
		switch {
		case c.Outage == nil:
			return 0
		case *c.Outage:
			return 2
		}
		return 1
	}
	switch {
	case rank(c) != rank(other):
		return rank(c) > rank(other)
	case c.Margin == nil || other.Margin == nil:
		return c.Margin != nil
	case *c.Outage:
		return *c.Margin > *other.Margin
	}
	return *c.Margin < *other.Margin
}

// cell says whether the play was an outage.
func (p PlayVerdict) cell() Cell {
	var c Cell
	if len(p.Validity) > 0 {
		c.Reason = p.Validity[0].Reason
		return c
	}
	var failing, holding, unread []Finding
	for _, f := range p.Findings {
		switch {
		case f.Kind != KindObjective || f.Check == outageCheck:
		case f.Held == nil:
			unread = append(unread, f)
		case *f.Held:
			holding = append(holding, f)
		case f.Reason == "": // what fails before the trigger is none of its outage
			failing = append(failing, f)
		}
	}
	switch {
	case len(failing) > 0:
		c.decide(true, furthest(failing))
	case len(unread) > 0:
		c.Reason = unread[0].Check + ": " + unread[0].Reason
	case len(holding) > 0:
		c.decide(false, p.nearest(holding))
	default:
		c.Reason = "no objective was judged"
	}
	return c
}

func (c *Cell) decide(outage bool, by Finding) {
	c.Outage, c.DecidedBy, c.Phase, c.Got, c.Want = &outage, by.Check, by.Phase, by.Got, by.Want
	if by.Margin != nil && (outage || !equality(by)) {
		distance := max(*by.Margin, -*by.Margin)
		c.Margin = &distance
	}
}

// furthest gives the failing objective that is the furthest from holding.
func furthest(failing []Finding) Finding {
	out := failing[0]
	for _, f := range failing {
		if f.Margin != nil && (out.Margin == nil || *f.Margin < *out.Margin) {
			out = f
		}
	}
	return out
}

// nearest gives the objective that is the nearest to failing, in the phases in
// which symptoms are looked for: how much room there is before anything is broken
// says little. An equality has no room by its nature.
func (p PlayVerdict) nearest(holding []Finding) Finding {
	broken := func(phase string) bool {
		return slices.ContainsFunc(p.Findings, func(f Finding) bool { return f.Kind == KindSymptom && f.Phase == phase })
	}
	out := holding[0]
	best := -1 // how much a finding says: whether it has room at all, then its phase
	for _, f := range holding {
		says := 0
		if f.Margin != nil && !equality(f) {
			says += 2
		}
		if broken(f.Phase) {
			says++
		}
		if says > best || says == best && f.Margin != nil && out.Margin != nil && *f.Margin < *out.Margin {
			out, best = f, says
		}
	}
	return out
}

func equality(f Finding) bool {
	return strings.HasPrefix(f.Want, "==") || strings.HasPrefix(f.Want, "!=")
}
