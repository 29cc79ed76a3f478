package mover

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"relapse/topologies/services"
)

func init() {
	services.Register("store-mover", "moves the tables of a store to further databases while they are in use", run)
}

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("store-mover", flag.ContinueOnError)
	var (
		listen    = flags.String("listen", ":8080", "address for POST /start, which begins the move at once")
		metricsAt = flags.String("metrics", services.MetricsAddress, "address of the metrics")
		after     = flags.Duration("start-after", 0, "when the move begins without being told to; below zero for never")
		c         = Config{Log: slog.New(slog.NewTextHandler(os.Stderr, nil))}
	)
	c.Shards.Flags(flags)
	// A copy takes longer than a player's transaction.
	flags.Lookup("query-timeout").DefValue = DefaultTimeout.String()
	c.Shards.Timeout = DefaultTimeout
	flags.DurationVar(&c.StopWithin, "stop-within", DefaultStopWithin, "how long writes of one table are stopped at most")
	flags.IntVar(&c.Few, "few", DefaultFew, "writes of a table are stopped once no more changes than these are left")
	flags.DurationVar(&c.Pause, "pause", 0, "pause between two tables")
	flags.DurationVar(&c.StepWait, "step-wait", 0, "wait before each step of a table's move, while it takes writes (modelled), for a kill to hit")
	services.Settings(flags)
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	registry := prometheus.NewRegistry()
	mover, err := New(c, registry)
	if err != nil {
		return err
	}
	started := make(chan struct{})
	start := sync.OnceFunc(func() { close(started) })
	mux := http.NewServeMux()
	mux.HandleFunc("POST /start", func(w http.ResponseWriter, _ *http.Request) {
		start()
		w.WriteHeader(http.StatusNoContent)
	})
	mux.HandleFunc("GET /health", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
	if *after >= 0 {
		timer := time.AfterFunc(*after, start)
		defer timer.Stop()
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return services.Serve(ctx, *metricsAt, services.MetricsHandler(registry)) })
	group.Go(func() error { return services.Serve(ctx, *listen, mux) })
	// A mover that is done stays, so that what it did can be read.
	group.Go(func() error {
		select {
		case <-started:
			return mover.Run(ctx)
		case <-ctx.Done():
			return nil
		}
	})
	return group.Wait()
}
