package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"relapse/topologies"
)

func init() { commands = append(commands, cleanCommand) }

func cleanCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "clean",
		Short: "Remove every container and network that a run of this tool left behind",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			swept, err := topologies.Clean(c.Context())
			if err != nil {
				return rig(err)
			}
			fmt.Fprintf(c.OutOrStdout(), "removed %d containers and %d networks\n", swept.Containers, swept.Networks)
			return nil
		},
	}
}
