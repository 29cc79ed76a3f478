package replays

import (
	"fmt"
	"slices"
	"strings"

	"relapse/topologies"
)

// armSpec is an arm before it is planned: its role, the changes that make it
// and what it promises.
type armSpec struct {
	role     Role
	says     string
	expected string
	changes  []Change
	expects  func(kind, id string) *bool
	class    []string            // kinds of outage, any of which it may be
	combines *PlannedCombination // where it is one of the combinations of causes
	step     *PlannedStep        // where it is a step of a sweep
}

// overlays of an arm, each once: the incident's own and then those of the arm's
// changes, in the order in which they come.
func (i *Incident) overlays(a armSpec) []string {
	out := append([]string{}, i.Overlays...)
	for _, c := range a.changes {
		for _, o := range c.Overlays {
			if !slices.Contains(out, o) {
				out = append(out, o)
			}
		}
	}
	return out
}

// Arms gives the names of all arms, in the order in which they are told:
// healthy, unfixed (and unfixed-on-TRIGGER), without-CAUSE,
// without-CAUSE-and-CAUSE, SWEEP-STEP, fix-FIX, fix-FIX-on-TRIGGER,
// fix-FIX-under-CHALLENGE.
func (i *Incident) Arms() []string {
	arms := []string{"healthy", "unfixed"}
	for _, t := range i.Triggers {
		arms = append(arms, "unfixed-on-"+t.Name)
	}
	for _, c := range i.Causes {
		arms = append(arms, "without-"+c.Name)
	}
	for _, off := range combinations(i.Combine) {
		if len(off) > 1 { // of fewer the arms are there
			arms = append(arms, armWithout(off))
		}
	}
	for _, s := range i.Sweeps {
		for _, step := range s.Value.Steps {
			arms = append(arms, s.Name+"-"+step.Name)
		}
	}
	for _, f := range i.Fixes {
		arms = append(arms, "fix-"+f.Name)
		for _, on := range f.Value.On {
			arms = append(arms, "fix-"+f.Name+"-on-"+on.Name)
		}
		for _, c := range f.Value.Challenges {
			arms = append(arms, "fix-"+f.Name+"-under-"+c.Name)
		}
	}
	return arms
}

// UnknownArmError names an arm that the incident does not have.
type UnknownArmError struct {
	Incident, Arm string
	Arms          []string
}

func (e *UnknownArmError) Error() string {
	hint := "the arms are: " + strings.Join(e.Arms, ", ")
	if n := topologies.Nearest(e.Arm, e.Arms); n != "" {
		hint = fmt.Sprintf("did you mean %s?", n)
	}
	return fmt.Sprintf("incident %s has no arm %q: %s", e.Incident, e.Arm, hint)
}

// arm gives an arm with all of its changes, those that are of every un-fixed system
// first.
func (i *Incident) arm(name string) (armSpec, error) {
	a, err := i.armItself(name)
	if err != nil || i.Unfixed == nil || a.role == RoleHealthy {
		return a, err
	}
	a.changes = append([]Change{i.Unfixed.Change}, a.changes...)
	return a, nil
}

func (i *Incident) armItself(name string) (armSpec, error) {
	switch name {
	case "healthy":
		return armSpec{role: RoleHealthy, says: "Nothing triggers the incident", expected: expectedHealth, expects: i.asHealthy}, nil
	case "unfixed":
		a := armSpec{role: RoleUnfixed, says: "The incident as documented", expected: expectedOutage, expects: i.asDocumented, combines: i.combination(nil)}
		if i.Class != nil {
			a.class = i.Class.Unfixed
		}
		if i.Unfixed != nil {
			a.says = i.Unfixed.Says
		}
		return a, nil
	}
	for _, t := range i.Triggers {
		if name == "unfixed-on-"+t.Name {
			return armSpec{role: RoleUnfixed, says: t.Value.Says, expected: expectedOutage, changes: []Change{t.Value.Change}, expects: i.asTriggered(t.Value)}, nil
		}
	}
	for _, c := range i.Causes {
		if name == "without-"+c.Name {
			a := i.causeArm(c.Value)
			a.combines = i.combination([]string{c.Name})
			return a, nil
		}
	}
	for _, off := range combinations(i.Combine) {
		if len(off) > 1 && name == armWithout(off) {
			return i.combinationArm(off), nil
		}
	}
	for _, s := range i.Sweeps {
		for _, step := range s.Value.Steps {
			if name == s.Name+"-"+step.Name {
				return i.stepArm(s.Name, step), nil
			}
		}
	}
	for _, f := range i.Fixes {
		prefix := "fix-" + f.Name
		if name == prefix {
			return i.promisedArm(RoleFix, f.Value.Says, f.Value.Promise, f.Value.Change), nil
		}
		for _, on := range f.Value.On {
			if name == prefix+"-on-"+on.Name {
				t, _ := i.Triggers.Get(on.Name)
				return i.promisedArm(RoleFix, f.Value.Says+" ("+t.Says+")", on.Value, t.Change, f.Value.Change), nil
			}
		}
		for _, c := range f.Value.Challenges {
			if name == prefix+"-under-"+c.Name {
				return i.promisedArm(RoleChallenge, c.Value.Says, i.challengePromise(f.Value, c.Value), f.Value.Change, c.Value.Change), nil
			}
		}
	}
	return armSpec{}, &UnknownArmError{i.Name, name, i.Arms()}
}

