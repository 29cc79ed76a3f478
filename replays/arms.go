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
}

// overlays of all changes, each once, in the order in which they come.
func (a armSpec) overlays() []string {
	out := []string{}
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
// healthy, unfixed (and unfixed-on-TRIGGER), without-CAUSE, fix-FIX,
// fix-FIX-on-TRIGGER, fix-FIX-under-CHALLENGE.
func (i *Incident) Arms() []string {
	arms := []string{"healthy", "unfixed"}
	for _, t := range i.Triggers {
		arms = append(arms, "unfixed-on-"+t.Name)
	}
	for _, c := range i.Causes {
		arms = append(arms, "without-"+c.Name)
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

func (i *Incident) arm(name string) (armSpec, error) {
	switch name {
	case "healthy":
		return armSpec{role: RoleHealthy, says: "Nothing triggers the incident", expected: "health", expects: i.asHealthy}, nil
	case "unfixed":
		return armSpec{role: RoleUnfixed, says: "The incident as documented", expected: "outage", expects: i.asDocumented}, nil
	}
	for _, t := range i.Triggers {
		if name == "unfixed-on-"+t.Name {
			return armSpec{RoleUnfixed, t.Value.Says, "outage", []Change{t.Value.Change}, i.asTriggered(t.Value)}, nil
		}
	}
	for _, c := range i.Causes {
		if name == "without-"+c.Name {
			return i.causeArm(c.Value), nil
		}
	}
	for _, f := range i.Fixes {
		prefix := "fix-" + f.Name
		if name == prefix {
			return armSpec{RoleFix, f.Value.Says, f.Value.Promise.expected(), []Change{f.Value.Change}, i.promised(f.Value.Promise)}, nil
		}
		for _, on := range f.Value.On {
			if name == prefix+"-on-"+on.Name {
				t, _ := i.Triggers.Get(on.Name)
				return armSpec{RoleFix, f.Value.Says + " (" + t.Says + ")", on.Value.expected(), []Change{t.Change, f.Value.Change}, i.promised(on.Value)}, nil
			}
		}
		for _, c := range f.Value.Challenges {
			if name == prefix+"-under-"+c.Name {
				promise := i.challengePromise(f.Value, c.Value)
				return armSpec{RoleChallenge, c.Value.Says, promise.expected(), []Change{f.Value.Change, c.Value.Change}, i.promised(promise)}, nil
			}
		}
	}
	return armSpec{}, &UnknownArmError{i.Name, name, i.Arms()}
}

// causeArm is the incident with a cause taken away. A necessary cause that says
// nothing more prevents all of it; one that is not necessary prevents none.
func (i *Incident) causeArm(c Cause) armSpec {
	a := armSpec{role: RoleCause, says: c.Says, changes: []Change{c.Without}}
	switch {
	case !c.Promise.empty():
		a.expected, a.expects = c.Promise.expected(), i.promised(c.Promise)
	case c.Necessary:
		a.expected, a.expects = "cured", i.asHealthy
	default:
		a.expected, a.expects = "outage", i.asDocumented
	}
	return a
}

// challengePromise is what a fix keeps under a challenge: what the challenge
// says, or all that the fix promises where it says nothing.
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
		return f.Promise
	}
	return p
}

func (p Promise) expected() string {
	if len(p.Leaves) > 0 {
		return "mixed"
	}
	return "cured"
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
