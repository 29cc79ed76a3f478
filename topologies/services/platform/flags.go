package platform

import (
	"flag"
	"fmt"
	"strconv"
	"strings"
	"time"

	"relapse/topologies/services"
)

// flags has all flags, whatever the roles: one file of settings can then be that of all
// nodes. The numbers of the match flow are those of the documented game where they are
// known to players (ten players, agents selected in about a minute and a half, a match
// of half an hour); the source does not give them.
func (o *options) flags(flags *flag.FlagSet) {
	c := &o.config
	flags.StringVar(&o.listen, "listen", ":"+defaultPort, "address of the roles")
	flags.StringVar(&o.metricsAt, "metrics", services.MetricsAddress, "address of the metrics")
	flags.StringVar(&o.roles, "roles", "all", "roles of this process, such as queue,agents; all is the monolith")
	flags.StringVar(&o.limit, "limit", strconv.Itoa(DefaultLimit), "requests worked on at once, 503 for those above: one number for all roles of the process, or ROLE=N,other=N")
	flags.Func("cost", "what each request to a role takes (modelled), ROLE=DURATION; may be repeated (default config=5ms)", func(s string) error {
		name, value, err := pair(s)
		if err != nil {
			return err
		}
		c.Costs[name], err = time.ParseDuration(value)
		return err
	})
	flags.Func("peer", "where a role, or the store, is asked, NAME=HOST:PORT; may be repeated (default: this process if it has the role, else NAME:8080)", func(s string) error {
		name, address, err := pair(s)
		o.peers[name] = address
		return err
	})
	flags.Float64Var(&c.Speed, "speed", DefaultSpeed, "documented seconds in a real one")
	flags.DurationVar(&c.CallTimeout, "call-timeout", DefaultCallTimeout, "for each call to another service, real time")
	flags.DurationVar(&c.Remember, "remember", DefaultRemember, "how long operations and what has ended are known, real time")
	flags.Uint64Var(&c.Seed, "seed", 1, "decides tokens, lengths of matches and who wins")
	o.sessionFlags(flags)
	o.matchFlags(flags)
}

func (o *options) sessionFlags(flags *flag.FlagSet) {
	s := &o.config.Session
	s.Caches = Caches{Handler: true, Caller: true}
	flags.DurationVar(&s.TokenLasts, "token-lasts", time.Hour, "a token's life, documented time")
	flags.Func("cache", "where settings are kept: handler, caller and edge, or none (default handler,caller)", func(v string) (err error) {
		s.Caches, err = ParseCaches(v)
		return err
	})
	flags.DurationVar(&s.Keep, "cache-for", 5*time.Minute, "how long settings are kept in each of these places, documented time")
	flags.Float64Var(&s.Jitter, "cache-jitter", 10, "percent by which the session service itself keeps them shorter")
	flags.DurationVar(&s.StaleFor, "cache-stale-for", 0, "how long after that they are given where their origin fails, documented time")
	flags.BoolVar(&s.NoSingleflight, "no-singleflight", false, "everybody who misses the cache asks the origin")
	flags.BoolVar(&s.CacheErrors, "cache-errors", false, "errors of the origin are kept like settings")
	flags.BoolVar(&s.AtOnce, "cache-at-once", false, "the session service's settings all run out at the same moments, at the multiples of cache-for")
	flags.BoolVar(&s.SharedKey, "shared-key", false, "a player's settings are kept for all of the cohort")
	flags.StringVar(&s.Redis, "redis", "redis:6379", "where heartbeats are written")
	flags.DurationVar(&s.BeatEvery, "heartbeats-every", DefaultBeatEvery, "how often heartbeats are written, real time")
	flags.DurationVar(&s.HoldBeats, "hold-heartbeats", 0, "how long heartbeats are held back before they are written, real time")
	flags.DurationVar(&o.config.Origin.ChangeEvery, "change-every", 0, "how often there is a new version of the settings, documented time; 0 for only when it is ordered")
}

func (o *options) matchFlags(flags *flag.FlagSet) {
	q, a, v, g, r := &o.config.Queue, &o.config.Agents, &o.config.Provisioning, &o.config.Games, &o.config.Results
	flags.IntVar(&q.MatchSize, "match-size", 10, "players in a match")
	flags.DurationVar(&q.WidenAfter, "widen-after", time.Minute, "how long a party waits for others near its data centre, documented time")
	flags.DurationVar(&q.WaitMost, "wait-most", 5*time.Minute, "how long a party waits until its match begins with those who are there, documented time")
	flags.IntVar(&q.Senders, "senders", 16, "matches that the queue hands on at once")
	flags.DurationVar(&a.SelectFor, "select-for", 90*time.Second, "how long players select agents, documented time")
	flags.DurationVar(&a.BeginWithin, "begin-within", 20*time.Second, "how long a server and its game are tried for, real time")
	flags.DurationVar(&a.OverWithin, "over-within", 2*time.Hour, "after how long a match without a result has failed, documented time")
	flags.IntVar(&a.Callers, "callers", 32, "matches that are given servers at once")
	v.Centres = []Centre{{"asia", 1000}, {"eu", 2000}, {"na", 2000}}
	flags.Func("centres", "data centres and their servers (default asia=1000,eu=2000,na=2000)", func(s string) (err error) {
		v.Centres, err = parseCentres(s)
		return err
	})
	flags.DurationVar(&v.Lease, "lease", DefaultLease, "how long a server is held without a word of its game, real time; of provisioning and games")
	flags.DurationVar(&g.Length, "length", 30*time.Minute, "length of a match, documented time")
	flags.Float64Var(&g.LengthSpread, "length-spread", 20, "percent by which lengths differ from that, up or down")
	flags.Float64Var(&g.CrashShare, "crash-share", 0, "percent of the matches whose server is gone before the result")
	flags.Float64Var(&g.LateShare, "late-share", 0, "percent of the matches whose result is late")
	flags.DurationVar(&g.LateBy, "late-by", 2*time.Minute, "by how much it is late, documented time")
	flags.IntVar(&g.Recorders, "recorders", 64, "results that are told at once")
	flags.Int64Var(&r.Win, "win", DefaultWin, "what a player is granted for a match that was won")
	flags.Int64Var(&r.Loss, "loss", DefaultLoss, "and for one that was lost")
}

func parseCentres(s string) ([]Centre, error) {
	var centres []Centre
	for part := range strings.SplitSeq(s, ",") {
		name, value, err := pair(strings.TrimSpace(part))
		if err != nil {
			return nil, err
		}
		capacity, err := strconv.Atoi(value)
		if err != nil {
			return nil, fmt.Errorf("data centre %s: %w", name, err)
		}
		centres = append(centres, Centre{name, capacity})
	}
	return centres, nil
}
