package front

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"relapse/topologies/services"
	"relapse/topologies/services/matchmaking"
)

// ControlAddress is where a front takes orders.
const ControlAddress = ":9091"

const pruneEvery = time.Second

func init() {
	services.Register("front", "spreads what players ask for over the matchmaking nodes of their mode", run)
}

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("front", flag.ContinueOnError)
	var (
		listen    = flags.String("listen", ":8080", "address for players")
		control   = flags.String("control", ControlAddress, "address on which orders are taken")
		metricsAt = flags.String("metrics", services.MetricsAddress, "address of its metrics")
		routes    = map[string][]string{}
		c         = Config{Limits: map[Where]int{}, Misroutes: map[string]Misroute{}}
	)
	flags.DurationVar(&c.NodeTimeout, "node-timeout", DefaultNodeTimeout, "for each request to a node; what players wait for")
	flags.Uint64Var(&c.Seed, "seed", 1, "decides where each mode's round begins")
	flags.Func("route", "nodes of a mode, MODE=HOST:PORT,HOST:PORT; once for each mode", func(s string) error {
		mode, nodes, err := ParseRoute(s)
		if _, twice := routes[mode]; twice && err == nil {
			err = fmt.Errorf("route %q: mode %s has one already", s, mode)
		}
		routes[mode] = nodes
		return err
	})
	flags.Func("closed", "MODE or MODE/REGION that nobody is let into; may be given several times", func(s string) error {
		where, err := ParseWhere(s)
		c.Closed = append(c.Closed, where)
		return err
	})
	flags.Func("limit", "requests a second that are admitted, MODE/REGION=N, 429 for those above; may be given several times", func(s string) error {
		where, n, err := ParseLimit(s)
		c.Limits[where] = n
		return err
	})
	flags.Func("misroute", "mode whose requests carry another one's flag, MODE=MODE or MODE=MODE:PERCENT; may be given several times", func(s string) error {
		mode, misroute, err := ParseMisroute(s)
		c.Misroutes[mode] = misroute
		return err
	})
	services.Settings(flags)
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	peers, err := find(routes, &c)
	if err != nil {
		return err
	}
	registry := prometheus.NewRegistry()
	front, err := New(c, registry)
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return services.Serve(ctx, *listen, front.Handler()) })
	group.Go(func() error { return services.Serve(ctx, *control, front.Control()) })
	group.Go(func() error { return services.Serve(ctx, *metricsAt, services.MetricsHandler(registry)) })
	group.Go(func() error {
		tick := time.NewTicker(pruneEvery)
		defer tick.Stop()
		for {
			select {
			case now := <-tick.C:
				for _, p := range peers {
					p.Prune(now)
				}
			case <-ctx.Done():
				for _, p := range peers {
					p.Close()
				}
				return nil
			}
		}
	})
	return group.Wait()
}

// find looks the nodes of all routes up, each once, and puts them into the
// configuration.
func find(routes map[string][]string, c *Config) ([]*matchmaking.Peer, error) {
	c.Routes = map[string][]*matchmaking.Peer{}
	found := map[string]*matchmaking.Peer{} // by host and port
	for _, mode := range slices.Sorted(maps.Keys(routes)) {
		for _, hostPort := range routes[mode] {
			if found[hostPort] == nil {
				peer, err := matchmaking.NewPeer(hostPort, "relapse-front")
				if err != nil {
					return nil, fmt.Errorf("route %s: %w", mode, err)
				}
				found[hostPort] = peer
			}
			c.Routes[mode] = append(c.Routes[mode], found[hostPort])
		}
	}
	return slices.Collect(maps.Values(found)), nil
}
