package shards

import (
	"context"
	"fmt"
	"sync"

	"github.com/jackc/pgx/v5"
)

// States of a table at a database; the documentation of the package has the diagram.
const (
	Opened   = "open"
	Copying  = "copying"
	Stopped  = "stopped"
	Moved    = "moved"
	Dropped  = "dropped"
	Incoming = "incoming"
)

// Serving says whether a database with a table in this state is its home. It may take
// no writes at the moment.
func Serving(state string) bool { return state == Opened || state == Copying || state == Stopped }

// Row is what a database says of a table.
type Row struct {
	Table int
	Epoch int64
	State string
	Move  int64  // the number of the last move
	Peer  string // where it moves or has moved to; at the target, where it comes from
}

// Modulus says where rows are with hash-mod-n: on database player % N, and those that
// have not been hashed anew on player % Was.
type Modulus struct {
	Epoch int64 // 0 where there is none
	Was   int
	N     int
}

// Survey is what all databases say of themselves, one after the other in the order of
// the configuration.
type Survey struct {
	Rows   [][]Row
	Moduli []Modulus
	Errs   []error // of those that do not answer; the others' are nil
}

// Missing gives the error of a database that does not answer, nil if all do.
func (v Survey) Missing() error {
	for _, err := range v.Errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// Newest gives the modulus of the highest epoch.
func (v Survey) Newest() (newest Modulus) {
	for _, m := range v.Moduli {
		if m.Epoch > newest.Epoch {
			newest = m
		}
	}
	return newest
}

// Survey asks all databases at once.
func (s *Shards) Survey(ctx context.Context) Survey {
	n := len(s.databases)
	v := Survey{make([][]Row, n), make([]Modulus, n), make([]error, n)}
	var asked sync.WaitGroup
	for d := range n {
		asked.Go(func() { v.Rows[d], v.Moduli[d], v.Errs[d] = s.ask(ctx, d) })
	}
	asked.Wait()
	return v
}

func (s *Shards) ask(ctx context.Context, database int) (rows []Row, m Modulus, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.config.Timeout)
	defer cancel()
	b := &pgx.Batch{}
	b.Queue(`select tbl, epoch, state, move, peer from placement order by tbl`).Query(func(r pgx.Rows) (err error) {
		rows, err = pgx.CollectRows(r, pgx.RowToStructByPos[Row])
		return err
	})
	b.Queue(`select coalesce(max(epoch), 0), coalesce(max(was), 0), coalesce(max(n), 0) from modulus`).QueryRow(func(r pgx.Row) error {
		return r.Scan(&m.Epoch, &m.Was, &m.N)
	})
	if err := s.databases[database].pool.SendBatch(ctx, b).Close(); err != nil {
		return nil, Modulus{}, fmt.Errorf("placement of %s: %w", s.Name(database), err)
	}
	return rows, m, nil
}

// OpenTable has the target of a move take writes. It must be certain that the source
// says moved, under the same epoch. It is done once, however often it is asked for.
func (s *Shards) OpenTable(ctx context.Context, database int, incoming Row) error {
	ctx, cancel := context.WithTimeout(ctx, s.config.Timeout)
	defer cancel()
	_, err := s.databases[database].pool.Exec(ctx,
		`update placement set state = 'open' where tbl = $1 and epoch = $2 and move = $3 and state = 'incoming'`,
		incoming.Table, incoming.Epoch, incoming.Move)
	if err != nil {
		return fmt.Errorf("open table %02d at %s: %w", incoming.Table, s.Name(database), err)
	}
	return nil
}
