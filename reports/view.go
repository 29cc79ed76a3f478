package reports

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"relapse/replays"
)

// page is a report in the order in which it is told; html and markdown show it.
type page struct {
	Report
	Outcome    replays.Outcome
	Headline   string
	Because    []string // the counts behind the headline
	Figures    []figure
	Facts      []checkRow // symptoms
	Objectives []checkRow // objectives and invariants
	Causes     []causeRow
	Fixes      []fixRow
	Alerts     []alertRow
	Invalid    []gateRow
}

// figure is one of the few numbers beside the headline.
type figure struct{ Number, Says string }

// seen is one finding, ready to be read.
type seen struct {
	replays.Finding
	Short    string // Got, shortened
	Relation string // how it stands to what was wanted
	Margin   string
}

// checkRow sets what a check found un-fixed beside what it found healthy.
type checkRow struct {
	CheckInfo
	Outcome          replays.Outcome
	Unfixed, Healthy []seen
	Margin           string // the tightest promise of both
}

// armCell is how one arm came out.
type armCell struct {
	Arm      string
	Played   bool
	Outcome  replays.Outcome
	Plays    string // k of n
	Margin   string
	Deciding string
}

type causeRow struct {
	CauseInfo
	armCell
	Without string // what happens once it is taken away
}

type fixRow struct {
	FixInfo
	Outcome  replays.Outcome // alone and under every challenge
	Alone    armCell
	Under    []challengeRow
	Promises []promiseRow
}

type challengeRow struct {
	ChallengeInfo
	Trigger bool // another trigger; otherwise a further fault
	armCell
	Seen []seen
}

// promiseRow is one check that a fix promises something about.
type promiseRow struct {
	Promise string // restores, cures or leaves
	Check   CheckInfo
	Outcome replays.Outcome
	Seen    []seen
	Margin  string // the tightest
}

type alertRow struct {
	Alert, Arm string
	Seen       []seen
	Fired      []Span
	Detect     string // from the first fault in effect to the first firing
}

type gateRow struct {
	Arm  string
	Play int // from 1
	replays.Gate
}

func present(r Report) page {
	p := page{Report: r, Outcome: replays.Worst(r.Verdict.Outcome)}
	arms := map[string]replays.ArmVerdict{}
	for _, a := range r.Verdict.Arms {
		arms[a.Arm] = a
	}
	checks := allChecks(r)
	for _, c := range checks {
		switch c.Kind {
		case replays.KindSymptom:
			p.Facts = append(p.Facts, newCheckRow(c, r.Verdict.Arms))
		case replays.KindObjective, replays.KindInvariant:
			p.Objectives = append(p.Objectives, newCheckRow(c, r.Verdict.Arms))
		}
	}
	for _, c := range r.Incident.Causes {
		p.Causes = append(p.Causes, newCauseRow(c, arms))
	}
	for _, f := range r.Incident.Fixes {
		p.Fixes = append(p.Fixes, newFixRow(f, checks, arms))
	}
	p.Alerts = alertRows(r, checks, arms)
	for _, a := range r.Verdict.Arms {
		for i, play := range a.Runs {
			for _, g := range play.Validity {
				p.Invalid = append(p.Invalid, gateRow{a.Arm, i + 1, g})
			}
		}
		if len(a.Runs) == 0 {
			for _, g := range a.Validity {
				p.Invalid = append(p.Invalid, gateRow{a.Arm, 1, g})
			}
		}
	}
	p.Headline = headline(r.Verdict, fixTally(p.Fixes))
	p.Because = because(p, arms)
	p.Figures = figures(p)
	return p
}

// allChecks gives the stated checks and, after them, those that only findings
// know, so that nothing that was judged stays untold.
func allChecks(r Report) []CheckInfo {
	checks := slices.Clone(r.Incident.Checks)
	for _, a := range r.Verdict.Arms {
		for _, f := range a.Findings {
			known := func(c CheckInfo) bool { return c.ID == f.Check && c.Kind == f.Kind }
			if f.Check == outageCheck {
				continue // the sum of the objectives, which are told one by one
			}
			if !slices.ContainsFunc(checks, known) {
				checks = append(checks, CheckInfo{ID: f.Check, Kind: f.Kind, Says: f.Says, Query: f.Query})
			}
		}
	}
	return checks
}

// outageCheck is the finding that at least one objective fails un-fixed.
const outageCheck = "outage"

func found(a replays.ArmVerdict, ids ...string) []replays.Finding {
	var fs []replays.Finding
	for _, f := range a.Findings {
		if slices.Contains(ids, f.Check) {
			fs = append(fs, f)
		}
	}
	return fs
}

func toSeen(fs []replays.Finding) []seen {
	var out []seen
	for _, f := range fs {
		limit := relation(f)
		if len(limit) < 24 {
			limit = strings.ReplaceAll(limit, " ", "\u00a0") // read as one
		}
		out = append(out, seen{f, number(f.Got), limit, marginText(f)})
	}
	return out
}

