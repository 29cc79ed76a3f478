// Package mover moves the tables of a store to further databases while they are in use.
//
// Documented (Riot, 2020, https://technology.riotgames.com/news/scalability-and-load-testing-valorant):
// with 64 tables from the first day, more databases only take over whole tables, as in
// 2 x 32 to 4 x 16. How it was done under load is not documented; what follows, and
// the states of a table in package shards, are this project's.
//
// # A move
//
//	begin     the source notes from now on who is written
//	prepare   the target gets empty tables, which nobody uses
//	copy      all rows, in one snapshot of the source
//	catch up  who was written since, again and again until few are left
//	stop      no write of this one table, for a bounded time
//	catch up  the rest
//	cut over  the source says that the table has moved: one update of one row
//	open      the target takes writes
//	drop      the source's rows, once all tables have moved
//
// Reads go on throughout, and so do the writes of the other 63 tables. Rows go as they
// are: they are never hashed anew.
//
// A mover that is killed, or whose source or target is, leaves everything so that
// another one goes on: a table that was being copied is copied anew, a table that was
// cut over is opened. Every step says under which number of the move it is made, and is
// refused if somebody has begun another one.
//
// # Hashing anew
//
// With the scheme hash-mod-n, rows move one by one: each is locked, copied and deleted,
// and of all rows the part that the new modulus sends elsewhere, one half with 4
// databases instead of 2.
package mover

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"relapse/topologies/services"
	"relapse/topologies/services/platform/api"
	"relapse/topologies/services/store/shards"
)

// Defaults; the source gives none of them.
const (
	DefaultStopWithin = 500 * time.Millisecond
	DefaultFew        = 8
	DefaultTimeout    = 10 * time.Second
)

const (
	againAfter = 200 * time.Millisecond
	// mostRounds bounds how long writes are caught up with before they are stopped.
	mostRounds = 50
)

// Names of the steps of a move, as [Config].Before has them.
const (
	Begin   = "begin"
	Prepare = "prepare"
	Copy    = "copy"
	CatchUp = "catch-up"
	Stop    = "stop"
	CutOver = "cut-over"
	OpenIt  = "open"
	Drop    = "drop"
	Rehash  = "rehash" // of one player, with hash-mod-n
)

// Config is what a mover is made of.
type Config struct {
	Shards shards.Config // Databases are those that the tables are to be spread over

	StopWithin time.Duration // that writes of a table are stopped at most; 0 for the default
	Few        int           // players left to catch up with when writes are stopped; 0 for the default
	Pause      time.Duration // between two tables
	// StepWait is a wait before each step of a table's move up to where its writes are
	// stopped (modelled): rows that are few are copied too fast for a kill to hit it.
	StepWait time.Duration

	// Before is called before each step of a table's move, and ends the mover with its
	// error, as if it had been killed there; nil for nothing.
	Before func(step string, table int) error

	Log *slog.Logger // nil for none
}

// Mover moves tables until they are spread evenly.
type Mover struct {
	config  Config
	shards  *shards.Shards
	metrics *metrics
	done    atomic.Bool
}

