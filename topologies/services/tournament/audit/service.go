package audit

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"relapse/topologies/services"
	"relapse/topologies/services/gamehosts"
	"relapse/topologies/services/limiter"
	"relapse/topologies/services/matchmaking"
	"relapse/topologies/services/tournament"
)

const (
	every        = 250 * time.Millisecond // from one reading of all logs to the next
	answerWithin = 200 * time.Millisecond
	// patience is how many readings a limit waits for the answers that it goes by.
	patience = 8
)

func init() {
	services.Register("tournament-audit", "checks from the logs of others that a limit of starts is as documented, and kept", run)
}

// source is a log that is read as it grows.
type source[T any] struct {
	peer *matchmaking.Peer
	boot int64
	from int
}

// read gives what is new; ok is false where nothing could be read.
func (s *source[T]) read() (entries []T, ok bool) {
	for {
		var page gamehosts.Page[T]
		path := fmt.Sprintf("/log?boot=%d&from=%d", s.boot, s.from)
		if s.peer.Call(http.MethodGet, path, nil, &page, time.Now().Add(answerWithin)) != nil {
			return entries, false
		}
		s.boot, s.from = page.Boot, page.From+len(page.Entries)
		entries = append(entries, page.Entries...)
		if len(page.Entries) == 0 {
			return entries, true
		}
	}
}

// waiting is a limit whose answers have not all been read.
type waiting struct {
	limit limiter.Limit
	tries int
}

// Audit reads logs and counts what they violate.
type Audit struct {
	checker    *Checker
	hosts      []*source[gamehosts.Entry]
	limiters   []*source[limiter.Limit]
	tournament *source[tournament.Event]
	waiting    []waiting
	began      []gamehosts.Began // not compared yet

	violations       *prometheus.CounterVec
	audits, compared prometheus.Gauge
	rounds           int
}

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("tournament-audit", flag.ContinueOnError)
	clash, err := gamehosts.ModeOf(gamehosts.Clash)
	if err != nil {
		return err
	}
	c := Config{Length: clash.Length(), Capacity: map[string]float64{}}
	var (
		a         Audit
		gate      = flags.String("gate", tournament.GateNone, "as of the tournament")
		of        = flags.String("tournament", "tournament:8080", "the tournament")
		metricsAt = flags.String("metrics", services.MetricsAddress, "address of the metrics")
		hosts     []string
		limiters  []string
	)
	list := func(into *[]string) func(string) error {
		return func(s string) error {
			*into = strings.Split(s, ",")
			return nil
		}
	}
	flags.Func("hosts", "nodes of hosts, HOST:PORT,…", list(&hosts))
	flags.Func("limiters", "limiters, HOST:PORT,…", list(&limiters))
	flags.Float64Var(&c.Target, "target", 0.7, "as of the limiter")
	flags.Func("capacity", "as of the limiter", func(s string) error {
		kind, value, ok := strings.Cut(s, "=")
		games, err := strconv.ParseFloat(value, 64)
		if !ok || err != nil {
			return fmt.Errorf("%q: want KIND=GAMES", s)
		}
		c.Capacity[kind] = games / clash.Mean()
		return nil
	})
	services.Settings(flags)
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	c.Gated = *gate == tournament.GateBefore
	peer := func(address string) (*matchmaking.Peer, error) {
		return matchmaking.NewPeer(strings.TrimSpace(address), "relapse-audit")
	}
	for _, address := range hosts {
		p, err := peer(address)
		if err != nil {
			return err
		}
		a.hosts = append(a.hosts, &source[gamehosts.Entry]{peer: p})
	}
	for _, address := range limiters {
		p, err := peer(address)
		if err != nil {
			return err
		}
		a.limiters = append(a.limiters, &source[limiter.Limit]{peer: p})
	}
	p, err := peer(*of)
	if err != nil {
		return err
	}
	a.tournament = &source[tournament.Event]{peer: p}
	registry := prometheus.NewRegistry()
	a.prepare(c, registry)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return services.Serve(ctx, *metricsAt, services.MetricsHandler(registry)) })
	group.Go(func() error { return a.Run(ctx) })
	return group.Wait()
}

func (a *Audit) prepare(c Config, registry *prometheus.Registry) {
	a.checker = New(c)
	a.violations = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "relapse_violations_total", Help: "Violations of an invariant that the logs show.",
	}, []string{"invariant"})
	a.audits = prometheus.NewGauge(prometheus.GaugeOpts{Name: "relapse_tournament_audits", Help: "Readings of the tournament's log since the start."})
	a.compared = prometheus.NewGauge(prometheus.GaugeOpts{Name: "relapse_tournament_limits_compared", Help: "Limits since the start that were compared with what hosts answered."})
	registry.MustRegister(a.violations, a.audits, a.compared)
	for _, invariant := range Invariants {
		a.violations.WithLabelValues(invariant)
	}
}

// Run reads the logs until the context ends.
func (a *Audit) Run(ctx context.Context) error {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			a.round()
		}
	}
}

// round reads games that began first: whatever began had been let go before that, and
// is in what is read after it.
func (a *Audit) round() {
	for _, s := range a.hosts {
		entries, _ := s.read() // what a dead node wrote last is lost with it
		for _, e := range entries {
			if e.Answered != nil {
				a.checker.Answered(s.peer.Name, *e.Answered)
			}
			if e.Began != nil {
				a.began = append(a.began, *e.Began)
			}
		}
	}
	events, ok := a.tournament.read()
	for _, s := range a.limiters {
		limits, _ := s.read()
		for _, l := range limits {
			a.checker.Stated(l)
			a.waiting = append(a.waiting, waiting{limit: l})
		}
	}
	a.compare()
	for _, e := range events {
		a.found(a.checker.Happened(e))
	}
	if ok {
		for _, b := range a.began {
			a.found(a.checker.Began(b))
		}
		a.began = nil
		a.rounds++
	}
	a.audits.Set(float64(a.rounds))
	a.compared.Set(float64(a.checker.Checked))
}

// compare takes the limits in their order, each once the answers are there that it goes
// by; after a while without them, since their node has died.
func (a *Audit) compare() {
	var left []waiting
	for _, w := range a.waiting {
		known := a.checker.Known(w.limit)
		if w.tries++; !known && w.tries < patience {
			left = append(left, w)
			continue
		}
		a.found(a.checker.Limited(w.limit, known))
	}
	a.waiting = left
}

func (a *Audit) found(violations []Violation) {
	for _, v := range violations {
		a.violations.WithLabelValues(v.Invariant).Inc()
		fmt.Printf("%.1f min: %s: %s\n", v.At.Minutes(), v.Invariant, v.Says)
	}
}
