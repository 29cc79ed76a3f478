package reports

import (
	"fmt"
	"slices"
	"strings"

	"relapse/replays"
)

// tally counts outcomes.
type tally struct {
	pass, fail, unknown int
	absent              int // stated but not played, in no sum
}

func (t *tally) add(o replays.Outcome) {
	switch replays.Worst(o) {
	case replays.Pass:
		t.pass++
	case replays.Fail:
		t.fail++
	default:
		t.unknown++
	}
}

func (t tally) all() int { return t.pass + t.fail + t.unknown }

func fixTally(rows []fixRow) tally {
	var t tally
	for _, f := range rows {
		if f.Alone.Played || slices.ContainsFunc(f.Under, func(c challengeRow) bool { return c.Played }) {
			t.add(f.Outcome)
		} else {
			t.absent++
		}
	}
	return t
}

// verdictFixes counts fixes by the arms alone, for a reader without the
// incident's file.
func verdictFixes(v replays.Verdict) tally {
	worst := map[string]replays.Outcome{}
	for _, a := range v.Arms {
		name := fixArm(a.Arm, v.Arms)
		if name == "" {
			continue
		}
		if o, ok := worst[name]; ok {
			worst[name] = replays.Worst(o, a.Outcome)
		} else {
			worst[name] = replays.Worst(a.Outcome)
		}
	}
	var t tally
	for _, o := range worst {
		t.add(o)
	}
	return t
}

// partial is the headline of a run that was not asked whether the incident
// reproduces, since it lacks the healthy arm or the un-fixed one.
func partial(v replays.Verdict) string {
	var t tally
	for _, a := range v.Arms {
		t.add(a.Outcome)
	}
	switch {
	case t.all() == 0:
		return "Nothing was played."
	case t.all() == 1:
		return "The " + armName(v.Arms[0].Arm) + " arm alone: " + map[replays.Outcome]string{
			replays.Pass: "as expected.", replays.Fail: "not as expected.", replays.Unknown: "unknown.",
		}[replays.Worst(v.Arms[0].Outcome)]
	}
	return fmt.Sprintf("%d of %d arms as expected, %d unknown; not asked whether it reproduces.", t.pass, t.all(), t.unknown)
}

// headline is the verdict in plain words.
func headline(v replays.Verdict, fixes tally) string {
	var healthy, unfixed []replays.Outcome
	for _, a := range v.Arms {
		if a.Arm == armHealthy {
			healthy = append(healthy, a.Outcome)
		}
		if isUnfixed(a.Arm) {
			unfixed = append(unfixed, a.Outcome)
		}
	}
	if len(healthy) == 0 || len(unfixed) == 0 {
		return partial(v)
	}
	text := "Reproduced."
	if !v.Reproduced {
		text = "Not reproduced."
		if replays.Worst(replays.Worst(healthy...), replays.Worst(unfixed...)) == replays.Unknown {
			text = "Unknown whether it reproduces."
		}
	}
	switch n := fixes.all(); {
	case n == 0 && fixes.absent > 0:
		text += " No fix was played."
	case n == 0:
	case fixes.pass == n && n == 1:
		text += " The one fix holds."
	case fixes.pass == n:
		text += fmt.Sprintf(" All %d fixes hold.", n)
	case fixes.pass == 1 || n == 1:
		text += fmt.Sprintf(" %d of %s holds", fixes.pass, plural(n, "fix", "fixes"))
	default:
		text += fmt.Sprintf(" %d of %s hold", fixes.pass, plural(n, "fix", "fixes"))
	}
	if !strings.HasSuffix(text, ".") {
		if fixes.unknown > 0 {
			text += fmt.Sprintf(", %d unknown", fixes.unknown)
		}
		text += "."
	}
	if n := fixes.absent; n > 0 && fixes.all() > 0 {
		text += " " + plural(n, "fix was", "fixes were") + " not played."
	}
	if says := together(v); says != "" {
		text += " " + says
	}
	if n := len(v.Vacuous); n > 0 {
		text += " " + plural(n, "check proves", "checks prove") + " nothing."
	}
	return text
}

// counts are the checks of one kind in one arm. A check is counted once, however
// many phases it is looked at in: it held in all of them, or was missed in one.
type counts struct{ held, missed, blind int }

func (c counts) all() int { return c.held + c.missed + c.blind }

func countChecks(fs []replays.Finding, ids []string) counts {
	var c counts
	for _, id := range ids {
		of := found(replays.ArmVerdict{Findings: fs}, id)
		switch {
		case len(of) == 0 || slices.ContainsFunc(of, func(f replays.Finding) bool { return f.Held == nil }):
			c.blind++
		case slices.ContainsFunc(of, func(f replays.Finding) bool { return !*f.Held }):
			c.missed++
		default:
			c.held++
		}
	}
	return c
}