func outcomes(fs []replays.Finding) []replays.Outcome {
	var out []replays.Outcome
	for _, f := range fs {
		out = append(out, f.Outcome)
	}
	return out
}

func newCheckRow(c CheckInfo, all []replays.ArmVerdict) checkRow {
	row := checkRow{CheckInfo: c}
	var both []replays.Finding
	for _, a := range all {
		fs := found(a, c.ID)
		trigger, other := strings.CutPrefix(a.Arm, armUnfixed+onMark)
		switch {
		case a.Arm == armHealthy:
			row.Healthy = append(row.Healthy, toSeen(fs)...)
		case isUnfixed(a.Arm):
			for _, s := range toSeen(fs) {
				if other {
					s.Phase = strings.TrimSpace(s.Phase + " on " + trigger)
				}
				row.Unfixed = append(row.Unfixed, s)
			}
		default:
			continue
		}
		both = append(both, fs...)
	}
	row.Outcome = replays.Worst(outcomes(both)...)
	if len(row.Unfixed) == 0 {
		row.Outcome = replays.Worst(row.Outcome, replays.Unknown)
	}
	if f, ok := tightest(both); ok {
		row.Margin = marginText(f)
	}
	if row.Query == "" && len(both) > 0 {
		row.Query = both[0].Query
	}
	return row
}

func cell(arm string, arms map[string]replays.ArmVerdict) armCell {
	a, played := arms[arm]
	c := armCell{Arm: arm, Played: played, Outcome: replays.Unknown, Plays: "0 of 0", Deciding: "not played in this run"}
	if played {
		c.Outcome, c.Plays, c.Deciding = replays.Worst(a.Outcome), kOfN(a), deciding(a)
		if f, ok := armTightest(a); ok {
			c.Margin = marginText(f)
		}
	}
	return c
}

func newCauseRow(c CauseInfo, arms map[string]replays.ArmVerdict) causeRow {
	row := causeRow{CauseInfo: c, armCell: cell(preCause+c.Name, arms), Without: "not known"}
	var lost []string
	var judged, blind int
	for _, f := range arms[row.Arm].Findings {
		if f.Kind != replays.KindObjective {
			continue
		}
		judged++
		if f.Held == nil {
			blind++
		} else if !*f.Held && !slices.Contains(lost, f.Check) {
			lost = append(lost, f.Check)
		}
	}
	switch {
	case len(lost) > 0:
		row.Without = "the outage still happens: " + strings.Join(lost, ", ") + " missed"
	case judged > 0 && blind == 0:
		row.Without = "no outage: every objective is met"
	}
	return row
}

func newFixRow(fix FixInfo, checks []CheckInfo, arms map[string]replays.ArmVerdict) fixRow {
	row := fixRow{FixInfo: fix, Alone: cell(preFix+fix.Name, arms)}
	row.Outcome = row.Alone.Outcome
	for _, c := range challengesOf(fix, arms) {
		c.armCell = cell(c.Arm, arms)
		c.Seen = toSeen(found(arms[c.Arm], c.Holds...))
		row.Outcome = replays.Worst(row.Outcome, c.Outcome)
		row.Under = append(row.Under, c)
	}
	for _, part := range []struct {
		promise string
		ids     []string
	}{{"restores", fix.Restores}, {"cures", fix.Cures}, {"leaves", fix.Leaves}} {
		for _, id := range part.ids {
			info := CheckInfo{ID: id}
			if i := slices.IndexFunc(checks, func(c CheckInfo) bool { return c.ID == id }); i >= 0 {
				info = checks[i]
			}
			fs := found(arms[row.Alone.Arm], id)
			promised := promiseRow{Promise: part.promise, Check: info, Outcome: replays.Worst(outcomes(fs)...), Seen: toSeen(fs)}
			if f, ok := tightest(fs); ok {
				promised.Margin = marginText(f)
			}
			row.Promises = append(row.Promises, promised)
		}
	}
	return row
}

// challengesOf gives what else is thrown at a fix: what is stated, then what was
// played without being stated.
func challengesOf(fix FixInfo, arms map[string]replays.ArmVerdict) []challengeRow {
	var rows []challengeRow
	stated := map[string]bool{}
	for _, part := range []struct {
		mark string
		all  []ChallengeInfo
	}{{onMark, fix.On}, {underMark, fix.Challenges}} {
		for _, c := range part.all {
			arm := preFix + fix.Name + part.mark + c.Name
			stated[arm] = true
			rows = append(rows, challengeRow{ChallengeInfo: c, Trigger: part.mark == onMark, armCell: armCell{Arm: arm}})
		}
	}
	var all []replays.ArmVerdict
	for _, name := range slices.Sorted(maps.Keys(arms)) {
		all = append(all, arms[name])
	}
	for _, a := range all {
		if base := preFix + fix.Name; a.Arm == base || stated[a.Arm] || fixArm(a.Arm, all) != base {
			continue
		}
		rest, trigger := strings.CutPrefix(a.Arm, preFix+fix.Name+onMark)
		if !trigger {
			rest = strings.TrimPrefix(a.Arm, preFix+fix.Name+underMark)
		}
		rows = append(rows, challengeRow{ChallengeInfo: ChallengeInfo{Name: rest, Says: a.Says}, Trigger: trigger, armCell: armCell{Arm: a.Arm}})
	}
	return rows
}

