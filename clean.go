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
		Short: "Remove every container, network, process and cgroup that a run of this tool left behind",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			swept, err := topologies.Clean(c.Context())
			if err != nil {
				return rig(err)
			}
			fmt.Fprintln(c.OutOrStdout(), removed(swept))
			if left := swept.StillThere(); left != "" {
				fmt.Fprintln(c.ErrOrStderr(), left)
			}
			return nil
		},
	}
}

// removed says what a sweep removed. The nodes that are on no host have a parent
// cgroup too: what is counted is no number of hosts.
func removed(s topologies.Swept) string {
	return fmt.Sprintf("removed %s, %s, %s and %s of nodes", count(s.Containers, "container"), count(s.Networks, "network"), countOf(s.Processes, "process", "processes"), count(s.Hosts, "parent cgroup"))
}

// count gives "1 network", "2 networks".
func count(n int, what string) string {
	return countOf(n, what, what+"s")
}

func countOf(n int, one, more string) string {
	if n != 1 {
		one = more
	}
	return fmt.Sprintf("%d %s", n, one)
}
