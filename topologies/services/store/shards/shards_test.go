package shards_test

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"relapse/topologies/services/platform/api"
	"relapse/topologies/services/store/pgtest"
	"relapse/topologies/services/store/shards"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

// open gives databases that nobody has made tables in.
func open(t *testing.T, c shards.Config, registry *prometheus.Registry) *shards.Shards {
	t.Helper()
	s, err := shards.Open(c, registry)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// ready gives databases with their tables, and the registry of who uses them.
func ready(t *testing.T, c shards.Config) (*shards.Shards, *prometheus.Registry) {
	t.Helper()
	registry := prometheus.NewRegistry()
	s := open(t, c, registry)
	if err := s.Bootstrap(t.Context(), shards.Seed{Players: 200, Balance: 1000}); err != nil {
		t.Fatal(err)
	}
	return s, registry
}

// someone gives players whose tables differ and are on the first of two databases.
func someone(t *testing.T, n int) (all []api.Player) {
	t.Helper()
	taken := map[int]bool{}
	for p := range api.Player(200) {
		if table := p.Table(); table < api.Tables/2 && !taken[table] && len(all) < n {
			taken[table] = true
			all = append(all, p)
		}
	}
	if len(all) < n {
		t.Fatalf("have %d players in the first half of the tables, want %d", len(all), n)
	}
	return all
}

// write adds one to a player's balance.
func write(t *testing.T, s *shards.Shards, p api.Player) error {
	t.Helper()
	return s.Write(t.Context(), p, func(ctx context.Context, tx pgx.Tx, table int) error {
		tag, err := tx.Exec(ctx, "update "+shards.Wallet.Table(table)+" set balance = balance + 1, version = version + 1 where player = $1", int64(p))
		if err == nil && tag.RowsAffected() != 1 {
			return errors.New("the player is not there")
		}
		return err
	})
}

var readBalance = shards.PerTable(`select ` + shards.Served + `, w.player is not null, coalesce(w.balance, 0)
	from placement p left join wallet_NN w on w.player = $3 where p.tbl = $1`)

func readBack(t *testing.T, s *shards.Shards, p api.Player) (balance int64, err error) {
	t.Helper()
	err = s.Read(t.Context(), p, func(ctx context.Context, db *pgxpool.Pool, table int, epoch int64) (served, present bool, err error) {
		err = db.QueryRow(ctx, readBalance[table], table, epoch, int64(p)).Scan(&served, &present, &balance)
		return served, present, err
	})
	return balance, err
}

// on changes something on a database, past the fence.
func on(t *testing.T, s *shards.Shards, database int, statement string, args ...any) {
	t.Helper()
	if _, err := s.Pool(database).Exec(t.Context(), statement, args...); err != nil {
		t.Fatal(err)
	}
}

// at reads a number from a database.
func at(t *testing.T, s *shards.Shards, database int, statement string, args ...any) (n int64) {
	t.Helper()
	if err := s.Pool(database).QueryRow(t.Context(), statement, args...).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// moveAway has a table move to the second database as a mover would, up to the state at
// the target.
func moveAway(t *testing.T, s *shards.Shards, table int, state string) {
	t.Helper()
	err := pgx.BeginFunc(t.Context(), s.Pool(1), func(tx pgx.Tx) error {
		if err := shards.CreateTables(t.Context(), tx, table); err != nil {
			return err
		}
		_, err := tx.Exec(t.Context(), `insert into placement (tbl, epoch, state, move, peer) values ($1, 2, $2, 1, $3)`, table, state, s.Name(0))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	var wallets [][]any
	rows, err := s.Pool(0).Query(t.Context(), "select player, balance, version from "+shards.Wallet.Table(table))
	if err != nil {
		t.Fatal(err)
	}
	for rows.Next() {
		wallet, err := rows.Values()
		if err != nil {
			t.Fatal(err)
		}
		wallets = append(wallets, wallet)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Pool(1).CopyFrom(t.Context(), pgx.Identifier{shards.Wallet.Table(table)}, []string{"player", "balance", "version"}, pgx.CopyFromRows(wallets)); err != nil {
		t.Fatal(err)
	}
	on(t, s, 0, `update placement set epoch = 2, state = 'moved', move = 1, peer = $2 where tbl = $1`, table, s.Name(1))
}

func refusals(t *testing.T, registry *prometheus.Registry, op, reason string) float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() != "relapse_refused_total" {
			continue
		}
		for _, m := range family.GetMetric() {
			if l := m.GetLabel(); l[0].GetValue() == op && l[1].GetValue() == reason {
				return m.GetCounter().GetValue()
			}
		}
	}
	t.Fatalf("no refusals of a %s by %s", op, reason)
	return 0
}

func TestWhoKnowsTheOldHomeIsRefusedAndGoesToTheNewOne(t *testing.T) {
	s, registry := ready(t, shards.Config{Databases: pgtest.Databases(t, 2), Timeout: 3 * time.Second})
	players := someone(t, 3)
	for i, c := range []struct {
		name  string
		state string // of the table at the target
	}{
		{"the move is done", shards.Opened},
		{"nobody has opened the target", shards.Incoming},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := players[i]
			if err := write(t, s, p); err != nil {
				t.Fatal(err)
			}
			moveAway(t, s, p.Table(), c.state)
			if have, err := readBack(t, s, p); err != nil || have != 1001 {
				t.Errorf("read: have %d, %v; want 1001", have, err)
			}
			if err := write(t, s, p); err != nil {
				t.Fatal(err)
			}
			balance := "select balance from " + shards.Wallet.Table(p.Table()) + " where player = $1"
			if old, is := at(t, s, 0, balance, int64(p)), at(t, s, 1, balance, int64(p)); old != 1001 || is != 1002 {
				t.Errorf("have %d at the old home and %d at the new one, want 1001 and 1002", old, is)
			}
			if have := refusals(t, registry, "read", "epoch"); have < float64(i+1) {
				t.Errorf("have %v reads refused, want %d at least", have, i+1)
			}
			if have := at(t, s, 1, `select count(*) from placement where tbl = $1 and state = 'open'`, p.Table()); have != 1 {
				t.Error("the target does not take writes")
			}
		})
	}
	t.Run("a write, and what was left behind is dropped", func(t *testing.T) {
		p := players[2]
		moveAway(t, s, p.Table(), shards.Opened)
		on(t, s, 0, "drop table "+shards.Wallet.Table(p.Table()))
		if err := write(t, s, p); err != nil {
			t.Fatal(err)
		}
		if have := refusals(t, registry, "write", "epoch"); have != 1 {
			t.Errorf("have %v writes refused, want 1", have)
		}
	})
}

// TestWrites has tests share databases, each with a player of its own.
func TestWrites(t *testing.T) {
	databases := pgtest.Databases(t, 2)
	s, registry := ready(t, shards.Config{Databases: databases, Timeout: 5 * time.Second})
	players := someone(t, 3)
	t.Run("a stop ends", func(t *testing.T) {
		p := players[0]
		on(t, s, 0, `update placement set state = 'stopped', until = clock_timestamp() + interval '200 milliseconds' where tbl = $1`, p.Table())
		if have, err := readBack(t, s, p); err != nil || have != 1000 {
			t.Errorf("read while writes are stopped: have %d, %v; want 1000", have, err)
		}
		if err := write(t, s, p); err != nil {
			t.Fatal(err)
		}
		if have := at(t, s, 0, `select count(*) from placement where tbl = $1 and state = 'copying'`, p.Table()); have != 1 {
			t.Error("the stop is not undone")
		}
		if have := at(t, s, 0, `select count(*) from changes where tbl = $1 and player = $2`, p.Table(), int64(p)); have != 1 {
			t.Errorf("have the player noted %d times, want once", have)
		}
		for _, reason := range []string{"stopped", "overdue"} {
			if have := refusals(t, registry, "write", reason); have < 1 {
				t.Errorf("%s: have %v writes refused, want one at least", reason, have)
			}
		}
	})
	t.Run("nobody takes it", func(t *testing.T) {
		p := players[1]
		on(t, s, 0, `update placement set state = 'stopped', until = clock_timestamp() + interval '1 hour' where tbl = $1`, p.Table())
		impatient := open(t, shards.Config{Databases: databases, Timeout: 300 * time.Millisecond}, nil)
		if err := write(t, impatient, p); !errors.Is(err, shards.ErrUnavailable) {
			t.Errorf("have %v, want ErrUnavailable", err)
		}
		if have, err := readBack(t, s, p); err != nil || have != 1000 {
			t.Errorf("have %d, %v; want 1000", have, err)
		}
	})
	t.Run("an error undoes it", func(t *testing.T) {
		p, mine := players[2], errors.New("mine")
		err := s.Write(t.Context(), p, func(ctx context.Context, tx pgx.Tx, table int) error {
			if _, err := tx.Exec(ctx, "delete from "+shards.Wallet.Table(table)); err != nil {
				return err
			}
			return mine
		})
		if !errors.Is(err, mine) || errors.Is(err, shards.ErrUnavailable) {
			t.Errorf("have %v, want mine", err)
		}
		if have, err := readBack(t, s, p); err != nil || have != 1000 {
			t.Errorf("have %d, %v; want 1000", have, err)
		}
	})
}

func TestOneHoldsALockAtATime(t *testing.T) {
	databases := pgtest.Databases(t, 1)
	a, b := open(t, shards.Config{Databases: databases}, nil), open(t, shards.Config{Databases: databases}, nil)
	release, err := a.Exclusive(t.Context(), 0, 1)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Exclusive(t.Context(), 0, 1); !errors.Is(err, shards.ErrHeld) {
		t.Errorf("have %v, want ErrHeld", err)
	}
	if other, err := b.Exclusive(t.Context(), 0, 2); err != nil {
		t.Errorf("another lock: %v", err)
	} else {
		other()
	}
	release()
	deadline := time.Now().Add(5 * time.Second)
	for {
		again, err := b.Exclusive(t.Context(), 0, 1)
		if err == nil {
			again()
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("not within 5 s of its release: %v", err)
		}
	}
}

func TestADatabaseThatWasRestarted(t *testing.T) {
	servers := pgtest.Servers(t, 2)
	s, _ := ready(t, shards.Config{Databases: []string{servers[0].Address, servers[1].Address}})
	p := someone(t, 1)[0]
	if err := write(t, s, p); err != nil {
		t.Fatal(err)
	}
	servers[0].Kill()
	if err := write(t, s, p); !errors.Is(err, shards.ErrUnavailable) {
		t.Errorf("while it is down: have %v, want ErrUnavailable", err)
	}
	if err := servers[0].Start(); err != nil {
		t.Fatal(err)
	}
	if err := write(t, s, p); err != nil {
		t.Errorf("when it is back: %v", err)
	}
	if have, err := readBack(t, s, p); err != nil || have != 1002 {
		t.Errorf("have %d, %v; want 1002", have, err)
	}
}