// symptomsText and objectivesText say the same of the same play wherever it is
// told.
func symptomsText(c counts) string {
	return fmt.Sprintf("%d of %s seen%s", c.held, plural(c.all(), "symptom was", "symptoms were"), notSeen(c.blind))
}

func objectivesText(c counts) string {
	return fmt.Sprintf("%d of %s missed in one phase or more%s", c.missed, plural(c.all(), "objective was", "objectives were"), notSeen(c.blind))
}

func because(p page, arms map[string]replays.ArmVerdict) []string {
	count := func(arm, kind string) counts {
		var ids []string
		for _, c := range allChecks(p.Report) {
			if c.Kind == kind {
				ids = append(ids, c.ID)
			}
		}
		return countChecks(arms[arm].Findings, ids)
	}
	var lines []string
	if _, played := arms[armUnfixed]; !played {
		return nil
	}
	if c := count(armUnfixed, replays.KindSymptom); c.all() > 0 {
		documented := 0
		for _, check := range p.Facts {
			if check.Documented {
				documented++
			}
		}
		lines = append(lines, fmt.Sprintf("In the un-fixed arm %s; %d of the %d %s documented.", symptomsText(c), documented, c.all(), map[bool]string{true: "is", false: "are"}[documented == 1]))
	}
	if c := count(armUnfixed, replays.KindObjective); c.all() > 0 {
		healthy := "the healthy arm was not played"
		if _, played := arms[armHealthy]; played {
			h := count(armHealthy, replays.KindObjective)
			healthy = fmt.Sprintf("the healthy arm meets %d of %d%s", h.held, h.all(), notSeen(h.blind))
		}
		lines = append(lines, fmt.Sprintf("There %s; %s.", objectivesText(c), healthy))
	}
	if c := count(armUnfixed, replays.KindInvariant); c.all() > 0 {
		lines = append(lines, fmt.Sprintf("%d of %s even un-fixed%s.", c.held, plural(c.all(), "invariant holds", "invariants hold"), notSeen(c.blind)))
	}
	for _, c := range p.Classes {
		if c.Arm == armUnfixed {
			lines = append(lines, "Once the trigger is gone and the load is as before, the un-fixed arm is "+classText(c)+".")
		}
	}
	for _, l := range p.Ladders {
		if l.Stated != "" {
			lines = append(lines, "The load rehearsal of the "+armName(l.Arm)+" arm: "+l.Result+".")
		}
	}
	return lines
}

// classText is a kind of outage with what it should be, where it is not that.
func classText(c classRow) string {
	if c.Stated == "" || c.Outcome == replays.Pass {
		return c.Is
	}
	return c.Is + ", and should be " + c.Stated
}

func notSeen(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(" (%d could not be seen)", n)
}

func figures(p page) []figure {
	var figs []figure
	of := func(t tally, says string) {
		if t.all() > 0 {
			figs = append(figs, figure{fmt.Sprintf("%d of %d", t.pass, t.all()), says})
		}
	}
	var down, causes, challenges, plays tally
	for _, a := range p.Verdict.Arms {
		if isUnfixed(a.Arm) {
			down.pass, down.fail, down.unknown = down.pass+a.Passed, down.fail+a.Failed, down.unknown+a.Unknown
		}
	}
	of(down, "un-fixed plays went down as documented")
	for _, c := range p.Causes {
		if c.Played {
			causes.add(c.Outcome)
		}
	}
	for _, f := range p.Fixes {
		for _, c := range f.Under {
			if c.Played {
				challenges.add(c.Outcome)
			}
		}
	}
	of(causes, "causes act as stated")
	of(fixTally(p.Fixes), "fixes hold")
	of(challenges, "further challenges withstood")
	for _, a := range p.Verdict.Arms {
		plays.unknown += a.Unknown
		plays.pass += a.Plays - a.Unknown
	}
	of(plays, "plays valid")
	if p.Verdict.Timing.Total > 0 {
		figs = append(figs, figure{seconds(p.Verdict.Timing.Total), whole(p.Verdict)})
	}
	return figs
}

// whole is what a run's time was taken for.
func whole(v replays.Verdict) string {
	switch {
	case len(v.Arms) != 1:
		return "for the whole matrix"
	case v.Arms[0].Plays == 1:
		return "for this play"
	}
	return fmt.Sprintf("for these %d plays", v.Arms[0].Plays)
}
