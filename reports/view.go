package reports

import (
	"fmt"
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

	// Left tell in one sentence each of causes, sweeps and fixes of which the run
	// played none; those have no table.
	Left struct{ Causes, Sweeps, Fixes string }

	Combinations *combinationTable // nil where no causes were combined
	Sweeps       []sweepTable
	Classes      []classRow    // none where the kind of outage is not looked for
	Ladders      []ladderTable // none where there is no load rehearsal
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
	p.Combinations, p.Sweeps, p.Classes = newCombinationTable(r.Verdict), newSweepTables(r.Incident.Sweeps, r.Verdict), newClassRows(r.Verdict)
	p.Ladders = newLadderTables(r.Verdict)
	p.leaveOut()
	p.Headline = headline(r.Verdict, fixTally(p.Fixes))
	p.Because = because(p, arms)
	p.Figures = figures(p)
	return p
}

// leaveOut takes away the tables of which nothing was played: a replay of one arm
// would else tell of each fix that it is unknown.
func (p *page) leaveOut() {
	left := func(count int, what string) string {
		return fmt.Sprintf("None of the %d %s was played in this run; relapse verify %s plays all of them.", count, what, p.Verdict.Incident)
	}
	if n := len(p.Causes); n > 1 && !slices.ContainsFunc(p.Causes, func(c causeRow) bool { return c.Played }) {
		p.Causes, p.Left.Causes = nil, left(n, "arms without a cause")
	}
	if n := len(p.Fixes); n > 1 && !slices.ContainsFunc(p.Fixes, fixRow.played) {
		p.Fixes, p.Left.Fixes = nil, left(n, "fixes")
	}
	if n := len(p.Sweeps); n > 0 && len(p.Verdict.Sweeps) == 0 {
		p.Sweeps, p.Left.Sweeps = nil, left(n, "sweeps")
	}
}

// played says whether the fix was, alone or under any challenge.
func (f fixRow) played() bool {
	return f.Alone.Played || slices.ContainsFunc(f.Under, func(c challengeRow) bool { return c.Played })
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