// promisedArm is the incident with changes that come out as they promise.
func (i *Incident) promisedArm(role Role, says string, p Promise, changes ...Change) armSpec {
	return armSpec{role: role, says: says, expected: p.expected(), changes: changes, expects: i.promised(p), class: p.Class}
}

// causeArm is the incident with a cause taken away. A necessary cause that says
// nothing more prevents all of it; one that is not necessary prevents none.
func (i *Incident) causeArm(c Cause) armSpec {
	a := armSpec{role: RoleCause, says: c.Says, changes: []Change{c.Without}, class: c.Class}
	switch {
	case !c.Promise.empty():
		a.expected, a.expects = c.Promise.expected(), i.promised(c.Promise)
	case c.Necessary:
		a.expected, a.expects = expectedCured, i.asHealthy
	default:
		a.expected, a.expects = expectedOutage, i.asDocumented
	}
	return a
}

// stepArm is the incident at one size: an outage as documented, or none.
func (i *Incident) stepArm(sweep string, s Step) armSpec {
	outage := s.Outage != nil && *s.Outage
	a := armSpec{role: RoleSweep, says: s.Says, expected: expectedNoOutage, class: s.Class, step: &PlannedStep{Sweep: sweep, Step: s.Name, Outage: outage}}
	a.expects = i.promised(Promise{Restores: checkIDs(i.Objectives)})
	if outage {
		a.expected, a.expects = expectedOutage, i.asDocumented
	}
	if !s.Change.empty() {
		a.changes = []Change{s.Change}
	}
	return a
}

// challengePromise is what a fix keeps under a challenge: what the challenge
// says, or all that the fix promises where it says nothing. Of the kind of outage
// a challenge speaks for itself.
func (i *Incident) challengePromise(f Fix, c Challenge) Promise {
	p := c.Promise
	for _, id := range c.Holds {
		if slices.Contains(checkIDs(i.Symptoms), id) {
			p.Cures = append(slices.Clone(p.Cures), id)
		} else {
			p.Restores = append(slices.Clone(p.Restores), id)
		}
	}
	if p.empty() {
		p = f.Promise
		p.Class = c.Class
	}
	return p
}

func (p Promise) expected() string {
	if len(p.Leaves)+len(p.Breaks) > 0 {
		return expectedMixed
	}
	return expectedCured
}

func always(v bool) *bool { return &v }

func (i *Incident) asHealthy(kind, _ string) *bool { return always(kind != KindSymptom) }

// asDocumented expects every symptom. Which objectives fail is not said: at
// least one must (see outageFinding).
func (i *Incident) asDocumented(kind, _ string) *bool {
	if kind == KindObjective {
		return nil
	}
	return always(true)
}

// asTriggered is asDocumented but for what another trigger does not show.
func (i *Incident) asTriggered(t Trigger) func(kind, id string) *bool {
	return func(kind, id string) *bool {
		if slices.Contains(t.Lacks, id) {
			return nil
		}
		return i.asDocumented(kind, id)
	}
}

func (i *Incident) promised(p Promise) func(kind, id string) *bool {
	return func(kind, id string) *bool {
		switch {
		case slices.Contains(p.Breaks, id):
			return always(false)
		case kind == KindInvariant, slices.Contains(p.Restores, id):
			return always(true)
		case slices.Contains(p.Cures, id):
			return always(false)
		case slices.Contains(p.Leaves, id):
			return always(kind == KindSymptom)
		}
		return nil
	}
}
