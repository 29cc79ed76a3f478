package main

import (
	"errors"
	"fmt"
	"os"
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
			engine, noEngine := topologies.Preflight(c.Context())
			if noEngine == nil {
				fmt.Fprintf(w, "engine   docker %s (API %s) on %s, kernel %s\n", engine.Version, engine.API, engine.OperatingSystem, engine.Kernel)
				fmt.Fprintf(w, "machine  %d CPUs, %d MiB, cgroup v%s with the %s driver, %s\n", engine.CPUs, engine.MemoryBytes>>20, engine.CgroupVersion, engine.CgroupDriver, engine.StorageDriver)
				fmt.Fprintf(w, "hosts    %s (for topologies with x-hosts)\n", can("can be made", topologies.CheckHosts(c.Context())))
			} else {
				fmt.Fprintf(w, "engine   %v\n", noEngine)
			}
			noProcesses := checkProcesses()
			fmt.Fprintf(w, "process  %s (for --driver process)\n", can("nodes can run as processes", noProcesses))
			if noProcesses == nil {
				fmt.Fprintf(w, "limits   %s (of nodes that are processes)\n", can("CPU, memory and x-hosts", topologies.CheckProcessLimits()))
				for _, program := range topologies.Programs() {
					fmt.Fprintf(w, "program  %s\n", can(program.Name+" at "+program.Path, program.Missing))
				}
			}
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
			if noEngine != nil && noProcesses != nil {
				return rig(errors.Join(noEngine, noProcesses))
			}
			return nil
		},
	}
}

// can tells what is so, or why it is not.
func can(what string, err error) string {
	if err != nil {
		return err.Error()
	}
	return what
}

func checkProcesses() error {
	binary, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find the tool's own binary: %w", err)
	}
	return topologies.CheckNamespaces(binary)
}
