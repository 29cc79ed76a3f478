package mms

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"relapse/topologies/services"
	"relapse/topologies/services/matchmaking"
)

const pruneEvery = time.Second

func init() {
	services.Register("mms", "a matchmaking node with a list of game servers, whose reading has a modelled cost", run)
}

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("mms", flag.ContinueOnError)
	c := Config{Pause: DefaultPause}
	var peers []string
	var (
		listen    = flags.String("listen", ":8080", "address of the node")
		metricsAt = flags.String("metrics", services.MetricsAddress, "address of its metrics")
		fleet     = flags.String("fleet", "", "host:port of the fleet")
	)
	flags.StringVar(&c.Name, "name", "", "of the node, as the fleet and its peers know it")
	flags.Func("peers", "host:port of the other nodes, with commas; the host is the peer's name", into(&peers))
	flags.Func("regions", "that servers are in, with commas", into(&c.Regions))
	flags.Func("modes", "that matches are asked for, with commas", into(&c.Modes))
	flags.DurationVar(&c.LookupCost, "lookup-cost", DefaultLookupCost, "fixed part of what reading the list costs (modelled)")
	flags.DurationVar(&c.EntryCost, "entry-cost", DefaultEntryCost, "what each visited entry adds (modelled)")
	flags.BoolVar(&c.Index, "index", false, "the list is indexed by region, a look-up visits one entry")
	flags.StringVar(&c.Ask, "ask", AskSerial, "how peers are asked: "+AskSerial+" or "+AskNone)
	flags.DurationVar(&c.AskTimeout, "ask-timeout", DefaultAskTimeout, "for each peer that is asked")
	flags.IntVar(&c.Queue, "queue", -1, "look-ups that wait for the CPU at most, 503 for those above; -1 for no bound")
	flags.BoolVar(&c.QueuePerMode, "queue-per-mode", false, "each mode has a queue of that length")
	flags.BoolVar(&c.DropAbandoned, "drop-abandoned", false, "nothing more is done for a caller who has left")
	flags.IntVar(&c.Tries, "tries", 0, "how often a request looks in all lists, 503 then; 0 for ever")
	flags.DurationVar(&c.AgainAfter, "again-after", DefaultAgainAfter, "when a request that found nothing is put back in line")
	flags.DurationVar(&c.ReserveTimeout, "reserve-timeout", DefaultReserveTimeout, "for each attempt to ask the fleet")
	flags.DurationVar(&c.PushTimeout, "push-timeout", DefaultPushTimeout, "for each attempt to send servers to a peer")
	flags.Uint64Var(&c.Seed, "seed", 1, "decides where in the list servers go that are moved in")
	flags.StringVar((*string)(&c.Defect), "defect", "", fmt.Sprintf("mistake that the node is built with, one of %q", Defects))
	services.Settings(flags)
	if err := flags.Parse(args); err != nil {
		return err
	}
	switch {
	case flags.NArg() > 0:
		return fmt.Errorf("unexpected argument %q", flags.Arg(0))
	case *fleet == "":
		return errors.New("no --fleet given")
	}
	others, err := reach(append([]string{*fleet}, peers...))
	if err != nil {
		return err
	}
	c.Fleet, c.Peers = others[0], others[1:]
	registry := prometheus.NewRegistry()
	node, err := New(c, registry)
	if err != nil {
		return err
	}
	defer node.Close()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return services.Serve(ctx, *metricsAt, services.MetricsHandler(registry)) })
	group.Go(func() error { return services.Serve(ctx, *listen, node.Handler()) })
	group.Go(func() error {
		tick := time.NewTicker(pruneEvery)
		defer tick.Stop()
		for {
			select {
			case now := <-tick.C:
				for _, other := range others {
					other.Prune(now)
				}
			case <-ctx.Done():
				return nil
			}
		}
	})
	return group.Wait()
}

// into reads a list with commas.
func into(names *[]string) func(string) error {
	return func(s string) error {
		*names = nil
		if s != "" {
			*names = strings.Split(s, ",")
		}
		return nil
	}
}

// reach looks the other services up: the address of every node is fixed.
func reach(hostPorts []string) ([]*matchmaking.Peer, error) {
	others := make([]*matchmaking.Peer, 0, len(hostPorts))
	for _, hostPort := range hostPorts {
		other, err := matchmaking.NewPeer(hostPort, "relapse-mms")
		if err != nil {
			return nil, err
		}
		others = append(others, other)
	}
	return others, nil
}
