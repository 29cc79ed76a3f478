package audit

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"relapse/topologies/services/store/history"
	"relapse/topologies/services/store/shards"
)

// gone tells what is not there from what could not be read.
func gone(err error) error {
	if errors.Is(err, pgx.ErrNoRows) || shards.IsUndefinedTable(err) {
		return errGone
	}
	return err
}

var (
	readWallets = shards.PerTable(`select player, balance, locked, granted, spent, version from wallet_NN order by player`)
	readItems   = shards.PerTable(`select player, item, op, price from inventory_NN order by player, item`)
	readEntries = shards.PerTable(`
		select op, player, kind, item, amount, state, extract(epoch from clock_timestamp() - began)::float8
		from ledger_NN order by player, began`)
)

// home reads a table of one database in one snapshot, together with what the database
// says of it. errGone stands for a table that is not its own.
func (a *Audit) home(ctx context.Context, database, table int) (h history.Home, err error) {
	ctx, cancel := context.WithTimeout(ctx, a.shards.Timeout())
	defer cancel()
	h.Database = a.shards.Name(database)
	snapshot := pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
	err = pgx.BeginTxFunc(ctx, a.shards.Pool(database), snapshot, func(tx pgx.Tx) error {
		state := ""
		if err := tx.QueryRow(ctx, readState, table).Scan(&h.Epoch, &state); err != nil {
			return err
		}
		h.Old = state == shards.Moved
		if !h.Old && !shards.Serving(state) {
			return errGone
		}
		if h.Wallets, err = all[history.Wallet](ctx, tx, readWallets[table]); err != nil {
			return err
		}
		if h.Items, err = all[history.Item](ctx, tx, readItems[table]); err != nil {
			return err
		}
		h.Entries, err = all[history.Entry](ctx, tx, readEntries[table])
		return err
	})
	if err != nil {
		return h, fmt.Errorf("table %02d of %s: %w", table, h.Database, gone(err))
	}
	return h, nil
}

// all reads rows whose columns are the fields of a row, in their order.
func all[T any](ctx context.Context, tx pgx.Tx, statement string) ([]T, error) {
	rows, err := tx.Query(ctx, statement)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowToStructByPos[T])
}
