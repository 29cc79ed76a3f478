package audit

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"relapse/topologies/services"
	"relapse/topologies/services/store"
)

func init() {
	services.Register("store-audit", "reads the databases of a store and checks that money, items and rows are conserved", run)
}

// DefaultBound is how long a purchase may be unfinished: the store's own bound with its
// defaults is 7 s.
const DefaultBound = 10 * time.Second

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("store-audit", flag.ContinueOnError)
	var (
		listen    = flags.String("listen", ":8080", "address for checks of health")
		metricsAt = flags.String("metrics", services.MetricsAddress, "address of the metrics")
		ledger    = flags.Bool("ledger", true, "the store has a ledger")
		c         = Config{Violations: os.Stdout, Log: slog.New(slog.NewTextHandler(os.Stderr, nil))}
	)
	c.Shards.Flags(flags)
	flags.DurationVar(&c.Sweep, "sweep", DefaultSweep, "time to read all tables once in")
	flags.Int64Var(&c.History.Initial, "initial", store.DefaultInitial, "what every wallet begins with")
	flags.DurationVar(&c.History.Bound, "bound", DefaultBound, "how long a purchase may be unfinished, databases that do not answer included")
	flags.DurationVar(&c.History.Grace, "grace", 0, "how far apart two rounds are that must both show a violation; 0 for one second")
	services.Settings(flags)
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	c.History.NoLedger = !*ledger
	registry := prometheus.NewRegistry()
	audit, err := New(c, registry)
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /health", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return services.Serve(ctx, *metricsAt, services.MetricsHandler(registry)) })
	group.Go(func() error { return services.Serve(ctx, *listen, mux) })
	group.Go(func() error { return audit.Run(ctx) })
	return group.Wait()
}
