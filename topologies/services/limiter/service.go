package limiter

import (
	"context"
	"flag"
	"fmt"
	"strconv"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"relapse/topologies/services"
	"relapse/topologies/services/gamehosts"
	"relapse/topologies/services/matchmaking"
)

func init() {
	services.Register("limiter", "asks game servers once a minute and says how many games of a tournament may begin", run)
}

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("limiter", flag.ContinueOnError)
	clash, err := gamehosts.ModeOf(gamehosts.Clash)
	if err != nil {
		return err
	}
	c := Config{Rule: Rule{Length: clash.Length(), Cost: map[string]float64{}}}
	var (
		override  Override
		nodes     = flags.String("hosts", "", "nodes of hosts, HOST:PORT,…")
		listen    = flags.String("listen", ":8080", "address for the tournament and for who checks")
		metricsAt = flags.String("metrics", services.MetricsAddress, "address of the metrics")
	)
	flags.StringVar(&c.Rule.Name, "rule", RuleAutomatic, fmt.Sprintf("one of %q", Rules))
	flags.Float64Var(&c.Rule.Target, "target", 0.7, "part of the hosts' CPU that may be used")
	flags.Float64Var(&c.Rule.Factor, "factor", 1.5, "of the 99th percentile of usual starts")
	flags.Float64Var(&c.Rule.Lowest, "lowest", 10, "lower clamp of that, starts a minute")
	flags.Float64Var(&c.Rule.Highest, "highest", 75, "upper clamp of that, starts a minute")
	flags.Float64Var(&c.Rule.Usual, "usual-games", 600, "ordinary games at a usual evening, for the static rule")
	flags.DurationVar(&c.SampleAt, "sample-at", 0, "when the sampled rule measures, documented time")
	flags.Float64Var(&c.Speed, "speed", gamehosts.DefaultSpeed, "documented seconds in a real one")
	flags.Float64Var(&override.Limit, "override", -1, "limit that an operator sets, starts a minute; below zero for none")
	flags.DurationVar(&override.From, "override-from", 0, "from when it holds, documented time")
	flags.DurationVar(&override.For, "override-for", 0, "for how long; 0 for until it is taken back")
	flags.Func("capacity", "games at their dearest that fill a host of a hardware type, such as large=75; may be repeated", func(s string) error {
		kind, value, ok := strings.Cut(s, "=")
		games, err := strconv.ParseFloat(value, 64)
		if !ok || err != nil || !(games > 0) {
			return fmt.Errorf("%q: want KIND=GAMES, such as large=75", s)
		}
		c.Rule.Cost[kind] = clash.Mean() / games
		return nil
	})
	flags.Func("history", "games that began in usual minutes, MINUTES*STARTS,…", func(s string) (err error) {
		c.History, err = ParseHistory(s)
		return err
	})
	services.Settings(flags)
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	if override.Limit >= 0 {
		c.Override = &override
	}
	for address := range strings.SplitSeq(*nodes, ",") {
		peer, err := matchmaking.NewPeer(strings.TrimSpace(address), "relapse-limiter")
		if err != nil {
			return fmt.Errorf("--hosts: %w", err)
		}
		defer peer.Close()
		c.Nodes = append(c.Nodes, peer)
	}
	registry := prometheus.NewRegistry()
	limiter, err := New(c, registry)
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return services.Serve(ctx, *metricsAt, services.MetricsHandler(registry)) })
	group.Go(func() error { return services.Serve(ctx, *listen, limiter.Handler()) })
	group.Go(func() error { return limiter.Run(ctx) })
	return group.Wait()
}

// mostMinutes is a year of them.
const mostMinutes = 366 * 24 * 60

// ParseHistory reads how many games began in minutes, as MINUTES*STARTS,…; "none" is no
// minute. Starts may be NaN, as a store gives for an hour without data.
func ParseHistory(s string) ([]float64, error) {
	if s == "none" {
		return nil, nil
	}
	var history []float64
	for part := range strings.SplitSeq(s, ",") {
		count, value, ok := strings.Cut(strings.TrimSpace(part), "*")
		minutes, err := strconv.Atoi(count)
		starts, err2 := strconv.ParseFloat(value, 64)
		if !ok || err != nil || err2 != nil || minutes < 1 || minutes > mostMinutes-len(history) {
			return nil, fmt.Errorf("%q: want MINUTES*STARTS,… of a year at most, such as 1400*32,40*40", s)
		}
		for range minutes {
			history = append(history, starts)
		}
	}
	return history, nil
}
