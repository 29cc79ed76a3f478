package mover

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"relapse/topologies/services/platform/api"
	"relapse/topologies/services/store/shards"
)

// rehash has every row on the database that the number of databases gives it, one
// player after the other.
func (m *Mover) rehash(ctx context.Context, found shards.Survey) error {
	is, n := found.Newest(), m.shards.Len()
	if n < max(is.Was, is.N) {
		return fmt.Errorf("rows are on %d databases, and %d are given: give all that have rows", max(is.Was, is.N), n)
	}
	for d, told := range found.Moduli {
		if told.Epoch == 0 {
			return fmt.Errorf("%s knows of no modulus; start a store with the same databases, which tells it", m.shards.Name(d))
		}
	}
	if is.Was == is.N && is.N != n {
		is = shards.Modulus{Epoch: is.Epoch + 1, Was: is.N, N: n}
	}
	// Who comes after a crash finds it told to some of them.
	if err := m.announce(ctx, found, is); err != nil {
		return err
	}
	if is.Was == is.N {
		return nil
	}
	for from := range is.Was {
		for table := range api.Tables {
			if err := m.rehashTable(ctx, from, table, is.N); err != nil {
				return fmt.Errorf("hash table %02d of %s anew: %w", table, m.shards.Name(from), err)
			}
		}
	}
	if found = m.shards.Survey(ctx); found.Missing() != nil {
		return found.Missing()
	}
	if err := m.announce(ctx, found, shards.Modulus{Epoch: is.Epoch + 1, Was: is.N, N: is.N}); err != nil || is.N == n {
		return err
	}
	// That was for fewer databases than there are by now.
	if found = m.shards.Survey(ctx); found.Missing() != nil {
		return found.Missing()
	}
	return m.rehash(ctx, found)
}

// announce tells every database where rows are from now on. Each waits for the writes
// under way, and refuses whoever has not heard of it.
func (m *Mover) announce(ctx context.Context, found shards.Survey, is shards.Modulus) error {
	fail := func(d int, err error) error {
		return fmt.Errorf("tell %s of %d databases instead of %d: %w", m.shards.Name(d), is.N, is.Was, err)
	}
	// Tables come first, where there are none. They take their time, and from the first
	// database that is told on, the others are of no use until they are. To make a table
	// that is there would be to wait for whoever writes it, who may wait for its
	// placement.
	for d := range is.N {
		if len(found.Rows[d]) > 0 {
			continue
		}
		var tables []int
		for table := range api.Tables {
			tables = append(tables, table)
		}
		err := pgx.BeginFunc(ctx, m.shards.Pool(d), func(tx pgx.Tx) error { return shards.PlaceTables(ctx, tx, tables, is.Epoch) })
		if err != nil {
			return fail(d, err)
		}
	}
	for d := range m.shards.Len() {
		err := pgx.BeginFunc(ctx, m.shards.Pool(d), func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, `update placement set epoch = $1 where epoch < $1`, is.Epoch); err != nil {
				return err
			}
			return shards.PutModulus(ctx, tx, is)
		})
		if err != nil {
			return fail(d, err)
		}
	}
	return nil
}

func (m *Mover) rehashTable(ctx context.Context, from, table, n int) error {
	rows, err := m.shards.Pool(from).Query(ctx, "select player from "+shards.Wallet.Table(table)+" order by player")
	if err != nil {
		return err
	}
	players, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	if err != nil {
		return err
	}
	for _, player := range players {
		to := int(player % int64(n))
		if to == from {
			continue
		}
		if err := m.before(ctx, Rehash, table); err != nil {
			return err
		}
		if err := m.rehashPlayer(ctx, player, table, from, to); err != nil {
			return fmt.Errorf("player %d: %w", player, err)
		}
	}
	return nil
}

// rehashPlayer moves one player. Whoever wants to write the player meanwhile waits for
// the lock on the old wallet, and finds none there afterwards. What a crash leaves on
// both databases counts on the old one, and is copied again.
func (m *Mover) rehashPlayer(ctx context.Context, player int64, table, from, to int) error {
	one := []int64{player}
	return pgx.BeginFunc(ctx, m.shards.Pool(from), func(source pgx.Tx) error {
		here := false
		err := source.QueryRow(ctx, "select true from "+shards.Wallet.Table(table)+" where player = $1 for update", player).Scan(&here)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		if err != nil {
			return err
		}
		err = pgx.BeginFunc(ctx, m.shards.Pool(to), func(target pgx.Tx) error {
			if err := deleteRows(ctx, target, table, one); err != nil {
				return err
			}
			copied, err := copyRows(ctx, source, target, table, " where player = any($1::bigint[])", []any{one})
			m.metrics.rehashed.Add(float64(copied))
			return err
		})
		if err != nil {
			return err
		}
		return deleteRows(ctx, source, table, one)
	})
}
