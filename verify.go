package main

import (
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"relapse/replays"
)

func init() { commands = append(commands, verifyCommand) }

func verifyCommand() *cobra.Command {
	var arms, out string
	var seed uint64
	var repeat int
	var asJSON bool
	c := &cobra.Command{
		Use:   "verify INCIDENT…",
		Short: "Play every arm of incidents and judge whether they come out as their files say",
		Long: `Verify plays all arms of each incident (or those that --arms names) and judges
them together: reproduced, which causes were needed, which fixes hold.

--arms takes patterns with commas between: 'fix-*,unfixed'.`,
		Example: "  relapse verify account-service\n  relapse verify account-service --arms unfixed --repeat 20",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if repeat < 1 {
				return &exitError{exitBadInput, fmt.Errorf("--repeat %d: an arm is played at least once", repeat)}
			}
			var incidents []*replays.Incident
			var selected [][]string
			for _, name := range args {
				inc, err := findIncident(name)
				if err != nil {
					return err
				}
				chosen, err := selectArms(inc, arms)
				if err != nil {
					return err
				}
				incidents, selected = append(incidents, inc), append(selected, chosen)
			}
			unlock, err := replays.Lock()
			if err != nil {
				return rig(err)
			}
			defer unlock()
			worst := []replays.Outcome{}
			for n, inc := range incidents {
				v, err := verifyOne(c, inc, selected[n], out, len(incidents) > 1, seed, repeat, asJSON)
				if err != nil {
					return err
				}
				worst = append(worst, v.Outcome)
			}
			return outcome(replays.Worst(worst...))
		},
	}
	c.Flags().StringVar(&arms, "arms", "*", "patterns of the arms to play")
	c.Flags().IntVar(&repeat, "repeat", 1, "plays of each arm")
	c.Flags().Uint64Var(&seed, "seed", 1, "seed of the first play; later plays count up from it")
	c.Flags().StringVar(&out, "out", "", "folder for the records (default runs/TIME-INCIDENT)")
	c.Flags().BoolVar(&asJSON, "json", false, "print one verdict a line to stdout as JSON")
	return c
}

func verifyOne(c *cobra.Command, inc *replays.Incident, arms []string, out string, several bool, seed uint64, repeat int, asJSON bool) (replays.Verdict, error) {
	now := time.Now()
	if out != "" && several {
		out = filepath.Join(out, inc.Name)
	}
	dir, err := runFolder(out, inc.Name, now)
	if err != nil {
		return replays.Verdict{}, err
	}
	options, err := playOptions(now)
	if err != nil {
		return replays.Verdict{}, err
	}
	progress := newProgress(c.ErrOrStderr(), len(arms)*repeat)
	defer progress.close()
	options.Observe, options.Live = progress.event, progress.live
	v, err := replays.Verify(c.Context(), inc, replays.VerifyOptions{
		PlayOptions: options, Dir: dir, Arms: arms, Repeat: repeat, Seed: seed,
		Playing: progress.playing, Played: progress.played,
	})
	if err != nil {
		if len(v.Arms) > 0 {
			// What was played until then is told as well.
			err = errors.Join(err, writeReports(dir))
		}
		return v, rig(err)
	}
	if err := writeReports(dir); err != nil {
		return v, rig(err)
	}
	return v, finish(c, v, dir, asJSON)
}

// selectArms gives the incident's arms that some patterns name, in the
// incident's order. A pattern that names none is refused: playing nothing would
// read as a pass.
func selectArms(inc *replays.Incident, patterns string) ([]string, error) {
	all := inc.Arms()
	wanted := map[string]bool{}
	for _, pattern := range strings.Split(patterns, ",") {
		pattern = strings.TrimSpace(pattern)
		found := false
		for _, arm := range all {
			ok, err := path.Match(pattern, arm)
			if err != nil {
				return nil, &exitError{exitBadInput, fmt.Errorf("--arms %q: %w; write patterns as 'fix-*,unfixed'", pattern, err)}
			}
			if ok {
				wanted[arm], found = true, true
			}
		}
		if !found {
			return nil, &exitError{exitBadInput, &replays.UnknownArmError{Incident: inc.Name, Arm: pattern, Arms: all}}
		}
	}
	return slices.DeleteFunc(slices.Clone(all), func(arm string) bool { return !wanted[arm] }), nil
}
