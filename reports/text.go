package reports

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"

	"charm.land/lipgloss/v2"

	"relapse/replays"
)

// colours of the terminal's own palette, so that they suit its background:
// blue, red and magenta can be told apart by most, and a symbol and a word say
// the same.
var outcomeStyles = map[replays.Outcome]lipgloss.Style{
	replays.Pass:    lipgloss.NewStyle().Foreground(lipgloss.Color("4")).Bold(true),
	replays.Fail:    lipgloss.NewStyle().Foreground(lipgloss.Color("1")).Bold(true),
	replays.Unknown: lipgloss.NewStyle().Foreground(lipgloss.Color("5")).Bold(true),
}

// Summary writes a verdict for a terminal: one line for each arm, then why it
// is not a pass, what proved nothing and what it cost. Without colour it is
// plain text.
func Summary(w io.Writer, v replays.Verdict, colour bool) error {
	paint := func(style lipgloss.Style, s string) string {
		if !colour {
			return s
		}
		return style.Render(s)
	}
	faint, bold := lipgloss.NewStyle().Faint(true), lipgloss.NewStyle().Bold(true)
	mark := func(o replays.Outcome, s string) string { return paint(outcomeStyles[replays.Worst(o)], s) }

	var b strings.Builder
	fmt.Fprintf(&b, "%s  %s\n", paint(bold, printable(orElse(v.Incident, "unnamed"))), printable(v.Title))
	fmt.Fprintf(&b, "%s  %s\n\n", mark(v.Outcome, outcomeText(v.Outcome)), paint(bold, headline(v, verdictFixes(v))))

	rows := [][]string{{"ARM", "OUTCOME", "PLAYS", "SECONDS", "DECIDED BY"}}
	for _, a := range v.Arms {
		rows = append(rows, []string{printable(a.Arm), outcomeText(a.Outcome), kOfN(a), fmt.Sprintf("%.1f", a.Seconds), printable(deciding(a))})
	}
	grid(&b, rows, 3, func(row, column int, text string) string {
		switch {
		case row == 0:
			return paint(faint, text)
		case column == 1:
			return mark(v.Arms[row-1].Outcome, text)
		}
		return text
	})
	if len(v.Arms) == 0 {
		b.WriteString("no arm was played\n")
	} else {
		fmt.Fprintf(&b, "%s\n", paint(faint, marksText))
	}
	if len(v.Arms) == 1 {
		writeSeen(&b, v.Arms[0].Findings, paint(bold, "What was seen"))
	}
	summariseCells(&b, v, func(header string) string { return paint(bold, header) }, func(text string) string { return paint(faint, text) }, mark)
	summariseLadders(&b, v, func(header string) string { return paint(bold, header) }, func(text string) string { return paint(faint, text) }, mark)
	if len(v.Reasons) > 0 {
		fmt.Fprintf(&b, "\n%s\n", paint(bold, "Why it is not a pass"))
		for _, r := range v.Reasons {
			fmt.Fprintf(&b, "  - %s\n", printable(r))
		}
	}
	for _, c := range v.Vacuous {
		held := "never held"
		if c.Held {
			held = "held"
		}
		fmt.Fprintf(&b, "vacuous: %s %s %s in every arm, so it proves nothing\n", c.Kind, printable(c.Check), held)
	}
	if t := v.Timing; t.Total > 0 {
		times := "" // of no phase at all there is no ratio
		if t.Phases > 0 {
			times = fmt.Sprintf(" (%.2f times)", t.Ratio)
		}
		fmt.Fprintf(&b, "\n%s in all for %s of phases%s; the slowest play took %s beyond its phases\n",
			seconds(t.Total), seconds(t.Phases), times, seconds(t.WorstOver))
		if t.SetUp >= 1 {
			fmt.Fprintf(&b, "getting images took another %s, which is done once a machine\n", seconds(t.SetUp))
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// writeSeen tells what became of the system in the one arm that was played: the
// symptoms that were seen and the objectives that were missed, whatever the arm
// should show.
func writeSeen(b *strings.Builder, fs []replays.Finding, title string) {
	var symptoms, objectives, lines []string
	judged := false
	list := func(ids []string, id string) []string {
		if slices.Contains(ids, id) {
			return ids
		}
		return append(ids, id)
	}
	for _, f := range fs {
		if f.Check == outageCheck {
			continue
		}
		what, told := "", false
		switch f.Kind {
		case replays.KindSymptom:
			symptoms = list(symptoms, f.Check)
			what, told = "symptom", f.Held != nil && *f.Held
		case replays.KindObjective:
			objectives = list(objectives, f.Check)
			what, told = "missed", f.Held != nil && !*f.Held
		default:
			continue
		}
		judged = judged || f.Held != nil
		if told {
			lines = append(lines, fmt.Sprintf("  %-7s  %s (%s): %s %s  %s", what, printable(f.Check), printable(f.Phase), printable(number(f.Got)), printable(relation(f)), printable(f.Says)))
		}
	}
	if !judged {
		return
	}
	var parts []string
	if len(symptoms) > 0 {
		parts = append(parts, symptomsText(countChecks(fs, symptoms)))
	}
	if len(objectives) > 0 {
		parts = append(parts, objectivesText(countChecks(fs, objectives)))
	}
	fmt.Fprintf(b, "\n%s: %s\n", title, strings.Join(parts, ", "))
	for _, line := range lines {
		b.WriteString(line + "\n")
	}
}

// summariseCells writes what an outage takes: its causes together, the size of a
// part; and what kind it is.
func summariseCells(b *strings.Builder, v replays.Verdict, bold, faint func(string) string, mark func(replays.Outcome, string) string) {
	table := func(title string, rows [][]string, marked int, outcomes []replays.Outcome) {
		fmt.Fprintf(b, "\n%s\n", bold(printable(title)))
		grid(b, rows, -1, func(row, column int, text string) string {
			switch {
			case row == 0:
				return faint(text)
			case column == marked:
				return mark(outcomes[row-1], text)
			}
			return text
		})
	}
	if t := newCombinationTable(v); t != nil {
		rows, outcomes := [][]string{nil}, []replays.Outcome{}
		for _, cause := range t.Causes {
			rows[0] = append(rows[0], printable(cause))
		}
		rows[0] = append(rows[0], "OUTAGE", "OUTCOME", "DECIDED BY", "GOT", "ROOM")
		for _, r := range t.Rows {
			var row []string
			for _, on := range r.On {
				row = append(row, onText(on))
			}
			rows = append(rows, append(row, r.Outage, outcomeText(r.Outcome), printable(r.Check), printable(r.Got), r.Room))
			outcomes = append(outcomes, r.Outcome)
		}
		table("Which causes it takes together", rows, len(t.Causes)+1, outcomes)
	}
	for _, t := range newSweepTables(nil, v) {
		rows, outcomes := [][]string{{"STEP", "OUTCOME", "STATED", "SEEN", "DECIDED BY", "GOT"}}, []replays.Outcome{}
		for _, r := range t.Rows {
			rows = append(rows, []string{printable(r.Step), outcomeText(r.Outcome), r.Stated, r.Outage, printable(r.Check), printable(r.Got)})
			outcomes = append(outcomes, r.Outcome)
		}
		table("Sweep "+t.Name, rows, 1, outcomes)
	}
	if classes := newClassRows(v); len(classes) > 0 {
		rows, outcomes := [][]string{{"ARM", "CLASS", "OUTCOME", "STATED", "BACK AFTER", "ATTEMPTS A REQUEST", "PUSH"}}, []replays.Outcome{}
		for _, c := range classes {
			outcome := "–"
			if c.Stated != "" {
				outcome = outcomeText(c.Outcome)
			}
			rows = append(rows, []string{printable(c.Arm), c.Is, outcome, orElse(printable(c.Stated), "–"), c.Back, c.Attempts, c.Pushed})
			outcomes = append(outcomes, c.Outcome)
		}
		table("What kind of outage it is", rows, 2, outcomes)
		for _, c := range classes {
			if c.Arm != armUnfixed && (c.Stated == "" || c.Outcome == replays.Pass) {
				continue // as it should be, and the other formats say why
			}
			fmt.Fprintf(b, "%s is %s:\n", printable(armName(c.Arm)), c.Is)
			for _, e := range c.Evidence {
				fmt.Fprintf(b, "  - %s\n", printable(e))
			}
		}
	}
}

// grid writes rows in columns. Numbers end at one column: right is theirs, or -1
// where there are none. paint colours a text without changing its width.
func grid(b *strings.Builder, rows [][]string, right int, paint func(row, column int, text string) string) {
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, text := range row {
			widths[i] = max(widths[i], lipgloss.Width(text))
		}
	}
	for n, row := range rows {
		for i, text := range row {
			pad := strings.Repeat(" ", widths[i]-lipgloss.Width(text))
			text = paint(n, i, text)
			if i == right {
				text, pad = pad+text, ""
			}
			if i == len(row)-1 {
				pad = "\n"
			} else {
				pad += "  "
			}
			b.WriteString(text + pad)
		}
	}
}

func outcomeText(o replays.Outcome) string {
	return symbol(o) + " " + string(replays.Worst(o))
}

// printable keeps text from a log on one line and away from the terminal's
// controls.
func printable(s string) string {
	return Printable(strings.NewReplacer("\n", " ", "\t", " ").Replace(s))
}

// Printable gives text that may come from a node as a terminal can show it: its lines
// stay, and of what would move the cursor, colour or name the window nothing does.
func Printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r != '\n' && r != '\t' && !unicode.IsPrint(r) {
			return '\uFFFD'
		}
		return r
	}, s)
}
