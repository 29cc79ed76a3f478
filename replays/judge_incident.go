package replays

import (
	"fmt"
	"slices"
)

// Judged is a play with its plan and its verdict.
type Judged struct {
	Plan    *Plan
	Verdict PlayVerdict
}

// JudgeIncident weighs the plays of an incident's arms together. repeat is how
// many plays of each arm were asked for; unknown plays do not count towards it.
//
// Reproduced means that the healthy and the un-fixed arm both came out as they
// should: every symptom was seen, at least one objective failed, and neither
// was so without the trigger. A fix holds only in a run in which the un-fixed
// arm failed.
func JudgeIncident(plays []Judged, repeat int) Verdict {
	v := Verdict{Outcome: Unknown, Reasons: []string{}, Arms: []ArmVerdict{}, Vacuous: []Vacuous{}}
	var roles []Role
	for _, p := range plays {
		v.Incident, v.Title = p.Plan.Incident, p.Plan.Title
		n := slices.IndexFunc(v.Arms, func(a ArmVerdict) bool { return a.Arm == p.Plan.Arm })
		if n < 0 {
			n = len(v.Arms)
			v.Arms = append(v.Arms, ArmVerdict{Arm: p.Plan.Arm, Expected: p.Plan.Expected, Says: p.Plan.Says})
			roles = append(roles, p.Plan.Role)
		}
		v.Arms[n].add(p.Verdict)
	}
	outcomes := []Outcome{}
	for n := range v.Arms {
		v.Arms[n].decide(repeat)
		outcomes = append(outcomes, v.Arms[n].Outcome)
		if a := v.Arms[n]; a.Outcome != Pass {
			v.Reasons = append(v.Reasons, a.reason())
		}
	}
	v.Outcome = Worst(outcomes...)
	healthy, unfixed := armsPassed(v.Arms, roles, RoleHealthy), armsPassed(v.Arms, roles, RoleUnfixed)
	documented := slices.ContainsFunc(v.Arms, func(a ArmVerdict) bool { return a.Arm == "unfixed" })
	v.Reproduced = documented && healthy == Pass && unfixed == Pass
	if len(plays) > 0 && !v.Reproduced && slices.ContainsFunc(roles, func(r Role) bool { return r == RoleFix || r == RoleChallenge }) {
		v.Reasons = append(v.Reasons, "the incident was not reproduced in this run, so its fixes prove nothing")
		v.Outcome = Worst(v.Outcome, Unknown)
	}
	if slices.Contains(roles, RoleHealthy) && slices.Contains(roles, RoleUnfixed) {
		v.Vacuous = vacuous(v.Arms)
	}
	for _, c := range v.Vacuous {
		v.Outcome = Fail
		v.Reasons = append(v.Reasons, fmt.Sprintf("%s %s came out the same in every arm: it proves nothing", c.Kind, c.Check))
	}
	return v
}

// armsPassed is the outcome of all arms of a role; unknown where there is none.
func armsPassed(arms []ArmVerdict, roles []Role, role Role) Outcome {
	var outcomes []Outcome
	for n, a := range arms {
		if roles[n] == role {
			outcomes = append(outcomes, a.Outcome)
		}
	}
	return Worst(outcomes...)
}

func (a *ArmVerdict) add(p PlayVerdict) {
	a.Plays++
	switch p.Outcome {
	case Pass:
		a.Passed++
	case Fail:
		a.Failed++
	default:
		a.Unknown++
	}
	a.Runs = append(a.Runs, p)
}

// decide takes the arm's outcome from its plays: one that failed decides; else
// there must be as many that passed as were asked for.
func (a *ArmVerdict) decide(repeat int) {
	switch {
	case a.Failed > 0:
		a.Outcome = Fail
	case a.Passed > 0 && a.Passed >= repeat:
		a.Outcome = Pass
	default:
		a.Outcome = Unknown
	}
	for _, p := range a.Runs {
		if p.Outcome == a.Outcome {
			a.Seconds, a.Findings, a.Faults, a.Validity = p.Seconds, p.Findings, p.Faults, p.Validity
			break
		}
	}
}

func (a *ArmVerdict) reason() string {
	if a.Outcome == Unknown {
		why := "it was not played"
		if len(a.Validity) > 0 {
			why = a.Validity[0].Reason
		} else if n := slices.IndexFunc(a.Findings, func(f Finding) bool { return f.Outcome == Unknown }); n >= 0 {
			why = a.Findings[n].Check + ": " + a.Findings[n].Reason
		}
		return fmt.Sprintf("arm %s is unknown in %d of %d plays: %s", a.Arm, a.Unknown, a.Plays, why)
	}
	for _, f := range a.Findings {
		if f.Outcome != Fail {
			continue
		}
		should := "should not hold"
		if f.Expected != nil && *f.Expected {
			should = "should hold"
		}
		return fmt.Sprintf("arm %s fails in %d of %d plays: %s %s during %s: got %s, want %s", a.Arm, a.Failed, a.Plays, f.Check, should, f.Phase, f.Got, f.Want)
	}
	return fmt.Sprintf("arm %s fails in %d of %d plays", a.Arm, a.Failed, a.Plays)
}

// vacuous finds the symptoms and objectives that came out the same in every
// play of every arm. Invariants are meant to, and the outage finding is made of
// others.
func vacuous(arms []ArmVerdict) []Vacuous {
	type seen struct{ held, not bool }
	checks := map[string]*seen{}
	kinds := map[string]string{}
	var order []string
	for _, a := range arms {
		for _, run := range a.Runs {
			for check, held := range checkHeld(run.Findings) {
				if checks[check.id] == nil {
					checks[check.id] = new(seen)
					kinds[check.id] = check.kind
					order = append(order, check.id)
				}
				if held {
					checks[check.id].held = true
				} else {
					checks[check.id].not = true
				}
			}
		}
	}
	slices.Sort(order)
	out := []Vacuous{}
	for _, id := range order {
		if s := checks[id]; s.held != s.not {
			out = append(out, Vacuous{Check: id, Kind: kinds[id], Held: s.held})
		}
	}
	return out
}

type checkRef struct{ id, kind string }

// checkHeld says of each check that was read whether it held in all its phases.
func checkHeld(findings []Finding) map[checkRef]bool {
	out := map[checkRef]bool{}
	for _, f := range findings {
		if f.Held == nil || f.Check == outageCheck || f.Kind != KindSymptom && f.Kind != KindObjective {
			continue
		}
		ref := checkRef{f.Check, f.Kind}
		if held, ok := out[ref]; !ok || held {
			out[ref] = *f.Held
		}
	}
	return out
}
