package audit

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9/logging"
	"golang.org/x/sync/errgroup"

	"relapse/topologies/services"
	"relapse/topologies/services/presence"
	"relapse/topologies/services/presence/history"
)

// readWithin bounds a reading.
const readWithin = time.Second

func init() {
	services.Register("presence-audit", "checks from what is in Redis whom instances of presence mark offline, and by what right", run)
}

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("presence-audit", flag.ContinueOnError)
	var (
		c         = Config{Violations: os.Stdout, Log: slog.New(slog.NewTextHandler(os.Stderr, nil))}
		lists     = flags.String("redis", "redis:6379", "address of the Redis with heartbeats, marks and the log of actions")
		claims    = flags.String("claims", "", "address of the Redis with the claims (default the same)")
		metricsAt = flags.String("metrics", services.MetricsAddress, "address of the metrics")
	)
	flags.DurationVar(&c.Lease, "lease", presence.DefaultLease, "as of the instances")
	flags.DurationVar(&c.Interval, "interval", presence.DefaultInterval, "as of the instances")
	flags.DurationVar(&c.Tick, "tick", presence.DefaultTick, "as of the instances")
	flags.DurationVar(&c.OfflineAfter, "offline-after", presence.DefaultOfflineAfter, "as of the instances")
	flags.DurationVar(&c.Late, "late", 0, "as of the instances")
	flags.DurationVar(&c.Lag, "lag", history.DefaultLag, "time that a heartbeat may take to be written")
	flags.DurationVar(&c.Slack, "slack", history.DefaultSlack, "time that carrying something out may take")
	flags.DurationVar(&c.Every, "every", DefaultEvery, "how often the history is read")
	services.Settings(flags)
	logging.Disable() // of the client, which would write a line for each dial that fails
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	c.Lists = presence.NewClient(*lists, readWithin)
	defer c.Lists.Close()
	c.Claims = presence.NewClient(cmp.Or(*claims, *lists), readWithin)
	defer c.Claims.Close()
	registry := prometheus.NewRegistry()
	audit, err := New(c, registry)
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return services.Serve(ctx, *metricsAt, services.MetricsHandler(registry)) })
	group.Go(func() error { return audit.Run(ctx) })
	return group.Wait()
}
