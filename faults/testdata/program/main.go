// Command program is what the tests of package faults run inside and beside
// containers: the relay, the watchdog and some of the services, without the rest
// of the tool.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"relapse/topologies"
	"relapse/topologies/relay"
	"relapse/topologies/services"
	_ "relapse/topologies/services/echo"
	_ "relapse/topologies/services/fleet"
	_ "relapse/topologies/services/front"
	_ "relapse/topologies/services/host"
	_ "relapse/topologies/services/players"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1], os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, "program:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, command string, args []string) error {
	switch command {
	case "service":
		return services.Run(ctx, args[0], args[1:])
	case "watchdog":
		return topologies.Watchdog(args[0], os.Stdin)
	case "node":
		return topologies.RunNode(args[0])
	case "namespaces":
		return topologies.TryNamespaces()
	case "relay":
		var config relay.Config
		if err := json.Unmarshal([]byte(args[1]), &config); err != nil {
			return err
		}
		return relay.Serve(ctx, config, slog.New(slog.NewTextHandler(os.Stderr, nil)))
	}
	return fmt.Errorf("unknown command %q", command)
}
