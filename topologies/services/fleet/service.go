package fleet

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"relapse/topologies/services"
	"relapse/topologies/services/matchmaking"
)

func init() {
	services.Register("fleet", "all the game servers of a matchmaking topology, with the history of who was where", run)
}

// clusterFlag is a cluster as it is given, before its nodes are looked up.
type clusterFlag struct {
	name  string
	nodes []string // host:port
}

// options are what a fleet's command says, before any node is looked up.
type options struct {
	listen, control, metrics string // addresses
	clusters                 []clusterFlag
	servers                  map[string]int // of each cluster
	config                   Config
}

// parse reads the arguments of a fleet and the files of settings that they name, and
// writes what is wrong with them to output, with all flags.
func parse(args []string, read func(path string) ([]byte, error), output io.Writer) (*options, error) {
	flags := flag.NewFlagSet("fleet", flag.ContinueOnError)
	flags.SetOutput(output)
	o := &options{servers: map[string]int{}, config: Config{
		Modes:   map[string]string{},
		Regions: []Region{{"na", 50}, {"eu", 30}, {"asia", 20}},
	}}
	c := &o.config
	flags.StringVar(&o.listen, "listen", ":8080", "address for nodes")
	flags.StringVar(&o.control, "control", ControlAddress, "address on which orders are taken")
	flags.StringVar(&o.metrics, "metrics", services.MetricsAddress, "address of the metrics")
	flags.Func("cluster", "a cluster and its nodes, such as NAME=mms-1:8080,mms-2:8080; may be repeated", func(s string) error {
		name, nodes, err := pair(s)
		o.clusters = append(o.clusters, clusterFlag{name, strings.Split(nodes, ",")})
		return err
	})
	flags.Func("servers", "how many servers a cluster has, such as NAME=18000; may be repeated", func(s string) error {
		name, value, err := pair(s)
		if err != nil {
			return err
		}
		if _, twice := o.servers[name]; twice {
			return fmt.Errorf("cluster %s is there twice", name)
		}
		o.servers[name], err = strconv.Atoi(value)
		return err
	})
	flags.Func("mode", "the cluster of a mode, such as MODE=NAME; may be repeated", func(s string) error {
		mode, cluster, err := pair(s)
		if err != nil {
			return err
		}
		if _, twice := c.Modes[mode]; twice {
			return fmt.Errorf("mode %s is there twice", mode)
		}
		c.Modes[mode] = cluster
		return nil
	})
	flags.Func("regions", "regions and their weights (default na=50,eu=30,asia=20)", func(s string) (err error) {
		c.Regions, err = parseRegions(s)
		return err
	})
	flags.DurationVar(&c.Length, "length", time.Hour, "length of a match, documented time")
	flags.Float64Var(&c.LengthSpread, "length-spread", 20, "percent by which lengths differ from that, up or down")
	flags.DurationVar(&c.RelistAfter, "relist-after", 3*time.Minute, "from a match's end to the server's next registration, documented time")
	flags.Float64Var(&c.Speed, "speed", 180, "documented seconds in a real one")
	flags.Float64Var(&c.Occupied, "occupied", 84, "percent of the servers that are in a match at the start")
	flags.Uint64Var(&c.Seed, "seed", 1, "decides who is where, how long matches last, and who goes")
	flags.StringVar(&c.Joins, "joins", JoinSpread, fmt.Sprintf("how servers that are added come to nodes, one of %q: evenly, or all to the first of their cluster", Joins))
	flags.DurationVar(&c.JoinAfter, "join-after", 0, "from when servers are added to their registration, documented time")
	flags.BoolVar(&c.Unfenced, "unfenced", false, "servers take every reservation, whatever its epoch and though they are in a match")
	flags.DurationVar(&c.AuditEvery, "audit-every", DefaultAuditEvery, "how often the list of each node is read and checked")
	flags.DurationVar(&c.Grace, "grace", 0, "time after which a change must show in the lists; 0 for one second")
	services.SettingsFrom(flags, read)
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	if flags.NArg() > 0 {
		return nil, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	return o, nil
}

// Stated gives how many servers each cluster has, by the arguments of a fleet that does
// not run and the files of settings that they name. What only its start would find out,
// such as nodes that are not there, is no error.
func Stated(args []string, read func(path string) ([]byte, error)) (map[string]int, error) {
	o, err := parse(args, read, io.Discard)
	if err != nil {
		return nil, err
	}
	stated := map[string]int{}
	for _, cl := range o.clusters {
		count, given := o.servers[cl.name]
		if !given {
			return nil, fmt.Errorf("--cluster %s: give --servers %s=N too", cl.name, cl.name)
		}
		stated[cl.name] = count
	}
	return stated, nil
}

func run(ctx context.Context, args []string) error {
	o, err := parse(args, os.ReadFile, os.Stderr)
	if err != nil {
		return err
	}
	c := o.config
	c.Violations, c.Log = os.Stdout, slog.New(slog.NewTextHandler(os.Stderr, nil))
	if c.Clusters, err = lookUp(o.clusters, o.servers); err != nil {
		return err
	}
	registry := prometheus.NewRegistry()
	fleet, err := New(c, registry)
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return services.Serve(ctx, o.metrics, services.MetricsHandler(registry)) })
	group.Go(func() error { return services.Serve(ctx, o.listen, fleet.Handler()) })
	group.Go(func() error { return services.Serve(ctx, o.control, fleet.Control()) })
	group.Go(func() error { return fleet.Run(ctx) })
	err = group.Wait()
	for _, cl := range c.Clusters {
		for _, peer := range cl.Nodes {
			peer.Close()
		}
	}
	return err
}

// pair reads NAME=VALUE.
func pair(s string) (name, value string, err error) {
	name, value, found := strings.Cut(s, "=")
	if !found || name == "" || value == "" {
		return "", "", fmt.Errorf("%q: want NAME=VALUE", s)
	}
	return name, value, nil
}

func parseRegions(s string) ([]Region, error) {
	var regions []Region
	for part := range strings.SplitSeq(s, ",") {
		name, value, err := pair(strings.TrimSpace(part))
		if err != nil {
			return nil, err
		}
		weight, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return nil, fmt.Errorf("region %s: %w", name, err)
		}
		regions = append(regions, Region{name, weight})
	}
	return regions, nil
}

// lookUp finds the nodes of all clusters.
func lookUp(clusters []clusterFlag, servers map[string]int) ([]Cluster, error) {
	var found []Cluster
	without := maps.Clone(servers)
	for _, cl := range clusters {
		count, given := servers[cl.name]
		if !given {
			return nil, fmt.Errorf("--cluster %s: give --servers %s=N too", cl.name, cl.name)
		}
		delete(without, cl.name)
		c := Cluster{Name: cl.name, Servers: count}
		for _, address := range cl.nodes {
			peer, err := matchmaking.NewPeer(strings.TrimSpace(address), "relapse-fleet")
			if err != nil {
				return nil, fmt.Errorf("--cluster %s: %w", cl.name, err)
			}
			c.Nodes = append(c.Nodes, peer)
		}
		found = append(found, c)
	}
	if len(without) > 0 {
		return nil, fmt.Errorf("--servers of %q: give --cluster NAME=HOST:PORT,… for each too", slices.Sorted(maps.Keys(without)))
	}
	return found, nil
}
