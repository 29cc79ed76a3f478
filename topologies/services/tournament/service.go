package tournament

import (
	"context"
	"flag"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"relapse/topologies/services"
	"relapse/topologies/services/gamehosts"
	"relapse/topologies/services/matchmaking"
)

func init() {
	services.Register("tournament", "teams, tiers, brackets and Champ Select of a tournament, and the placing of games on hosts", run)
}

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("tournament", flag.ContinueOnError)
	var (
		c         = Config{Running: map[string]int{}}
		hosts     = flags.String("hosts", "", "nodes of hosts, HOST:PORT,…")
		limiters  = flags.String("limiters", "", "limiters, HOST:PORT,…")
		listen    = flags.String("listen", ":8080", "address for players and for who checks")
		metricsAt = flags.String("metrics", services.MetricsAddress, "address of the metrics")
	)
	flags.Float64Var(&c.Speed, "speed", gamehosts.DefaultSpeed, "documented seconds in a real one; all times below are documented ones")
	flags.DurationVar(&c.LockIn, "lock-in", 6*time.Minute, "how long before the first tier lock-in opens")
	flags.DurationVar(&c.FirstTier, "first-tier", 14*time.Minute, "when the first tier begins, after the first order")
	flags.DurationVar(&c.TierEvery, "tier-every", 30*time.Minute, "from one tier to the next")
	flags.BoolVar(&c.Immediate, "immediate", false, "brackets begin as they lock in, not all of a tier at once")
	flags.IntVar(&c.Bracket, "bracket", 16, "teams in a bracket")
	flags.StringVar(&c.Gate, "gate", GateNone, fmt.Sprintf("where the limit is put, one of %q", Gates))
	flags.IntVar(&c.Slots, "slots", 560, "lobbies that Champ Select takes at once")
	flags.DurationVar(&c.Select, "select", 7*time.Minute, "how long they are in it")
	flags.DurationVar(&c.Again, "again", time.Minute, "from a start that failed to the next try")
	flags.DurationVar(&c.ForfeitAfter, "forfeit-after", 0, "when a game that could not begin is lost; 0 for never, scouting is extended")
	flags.IntVar(&c.MostTeams, "most-teams", 0, "teams that may take part; 0 for all")
	flags.BoolVar(&c.Adds, "adds", false, "limits of several limiters are added up")
	flags.Func("tiers", "shares of the tiers, such as 45,40,15 (default one tier)", func(s string) error {
		c.Tiers = nil
		for part := range strings.SplitSeq(s, ",") {
			share, err := strconv.ParseFloat(strings.TrimSpace(part), 64)
			if err != nil {
				return err
			}
			c.Tiers = append(c.Tiers, share)
		}
		return nil
	})
	flags.Func("running", "ordinary games that are on from the start, such as aram=200; may be repeated", func(s string) error {
		mode, count, _ := strings.Cut(s, "=")
		n, err := strconv.Atoi(count)
		if err != nil || n < 0 {
			return fmt.Errorf("%q: want MODE=GAMES, such as aram=200", s)
		}
		c.Running[mode] = n
		_, err = gamehosts.ModeOf(mode)
		return err
	})
	services.Settings(flags)
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	if len(c.Tiers) == 0 {
		c.Tiers = []float64{1}
	}
	var err error
	if c.Hosts, err = peers(*hosts); err != nil {
		return fmt.Errorf("--hosts: %w", err)
	}
	if c.Limiters, err = peers(*limiters); err != nil {
		return fmt.Errorf("--limiters: %w", err)
	}
	registry := prometheus.NewRegistry()
	tournament, err := New(c, registry)
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return services.Serve(ctx, *metricsAt, services.MetricsHandler(registry)) })
	group.Go(func() error { return services.Serve(ctx, *listen, tournament.Handler()) })
	group.Go(func() error { return tournament.Run(ctx) })
	return group.Wait()
}

// peers looks up HOST:PORT,…; none where nothing is named.
func peers(addresses string) ([]*matchmaking.Peer, error) {
	if addresses == "" {
		return nil, nil
	}
	var out []*matchmaking.Peer
	for address := range strings.SplitSeq(addresses, ",") {
		peer, err := matchmaking.NewPeer(strings.TrimSpace(address), "relapse-tournament")
		if err != nil {
			return nil, err
		}
		out = append(out, peer)
	}
	return out, nil
}
