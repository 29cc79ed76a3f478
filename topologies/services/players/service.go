package players

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"runtime/debug"

	"golang.org/x/sync/errgroup"

	"relapse/topologies/services"
)

// ControlAddress is where a generator takes orders.
const ControlAddress = ":9091"

// gcPercent trades some megabytes for fewer collections: the heap is small, and
// the CPU is shared with what is measured.
const gcPercent = 800

func init() {
	services.Register("players", "the open-loop load generator: the players of a topology", run)
}

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("players", flag.ContinueOnError)
	var documents [][]byte
	flags.Func("config", "configuration file; given again, the later file changes what it names", func(path string) error {
		b, err := os.ReadFile(path)
		documents = append(documents, b)
		return err
	})
	control := flags.String("control", ControlAddress, "address on which orders are taken")
	metricsAt := flags.String("metrics", services.MetricsAddress, "address of the metrics")
	if err := flags.Parse(args); err != nil {
		return err
	}
	switch {
	case flags.NArg() > 0:
		return fmt.Errorf("unexpected argument %q", flags.Arg(0))
	case len(documents) == 0:
		return errors.New("no --config given")
	}
	config, err := ParseConfig(documents...)
	if err != nil {
		return err
	}
	generator, err := New(ctx, config)
	if err != nil {
		return err
	}
	debug.SetGCPercent(gcPercent)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return generator.Run(ctx) })
	group.Go(func() error { return services.Serve(ctx, *metricsAt, services.MetricsHandler(generator.Registry())) })
	group.Go(func() error { return services.Serve(ctx, *control, generator.Control()) })
	return group.Wait()
}
