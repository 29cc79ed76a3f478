package store

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"relapse/topologies/services"
	"relapse/topologies/services/platform/api"
	"relapse/topologies/services/store/history"
	"relapse/topologies/services/store/shards"
)

// purchase is one item that one player buys.
type purchase struct {
	op     string
	player api.Player
	item   string
	price  int64
}

// Outcomes of a purchase that came out well, as metrics have them. Those that did not
// are named by their errors.
const (
	bought       = "ok"
	replayed     = "replayed"      // it had been finished, and the answer was remembered
	replayedLate = "replayed_late" // it had been finished, and the answer was forgotten
)

// buy carries a purchase out, once for each operation, and gives the balance. It may end
// with the purchase unfinished, and an error that is none of the store's: recovery
// finishes it then.
func (w *wallet) buy(ctx context.Context, p purchase) (balance int64, outcome string, err error) {
	if w.config.NoLedger {
		balance, err = w.buyNaively(ctx, p)
		return balance, bought, err
	}
	// A caller who leaves is not followed: the money is locked, and what is begun had
	// better be finished. Past the lease somebody else may.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), w.config.Lease)
	defer cancel()
	held, e, m, err := w.lock(ctx, p)
	switch {
	case err != nil:
		return 0, "", err
	case held:
		balance, err = w.finish(ctx, p)
		return balance, bought, err
	case e.state == history.Released:
		return 0, "", ErrOwned
	case e.answer == nil:
		return e.answered(m), replayedLate, nil
	}
	return e.answered(m), replayed, nil
}

var (
	takeLease = shards.PerTable(`
		update ledger_NN set lease_until = clock_timestamp() + make_interval(secs => $3::float8) where player = $1 and op = $2`)
	lockMoney = shards.PerTable(`
		update wallet_NN set balance = balance - $2, locked = locked + $2, version = version + 1 where player = $1`)
	putPurchase = shards.PerTable(`
		insert into ledger_NN (player, op, kind, item, amount, state, lease_until)
		values ($1, $2, 'purchase', $3, $4, 'locked', clock_timestamp() + make_interval(secs => $5::float8))`)
)

// lock locks the money for a purchase. If it is held, the caller has the lease on it;
// otherwise the purchase was finished earlier, as the entry says.
func (w *wallet) lock(ctx context.Context, p purchase) (held bool, e *entry, m money, err error) {
	err = w.shards.Write(ctx, p.player, func(ctx context.Context, tx pgx.Tx, table int) (err error) {
		held = false
		m, e, err = w.open(ctx, tx, table, p.player, p.op)
		switch {
		case err != nil:
			return err
		case e != nil && !e.is(history.Purchase, p.item, p.price):
			return fmt.Errorf("%w: %s", ErrOpReused, p.op)
		case e != nil && e.state != history.Locked:
			return nil
		case e != nil && !e.overdue:
			return ErrLocked
		case e != nil:
			held = true
			_, err = tx.Exec(ctx, takeLease[table], int64(p.player), p.op, w.config.Lease.Seconds())
			return err
		case m.locked > 0:
			return ErrLocked
		case m.balance < p.price:
			return ErrNotEnough
		}
		held = true
		b := &pgx.Batch{}
		b.Queue(lockMoney[table], int64(p.player), p.price)
		b.Queue(putPurchase[table], int64(p.player), p.op, p.item, p.price, w.config.Lease.Seconds())
		return tx.SendBatch(ctx, b).Close()
	})
	return held, e, m, err
}

