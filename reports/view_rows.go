package reports

import (
	"maps"
	"math"
	"slices"
	"strings"

	"relapse/replays"
)

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
