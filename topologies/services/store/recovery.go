package store

import (
	"context"
	"errors"
	"strings"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"relapse/topologies/services/platform/api"
	"relapse/topologies/services/store/shards"
)

// recoverAtOnce is how many purchases a recovery worker finishes at once: few, so that
// it leaves connections to players.
const recoverAtOnce = 4

// Outcomes of a recovery.
const (
	recoveredSettled  = "settled"
	recoveredReleased = "released"
	recoveredFailed   = "failed" // it will be tried again
)

// left is a purchase that is unfinished.
type left struct {
	purchase
	age float64 // seconds
	due bool    // the lease on it is over
}

// recovery is one round: it finishes all purchases whose lease is over. Several workers
// may do it at once. Only one of them gets the lease, and if that one sleeps past it,
// the next one finishes the same purchase to the same end.
func (w *wallet) recovery(ctx context.Context) {
	var group errgroup.Group
	group.SetLimit(recoverAtOnce)
	for database, tables := range w.shards.Homes() {
		for _, l := range w.scan(ctx, database, tables) {
			if !l.due {
				continue
			}
			group.Go(func() error {
				w.recoverOne(ctx, l.purchase)
				return nil
			})
		}
	}
	_ = group.Wait() // nobody fails: what was not finished is due again later
}

var unfinished = shards.PerTable(`(
	select op, player, item, amount, extract(epoch from clock_timestamp() - began)::float8, lease_until < clock_timestamp()
	from ledger_NN where state = 'locked' order by lease_until limit 64)`)

// scan finds the unfinished purchases of a database, and shows how many there are. A
// database that does not answer is left out, and shows what it did last.
func (w *wallet) scan(ctx context.Context, database int, tables []int) []left {
	ctx, cancel := context.WithTimeout(ctx, w.shards.Timeout())
	defer cancel()
	if len(tables) == 0 {
		w.metrics.unfinished(w.shards.Name(database), nil)
		return nil
	}
	parts := make([]string, len(tables))
	for i, table := range tables {
		parts[i] = unfinished[table]
	}
	// It is the one statement that costs more to plan than to carry out, so that its
	// plan is kept.
	rows, err := w.shards.Pool(database).Query(ctx, strings.Join(parts, " union all "), pgx.QueryExecModeCacheStatement)
	if err == nil {
		var all []left
		all, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (l left, err error) {
			var player int64
			err = row.Scan(&l.op, &player, &l.item, &l.price, &l.age, &l.due)
			l.player = api.Player(player)
			return l, err
		})
		if err == nil {
			w.metrics.unfinished(w.shards.Name(database), all)
			return all
		}
	}
	if shards.IsUndefinedTable(err) {
		// A table has moved since, and the next round looks where it is.
		err = w.shards.Refresh(ctx)
	}
	if err != nil {
		w.config.Log.Debug("unfinished purchases were not looked for", "database", w.shards.Name(database), "reason", err)
	}
	return nil
}

var claimEntry = shards.PerTable(`
	update ledger_NN set lease_until = clock_timestamp() + make_interval(secs => $3::float8)
	where player = $1 and op = (
		select op from ledger_NN where player = $1 and op = $2 and state = 'locked' and lease_until < clock_timestamp()
		for update skip locked)`)

// recoverOne finishes a purchase, if nobody else has its lease.
func (w *wallet) recoverOne(ctx context.Context, p purchase) {
	ctx, cancel := context.WithTimeout(ctx, w.config.Lease)
	defer cancel()
	claimed := false
	err := w.shards.Write(ctx, p.player, func(ctx context.Context, tx pgx.Tx, table int) error {
		tag, err := tx.Exec(ctx, claimEntry[table], int64(p.player), p.op, w.config.Lease.Seconds())
		claimed = err == nil && tag.RowsAffected() == 1
		return err
	})
	if err == nil && !claimed {
		return
	}
	if err == nil {
		_, err = w.finish(ctx, p)
	}
	switch {
	case err == nil:
		w.metrics.recovered[recoveredSettled].Inc()
	case errors.Is(err, ErrOwned):
		w.metrics.recovered[recoveredReleased].Inc()
	default:
		w.metrics.recovered[recoveredFailed].Inc()
		w.config.Log.Info("a purchase is still unfinished", "op", p.op, "reason", err)
	}
}