// New makes a mover that has yet to reach its databases; its metrics go to the registry.
func New(c Config, registry *prometheus.Registry) (*Mover, error) {
	if c.StopWithin == 0 {
		c.StopWithin = DefaultStopWithin
	}
	if c.Few == 0 {
		c.Few = DefaultFew
	}
	if c.Shards.Timeout == 0 {
		c.Shards.Timeout = DefaultTimeout
	}
	if c.Before == nil {
		c.Before = func(string, int) error { return nil }
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	switch {
	case c.StopWithin < time.Millisecond:
		return nil, fmt.Errorf("mover: writes are stopped for %v: want 1 ms or more", c.StopWithin)
	case c.Few < 1:
		return nil, fmt.Errorf("mover: writes are stopped with %d players left: want 1 or more", c.Few)
	case c.Pause < 0, c.StepWait < 0:
		return nil, fmt.Errorf("mover: a pause of %v between tables and of %v between steps: want zero or more", c.Pause, c.StepWait)
	}
	databases, err := shards.Open(c.Shards, nil)
	if err != nil {
		return nil, err
	}
	m := &Mover{config: c, shards: databases}
	m.metrics = newMetrics(m, registry)
	return m, nil
}

// halted is an error of Before.
type halted struct{ err error }

func (h *halted) Error() string { return "halted: " + h.err.Error() }

// errOvertaken says that somebody else has begun a move of the table.
var errOvertaken = errors.New("somebody else has begun a move of the table")

// Run moves tables until all databases have the same number, within one, or the context
// ends. Whatever keeps it from going on, it tries again.
func (m *Mover) Run(ctx context.Context) error {
	defer m.shards.Close()
	for {
		err := m.pass(ctx)
		var halt *halted
		switch {
		case err == nil:
			m.done.Store(true)
			return nil
		case errors.As(err, &halt):
			return halt.err
		case ctx.Err() != nil:
			return nil
		case !errors.Is(err, shards.ErrHeld):
			m.metrics.failures.Inc()
			m.config.Log.Info("the move is tried again", "reason", err)
		}
		if !services.Wait(ctx, againAfter) {
			return nil
		}
	}
}

// pass moves all that has to move, from where whoever came before left off.
func (m *Mover) pass(ctx context.Context) error {
	// Movers would not harm each other, but undo each other's work.
	release, err := m.shards.Exclusive(ctx, 0, shards.LockMover)
	if err != nil {
		return err
	}
	defer release()
	found := m.shards.Survey(ctx)
	if err := found.Missing(); err != nil {
		return err
	}
	if found.Newest().Epoch > 0 {
		return m.rehash(ctx, found)
	}
	homes, steps, err := m.resume(ctx, found)
	if err != nil {
		return err
	}
	for i, step := range append(steps, Plan(homes, m.shards.Len())...) {
		if i > 0 && m.config.Pause > 0 && !services.Wait(ctx, m.config.Pause) {
			return ctx.Err()
		}
		if err := m.move(ctx, step); err != nil {
			return fmt.Errorf("move table %02d from %s to %s: %w", step.Table, m.shards.Name(step.From), m.shards.Name(step.To), err)
		}
		m.metrics.moved.Inc()
	}
	return m.dropAll(ctx)
}

// resume opens tables that were cut over and not opened, and gives the homes of all
// tables, with those of a move that was begun at its target, and the steps that such a
// move takes.
func (m *Mover) resume(ctx context.Context, found shards.Survey) (homes [api.Tables]int, begun []Step, err error) {
	epochs := [api.Tables]int64{}
	for d, rows := range found.Rows {
		for _, r := range rows {
			if (shards.Serving(r.State) || r.State == shards.Moved) && r.Epoch > epochs[r.Table] {
				epochs[r.Table] = r.Epoch
				homes[r.Table] = d
				if r.State == shards.Moved {
					homes[r.Table] = m.shards.Index(r.Peer)
				}
			}
		}
	}
	for table, epoch := range epochs {
		if epoch == 0 {
			return homes, nil, fmt.Errorf("table %02d has no home; start a store, which makes what there is not", table)
		}
		if homes[table] < 0 {
			return homes, nil, fmt.Errorf("table %02d is on a database that is not among those given; give all that have tables", table)
		}
	}
	for d, rows := range found.Rows {
		for _, r := range rows {
			switch {
			case r.State == shards.Incoming && r.Epoch == epochs[r.Table] && homes[r.Table] == d:
				if err := m.open(ctx, d, r); err != nil {
					return homes, nil, err
				}
			case (r.State == shards.Copying || r.State == shards.Stopped) && homes[r.Table] == d:
				if to := m.shards.Index(r.Peer); to >= 0 && to != d {
					begun = append(begun, Step{r.Table, d, to})
				}
			}
		}
	}
	for _, step := range begun {
		homes[step.Table] = step.To
	}
	return homes, begun, nil
}

// Done says whether all databases have the same number of tables, within one.
func (m *Mover) Done() bool { return m.done.Load() }

func (m *Mover) before(ctx context.Context, step string, table int) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := m.config.Before(step, table); err != nil {
		return &halted{err}
	}
	return nil
}
