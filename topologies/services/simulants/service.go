package simulants

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"runtime/debug"

	"golang.org/x/sync/errgroup"

	"relapse/topologies/services"
	"relapse/topologies/services/players"
)

// gcPercent trades some megabytes for fewer collections: the heap is small, and the CPU
// is shared with what is measured.
const gcPercent = 800

func init() {
	services.Register("simulants", "simulated players of a platform: background polls and scenarios, tens of thousands on a core", run)
}

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("simulants", flag.ContinueOnError)
	var documents [][]byte
	flags.Func("config", "configuration file; given again, the later file changes what it names", func(path string) error {
		b, err := os.ReadFile(path)
		documents = append(documents, b)
		return err
	})
	control := flags.String("control", players.ControlAddress, "address on which orders are taken")
	metricsAt := flags.String("metrics", services.MetricsAddress, "address of the metrics")
	id := flags.String("id", "", "name among the harnesses that share ranges, the same one after a restart (default the host's name)")
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
	var ranges Ranges
	if config.Shared != nil {
		if *id == "" {
			if *id, err = os.Hostname(); err != nil {
				return fmt.Errorf("an id among the harnesses that share ranges: %w; give one with --id", err)
			}
		}
		shared, err := NewRedisRanges(config, *id)
		if err != nil {
			return err
		}
		defer shared.Close()
		ranges = shared
	}
	harness, err := New(ctx, config, ranges)
	if err != nil {
		return err
	}
	debug.SetGCPercent(gcPercent)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return harness.Run(ctx) })
	group.Go(func() error {
		return services.Serve(ctx, *metricsAt, services.MetricsHandler(harness.Registry()))
	})
	group.Go(func() error { return services.Serve(ctx, *control, harness.Control()) })
	return group.Wait()
}
