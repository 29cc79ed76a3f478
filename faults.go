package main

import (
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"relapse/faults"
)

func init() { commands = append(commands, faultsCommand) }

func faultsCommand() *cobra.Command {
	var reference bool
	c := &cobra.Command{
		Use:               "faults [KIND]",
		Short:             "List the kinds of fault, tell of one, or print the reference of all",
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: completeKind,
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 1 {
				return faults.ReferenceOf(c.OutOrStdout(), args[0])
			}
			if reference {
				return faults.Reference(c.OutOrStdout())
			}
			w := tabwriter.NewWriter(c.OutOrStdout(), 0, 0, 2, ' ', 0)
			for _, k := range faults.Kinds() {
				fmt.Fprintf(w, "%s\t%s\t%s\n", k.Name, k.Group, k.Summary)
			}
			return w.Flush()
		},
	}
	c.Flags().BoolVar(&reference, "reference", false, "print the reference in Markdown")
	return c
}
