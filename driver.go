package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"relapse/topologies"
)

// enterNamespaces runs the tool again, with the same arguments, in namespaces made for
// it, and gives its exit code. It is nil in tests, whose program is another one.
var enterNamespaces func(context.Context) (int, error)

func runAgain(ctx context.Context) (int, error) {
	binary, err := os.Executable()
	if err != nil {
		return 0, fmt.Errorf("find the tool's own binary, which runs in its own namespaces: %w", err)
	}
	return topologies.RunInNamespaces(ctx, binary, os.Args[1:]...)
}

// driverFlag adds --driver to a command that plays.
func driverFlag(c *cobra.Command) *string {
	driver := c.Flags().String("driver", "", "what runs the nodes: docker or process (default docker where an engine answers, else process)")
	completeFlag(c, "driver", func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return []string{
			cobra.CompletionWithDesc(string(topologies.Docker), "containers of an engine"),
			cobra.CompletionWithDesc(string(topologies.Process), "processes of this machine"),
		}, cobra.ShellCompDirectiveNoFileComp
	})
	return driver
}

// chooseDriver gives the driver that was asked for or, where none was, the one that
// this machine has, and says so. Where nodes are processes, the tool is run again in
// namespaces of its own, and the error is that one's exit code.
func chooseDriver(c *cobra.Command, asked string, keep bool) (topologies.Driver, error) {
	driver := topologies.Driver(asked)
	if asked != "" && !slices.Contains(topologies.Drivers, driver) {
		return "", &exitError{exitBadInput, fmt.Errorf("--driver %q: want one of %q", asked, topologies.Drivers)}
	}
	if topologies.InNamespaces() {
		// The tool that started this one has chosen, and said so.
		return topologies.Process, nil
	}
	engine, noEngine := topologies.Engine{}, error(nil)
	if driver != topologies.Process {
		engine, noEngine = topologies.Preflight(c.Context())
	}
	if err := c.Context().Err(); err != nil {
		return "", rig(fmt.Errorf("interrupted before anything was started: %w", context.Cause(c.Context())))
	}
	switch {
	case noEngine != nil && (asked != "" || !errors.Is(noEngine, topologies.ErrNoEngine)):
		return "", rig(noEngine)
	case noEngine == nil && driver != topologies.Process:
		fmt.Fprintf(c.ErrOrStderr(), "driver docker: engine %s\n", engine.Version)
		return topologies.Docker, nil
	}
	if keep {
		return "", &exitError{exitBadInput, errors.Join(errors.New("--keep: nodes that are processes end with the tool; use --driver docker"), noEngine)}
	}
	why := "as was asked for"
	if noEngine != nil {
		why = noEngine.Error()
	}
	fmt.Fprintf(c.ErrOrStderr(), "driver process: %s\n", why)
	if enterNamespaces == nil {
		return topologies.Process, nil
	}
	code, err := enterNamespaces(c.Context())
	if err != nil {
		return "", rig(errors.Join(err, noEngine))
	}
	return topologies.Process, &exitError{code, nil}
}
