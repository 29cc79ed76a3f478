package reports

import (
	"fmt"
	"slices"
	"strings"

	"relapse/replays"
)

// cellRow is an arm as a cell of a table: an outage or none, and what says so.
type cellRow struct {
	Arm     string
	Outage  string          // in words
	Outcome replays.Outcome // whether that is as it should be
	Check   string          // what decided it, with its phase
	Got     string          // and what it gave; why it is not known, where it is not
	Room    string          // how far that is from turning over
}

// combinationTable shows which of some causes an outage takes, a column each.
type combinationTable struct {
	Causes []string
	Rows   []combinationRow
}

type combinationRow struct {
	On []bool // of the causes, whether it is there
	cellRow
}

// sweepTable shows at which size of one of its parts an incident turns into an
// outage.
type sweepTable struct {
	Name, Says string
	Rows       []sweepRow
}

type sweepRow struct {
	Step, Says string
	Stated     string // outage or no outage
	cellRow
}

// classRow is the kind of outage that one arm is.
type classRow struct {
	Arm      string
	Is       string
	Stated   string          // what it should be; "" where the arm says nothing
	Outcome  replays.Outcome // whether it is that
	Back     string          // after how long goodput was back
	Attempts string          // for each request
	Pushed   string          // what a cut in load did
	Evidence []string
	Unfixed  bool
}

// unjudged stands in the place of a check where none decided.
const unjudged = "–"

func newCellRow(c replays.Cell, expected bool) cellRow {
	row := cellRow{Arm: c.Arm, Outage: "not known", Outcome: replays.Unknown, Check: unjudged, Got: orElse(c.Reason, "no reason recorded"), Room: "–"}
	if c.Outage == nil {
		return row
	}
	row.Outage, row.Outcome = outageText(*c.Outage), replays.Fail
	if *c.Outage == expected {
		row.Outcome = replays.Pass
	}
	row.Check = c.DecidedBy
	if c.Phase != "" {
		row.Check += " (" + c.Phase + ")"
	}
	holds := !*c.Outage
	row.Got = strings.TrimSpace(orElse(number(c.Got), "nothing") + " " + relation(replays.Finding{Held: &holds, Got: c.Got, Want: c.Want}))
	always := true
	row.Room = orElse(marginText(replays.Finding{Margin: c.Margin, Want: c.Want, Expected: &always}), "–")
	return row
}

func outageText(outage bool) string {
	if outage {
		return "outage"
	}
	return "no outage"
}

// newCombinationTable gives nil where the run combined no causes.
func newCombinationTable(v replays.Verdict) *combinationTable {
	if len(v.Combinations) == 0 {
		return nil
	}
	t := &combinationTable{Causes: v.Combinations[0].On} // with all of them, first
	for n, c := range v.Combinations {
		row := combinationRow{cellRow: newCellRow(c.Cell, n == 0)}
		for _, cause := range t.Causes {
			row.On = append(row.On, slices.Contains(c.On, cause))
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// onText is a cause's place in a combination: the sign beside the word.
func onText(on bool) string {
	if on {
		return "✓ on"
	}
	return "✗ off"
}

// together says in one sentence what the combinations show; nothing while any of
// them is not known.
func together(v replays.Verdict) string {
	t := newCombinationTable(v)
	if t == nil {
		return ""
	}
	var all tally
	for _, row := range t.Rows {
		all.add(row.Outcome)
	}
	switch {
	case all.fail > 0:
		return fmt.Sprintf("Not all %d combined causes are needed.", len(t.Causes))
	case all.unknown > 0:
		return ""
	}
	return fmt.Sprintf("It takes all %d causes together.", len(t.Causes))
}

// newSweepTables tells of every step that is stated, played or not, and then of
// what only the verdict knows.
func newSweepTables(stated []SweepInfo, v replays.Verdict) []sweepTable {
	var tables []sweepTable
	known := map[string]bool{}
	for _, s := range stated {
		t := sweepTable{Name: s.Name, Says: s.Says}
		played := stepsOf(v, s.Name)
		for _, step := range s.Steps {
			row := sweepRow{Step: step.Name, Says: step.Says, Stated: outageText(step.Outage)}
			row.cellRow = newCellRow(replays.Cell{Arm: s.Name + "-" + step.Name, Reason: "not played in this run"}, step.Outage)
			if n := slices.IndexFunc(played, func(p replays.StepVerdict) bool { return p.Step == step.Name }); n >= 0 {
				row.cellRow = newStepCell(played[n])
			}
			t.Rows = append(t.Rows, row)
		}
		known[s.Name] = true
		tables = append(tables, t)
	}
	for _, s := range v.Sweeps {
		if known[s.Name] {
			continue
		}
		t := sweepTable{Name: s.Name}
		for _, step := range s.Steps {
			t.Rows = append(t.Rows, sweepRow{Step: step.Step, Stated: outageText(step.Expected), cellRow: newStepCell(step)})
		}
		tables = append(tables, t)
	}
	return tables
}

// newStepCell takes the outcome from the arm, which holds a step to more than
// whether it is an outage.
func newStepCell(s replays.StepVerdict) cellRow {
	row := newCellRow(s.Cell, s.Expected)
	row.Outcome = replays.Worst(row.Outcome, s.Outcome)
	return row
}

func stepsOf(v replays.Verdict, sweep string) []replays.StepVerdict {
	for _, s := range v.Sweeps {
		if s.Name == sweep {
			return s.Steps
		}
	}
	return nil
}

func newClassRows(v replays.Verdict) []classRow {
	var rows []classRow
	for _, a := range v.Arms {
		c := a.Class
		if c == nil {
			continue
		}
		row := classRow{Arm: a.Arm, Is: string(c.Is), Back: "–", Attempts: "–", Pushed: "–", Evidence: c.Evidence, Unfixed: isUnfixed(a.Arm)}
		for _, f := range a.Findings {
			if f.Kind == replays.KindClass {
				row.Stated, row.Outcome = f.Want, replays.Worst(f.Outcome)
			}
		}
		if c.RecoveredAfter != nil {
			row.Back = seconds(*c.RecoveredAfter)
		}
		if c.Amplification != nil {
			row.Attempts = short(*c.Amplification)
		}
		if c.Hysteresis != nil {
			row.Pushed = "did not bring it back"
			if *c.Hysteresis {
				row.Pushed = "brought it back"
			}
		}
		rows = append(rows, row)
	}
	return rows
}
