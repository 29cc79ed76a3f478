package presence

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9/logging"
	"golang.org/x/sync/errgroup"

	"relapse/topologies/services"
)

func init() {
	services.Register("presence", "one of the workers that mark players offline, with 256 partitions claimed in Redis", run)
}

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("presence", flag.ContinueOnError)
	var (
		c           = Config{Log: slog.New(slog.NewTextHandler(os.Stderr, nil))}
		lists       = flags.String("redis", "redis:6379", "address of the Redis with heartbeats, marks and the log of actions")
		claims      = flags.String("claims", "", "address of the Redis with the claims (default the same)")
		metricsAt   = flags.String("metrics", services.MetricsAddress, "address of the metrics")
		partitioned = flags.Bool("partitioned", true, "false: every instance handles every player, without claims")
		fenced      = flags.Bool("fenced", true, "false: marks are written without a look at the claim's number, the heartbeat and the last mark")
		rising      = flags.Bool("rising", true, "false: claims are numbered by what the claims' Redis knows, which may have lost some")
		ending      = flags.Bool("ending", true, "false: an instance goes on when its lease is over by its own clock")
	)
	flags.StringVar(&c.Name, "name", "", "name of the instance, which no other one has")
	flags.DurationVar(&c.Lease, "lease", DefaultLease, "how long a claim lasts without renewal")
	flags.DurationVar(&c.Interval, "interval", DefaultInterval, "how often claims are renewed and made, at least")
	flags.DurationVar(&c.Tick, "tick", DefaultTick, "how often players are looked for who are due")
	flags.DurationVar(&c.OfflineAfter, "offline-after", DefaultOfflineAfter, "from a player's last heartbeat to when it is due")
	flags.DurationVar(&c.Late, "late", 0, "how long after that it is marked, in case its heartbeats are written late")
	flags.DurationVar(&c.Work, "work", 0, "modelled cost of a batch of players, between reading that they are due and marking them")
	flags.IntVar(&c.Steals, "steals", DefaultSteals, "partitions taken from others in one round, at most")
	flags.BoolVar(&c.Greedy, "greedy", false, "takes its share of an old count of instances, all at once and from whoever has some")
	flags.Uint64Var(&c.Seed, "seed", 1, "decides when in an interval the instance comes")
	services.Settings(flags)
	logging.Disable() // of the client, which would write a line for each dial that fails
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	c.Unpartitioned, c.Unfenced, c.Forgetful, c.Unending = !*partitioned, !*fenced, !*rising, !*ending
	c.Lists = NewClient(*lists, c.callWithin())
	defer c.Lists.Close()
	c.Claims = NewClient(cmp.Or(*claims, *lists), c.callWithin())
	defer c.Claims.Close()
	registry := prometheus.NewRegistry()
	instance, err := New(c, registry)
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return services.Serve(ctx, *metricsAt, services.MetricsHandler(registry)) })
	group.Go(func() error { return instance.Run(ctx) })
	return group.Wait()
}
