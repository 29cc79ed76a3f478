package games

import (
	"context"
	"flag"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"relapse/topologies/services"
	"relapse/topologies/services/limits"
)

func init() {
	services.Register("games", "the back end that creates games, with a modelled cost", run)
}

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("games", flag.ContinueOnError)
	var (
		listen    = flags.String("listen", ":8080", "address of the back end")
		metricsAt = flags.String("metrics", services.MetricsAddress, "address of its metrics")
		takes     = flags.Duration("takes", DefaultTakes, "what creating a game takes (modelled)")
		inFlight  = limits.Limits{limits.All: DefaultLimit}
	)
	flags.Func("limit", "requests in flight (default 64)", func(s string) (err error) {
		inFlight, err = limits.Parse(s, Calls)
		return err
	})
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	registry := prometheus.NewRegistry()
	games, err := New(Config{Takes: *takes, Limits: inFlight}, registry)
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return services.Serve(ctx, *metricsAt, services.MetricsHandler(registry)) })
	group.Go(func() error { return services.Serve(ctx, *listen, games.Handler()) })
	return group.Wait()
}
