package reports

import (
	"fmt"
	"strings"

	"relapse/replays"
)

// summariseLadders writes how far each arm came on the ladder: step by step where
// it must be clean or is the only one, in one line elsewhere.
func summariseLadders(b *strings.Builder, v replays.Verdict, bold, faint func(string) string, mark func(replays.Outcome, string) string) {
	tables := newLadderTables(v)
	if len(tables) > 0 {
		fmt.Fprintf(b, "\n%s\n", bold("How far the load went"))
	}
	for _, t := range tables {
		outcome := "nothing stated"
		if t.Stated != "" {
			outcome = mark(t.Outcome, outcomeText(t.Outcome))
		}
		fmt.Fprintf(b, "%s  %s  %s\n", printable(armName(t.Arm)), outcome, printable(t.Result))
		if t.Stated != "" || len(tables) == 1 {
			rows := [][]string{{"STEP", "PLAYERS", "LOAD", "STATE", "NEAREST METRIC", "GOT", "ROOM"}}
			for _, r := range t.Rows {
				rows = append(rows, []string{printable(r.Step), r.Players, r.Load, printable(r.State), printable(r.Metric), printable(r.Got), r.Room})
			}
			grid(b, rows, 1, func(row, _ int, text string) string {
				if row == 0 {
					return faint(text)
				}
				return text
			})
		}
		if t.Ignored != "" {
			fmt.Fprintf(b, "  not looked at: %s\n", printable(t.Ignored))
		}
		if d := t.Drift; d != nil {
			fmt.Fprintf(b, "  configuration %s, stated: %s\n", mark(d.Outcome, outcomeText(d.Outcome)), d.Stated)
			for _, r := range d.Rows {
				fmt.Fprintf(b, "    %s: tested %s, here %s\n", printable(r.Setting), printable(r.Tested), printable(r.Deployed))
			}
		}
	}
}
