package shards

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"relapse/topologies/services"
	"relapse/topologies/services/platform/api"
)

const (
	bootstrapAgain = 100 * time.Millisecond
	createWithin   = 30 * time.Second // hundreds of tables, on a machine that is busy
)

// Keys of advisory locks; any numbers, as the databases are nobody else's.
const (
	lockSchema    = 6400
	lockBootstrap = 6401
	// LockMover is the lock of whoever moves tables, on the first database.
	LockMover = 6402
)

// ErrScheme says that the databases cannot be used as configured.
var ErrScheme = errors.New("the databases were filled under another scheme; give that one, or empty databases")

// Seed is what new tables are filled with.
type Seed struct {
	Players int   // there are wallets of the players 0 to Players-1
	Balance int64 // of each
}

// Bootstrap waits for all databases and makes what they lack. Any number of processes
// may do it at once and again: a table that is anywhere already is not made again. It
// ends with nil, with the context, or with [ErrScheme].
func (s *Shards) Bootstrap(ctx context.Context, seed Seed) error {
	for said := ""; ; {
		err := s.bootstrap(ctx, seed)
		if err == nil || errors.Is(err, ErrScheme) {
			return err
		}
		if said != err.Error() {
			said = err.Error()
			s.config.Log.Info("databases are not ready", "reason", said)
		}
		if !services.Wait(ctx, bootstrapAgain) {
			return fmt.Errorf("bootstrap: %w: %w", ctx.Err(), err)
		}
	}
}

func (s *Shards) bootstrap(ctx context.Context, seed Seed) error {
	for d := range s.databases {
		if err := s.makeBase(ctx, d); err != nil {
			return fmt.Errorf("make the schema of %s: %w", s.Name(d), err)
		}
	}
	if lacks, err := s.look(ctx); err != nil || !lacks.any() {
		return err
	}
	release, err := s.Exclusive(ctx, 0, lockBootstrap)
	if err != nil {
		return err
	}
	defer release()
	// Somebody may have been faster.
	lacks, err := s.look(ctx)
	if err != nil || !lacks.any() {
		return err
	}
	if err := s.fill(ctx, lacks, seed); err != nil {
		return err
	}
	if lacks, err = s.look(ctx); err == nil && lacks.any() {
		return errors.New("tables that were just made are not there; are two of the databases one?")
	}
	return err
}

// makeBase makes what every database has.
func (s *Shards) makeBase(ctx context.Context, database int) error {
	ctx, cancel := context.WithTimeout(ctx, s.config.Timeout)
	defer cancel()
	return pgx.BeginFunc(ctx, s.databases[database].pool, func(tx pgx.Tx) error {
		// Two at once would both find a table missing.
		if _, err := tx.Exec(ctx, `select pg_advisory_xact_lock($1)`, lockSchema); err != nil {
			return err
		}
		made := false
		if err := tx.QueryRow(ctx, `select to_regclass('modulus') is not null`).Scan(&made); err != nil || made {
			return err
		}
		_, err := tx.Exec(ctx, base)
		return err
	})
}

// lacking is what databases lack.
type lacking struct {
	tables    []int // that have no home
	databases []int // that have no modulus
	modulus   Modulus
}

func (l lacking) any() bool { return len(l.tables)+len(l.databases) > 0 }

// look asks all databases, each of which must answer: a table that one of them has
// must not be made on another.
func (s *Shards) look(ctx context.Context) (lacks lacking, err error) {
	found := s.Survey(ctx)
	if err := found.Missing(); err != nil {
		return lacks, err
	}
	rows := 0
	for _, r := range found.Rows {
		rows += len(r)
	}
	lacks.modulus = found.Newest()
	if (s.config.Scheme == ByTable) != (lacks.modulus.Epoch == 0) && rows > 0 {
		return lacks, fmt.Errorf("shards: scheme %s: %w", s.config.Scheme, ErrScheme)
	}
	if err := s.adopt(ctx, s.view.Load(), found); err != nil {
		return lacks, err
	}
	if s.config.Scheme == ByTable {
		for table, h := range s.view.Load().tables {
			if h.database == nowhere {
				lacks.tables = append(lacks.tables, table)
			}
		}
		return lacks, nil
	}
	for d, m := range found.Moduli {
		if m.Epoch == 0 {
			lacks.databases = append(lacks.databases, d)
		}
	}
	if lacks.modulus.Epoch == 0 {
		lacks.modulus = Modulus{Epoch: 1, Was: s.config.Spread, N: s.config.Spread}
	}
	return lacks, nil
}

