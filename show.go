package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"relapse/replays"
)

func init() { commands = append(commands, showCommand) }

func showCommand() *cobra.Command {
	var arm string
	var seed uint64
	c := &cobra.Command{
		Use:               "show INCIDENT [--plan ARM]",
		Short:             "Show an incident's story, checks, causes, fixes and arms; or the plan of one arm",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeIncidents(1),
		RunE: func(c *cobra.Command, args []string) error {
			inc, err := findIncident(c.Context(), args[0])
			if err != nil {
				return err
			}
			if arm == "" {
				return show(c.OutOrStdout(), inc)
			}
			plan, err := inc.Plan(arm, seed)
			if err != nil {
				return rig(err)
			}
			e := json.NewEncoder(c.OutOrStdout())
			e.SetIndent("", "  ")
			e.SetEscapeHTML(false)
			return e.Encode(plan)
		},
	}
	c.Flags().StringVar(&arm, "plan", "", "print the plan of this arm, as JSON")
	completeFlag(c, "plan", completeArm)
	c.Flags().Uint64Var(&seed, "seed", 1, "seed of the plan")
	return c
}

func show(w io.Writer, inc *replays.Incident) error {
	p := &printer{w: w}
	p.line("%s: %s", inc.Name, inc.Title)
	p.line("documented by %s, %s  %s", inc.Source.Publisher, inc.Source.Date, inc.Source.URL)
	p.line("\n%s", strings.TrimSpace(inc.Story))
	p.line("\nScale\n  documented  %s\n  here        %s", inc.Scale.Documented, inc.Scale.Here)
	p.line("\nPhases")
	for _, ph := range inc.Phases {
		p.line("  %-10s %-5s %s", ph.Name, ph.Lasts, strings.Join(ph.Faults, ", "))
	}
	if len(inc.Conditions) > 0 {
		p.line("  held all the time: %s", strings.Join(inc.Conditions, ", "))
	}
	for _, group := range []struct {
		title  string
		checks []replays.Check
	}{{"Symptoms", inc.Symptoms}, {"Objectives", inc.Objectives}, {"Invariants", inc.Invariants}} {
		if len(group.checks) == 0 {
			continue
		}
		p.line("\n%s", group.title)
		for _, c := range group.checks {
			p.line("  %-20s %s (%s)", c.ID, c.Says, strings.Join(c.During, ", "))
		}
	}
	if len(inc.Causes) > 0 {
		p.line("\nCauses")
	}
	for _, c := range inc.Causes {
		necessary := "contributes"
		if c.Value.Necessary {
			necessary = "necessary"
		}
		p.line("  %-20s %s (%s)", c.Name, c.Value.Says, necessary)
	}
	if len(inc.Combine) > 0 {
		p.line("\nNeeded together\n  %s", strings.Join(inc.Combine, ", "))
	}
	if len(inc.Sweeps) > 0 {
		p.line("\nSweeps")
	}
	for _, s := range inc.Sweeps {
		var steps []string
		for _, step := range s.Value.Steps {
			steps = append(steps, step.Name)
		}
		p.line("  %-20s %s (%s)", s.Name, s.Value.Says, strings.Join(steps, ", "))
	}
	if d := inc.Ladder; d != nil {
		p.line("\nLadder\n  %s: %s", strings.Join(d.Phases, ", "), d.Says)
		p.line("  every moment of a step  %s", strings.Join(d.Metrics, ", "))
		p.line("  clean to the top        %s", strings.Join(d.Clean, ", "))
	}
	if len(inc.Fixes) > 0 {
		p.line("\nFixes")
	}
	for _, f := range inc.Fixes {
		origin := "suggested by the lesson"
		if f.Value.Documented {
			origin = "documented"
		}
		p.line("  %-20s %s (%s)", f.Name, f.Value.Says, origin)
		for _, ch := range f.Value.Challenges {
			p.line("    under %-14s %s", ch.Name, ch.Value.Says)
		}
	}
	if inc.Alerts != nil {
		p.line("\nAlerts")
		for _, f := range inc.Alerts.Fire {
			p.line("  %-20s fires within %s of %s", f.Alert, f.Within, f.During)
		}
	}
	if inc.Class != nil {
		p.line("\nClass\n  %s", strings.Join(inc.Class.Unfixed, " or "))
	}
	p.line("\nArms")
	for _, arm := range inc.Arms() {
		p.line("  %s", arm)
	}
	return p.err
}

// printer keeps the first error of many writes.
type printer struct {
	w   io.Writer
	err error
}

// line writes a line. What came out of a file has no say over the terminal.
func (p *printer) line(format string, args ...any) {
	if p.err != nil {
		return
	}
	text := strings.Map(func(r rune) rune {
		if r != '\n' && !unicode.IsPrint(r) {
			return utf8.RuneError
		}
		return r
	}, fmt.Sprintf(format, args...))
	_, p.err = io.WriteString(p.w, text+"\n")
}
