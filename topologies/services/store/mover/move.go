package mover

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"relapse/topologies/services"
	"relapse/topologies/services/store/shards"
)

// moving is a move that was begun.
type moving struct {
	Step
	move  int64 // its number
	epoch int64 // at the target
}

// move moves one table, from wherever it stands.
func (m *Mover) move(ctx context.Context, step Step) error {
	at, err := m.begin(ctx, step)
	if err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	if err := m.stepWait(ctx); err != nil {
		return err
	}
	if err := m.prepare(ctx, at); err != nil {
		return fmt.Errorf("prepare the target: %w", err)
	}
	if err := m.stepWait(ctx); err != nil {
		return err
	}
	if err := m.copy(ctx, at); err != nil {
		return fmt.Errorf("copy: %w", err)
	}
	if err := m.stepWait(ctx); err != nil {
		return err
	}
	for range mostRounds {
		left, err := m.catchUp(ctx, at)
		if err != nil {
			return fmt.Errorf("catch up: %w", err)
		}
		if left <= m.config.Few {
			break
		}
	}
	return m.cutOver(ctx, at)
}

func (m *Mover) stepWait(ctx context.Context) error {
	if m.config.StepWait > 0 && !services.Wait(ctx, m.config.StepWait) {
		return ctx.Err()
	}
	return nil
}

func (m *Mover) begin(ctx context.Context, step Step) (at moving, err error) {
	at.Step = step
	if err := m.before(ctx, Begin, step.Table); err != nil {
		return at, err
	}
	// The update waits for all writes that are under way; those that come after it see
	// it, and note who is written.
	err = pgx.BeginFunc(ctx, m.shards.Pool(step.From), func(tx pgx.Tx) error {
		err := tx.QueryRow(ctx, `
			update placement set state = 'copying', move = move + 1, peer = $2, until = null
			where tbl = $1 and state in ('open', 'copying', 'stopped') returning epoch + 1, move`,
			step.Table, m.shards.Name(step.To)).Scan(&at.epoch, &at.move)
		if errors.Is(err, pgx.ErrNoRows) {
			return errOvertaken
		}
		if err != nil {
			return err
		}
		// All rows will be copied, whoever was written before.
		_, err = tx.Exec(ctx, `delete from changes where tbl = $1`, step.Table)
		return err
	})
	return at, err
}

// prepare makes empty tables at the target, in place of any that an earlier attempt has
// left, and refuses if the target serves the table.
func (m *Mover) prepare(ctx context.Context, at moving) error {
	if err := m.before(ctx, Prepare, at.Table); err != nil {
		return err
	}
	return pgx.BeginFunc(ctx, m.shards.Pool(at.To), func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, `
			insert into placement (tbl, epoch, state, move, peer) values ($1, $2, 'incoming', $3, $4)
			on conflict (tbl) do update set epoch = excluded.epoch, state = 'incoming', move = excluded.move, peer = excluded.peer, until = null
			where placement.state in ('incoming', 'moved', 'dropped') and placement.epoch <= excluded.epoch
				and (placement.state <> 'incoming' or placement.epoch < excluded.epoch or placement.move <= excluded.move)`,
			at.Table, at.epoch, at.move, m.shards.Name(at.From))
		if err != nil {
			return err
		}
		if tag.RowsAffected() == 0 {
			return errOvertaken
		}
		if err := shards.DropTable(ctx, tx, at.Table); err != nil {
			return err
		}
		return shards.CreateTables(ctx, tx, at.Table)
	})
}

// fill lets a transaction at the target put rows into a table that is on its way there,
// by this move.
func fill(ctx context.Context, tx pgx.Tx, at moving) error {
	mine := false
	err := tx.QueryRow(ctx, `select true from placement where tbl = $1 and state = 'incoming' and epoch = $2 and move = $3 for share`,
		at.Table, at.epoch, at.move).Scan(&mine)
	if errors.Is(err, pgx.ErrNoRows) {
		return errOvertaken
	}
	return err
}

func (m *Mover) copy(ctx context.Context, at moving) error {
	if err := m.before(ctx, Copy, at.Table); err != nil {
		return err
	}
	snapshot := pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
	return pgx.BeginTxFunc(ctx, m.shards.Pool(at.From), snapshot, func(source pgx.Tx) error {
		return pgx.BeginFunc(ctx, m.shards.Pool(at.To), func(target pgx.Tx) error {
			if err := fill(ctx, target, at); err != nil {
				return err
			}
			copied, err := copyRows(ctx, source, target, at.Table, "", nil)
			m.metrics.copied.Add(float64(copied))
			return err
		})
	})
}

// copyRows copies the rows of a table that a condition holds for.
func copyRows(ctx context.Context, source, target pgx.Tx, table int, where string, args []any) (copied int64, err error) {
	for _, k := range shards.Kinds {
		rows, err := source.Query(ctx, "select "+columns(k)+" from "+k.Table(table)+where, args...)
		if err != nil {
			return copied, err
		}
		n, err := target.CopyFrom(ctx, pgx.Identifier{k.Table(table)}, k.Columns, rows)
		rows.Close()
		if err != nil {
			return copied, fmt.Errorf("%s: %w", k.Table(table), err)
		}
		copied += n
	}
	return copied, nil
}

func columns(k shards.Kind) string {
	all := ""
	for i, column := range k.Columns {
		if i > 0 {
			all += ", "
		}
		all += column
	}
	return all
}

// atOnce is how many changes one round of catching up takes.
const atOnce = 500

// catchUp copies the players again who were written since they were copied, and gives
// how many changes it found. What is noted is forgotten only once the target has it: if
// anything fails, it is done again.
func (m *Mover) catchUp(ctx context.Context, at moving) (found int, err error) {
	if err := m.before(ctx, CatchUp, at.Table); err != nil {
		return 0, err
	}
	err = pgx.BeginFunc(ctx, m.shards.Pool(at.From), func(source pgx.Tx) error {
		rows, err := source.Query(ctx, `
			delete from changes where ctid in (select ctid from changes where tbl = $1 limit $2) returning player`, at.Table, atOnce)
		if err != nil {
			return err
		}
		changed, err := pgx.CollectRows(rows, pgx.RowTo[int64])
		found = len(changed)
		if err != nil || found == 0 {
			return err
		}
		return pgx.BeginFunc(ctx, m.shards.Pool(at.To), func(target pgx.Tx) error {
			if err := fill(ctx, target, at); err != nil {
				return err
			}
			if err := deleteRows(ctx, target, at.Table, changed); err != nil {
				return err
			}
			copied, err := copyRows(ctx, source, target, at.Table, " where player = any($1::bigint[])", []any{changed})
			m.metrics.caughtUp.Add(float64(copied))
			return err
		})
	})
	return found, err
}

func deleteRows(ctx context.Context, tx pgx.Tx, table int, players []int64) error {
	for _, k := range shards.Kinds {
		if _, err := tx.Exec(ctx, "delete from "+k.Table(table)+" where player = any($1::bigint[])", players); err != nil {
			return err
		}
	}
	return nil
}