// finish grants the item of a purchase whose money is locked, and settles or releases
// the money.
func (w *wallet) finish(ctx context.Context, p purchase) (balance int64, err error) {
	if w.config.BeforeGrant > 0 && !services.Wait(ctx, w.config.BeforeGrant) {
		return 0, fmt.Errorf("purchase %s is unfinished: %w", p.op, ctx.Err())
	}
	to := history.Settled
	switch _, err := w.items.grant(ctx, grant{p.op, p.player, p.item, p.price}); {
	case errors.Is(err, ErrOwned):
		to = history.Released
	case err != nil:
		return 0, fmt.Errorf("purchase %s is unfinished: %w", p.op, err)
	}
	balance, became, err := w.end(ctx, p, to)
	switch {
	case err != nil:
		return 0, fmt.Errorf("purchase %s is unfinished: %w", p.op, err)
	case became == history.Released:
		return 0, ErrOwned
	}
	return balance, nil
}

var (
	endEntry = shards.PerTable(`
		update ledger_NN set state = $3, answer = (select balance from wallet_NN where player = $1),
			answer_until = clock_timestamp() + make_interval(secs => $4::float8)
		where player = $1 and op = $2 and state = 'locked' returning amount`)
	stateOf = shards.PerTable(`select state from ledger_NN where player = $1 and op = $2`)
	settle  = shards.PerTable(`
		update wallet_NN set locked = locked - $2, spent = spent + $2, version = version + 1 where player = $1`)
	release = shards.PerTable(`
		update wallet_NN set locked = locked - $2, balance = balance + $2, version = version + 1
		where player = $1 returning balance`)
)

// end takes an entry out of the state locked, with its money, unless somebody else has.
// It gives the state that the entry has then.
func (w *wallet) end(ctx context.Context, p purchase, to string) (balance int64, became string, err error) {
	err = w.shards.Write(ctx, p.player, func(ctx context.Context, tx pgx.Tx, table int) error {
		var (
			m      money
			amount int64
			ended  bool
		)
		// The wallet is locked before the entry, by everybody: in another order two
		// could wait for each other.
		b := &pgx.Batch{}
		b.Queue(lockWallet[table], int64(p.player)).QueryRow(func(row pgx.Row) error {
			return row.Scan(&m.balance, &m.locked)
		})
		b.Queue(endEntry[table], int64(p.player), p.op, to, w.config.Remember.Seconds()).QueryRow(func(row pgx.Row) (err error) {
			ended, err = scanned(row, &amount)
			return err
		})
		if err := tx.SendBatch(ctx, b).Close(); err != nil {
			return err
		}
		balance, became = m.balance, to
		switch {
		case !ended:
			return tx.QueryRow(ctx, stateOf[table], int64(p.player), p.op).Scan(&became)
		case to == history.Settled:
			_, err := tx.Exec(ctx, settle[table], int64(p.player), amount)
			return err
		}
		return tx.QueryRow(ctx, release[table], int64(p.player), amount).Scan(&balance)
	})
	return balance, became, err
}

var takeMoney = shards.PerTable(`
	update wallet_NN set balance = balance - $2, spent = spent + $2, version = version + 1 where player = $1`)

// buyNaively takes the money and then gives the item, with nothing that says so in
// between: a crash there, or a caller who leaves, loses the item, and a caller who
// comes again is charged again.
func (w *wallet) buyNaively(ctx context.Context, p purchase) (balance int64, err error) {
	owns, err := w.items.owns(ctx, p.player, p.item)
	switch {
	case err != nil:
		return 0, err
	case owns:
		return 0, ErrOwned
	}
	err = w.shards.Write(ctx, p.player, func(ctx context.Context, tx pgx.Tx, table int) error {
		m, _, err := w.open(ctx, tx, table, p.player, p.op)
		switch {
		case err != nil:
			return err
		case m.balance < p.price:
			return ErrNotEnough
		}
		balance = m.balance - p.price
		_, err = tx.Exec(ctx, takeMoney[table], int64(p.player), p.price)
		return err
	})
	if err != nil {
		return 0, err
	}
	if w.config.BeforeGrant > 0 && !services.Wait(ctx, w.config.BeforeGrant) {
		return 0, ctx.Err()
	}
	_, err = w.items.grant(ctx, grant{p.op, p.player, p.item, p.price})
	return balance, err
}
