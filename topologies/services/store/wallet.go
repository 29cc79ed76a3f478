package store

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"relapse/topologies/services/platform/api"
	"relapse/topologies/services/store/history"
	"relapse/topologies/services/store/shards"
)

// Wallet is what a player has: GET /wallet?player=P.
type Wallet struct {
	Balance int64 `json:"balance"` // that can be spent
	Version int64 `json:"version"` // rises with every change; 0 before the first one
}

// wallet is the service that owns money and the ledger.
type wallet struct {
	config  Config
	shards  *shards.Shards
	items   items
	metrics *metrics
}

var readWallet = shards.PerTable(`
	select ` + shards.Served + `, w.player is not null, coalesce(w.balance, 0), coalesce(w.version, 0)
	from placement p left join wallet_NN w on w.player = $3 where p.tbl = $1`)

// read gives a player's wallet. A player who has none yet has what every wallet begins
// with.
func (w *wallet) read(ctx context.Context, p api.Player) (Wallet, error) {
	var (
		is      Wallet
		present bool
	)
	err := w.shards.Read(ctx, p, func(ctx context.Context, db *pgxpool.Pool, table int, epoch int64) (served, _ bool, err error) {
		err = db.QueryRow(ctx, readWallet[table], table, epoch, int64(p)).Scan(&served, &present, &is.Balance, &is.Version)
		return served, present, err
	})
	if err == nil && !present {
		is = Wallet{Balance: w.config.Initial}
	}
	return is, err
}

// money is a wallet's row, locked until the transaction ends.
type money struct{ balance, locked int64 }

// entry is an operation's row in the ledger.
type entry struct {
	kind    string
	item    string
	amount  int64
	state   string
	answer  *int64 // nil once the idempotency record has expired
	overdue bool   // its lease is over
}

// is says whether an entry is of this operation, and not of another one by the same id.
func (e *entry) is(kind, item string, amount int64) bool {
	// An item's price may change between two requests.
	return e.kind == kind && e.item == item && (kind == history.Purchase || e.amount == amount)
}

var (
	lockWallet = shards.PerTable(`select balance, locked from wallet_NN where player = $1 for update`)
	makeWallet = shards.PerTable(`insert into wallet_NN (player, balance) values ($1, $2) on conflict (player) do nothing`)
	findEntry  = shards.PerTable(`
		select kind, item, amount, state,
			case when answer_until > clock_timestamp() then answer end,
			coalesce(lease_until < clock_timestamp(), false)
		from ledger_NN where player = $1 and op = $2`)
)

// open locks a player's wallet, which it makes if there is none, and finds what the
// ledger has of an operation, nil if nothing. Under the lock no other operation of the
// player can enter the ledger.
func (w *wallet) open(ctx context.Context, tx pgx.Tx, table int, p api.Player, op string) (m money, e *entry, err error) {
	for {
		there, found := false, entry{}
		e = nil
		b := &pgx.Batch{}
		b.Queue(lockWallet[table], int64(p)).QueryRow(func(row pgx.Row) error {
			there, err = scanned(row, &m.balance, &m.locked)
			return err
		})
		b.Queue(findEntry[table], int64(p), op).QueryRow(func(row pgx.Row) error {
			known, err := scanned(row, &found.kind, &found.item, &found.amount, &found.state, &found.answer, &found.overdue)
			if known {
				e = &found
			}
			return err
		})
		if err := tx.SendBatch(ctx, b).Close(); err != nil {
			return money{}, nil, err
		}
		if there {
			return m, e, nil
		}
		if _, err := tx.Exec(ctx, makeWallet[table], int64(p), w.config.Initial); err != nil {
			return money{}, nil, err
		}
	}
}

// scanned reads a row that may not be there.
func scanned(row pgx.Row, into ...any) (bool, error) {
	err := row.Scan(into...)
	if errors.Is(err, pgx.ErrNoRows) {
		return false, nil
	}
	return err == nil, err
}

var (
	addMoney = shards.PerTable(`
		update wallet_NN set balance = balance + $2, granted = granted + $2, version = version + 1
		where player = $1 returning balance`)
	putGrant = shards.PerTable(`
		insert into ledger_NN (player, op, kind, item, amount, state, answer, answer_until)
		values ($1, $2, 'grant', '', $3, 'settled', $4, clock_timestamp() + make_interval(secs => $5::float8))`)
)

// grant gives a player money, once for each operation, and gives the balance.
func (w *wallet) grant(ctx context.Context, op string, p api.Player, amount int64) (balance int64, err error) {
	err = w.shards.Write(ctx, p, func(ctx context.Context, tx pgx.Tx, table int) error {
		m, e, err := w.open(ctx, tx, table, p, op)
		switch {
		case err != nil:
			return err
		case w.config.NoLedger:
		case e != nil && !e.is(history.Grant, "", amount):
			return fmt.Errorf("%w: %s", ErrOpReused, op)
		case e != nil:
			balance = e.answered(m)
			return nil
		}
		if err := tx.QueryRow(ctx, addMoney[table], int64(p), amount).Scan(&balance); err != nil {
			return err
		}
		if w.config.NoLedger {
			return nil
		}
		_, err = tx.Exec(ctx, putGrant[table], int64(p), op, amount, balance, w.config.Remember.Seconds())
		return err
	})
	return balance, err
}

// answered gives the balance that the caller of a finished operation is told: what he
// was told the first time, or if that is forgotten, the one of now.
func (e *entry) answered(m money) int64 {
	if e.answer != nil {
		return *e.answer
	}
	return m.balance
}
