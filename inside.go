package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"

	"github.com/spf13/cobra"

	"relapse/topologies"
	"relapse/topologies/relay"
	"relapse/topologies/services"
)

// The commands of this file are what the tool starts, in nodes and beside itself;
// people have no need of them, so they are hidden.
func init() {
	commands = append(commands, serviceCommand, relayCommand, watchdogCommand, nodeCommand, namespacesCommand)
}

func serviceCommand() *cobra.Command {
	return &cobra.Command{
		Use:                "service NAME [flags]",
		Short:              "Run a service of a topology (inside its node)",
		Hidden:             true,
		DisableFlagParsing: true, // the flags are the service's own
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				for _, s := range services.List() {
					fmt.Fprintf(c.OutOrStdout(), "%-12s %s\n", s.Name, s.Summary)
				}
				return nil
			}
			err := services.Run(c.Context(), args[0], args[1:])
			if errors.Is(err, flag.ErrHelp) {
				return nil // the flags have been printed
			}
			if err != nil {
				return &exitError{exitRig, fmt.Errorf("service %s: %w", args[0], err)}
			}
			return nil
		},
	}
}

func relayCommand() *cobra.Command {
	var config string
	c := &cobra.Command{
		Use:    "relay --config JSON",
		Short:  "Run the relay that holds a topology's proxied links (inside its node)",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			var parsed relay.Config
			if err := json.Unmarshal([]byte(config), &parsed); err != nil {
				return &exitError{exitBadInput, fmt.Errorf("relay --config: %w", err)}
			}
			log := slog.New(slog.NewTextHandler(os.Stderr, nil))
			if err := relay.Serve(c.Context(), parsed, log); err != nil {
				return &exitError{exitRig, err}
			}
			return nil
		},
	}
	c.Flags().StringVar(&config, "config", "", "links and control address, as JSON")
	return c
}

func nodeCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "node SPEC",
		Short:  "Become a node, in namespaces that a tool has made for it",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			return rig(topologies.RunNode(args[0]))
		},
	}
}

func namespacesCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "namespaces",
		Short:  "Try what nodes that are processes need",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE:   func(*cobra.Command, []string) error { return rig(topologies.TryNamespaces()) },
	}
}

func watchdogCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "watchdog RUN",
		Short:  "Wait for the tool to end, then remove what its run left behind",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			if err := topologies.Watchdog(args[0], os.Stdin); err != nil {
				return &exitError{exitRig, err}
			}
			return nil
		},
	}
}
