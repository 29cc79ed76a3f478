package main

import (
	"context"

	"github.com/spf13/cobra"

	"relapse/replays"
)

func init() { commands = append(commands, judgeCommand) }

func judgeCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "judge DIR",
		Short: "Judge a record again, from disk alone",
		Long: `Judge reads the record of one play, or a folder of plays that verify left, and
judges it as when it was played: no engine, no network and no clock take part.
One play is judged alone, whether replay made it or verify did.`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			run, err := readRun(c.Context(), args[0])
			if err != nil {
				return err
			}
			if err := finish(c, run.Verdict, args[0], asJSON); err != nil {
				return err
			}
			return outcome(run.Verdict.Outcome)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print the verdict to stdout as JSON")
	return c
}

func readRun(ctx context.Context, dir string) (*replays.Run, error) {
	return loading(ctx, "the record was read", func() (*replays.Run, error) {
		run, err := replays.ReadRun(dir)
		return run, rig(err)
	})
}
