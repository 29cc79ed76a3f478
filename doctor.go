package main

import (
	"fmt"
	"os/exec"

	"github.com/spf13/cobra"

	"relapse/topologies"
)

func init() { commands = append(commands, doctorCommand) }

func doctorCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "doctor",
		Short: "Say what this machine has of what a replay needs",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			w := c.OutOrStdout()
			fmt.Fprintf(w, "tool     %s\n", build())
			engine, err := topologies.Preflight(c.Context())
			if err != nil {
				return rig(err)
			}
			fmt.Fprintf(w, "engine   docker %s (API %s) on %s, kernel %s\n", engine.Version, engine.API, engine.OperatingSystem, engine.Kernel)
			fmt.Fprintf(w, "machine  %d CPUs, %d MiB, cgroup v%s with the %s driver, %s\n", engine.CPUs, engine.MemoryBytes>>20, engine.CgroupVersion, engine.CgroupDriver, engine.StorageDriver)
			hosts := "can be made"
			if err := topologies.CheckHosts(c.Context()); err != nil {
				hosts = err.Error()
			}
			fmt.Fprintf(w, "hosts    %s (for topologies with x-hosts)\n", hosts)
			for _, need := range []struct{ program, why string }{
				{"apt-get", "images from Debian packages, where no registry answers"},
				{"dpkg-deb", "images from Debian packages, where no registry answers"},
				{"chromium", "the test of the report in a browser"},
				{"promtool", "the test of alert timing against Prometheus"},
			} {
				state := "not found"
				if path, err := exec.LookPath(need.program); err == nil {
					state = path
				}
				fmt.Fprintf(w, "%-8s %s (for %s)\n", need.program, state, need.why)
			}
			return nil
		},
	}
}
