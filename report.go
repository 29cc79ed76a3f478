package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

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
			run, err := readRun(args[0])
			if err != nil {
				return err
			}
			report, err := reports.FromRun(run)
			if err != nil {
				return rig(err)
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

// writeReports writes the reports of a run that was just played: all formats,
// since the next reader may be a person, a wiki, a script or CI.
func writeReports(dir string) error {
	run, err := readRun(dir)
	if err != nil {
		return err
	}
	report, err := reports.FromRun(run)
	if err != nil {
		return err
	}
	_, err = reports.Write(dir, report, formatNames()...)
	return err
}
