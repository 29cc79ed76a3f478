package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"relapse/replays"
	"relapse/reports"
)

func init() { commands = append(commands, reportCommand) }

func reportCommand() *cobra.Command {
	var formats, out string
	c := &cobra.Command{
		Use:   "report DIR",
		Short: "Write the reports of a record again, from disk alone",
		Args:  cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if out == "" {
				out = args[0]
			}
			report, err := readReport(c.Context(), args[0])
			if err != nil {
				return err
			}
			paths, err := reports.Write(out, report, strings.Split(formats, ",")...)
			if errors.Is(err, reports.ErrUnknownFormat) {
				return &exitError{exitBadInput, fmt.Errorf("--format: %w", err)}
			}
			for _, p := range paths {
				fmt.Fprintln(c.OutOrStdout(), p)
			}
			return rig(err)
		},
	}
	c.Flags().StringVar(&formats, "format", "html", "formats, with commas between: "+strings.Join(formatNames(), ", "))
	completeFlag(c, "format", listOf(completeFormats))
	c.Flags().StringVar(&out, "out", "", "folder for the reports (default: the record's own)")
	return c
}

func formatNames() []string {
	var names []string
	for _, f := range reports.Formats() {
		names = append(names, f.Name)
	}
	return names
}

func readReport(ctx context.Context, dir string) (reports.Report, error) {
	return loading(ctx, "the record was read", func() (reports.Report, error) {
		run, err := replays.ReadRun(dir)
		if err != nil {
			return reports.Report{}, rig(err)
		}
		report, err := reports.FromRun(run)
		return report, rig(err)
	})
}

// writeReports writes the reports of a run that was just played: all formats,
// since the next reader may be a person, a wiki, a script or CI.
func writeReports(dir string) error {
	// Without a context: of a run that was interrupted they are written too.
	report, err := readReport(context.Background(), dir)
	if err != nil {
		return err
	}
	_, err = reports.Write(dir, report, formatNames()...)
	return err
}
