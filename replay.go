package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"relapse/replays"
	"relapse/reports"
)

func init() { commands = append(commands, replayCommand) }

func replayCommand() *cobra.Command {
	var arm, out string
	var seed uint64
	var keep, asJSON bool
	var driver *string
	c := &cobra.Command{
		Use:   "replay INCIDENT",
		Short: "Replay one arm of an incident, live, and leave its record and report",
		Long: `Replay plays one arm of an incident, un-fixed unless --arm names another, and
judges it alone: the outcome is that of the arm, and whether the incident
reproduces is for verify to say. It is played once, also where that is unknown.
INCIDENT is a name from "relapse list" or a folder with an incident.yaml.
Progress goes to stderr; with --json the verdict alone goes to stdout.

Nodes are containers where an engine answers, else processes of this machine;
--driver says which. The first line on stderr tells.`,
		Example:           "  relapse replay account-service\n  relapse replay account-service --arm fix-direct-route",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeIncidents(1),
		RunE: func(c *cobra.Command, args []string) error {
			chosen, err := chooseDriver(c, *driver, keep)
			if err != nil {
				return err
			}
			inc, err := findIncident(c.Context(), args[0])
			if err != nil {
				return err
			}
			plan, err := inc.Plan(arm, seed)
			if err != nil {
				return rig(err)
			}
			unlock, err := replays.Lock()
			if err != nil {
				return rig(err)
			}
			defer unlock()
			now := time.Now()
			dir, err := runFolder(out, inc.Name+"-"+arm, now)
			if err != nil {
				return err
			}
			options, err := playOptions(now)
			if err != nil {
				return err
			}
			options.Keep, options.Driver = keep, chosen
			progress := newProgress(c.ErrOrStderr(), 1)
			defer progress.close()
			progress.playing(plan, 0, 0)
			options.Observe, options.Live = progress.event, progress.live
			record, playErr := replays.Play(c.Context(), inc, plan, dir, options)
			if record == nil {
				return rig(playErr)
			}
			verdict := replays.JudgePlay(record)
			progress.played(plan, verdict)
			whole := replays.JudgeAlone(replays.Judged{Plan: plan, Verdict: verdict})
			whole.Record = dir
			err = errors.Join(replays.WriteJSON(filepath.Join(dir, replays.VerdictFile), verdict), record.SaveTested(verdict), writeReports(dir))
			if playErr != nil || err != nil {
				return rig(errors.Join(playErr, err))
			}
			if err := finish(c, whole, dir, asJSON); err != nil {
				return err
			}
			if keep {
				fmt.Fprintf(c.ErrOrStderr(), "the nodes still run, as --keep asked; \"relapse clean\" removes them\n")
			}
			return outcome(whole.Outcome)
		},
	}
	driver = driverFlag(c)
	c.Flags().StringVar(&arm, "arm", "unfixed", "arm to play; \"relapse show INCIDENT\" lists them")
	completeFlag(c, "arm", completeArm)
	c.Flags().Uint64Var(&seed, "seed", 1, "seed of everything drawn at random")
	c.Flags().BoolVar(&keep, "keep", false, "leave the nodes running")
	c.Flags().StringVar(&out, "out", "", "folder for the record (default runs/TIME-INCIDENT-ARM)")
	c.Flags().BoolVar(&asJSON, "json", false, "print the verdict to stdout as JSON")
	return c
}

// finish tells the verdict and where its record is. That it cannot be told, as on a
// terminal that is gone, is trouble of the rig: nothing was wrong with what was asked.
func finish(c *cobra.Command, v replays.Verdict, dir string, asJSON bool) error {
	if asJSON {
		e := json.NewEncoder(c.OutOrStdout())
		e.SetEscapeHTML(false)
		return rig(e.Encode(v))
	}
	if err := reports.Summary(c.OutOrStdout(), v, colour(os.Stdout)); err != nil {
		return rig(err)
	}
	_, err := fmt.Fprintf(c.OutOrStdout(), "\nreport  %s\nrecord  %s\n", filepath.Join(dir, "report.html"), dir)
	return rig(err)
}
