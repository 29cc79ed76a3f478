package shards

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"relapse/topologies/services"
	"relapse/topologies/services/platform/api"
)

// againAfter is when a database that refused is asked again: a stop lasts some
// milliseconds. Where it is not known where to go instead, the wait doubles each time,
// up to mostDoubled times.
const (
	againAfter  = 2 * time.Millisecond
	mostDoubled = 4
)

// WriteFunc writes rows of a player's table in a transaction. It may be called again,
// in another transaction, if an earlier one was refused; nothing of that one is left.
type WriteFunc func(ctx context.Context, tx pgx.Tx, table int) error

// Write has a transaction write the rows of a player, at their home. An error of do
// undoes the transaction and is given as it is. [ErrUnavailable] says that do was
// never called to an end; any other error may come from the commit, so that nobody
// knows whether the transaction was carried out.
func (s *Shards) Write(ctx context.Context, p api.Player, do WriteFunc) error {
	return s.until(ctx, "write", p, func(ctx context.Context, h home, last bool) (began bool, err error) {
		return s.writeAt(ctx, h, p, !last, do)
	})
}

func (s *Shards) writeAt(ctx context.Context, h home, p api.Player, mayBeElsewhere bool, do WriteFunc) (began bool, err error) {
	table := p.Table()
	err = pgx.BeginFunc(ctx, s.databases[h.database].pool, func(tx pgx.Tx) error {
		state, err := s.fence(ctx, tx, table, h)
		if err != nil {
			return err
		}
		if mayBeElsewhere {
			switch here, err := holds(ctx, tx, table, p); {
			case err != nil:
				return err
			case !here:
				return errElsewhere
			}
		}
		began = true
		s.metrics.operation(table, h.database)
		err = do(ctx, tx, table)
		switch {
		case s.config.Unfenced && IsUndefinedTable(err):
			began = false
			return s.refusal(byEpoch, table, h)
		case err != nil || state != Copying:
			return err
		}
		_, err = tx.Exec(ctx, `insert into changes (tbl, player) values ($1, $2)`, table, int64(p))
		return err
	})
	return began, err
}

// ReadFunc reads rows of a player's table by one statement, which has to join the row
// of placement that it belongs to: served says whether [Served] holds there for the
// epoch, present whether the player has a wallet.
type ReadFunc func(ctx context.Context, db *pgxpool.Pool, table int, epoch int64) (served, present bool, err error)

// Served is the condition that a table may be read under: $1 is the table, $2 the
// epoch, and p the row of placement where p.tbl = $1. A table whose writes are stopped
// can be read.
const Served = `(p.epoch = $2 and p.state in ('open', 'copying', 'stopped'))`

// Read reads rows of a player at their home.
func (s *Shards) Read(ctx context.Context, p api.Player, read ReadFunc) error {
	table := p.Table()
	return s.until(ctx, "read", p, func(ctx context.Context, h home, last bool) (began bool, err error) {
		served, present, err := read(ctx, s.databases[h.database].pool, table, h.epoch)
		switch {
		case errors.Is(err, pgx.ErrNoRows), IsUndefinedTable(err), err == nil && !served:
			return false, s.refusal(byEpoch, table, h)
		case err != nil:
			return false, err
		case !present && !last:
			return false, errElsewhere
		}
		s.metrics.operation(table, h.database)
		return true, nil
	})
}

// attempt tries something at one home. Began says whether anything was done that the
// caller has to answer for.
type attempt func(ctx context.Context, h home, last bool) (began bool, err error)

// until tries something at the player's homes until one lets it, or the time is over.
func (s *Shards) until(ctx context.Context, op string, p api.Player, try attempt) error {
	ctx, cancel := context.WithTimeout(ctx, s.config.Timeout)
	defer cancel()
	failures, lost := 0, 0
	for {
		seen := s.view.Load()
		began, err := s.once(ctx, seen, p, try)
		var refused *refusal
		switch {
		case err == nil, began:
			return err
		case errors.As(err, &refused):
			s.metrics.refused[refusedBy{op, refused.why}].Inc()
			s.follow(ctx, seen, refused)
			wait := againAfter
			if refused.why == byEpoch {
				wait <<= min(lost, mostDoubled)
				lost++
			}
			if !services.Wait(ctx, wait) {
				return fmt.Errorf("%w: %w", ErrUnavailable, err)
			}
		default:
			// The connections to a database that was restarted are dead, and each is
			// found out when it is used; one more attempt gets a new one.
			failures++
			if failures > 1 || ctx.Err() != nil {
				return fmt.Errorf("%w: %w", ErrUnavailable, err)
			}
		}
	}
}

func (s *Shards) once(ctx context.Context, seen *view, p api.Player, try attempt) (began bool, err error) {
	homes := s.homes(seen, p)
	for i, h := range homes {
		if h.database == nowhere {
			return false, s.refusal(byEpoch, p.Table(), h)
		}
		began, err = try(ctx, h, i == len(homes)-1)
		if !errors.Is(err, errElsewhere) {
			break
		}
	}
	return began, err
}

// follow does what a refusal asks for. If it cannot be done, the next attempt is
// refused as well.
func (s *Shards) follow(ctx context.Context, seen *view, r *refusal) {
	var err error
	switch r.why {
	case byEpoch:
		err = s.reload(ctx, seen)
	case byEnd:
		err = s.reopen(ctx, r)
	}
	if err != nil {
		s.config.Log.Debug("a refusal could not be followed", "refused", r, "reason", err)
	}
}
