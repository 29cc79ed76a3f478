package main

import (
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"relapse/replays"
)

func init() { commands = append(commands, listCommand) }

func listCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the library's incidents, one line each",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			w := tabwriter.NewWriter(c.OutOrStdout(), 0, 0, 2, ' ', 0)
			for _, name := range replays.LibraryNames() {
				inc, err := findIncident(c.Context(), name)
				if err != nil {
					return err
				}
				fmt.Fprintf(w, "%s\t%s, %s\t%s\t%d arms\n", inc.Name, inc.Source.Publisher, inc.Source.Date, inc.Title, len(inc.Arms()))
			}
			return w.Flush()
		},
	}
}
