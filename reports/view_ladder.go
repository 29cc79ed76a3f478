package reports

import (
	"strings"

	"relapse/replays"
)

// ladderTable is how far one arm came on the ladder, step by step.
type ladderTable struct {
	Arm     string
	Result  string // in one sentence
	Stated  string // what the arm must be; "" where it promises nothing
	Outcome replays.Outcome
	Rows    []ladderRow
	Ignored string // "" where nothing was
	Drift   *driftTable
}

type ladderRow struct {
	Step, Players, Load string
	State               string // the sign beside the word
	Metric              string // the nearest to its limit, with its node
	Got                 string // what it gave then
	Room                string // how far that is from the limit
}

// driftTable is what an arm sets otherwise than the tested configuration.
type driftTable struct {
	Stated  string
	Outcome replays.Outcome
	Rows    []driftRow
}

type driftRow struct{ Setting, Tested, Deployed string }

func newLadderTables(v replays.Verdict) []ladderTable {
	var tables []ladderTable
	for _, a := range v.Arms {
		l := a.Ladder
		if l == nil {
			continue
		}
		t := ladderTable{Arm: a.Arm, Result: ladderResult(l), Outcome: replays.Unknown, Ignored: l.Ignored}
		for _, f := range a.Findings {
			switch {
			case f.Kind == replays.KindLadder && f.Expected != nil:
				t.Stated, t.Outcome = f.Want, replays.Worst(f.Outcome)
			case f.Kind == replays.KindDrift && f.Expected != nil:
				t.Drift = newDriftTable(f, l.Drift)
			}
		}
		for _, s := range l.Steps {
			t.Rows = append(t.Rows, newLadderRow(s, l.Breach))
		}
		tables = append(tables, t)
	}
	return tables
}

// ladderResult says how far an arm came, and what ended it.
func ladderResult(l *replays.LadderVerdict) string {
	clean := "no step was clean"
	if l.Clean != "" {
		clean = "clean up to " + l.Clean
		for _, s := range l.Steps {
			if s.Step == l.Clean && s.Players > 0 {
				clean += ", " + short(s.Players) + " players"
			}
		}
	}
	switch {
	case l.Breach != nil:
		return clean + "; " + l.Breach.String()
	case l.Unknown != "":
		return clean + "; then not known: " + l.Unknown
	}
	return clean + ", the top"
}

func newLadderRow(s replays.LadderStep, b *replays.Breach) ladderRow {
	row := ladderRow{Step: s.Step, Players: "–", Load: short(s.Load) + "/s", State: "? " + s.State, Metric: unjudged, Got: "–", Room: "–"}
	if s.Players > 0 {
		row.Players = short(s.Players)
	}
	switch s.State {
	case replays.StepClean:
		row.State = "✓ " + s.State
	case replays.StepBreached:
		row.State = "✗ " + s.State
	case replays.StepNotReached:
		row.State = "– " + s.State
	}
	holds, always := s.State == replays.StepClean, true
	switch {
	case s.Nearest != nil:
		n := s.Nearest
		row.Metric = ofNode(n.Metric, n.Node)
		row.Got = strings.TrimSpace(number(n.Got) + " " + relation(replays.Finding{Held: &holds, Got: n.Got, Want: n.Want}))
		row.Room = orElse(marginText(replays.Finding{Margin: &n.Margin, Want: n.Want, Expected: &always}), "–")
	case b != nil && s.Step == b.Step:
		row.Metric, row.Got = ofNode(orElse(b.Metric, "samples"), b.Node), "missing: "+b.Reason
		if !b.Missing {
			row.Got = strings.TrimSpace(number(b.Got) + " " + relation(replays.Finding{Held: &holds, Got: b.Got, Want: b.Want}))
		}
	}
	return row
}

// ofNode names a metric with its node, where that is known.
func ofNode(metric, node string) string {
	if node == "" {
		return metric
	}
	return metric + " of " + node
}

func newDriftTable(f replays.Finding, differences []replays.Difference) *driftTable {
	t := &driftTable{Stated: "as it was tested", Outcome: replays.Worst(f.Outcome)}
	if *f.Expected {
		t.Stated = "otherwise than it was tested"
	}
	value := func(s *string) string {
		if s == nil {
			return "–"
		}
		return orElse(*s, `""`)
	}
	for _, d := range differences {
		t.Rows = append(t.Rows, driftRow{d.Setting, value(d.Tested), value(d.Deployed)})
	}
	return t
}
