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

func because(p page, arms map[string]replays.ArmVerdict) []string {
	count := func(arm, kind string) (held, missed, blind int) {
		for _, c := range allChecks(p.Report) {
			if c.Kind != kind {
				continue
			}
			fs := found(arms[arm], c.ID)
			switch {
			case len(fs) == 0 || slices.ContainsFunc(fs, func(f replays.Finding) bool { return f.Held == nil }):
				blind++
			case slices.ContainsFunc(fs, func(f replays.Finding) bool { return !*f.Held }):
				missed++
			default:
				held++
			}
		}
		return
	}
	var lines []string
	if _, played := arms[armUnfixed]; !played {
		return nil
	}
	if h, m, b := count(armUnfixed, replays.KindSymptom); h+m+b > 0 {
		lines = append(lines, fmt.Sprintf("%d of %s seen in the un-fixed arm%s.", h, plural(h+m+b, "documented symptom was", "documented symptoms were"), notSeen(b)))
	}
	if h, m, b := count(armUnfixed, replays.KindObjective); h+m+b > 0 {
		healthy := "the healthy arm was not played"
		if _, played := arms[armHealthy]; played {
			hh, hm, hb := count(armHealthy, replays.KindObjective)
			healthy = fmt.Sprintf("the healthy arm meets %d of %d%s", hh, hh+hm+hb, notSeen(hb))
		}
		lines = append(lines, fmt.Sprintf("%d of %s missed there%s; %s.", m, plural(h+m+b, "objective was", "objectives were"), notSeen(b), healthy))
	}
	if h, m, b := count(armUnfixed, replays.KindInvariant); h+m+b > 0 {
		lines = append(lines, fmt.Sprintf("%d of %s even un-fixed%s.", h, plural(h+m+b, "invariant holds", "invariants hold"), notSeen(b)))
	}
	for _, c := range p.Classes {
		if c.Arm == armUnfixed {
			lines = append(lines, "Once the trigger is gone and the load is as before, the un-fixed arm is "+classText(c)+".")
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
		figs = append(figs, figure{seconds(p.Verdict.Timing.Total), "for the whole matrix"})
	}
	return figs
}
