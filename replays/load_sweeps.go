package replays

import (
	"fmt"
	"slices"
	"strings"
)

// combine checks the causes that an outage is said to need together.
func (l *loader) combine() error {
	i := &l.inc
	if n := len(i.Combine); n == 1 || n > 4 {
		return l.fail(fmt.Sprintf("combine names %d of the causes", n), "name two to four: each combination of them is an arm", "combine")
	}
	for n, name := range i.Combine {
		if err := l.known("cause", name, i.Causes.Names(), "combine", n); err != nil {
			return err
		}
		if slices.Contains(i.Combine[:n], name) {
			return l.fail(fmt.Sprintf("combine names %s twice", name), "name each cause once", "combine", n)
		}
		if c, _ := i.Causes.Get(name); !c.needed(checkIDs(i.Objectives)) {
			return l.fail(fmt.Sprintf("combine says that the outage needs %s, and cause %s that there is one without it", name, name),
				"mark the cause as necessary: true, or say that without it the objectives hold; or take it out of combine", "combine", n)
		}
	}
	return nil
}

// sweeps checks the steps of each sweep.
func (l *loader) sweeps() error {
	for _, s := range l.inc.Sweeps {
		for _, taken := range []string{"healthy", "unfixed", "without", "fix"} {
			if s.Name == taken || strings.HasPrefix(s.Name, taken+"-") {
				return l.fail(fmt.Sprintf("the arms of sweep %s would read as those of something else", s.Name), "do not begin its name with "+taken, "sweeps", keyOf(s.Name))
			}
		}
		if len(s.Value.Steps) == 0 {
			return l.fail(fmt.Sprintf("sweep %s has no step", s.Name), `list at least one: steps: [{name: "1", says: …, change: {…}, outage: false}]`, "sweeps", keyOf(s.Name))
		}
		var seen []string
		for n, step := range s.Value.Steps {
			at := []any{"sweeps", s.Name, "steps", n}
			switch {
			case step.Name == "":
				return l.fail(fmt.Sprintf("a step of sweep %s has no name", s.Name), `write name: "1"`, at...)
			case !named(step.Name):
				return l.fail(fmt.Sprintf("%q is no name for a step", step.Name), nameHint, append(at, "name")...)
			case slices.Contains(seen, step.Name):
				return l.fail(fmt.Sprintf("step %s is there twice", step.Name), "give each step a name of its own", append(at, "name")...)
			case step.Outage == nil:
				return l.fail(fmt.Sprintf("step %s does not say whether it is an outage", step.Name), "write outage: true or outage: false", at...)
			}
			seen = append(seen, step.Name)
			if !step.Change.empty() {
				if err := l.change(step.Change, append(slices.Clone(at), "change")...); err != nil {
					return err
				}
			}
			if err := l.classes(step.Class, append(slices.Clone(at), "class")...); err != nil {
				return err
			}
		}
	}
	return nil
}

// combinationsDiffer refuses a combination that plays as one with fewer causes
// taken away does, as where two overlays replace the same file.
func (l *loader) combinationsDiffer(plans map[string]*Plan) error {
	for _, off := range combinations(l.inc.Combine) {
		if len(off) < 2 {
			continue // see the causes themselves
		}
		for n, cause := range off {
			fewer := armWithout(slices.Delete(slices.Clone(off), n, n+1))
			if plans[armWithout(off)].playsLike(plans[fewer]) {
				return l.fail(fmt.Sprintf("arm %s plays as %s does: to take %s away as well changes nothing", armWithout(off), fewer, cause),
					"give each cause a change that does not undo or repeat another's", "combine")
			}
		}
	}
	return nil
}

// stepsDiffer refuses steps that play alike, and an outage as documented that is
// said to be none.
func (l *loader) stepsDiffer(plans map[string]*Plan) error {
	for _, s := range l.inc.Sweeps {
		for n, step := range s.Value.Steps {
			plan := plans[s.Name+"-"+step.Name]
			if !*step.Outage && plan.playsLike(plans["unfixed"]) {
				return l.fail(fmt.Sprintf("step %s of sweep %s is said to be no outage, and plays as unfixed does", step.Name, s.Name), "give it a change that makes a difference", "sweeps", s.Name, "steps", n)
			}
			for _, before := range s.Value.Steps[:n] {
				if plan.playsLike(plans[s.Name+"-"+before.Name]) {
					return l.fail(fmt.Sprintf("step %s of sweep %s plays as step %s does", step.Name, s.Name, before.Name), "give it a change that makes a difference", "sweeps", s.Name, "steps", n)
				}
			}
		}
	}
	return nil
}
