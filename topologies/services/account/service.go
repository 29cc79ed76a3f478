package account

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"relapse/topologies/services"
	"relapse/topologies/services/limits"
)

func init() {
	services.Register("account", "the application behind the account service, with modelled costs", run)
}

// run serves the application. It listens only once its tokens are in the
// cache, so that whoever waits for it to answer waits for that as well.
func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("account", flag.ContinueOnError)
	var (
		listen    = flags.String("listen", ":8080", "address of the application")
		metricsAt = flags.String("metrics", services.MetricsAddress, "address of its metrics")
		cacheAt   = flags.String("cache", "memcached:11211", "address of the memcached that tokens are written to")
		preloaded = flags.Int("tokens", 2000, "tokens that are known, and in the cache, from the start")
		valueSize = flags.Int("value-size", 2000, "bytes of a token's value")
		inFlight  = limits.Limits{limits.All: DefaultLimit}
		costs     = DefaultCosts()
	)
	flags.Func("limit", "requests in flight: N, or per class such as verify=48,other=16 (default 64)", func(s string) (err error) {
		inFlight, err = limits.Parse(s, Calls)
		return err
	})
	flags.Func("cost", "modelled cost of a call, such as verify=8ms; may be repeated", func(s string) error {
		call, value, _ := strings.Cut(s, "=")
		cost, err := time.ParseDuration(value)
		if err != nil {
			return fmt.Errorf("cost %q: want CALL=DURATION: %w", s, err)
		}
		if !slices.Contains(Calls, call) || cost < 0 {
			return fmt.Errorf("cost %q: want one of %s, and a duration of zero or more", s, strings.Join(Calls, ", "))
		}
		costs[call] = cost
		return nil
	})
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	cache := NewCache(*cacheAt, log)
	registry := prometheus.NewRegistry()
	application, err := New(Config{
		Costs: costs, Limits: inFlight, Preloaded: *preloaded, ValueSize: *valueSize, Cache: cache,
	}, registry)
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return services.Serve(ctx, *metricsAt, services.MetricsHandler(registry)) })
	group.Go(func() error {
		if err := cache.Preload(ctx, application, *preloaded); err != nil {
			if ctx.Err() != nil {
				return nil // told to end before it was ready
			}
			return err
		}
		log.Info("tokens are in the cache", "tokens", *preloaded, "bytes", *valueSize)
		group.Go(func() error { return cache.Run(ctx) })
		return services.Serve(ctx, *listen, application.Handler())
	})
	return group.Wait()
}