func (s *Shards) fill(ctx context.Context, lacks lacking, seed Seed) error {
	if s.config.Scheme == ByTable {
		on := make([][]int, len(s.databases))
		for _, table := range lacks.tables {
			// 64 tables over 2 databases are 0 to 31 and 32 to 63.
			d := table * s.config.Spread / api.Tables
			on[d] = append(on[d], table)
		}
		for d, tables := range on {
			if len(tables) == 0 {
				continue
			}
			players := seed.players(func(api.Player) bool { return true })
			if err := s.makeTables(ctx, d, tables, Modulus{Epoch: 1}, players, seed.Balance); err != nil {
				return err
			}
		}
		return nil
	}
	m := lacks.modulus
	for _, d := range lacks.databases {
		var tables []int
		if d < max(m.Was, m.N) {
			tables = everyTable()
		}
		players := seed.players(func(p api.Player) bool { return int64(p)%int64(m.N) == int64(d) })
		if err := s.makeTables(ctx, d, tables, m, players, seed.Balance); err != nil {
			return err
		}
	}
	return nil
}

func everyTable() (all []int) {
	for table := range api.Tables {
		all = append(all, table)
	}
	return all
}

// players gives the players to be seeded by their tables.
func (s Seed) players(of func(api.Player) bool) (tables [api.Tables][]int64) {
	for n := range s.Players {
		if p := api.Player(n); of(p) {
			tables[p.Table()] = append(tables[p.Table()], int64(p))
		}
	}
	return tables
}

var seedWallets = PerTable(`insert into wallet_NN (player, balance) select p, $2::bigint from unnest($1::bigint[]) as p on conflict do nothing`)

// makeTables makes tables of a database and says that they are there, all of it or
// nothing. A modulus is written down only with hash-mod-n.
func (s *Shards) makeTables(ctx context.Context, database int, tables []int, m Modulus, players [api.Tables][]int64, balance int64) error {
	ctx, cancel := context.WithTimeout(ctx, createWithin)
	defer cancel()
	err := pgx.BeginFunc(ctx, s.databases[database].pool, func(tx pgx.Tx) error {
		if err := PlaceTables(ctx, tx, tables, m.Epoch); err != nil {
			return err
		}
		for _, table := range tables {
			if len(players[table]) == 0 {
				continue
			}
			if _, err := tx.Exec(ctx, seedWallets[table], players[table], balance); err != nil {
				return err
			}
		}
		if s.config.Scheme == ByTable {
			return nil
		}
		return PutModulus(ctx, tx, m)
	})
	if err != nil {
		return fmt.Errorf("make %d tables of %s: %w", len(tables), s.Name(database), err)
	}
	return nil
}

// PlaceTables makes tables that are open from the start.
func PlaceTables(ctx context.Context, tx pgx.Tx, tables []int, epoch int64) error {
	if len(tables) == 0 {
		return nil
	}
	if err := CreateTables(ctx, tx, tables...); err != nil {
		return err
	}
	numbers := make([]int64, len(tables))
	for i, table := range tables {
		numbers[i] = int64(table)
	}
	_, err := tx.Exec(ctx, `insert into placement (tbl, epoch, state)
		select t, $2::bigint, 'open' from unnest($1::bigint[]) as t on conflict do nothing`, numbers, epoch)
	return err
}

// PutModulus has a database know a modulus, unless it knows a newer one.
func PutModulus(ctx context.Context, tx pgx.Tx, m Modulus) error {
	_, err := tx.Exec(ctx, `insert into modulus (epoch, was, n) values ($1, $2, $3)
		on conflict (single) do update set epoch = excluded.epoch, was = excluded.was, n = excluded.n
		where modulus.epoch < excluded.epoch`, m.Epoch, m.Was, m.N)
	return err
}
