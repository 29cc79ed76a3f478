package store

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"relapse/topologies/services"
	"relapse/topologies/services/platform/api"
)

func init() {
	services.Register("store", "the wallets and inventories of players, in tables of PostgreSQL, with a ledger of purchases", run)
}

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("store", flag.ContinueOnError)
	var (
		listen    = flags.String("listen", ":8080", "address of the store")
		metricsAt = flags.String("metrics", services.MetricsAddress, "address of its metrics")
		owns      = flags.String("owns", Wallets+","+Inventories, "what this node owns: wallet, inventory, or both")
		inventory = flags.String("inventory", "", "HOST:PORT of the node that owns inventories, where this one does not")
		ledger    = flags.Bool("ledger", true, "purchases are written down before they are carried out; false is what the documented ledger prevents")
		c         = Config{Log: slog.New(slog.NewTextHandler(os.Stderr, nil))}
	)
	c.Shards.Flags(flags)
	flags.BoolVar(&c.Shards.Unfenced, "unfenced", false, "writes go where this node believes a table to be, though it has moved; to show that the audit sees it")
	flags.IntVar(&c.Items, "items", DefaultItems, "items in the catalog")
	flags.Int64Var(&c.Initial, "initial", DefaultInitial, "what every wallet begins with")
	flags.IntVar(&c.Players, "players", 0, "players who have wallets from the start; others get one when they need it")
	flags.DurationVar(&c.Lease, "lease", DefaultLease, "time to finish a purchase in, after which others may")
	flags.DurationVar(&c.RecoverEvery, "recover-every", DefaultRecoverEvery, "how often unfinished purchases are looked for")
	flags.DurationVar(&c.Remember, "remember", DefaultRemember, "how long the answer to an operation is kept; the operation itself is kept for good")
	flags.DurationVar(&c.BeforeGrant, "before-grant", 0, "wait between locking the money and granting the item (modelled), for a kill to hit")
	flags.IntVar(&c.Limit, "limit", DefaultLimit, "requests in flight, 503 for those above")
	services.Settings(flags)
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	for part := range strings.SplitSeq(*owns, ",") {
		c.Owns = append(c.Owns, strings.TrimSpace(part))
	}
	c.NoLedger = !*ledger
	if *inventory != "" {
		var err error
		if c.Inventory, err = api.NewClient(*inventory, "relapse-store"); err != nil {
			return fmt.Errorf("--inventory: %w", err)
		}
		defer c.Inventory.Close()
	}
	registry := prometheus.NewRegistry()
	store, err := New(c, registry)
	if err != nil {
		return err
	}
	c.Log.Info("unfinished purchases are finished in time", "bound", c.Bound().Round(time.Millisecond))
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return services.Serve(ctx, *metricsAt, services.MetricsHandler(registry)) })
	group.Go(func() error { return services.Serve(ctx, *listen, store.Handler()) })
	group.Go(func() error { return store.Run(ctx) })
	return group.Wait()
}
