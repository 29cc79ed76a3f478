package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"relapse/replays"
	"relapse/topologies"
)

func init() { commands = append(commands, verifyCommand) }

func verifyCommand() *cobra.Command {
	var arms, out, resume string
	var seed uint64
	var repeat int
	var asJSON bool
	var driver *string
	c := &cobra.Command{
		Use:   "verify INCIDENT…",
		Short: "Play every arm of incidents and judge whether they come out as their files say",
		Long: `Verify plays all arms of each incident (or those that --arms names) and judges
them together: reproduced, which causes were needed, which fixes hold.

--arms takes patterns with commas between: 'healthy,unfixed,fix-*'. Without
healthy and unfixed the incident is not reproduced, and what becomes of fixes,
causes and sweeps proves nothing: the verdict is unknown then.

--resume goes on with a run that ended early, in its folder, with its arms,
repeats and seed; the incident must not have changed since.

Nodes are containers where an engine answers, else processes of this machine;
--driver says which. The first line on stderr tells.`,
		Example:           "  relapse verify account-service\n  relapse verify account-service --resume runs/2026-11-30T02-17-00-account-service\n  relapse verify account-service --arms unfixed --repeat 20",
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: completeIncidents(math.MaxInt),
		RunE: func(c *cobra.Command, args []string) error {
			if repeat < 1 {
				return &exitError{exitBadInput, fmt.Errorf("--repeat %d: an arm is played at least once", repeat)}
			}
			if resume != "" {
				if len(args) > 1 {
					return &exitError{exitBadInput, errors.New("--resume: one run is of one incident; name that one alone")}
				}
				for _, name := range []string{"arms", "repeat", "seed", "out"} {
					if c.Flags().Changed(name) {
						return &exitError{exitBadInput, fmt.Errorf("--resume and --%s: a run goes on as it began; leave --%s out", name, name)}
					}
				}
			}
			chosen, err := chooseDriver(c, *driver, false)
			if err != nil {
				return err
			}
			var incidents []*replays.Incident
			var selected [][]string
			for _, name := range args {
				inc, err := findIncident(c.Context(), name)
				if err != nil {
					return err
				}
				named, err := selectArms(inc, arms)
				if err != nil {
					return err
				}
				incidents, selected = append(incidents, inc), append(selected, named)
			}
			// Before the lock, which a play may hold for minutes.
			if resume != "" {
				if err := checkResume(c.Context(), incidents[0], resume); err != nil {
					return err
				}
			}
			unlock, err := replays.Lock()
			if err != nil {
				return rig(err)
			}
			defer unlock()
			worst := []replays.Outcome{}
			for n, inc := range incidents {
				v, err := verifyOne(c, inc, selected[n], chosen, out, len(incidents) > 1, seed, repeat, resume, asJSON)
				if err != nil {
					return err
				}
				worst = append(worst, v.Outcome)
			}
			return outcome(replays.Worst(worst...))
		},
	}
	driver = driverFlag(c)
	c.Flags().StringVar(&arms, "arms", "*", "patterns of the arms to play")
	completeFlag(c, "arms", listOf(completeArm))
	c.Flags().IntVar(&repeat, "repeat", 1, "plays of each arm")
	c.Flags().Uint64Var(&seed, "seed", 1, "seed of the first play; later plays count up from it")
	c.Flags().StringVar(&out, "out", "", "folder for the records (default runs/TIME-INCIDENT)")
	c.Flags().StringVar(&resume, "resume", "", "folder of a run that ended early, to go on with")
	c.Flags().BoolVar(&asJSON, "json", false, "print one verdict a line to stdout as JSON")
	return c
}

func verifyOne(c *cobra.Command, inc *replays.Incident, arms []string, driver topologies.Driver, out string, several bool, seed uint64, repeat int, resume string, asJSON bool) (replays.Verdict, error) {
	now := time.Now()
	options, err := playOptions(now)
	if err != nil {
		return replays.Verdict{}, err
	}
	options.Driver = driver
	if resume != "" {
		progress := newProgress(c.ErrOrStderr(), 0)
		defer progress.close()
		options.Observe, options.Live = progress.event, progress.live
		v, err := replays.Resume(c.Context(), inc, replays.VerifyOptions{
			PlayOptions: options, Dir: resume, Playing: progress.playing, Played: progress.played, Resumed: progress.resumed,
		})
		return told(c, v, err, resume, asJSON)
	}
	if out != "" && several {
		out = filepath.Join(out, inc.Name)
	}
	dir, err := runFolder(out, inc.Name, now)
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
	return told(c, v, err, dir, asJSON)
}

func checkResume(ctx context.Context, inc *replays.Incident, dir string) error {
	_, err := loading(ctx, "the run was read", func() (struct{}, error) {
		return struct{}{}, rig(replays.CheckResume(inc, dir))
	})
	return err
}

// told writes what is to be told of a run, of one that ended early as well.
func told(c *cobra.Command, v replays.Verdict, err error, dir string, asJSON bool) (replays.Verdict, error) {
	if err != nil {
		if len(v.Arms) > 0 {
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
				return nil, &exitError{exitBadInput, fmt.Errorf("--arms %q: %w; write patterns as 'healthy,unfixed,fix-*'", pattern, err)}
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
