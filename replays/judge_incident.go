package replays

import (
	"fmt"
	"slices"
	"strings"
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
// arm failed. Causes that are said to be needed together must all be needed.
func JudgeIncident(plays []Judged, repeat int) Verdict {
	v, roles := judgeArms(plays, repeat)
	healthy, unfixed := armsPassed(v.Arms, roles, RoleHealthy), armsPassed(v.Arms, roles, RoleUnfixed)
	documented := slices.ContainsFunc(v.Arms, func(a ArmVerdict) bool { return a.Arm == "unfixed" })
	v.Reproduced = documented && healthy == Pass && unfixed == Pass
	if len(plays) > 0 && !v.Reproduced && slices.ContainsFunc(roles, func(r Role) bool { return r != RoleHealthy && r != RoleUnfixed }) {
		v.Reasons = append(v.Reasons, "the incident was not reproduced in this run, so causes taken away, sweeps and fixes prove nothing")
		v.Outcome = Worst(v.Outcome, Unknown)
	}
	if slices.Contains(roles, RoleHealthy) && slices.Contains(roles, RoleUnfixed) {
		v.Vacuous = vacuous(v.Arms)
	}
	for _, c := range v.Vacuous {
		v.Outcome = Fail
		v.Reasons = append(v.Reasons, fmt.Sprintf("%s %s came out the same in every arm: it proves nothing", c.Kind, c.Check))
	}
	v.Combinations, v.Sweeps = combinationsOf(plays, v.Arms), sweepsOf(plays, v.Arms)
	v.judgeCombinations()
	return v
}

// JudgeAlone is the verdict of one play that belongs to no run of several: its
// outcome is the play's. Of whether the incident reproduces, and so of what a fix
// is worth, it says nothing.
func JudgeAlone(p Judged) Verdict {
	v, _ := judgeArms([]Judged{p}, 1)
	v.Sweeps = sweepsOf([]Judged{p}, v.Arms)
	return v
}

// judgeArms weighs the plays of each arm, and gives the arms' roles.
func judgeArms(plays []Judged, repeat int) (Verdict, []Role) {
	v := Verdict{Outcome: Unknown, Reasons: []string{}, Arms: []ArmVerdict{}, Vacuous: []Vacuous{}, Combinations: []Combination{}, Sweeps: []SweepVerdict{}}
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
	return v, roles
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
			a.Seconds, a.Findings, a.Faults, a.Validity, a.Class, a.Ladder = p.Seconds, p.Findings, p.Faults, p.Validity, p.Class, p.Ladder
			break
		}
	}
}

func (a *ArmVerdict) reason() string {
	if a.Outcome == Unknown {
		why := fmt.Sprintf("%d passed, and more were asked for", a.Passed)
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
		during := ""
		if f.Phase != "" { // of a configuration there is none
			during = " during " + f.Phase
		}
		return fmt.Sprintf("arm %s fails in %d of %d plays: %s %s%s: got %s, want %s", a.Arm, a.Failed, a.Plays, f.Check, should, during, f.Got, f.Want)
	}
	return fmt.Sprintf("arm %s fails in %d of %d plays", a.Arm, a.Failed, a.Plays)
}

// vacuous finds the symptoms and objectives that came out the same in every
// valid play of every arm. Invariants are meant to, and the outage finding is
// made of others. Of a check that some arm could not read it is not known, and
// neither is it of any while an arm has no valid play.
func vacuous(arms []ArmVerdict) []Vacuous {
	type seen struct{ held, not, unread bool }
	checks := map[checkRef]*seen{}
	for _, a := range arms {
		valid := 0
		for _, run := range a.Runs {
			if len(run.Validity) > 0 {
				continue
			}
			valid++
			for check, held := range checkHeld(run.Findings) {
				s := checks[check]
				if s == nil {
					s = new(seen)
					checks[check] = s
				}
				s.unread = s.unread || held == nil
				s.held = s.held || held != nil && *held
				s.not = s.not || held != nil && !*held
			}
		}
		if valid == 0 {
			return []Vacuous{}
		}
	}
	out := []Vacuous{}
	for check, s := range checks {
		if s.held != s.not && !s.unread {
			out = append(out, Vacuous{Check: check.id, Kind: check.kind, Held: s.held})
		}
	}
	slices.SortFunc(out, func(a, b Vacuous) int { return strings.Compare(a.Check, b.Check) })
	return out
}

type checkRef struct{ id, kind string }

// checkHeld says of each symptom and objective whether it held in all its
// phases, as a whole; nil where that could not be read.
func checkHeld(findings []Finding) map[checkRef]*bool {
	out := map[checkRef]*bool{}
	for _, f := range findings {
		if f.Check == outageCheck || f.Kind != KindSymptom && f.Kind != KindObjective {
			continue
		}
		ref := checkRef{f.Check, f.Kind}
		before, ok := out[ref]
		failed := ok && before != nil && !*before
		if !failed && (!ok || before != nil || f.Held != nil && !*f.Held) {
			out[ref] = f.Held
		}
	}
	return out
}
