// Package audit reads what instances of the service presence do from Redis, and has it
// checked by package history. It is not under test: it goes by the heartbeats that
// sessions wrote and by the logs, asks no instance anything, and writes nothing.
//
// A reading is everything or nothing. Where one of the two servers does not answer,
// what was done meanwhile is judged by the next reading that succeeds, since all times
// are those of the logs; what a player's heartbeats were in between is not known then.
package audit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"relapse/topologies/services/platform/api"
	"relapse/topologies/services/presence/history"
)

// DefaultEvery is how often the history is read: more often than players send
// heartbeats.
const DefaultEvery = 250 * time.Millisecond

// printed is how many violations are written out. What matters is how they began; the
// metrics count all of them.
const printed = 20

// Config is what an audit is made of.
type Config struct {
	Lists, Claims  *redis.Client // as of the instances; may be the same
	history.Config               // the instances' settings; partitions are those of package api
	Every          time.Duration // 0 for [DefaultEvery]
	Violations     io.Writer     // gets the first violations, a line each; nil for nobody
	Log            *slog.Logger  // nil for none
}

// Audit is a running audit.
type Audit struct {
	config  Config
	metrics *metrics
	checker *history.Checker
	reader  reader
	said    int // violations

	mu sync.Mutex // of the latest numbers
	latest
}

// latest is what the last reading showed.
type latest struct{ players, instances, spread, unowned int }

// New makes an audit; its metrics go to the registry.
func New(c Config, registry *prometheus.Registry) (*Audit, error) {
	if c.Every == 0 {
		c.Every = DefaultEvery
	}
	if c.Violations == nil {
		c.Violations = io.Discard
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	switch {
	case c.Lists == nil || c.Claims == nil:
		return nil, errors.New("presence-audit: no lists or no claims: want a client of Redis for each, which may be the same")
	case c.Every < time.Millisecond:
		return nil, fmt.Errorf("presence-audit: a reading every %v: want a millisecond or more", c.Every)
	}
	c.Partitions = api.Partitions
	c.Partition = func(player int64) int { return api.Player(player).Partition() }
	checker, err := history.New(c.Config)
	if err != nil {
		return nil, err
	}
	a := &Audit{config: c, checker: checker, reader: newReader(c.Lists, c.Claims)}
	a.metrics = newMetrics(registry, a)
	return a, nil
}

// Run reads and checks until the context ends.
func (a *Audit) Run(ctx context.Context) error {
	ticker := time.NewTicker(a.config.Every)
	defer ticker.Stop()
	for failing := false; ; {
		err := a.once(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil:
			failing = false
		default:
			a.metrics.failures.Inc()
			if !failing {
				a.config.Log.Warn("nothing is checked before Redis answers; read again until it does", "error", err)
			}
			failing = true
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// once reads and checks.
func (a *Audit) once(ctx context.Context) error {
	r, err := a.reader.read(ctx)
	if err != nil {
		return err
	}
	moves := a.checker.Moves()
	for _, e := range r.events {
		for _, v := range a.checker.Add(e) {
			a.metrics.violations[v.Invariant].Inc()
			a.said++
			if a.said <= printed {
				fmt.Fprintln(a.config.Violations, "violation", v)
			}
		}
	}
	a.metrics.moves.Add(float64(a.checker.Moves() - moves))
	a.metrics.marks.Add(float64(r.marks))
	a.mu.Lock()
	a.latest = latest{players: r.players, instances: r.instances, spread: a.checker.Spread(), unowned: a.checker.Unowned()}
	a.mu.Unlock()
	a.metrics.audits.Inc()
	return nil
}
