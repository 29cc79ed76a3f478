package gamehosts

import (
	"context"
	"flag"
	"fmt"
	"strconv"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"relapse/topologies/services"
)

// DefaultSpeed has a minute pass in half a second.
const DefaultSpeed = 120

func init() {
	services.Register("gamehosts", "hosts that each run many games, whose CPU cost is modelled over a game's life", run)
}

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("gamehosts", flag.ContinueOnError)
	var (
		c         Config
		kinds     []string
		name      = flags.String("name", "", "what the hosts' names begin with")
		listen    = flags.String("listen", ":8080", "address for who places games, limits and checks")
		metricsAt = flags.String("metrics", services.MetricsAddress, "address of the metrics")
	)
	flags.Func("hosts", "hosts of a hardware type and the games at their dearest that fill each, such as large=10*75; may be repeated", func(s string) error {
		kinds = append(kinds, s)
		return nil
	})
	flags.Float64Var(&c.Speed, "speed", DefaultSpeed, "documented seconds in a real one")
	flags.DurationVar(&c.OpensAfter, "opens-after", 0, "until when the hosts are not there, documented time after the first order")
	flags.StringVar(&c.Trouble.Kind, "trouble", TroubleNone, fmt.Sprintf("what is wrong with the readings: one of %q", Troubles))
	flags.Float64Var(&c.Trouble.By, "trouble-by", 0, "minutes for late and ahead, what CPU is multiplied by for biased, the CPU above which there is no answer for missing")
	flags.DurationVar(&c.Trouble.From, "trouble-from", 0, "from when on, documented time after the first order")
	services.Settings(flags)
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	for _, s := range kinds {
		hosts, err := ParseHosts(*name, s)
		if err != nil {
			return fmt.Errorf("--hosts %s: %w", s, err)
		}
		c.Hosts = append(c.Hosts, hosts...)
	}
	registry := prometheus.NewRegistry()
	node, err := NewNode(c, registry)
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return services.Serve(ctx, *metricsAt, services.MetricsHandler(registry)) })
	group.Go(func() error { return services.Serve(ctx, *listen, node.Handler()) })
	group.Go(func() error { return node.Run(ctx) })
	return group.Wait()
}

// mostHosts bounds what is typed by mistake.
const mostHosts = 10_000

// ParseHosts reads hosts as they are given, KIND=COUNT*CAPACITY. Their names begin with
// a prefix.
func ParseHosts(prefix, s string) ([]HostConfig, error) {
	kind, size, ok := strings.Cut(s, "=")
	count, capacity, ok2 := strings.Cut(size, "*")
	if !ok || !ok2 || kind == "" {
		return nil, fmt.Errorf("%q: want KIND=COUNT*CAPACITY, such as large=10*75", s)
	}
	n, err := strconv.Atoi(count)
	if err != nil || n < 1 || n > mostHosts {
		return nil, fmt.Errorf("%q: %q hosts: want 1 to %d", s, count, mostHosts)
	}
	games, err := strconv.ParseFloat(capacity, 64)
	if err != nil {
		return nil, fmt.Errorf("%q: a capacity of %q: %w", s, capacity, err)
	}
	out := make([]HostConfig, n)
	for k := range out {
		out[k] = HostConfig{Name: fmt.Sprintf("%s-%s-%d", prefix, kind, k+1), Kind: kind, Capacity: games}
	}
	return out, nil
}
