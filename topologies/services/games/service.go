package games

import (
	"context"
	"flag"
	"fmt"
	"net/http"

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
		inFlight  limits.Limits
		workers   = flags.Int("workers", 0, "games created at once, the others wait in line; 0 for as many as --limit lets in")
		queue     = flags.Int("queue", -1, "requests that wait for a worker at most, 503 for those above; -1 for no bound")
		drop      = flags.Bool("drop-abandoned", false, "workers pass over requests whose callers have left")

		unnamedTakes  = flags.Duration("unnamed-takes", 0, "what it takes to find out that a request names no queue (modelled)")
		unnamedStatus = flags.Int("unnamed-status", http.StatusBadRequest, "what is answered then")
	)
	flags.Func("limit", "requests in flight, 503 for those above (default 64); not with --workers", func(s string) (err error) {
		inFlight, err = limits.Parse(s, Calls)
		return err
	})
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	if *workers == 0 && *queue >= 0 {
		return fmt.Errorf("--queue=%d: nothing waits without a number of workers; give --workers too", *queue)
	}
	if inFlight == nil && *workers == 0 {
		inFlight = limits.Limits{limits.All: DefaultLimit}
	}
	registry := prometheus.NewRegistry()
	games, err := New(Config{
		Takes: *takes, Limits: inFlight, Workers: *workers, Queue: *queue, DropAbandoned: *drop,
		UnnamedTakes: *unnamedTakes, UnnamedStatus: *unnamedStatus,
	}, registry)
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return services.Serve(ctx, *metricsAt, services.MetricsHandler(registry)) })
	group.Go(func() error { return services.Serve(ctx, *listen, games.Handler()) })
	return group.Wait()
}