// alertRows tells of every alert that is expected to fire or to be silent, and
// of every one that fired though nobody asked, un-fixed and healthy.
func alertRows(r Report, checks []CheckInfo, arms map[string]replays.ArmVerdict) []alertRow {
	var rows []alertRow
	told := []string{armUnfixed}
	for _, a := range r.Verdict.Arms {
		if isUnfixed(a.Arm) && a.Arm != armUnfixed {
			told = append(told, a.Arm)
		}
	}
	for _, arm := range append(told, armHealthy) {
		t, _ := timeline(r.Timelines, arm)
		var names []string
		for _, c := range checks {
			if c.Kind == replays.KindAlert && !slices.Contains(names, c.ID) {
				names = append(names, c.ID)
			}
		}
		for _, s := range t.Alerts {
			if !slices.Contains(names, s.Name) {
				names = append(names, s.Name)
			}
		}
		for _, name := range names {
			row := alertRow{Alert: name, Arm: arm, Seen: toSeen(found(arms[arm], name))}
			for _, s := range t.Alerts {
				if s.Name == name {
					row.Fired = append(row.Fired, s)
				}
			}
			row.Detect = detect(row.Fired, arms[arm].Faults)
			if len(row.Seen) > 0 || len(row.Fired) > 0 {
				rows = append(rows, row)
			}
		}
	}
	return rows
}

func detect(fired []Span, faults []replays.FaultTiming) string {
	effect, first := math.Inf(1), math.Inf(1)
	for _, f := range faults {
		if f.InEffectAt != nil {
			effect = min(effect, *f.InEffectAt)
		}
	}
	for _, s := range fired {
		first = min(first, s.From)
	}
	switch {
	case math.IsInf(first, 1):
		return "did not fire"
	case math.IsInf(effect, 1):
		return "fired without a fault"
	case first < effect:
		return seconds(effect-first) + " before the fault"
	}
	return seconds(first - effect)
}

func timeline(all []Timeline, arm string) (Timeline, bool) {
	for _, t := range all {
		if t.Arm == arm {
			return t, true
		}
	}
	return Timeline{Arm: arm}, false
}

// tally counts outcomes.
type tally struct{ pass, fail, unknown int }

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
		t.add(f.Outcome)
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
		return armName(v.Arms[0].Arm) + " alone: " + map[replays.Outcome]string{
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
	case n == 0:
	case fixes.pass == n && n == 1:
		text += " The one fix holds."
	case fixes.pass == n:
		text += fmt.Sprintf(" All %d fixes hold.", n)
	case fixes.pass == 1:
		text += fmt.Sprintf(" 1 of %s holds", plural(n, "fix", "fixes"))
	default:
		text += fmt.Sprintf(" %d of %s hold", fixes.pass, plural(n, "fix", "fixes"))
	}
	if !strings.HasSuffix(text, ".") {
		if fixes.unknown > 0 {
			text += fmt.Sprintf(", %d unknown", fixes.unknown)
		}
		text += "."
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
	if h, m, b := count(armUnfixed, replays.KindSymptom); h+m+b > 0 {
		lines = append(lines, fmt.Sprintf("%d of %s seen in the un-fixed arm%s.", h, plural(h+m+b, "documented symptom was", "documented symptoms were"), notSeen(b)))
	}
	if h, m, b := count(armUnfixed, replays.KindObjective); h+m+b > 0 {
		hh, hm, hb := count(armHealthy, replays.KindObjective)
		lines = append(lines, fmt.Sprintf("%d of %s missed there%s; the healthy arm meets %d of %d%s.",
			m, plural(h+m+b, "objective was", "objectives were"), notSeen(b), hh, hh+hm+hb, notSeen(hb)))
	}
	if h, m, b := count(armUnfixed, replays.KindInvariant); h+m+b > 0 {
		lines = append(lines, fmt.Sprintf("%d of %s even un-fixed%s.", h, plural(h+m+b, "invariant holds", "invariants hold"), notSeen(b)))
	}
	return lines
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
		causes.add(c.Outcome)
	}
	for _, f := range p.Fixes {
		for _, c := range f.Under {
			challenges.add(c.Outcome)
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
