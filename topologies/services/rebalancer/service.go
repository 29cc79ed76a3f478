package rebalancer

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"relapse/topologies/services"
	"relapse/topologies/services/matchmaking"
)

const pruneEvery = time.Second

func init() {
	services.Register("rebalancer", "evens out the free game servers of matchmaking nodes", run)
}

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("rebalancer", flag.ContinueOnError)
	var (
		listen    = flags.String("listen", ":8080", "address at which it says that it runs, at /health")
		metricsAt = flags.String("metrics", services.MetricsAddress, "address of its metrics")
		nodes     = flags.String("nodes", "", "HOST:PORT,HOST:PORT of the nodes")
		c         Config
	)
	flags.DurationVar(&c.Every, "every", DefaultEvery, "time from one round to the next")
	flags.Float64Var(&c.Tolerance, "tolerance", DefaultTolerance, "percent of the mean by which a node may be over it; two servers always are let be")
	flags.IntVar(&c.Most, "most", DefaultMost, "servers that one order moves at most")
	flags.DurationVar(&c.CountsAge, "counts-age", 0, "act on counts that are so old, and on what was ordered since")
	flags.StringVar(&c.Defect, "defect", "", "what it does wrong on purpose: "+strings.Join(Defects, ", "))
	services.Settings(flags)
	if err := flags.Parse(args); err != nil {
		return err
	}
	switch {
	case flags.NArg() > 0:
		return fmt.Errorf("unexpected argument %q", flags.Arg(0))
	case *nodes == "":
		return errors.New("no --nodes given")
	}
	for hostPort := range strings.SplitSeq(*nodes, ",") {
		peer, err := matchmaking.NewPeer(strings.TrimSpace(hostPort), "relapse-rebalancer")
		if err != nil {
			return fmt.Errorf("nodes: %w", err)
		}
		c.Nodes = append(c.Nodes, peer)
	}
	registry := prometheus.NewRegistry()
	rebalancer, err := New(c, registry)
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return rebalancer.Run(ctx) })
	group.Go(func() error { return services.Serve(ctx, *listen, health()) })
	group.Go(func() error { return services.Serve(ctx, *metricsAt, services.MetricsHandler(registry)) })
	group.Go(func() error {
		tick := time.NewTicker(pruneEvery)
		defer tick.Stop()
		for {
			select {
			case now := <-tick.C:
				for _, n := range c.Nodes {
					n.Prune(now)
				}
			case <-ctx.Done():
				return nil
			}
		}
	})
	err = group.Wait()
	for _, n := range c.Nodes {
		n.Close()
	}
	return err
}

func health() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /health", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
	return mux
}
