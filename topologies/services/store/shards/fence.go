package shards

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"relapse/topologies/services/platform/api"
)

// Why a database refuses a read or a write.
const (
	byEpoch = "epoch"   // the table is not here, or not under that epoch
	byStop  = "stopped" // it is here, and takes no writes for a moment
	byEnd   = "overdue" // that moment is over
)

var reasons = []string{byEpoch, byStop, byEnd}

// refusal says that the fence let nobody through. Nothing was written.
type refusal struct {
	why   string
	table int
	home  home
	name  string // of the database
}

func (r *refusal) Error() string {
	return fmt.Sprintf("table %02d under epoch %d at %s: refused: %s", r.table, r.home.epoch, r.name, r.why)
}

// errElsewhere says that the rows of a player are not, or no longer, on the database
// that they were on before they are hashed anew.
var errElsewhere = errors.New("the player's rows are not here")

func (s *Shards) refusal(why string, table int, h home) *refusal {
	name := "no database"
	if h.database != nowhere {
		name = s.Name(h.database)
	}
	return &refusal{why, table, h, name}
}

const fenceRow = `select epoch, state, coalesce(until < clock_timestamp(), false) from placement where tbl = $1 for share`

// fence lets the transaction write a table, or gives a [refusal]. Until it ends, nobody
// can stop writes of the table or cut it over.
func (s *Shards) fence(ctx context.Context, tx pgx.Tx, table int, h home) (state string, err error) {
	var (
		epoch int64
		over  bool
	)
	err = tx.QueryRow(ctx, fenceRow, table).Scan(&epoch, &state, &over)
	switch {
	case err != nil && !errors.Is(err, pgx.ErrNoRows):
		return "", err
	case s.config.Unfenced:
		return state, nil
	case err != nil, epoch != h.epoch, !Serving(state):
		return "", s.refusal(byEpoch, table, h)
	case state == Stopped && over:
		return "", s.refusal(byEnd, table, h)
	case state == Stopped:
		return "", s.refusal(byStop, table, h)
	}
	return state, nil
}

var holdPlayer = PerTable(`select true from wallet_NN where player = $1 for update`)

// holds says whether a player's rows are here, and keeps them here until the
// transaction ends.
func holds(ctx context.Context, tx pgx.Tx, table int, p api.Player) (bool, error) {
	here := false
	err := tx.QueryRow(ctx, holdPlayer[table], int64(p)).Scan(&here)
	if errors.Is(err, pgx.ErrNoRows) {
		return false, nil
	}
	return here, err
}

// reopen undoes a stop whose end is over.
func (s *Shards) reopen(ctx context.Context, r *refusal) error {
	_, err := s.databases[r.home.database].pool.Exec(ctx,
		`update placement set state = 'copying', until = null where tbl = $1 and epoch = $2 and state = 'stopped' and until < clock_timestamp()`,
		r.table, r.home.epoch)
	if err != nil {
		return fmt.Errorf("undo the stop of table %02d at %s: %w", r.table, r.name, err)
	}
	return nil
}

// Error codes of PostgreSQL (appendix A of its manual) that something follows from.
const undefinedTable = "42P01"

// IsUndefinedTable says that a table of PostgreSQL is not there: it was dropped after
// its move.
func IsUndefinedTable(err error) bool {
	var said *pgconn.PgError
	return errors.As(err, &said) && said.Code == undefinedTable
}
