package mover

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"relapse/topologies/services/store/shards"
)

// errStopOver says that writes were let in again before the move was done.
var errStopOver = errors.New("the write stop was over too soon; give --stop-within more time")

// cutOver stops writes, copies the last of them and has the target take over. If the
// stop is over before that, writes have gone on, and all of it is done again.
func (m *Mover) cutOver(ctx context.Context, at moving) error {
	for range mostRounds {
		err := m.tryCutOver(ctx, at)
		if !errors.Is(err, errStopOver) {
			return err
		}
		m.metrics.stopsOver.Inc()
		m.config.Log.Info("a write stop was not long enough", "table", at.Table)
	}
	return errStopOver
}

func (m *Mover) tryCutOver(ctx context.Context, at moving) error {
	if err := m.before(ctx, Stop, at.Table); err != nil {
		return err
	}
	stopped := time.Now()
	tag, err := m.shards.Pool(at.From).Exec(ctx, `
		update placement set state = 'stopped', until = clock_timestamp() + make_interval(secs => $3::float8)
		where tbl = $1 and move = $2 and state in ('copying', 'stopped')`,
		at.Table, at.move, m.config.StopWithin.Seconds())
	if err != nil {
		return fmt.Errorf("stop writes: %w", err)
	}
	if tag.RowsAffected() == 0 {
		return errOvertaken
	}
	for {
		left, err := m.catchUp(ctx, at)
		if err != nil {
			return fmt.Errorf("catch up with the last writes: %w", err)
		}
		if left == 0 {
			break
		}
	}
	if err := m.before(ctx, CutOver, at.Table); err != nil {
		return err
	}
	tag, err = m.shards.Pool(at.From).Exec(ctx, `
		update placement set state = 'moved', epoch = epoch + 1, until = null
		where tbl = $1 and move = $2 and state = 'stopped' and until > clock_timestamp()`, at.Table, at.move)
	if err != nil {
		return fmt.Errorf("cut over: %w", err)
	}
	if tag.RowsAffected() == 0 {
		return m.whyNot(ctx, at)
	}
	if err := m.open(ctx, at.To, shards.Row{Table: at.Table, Epoch: at.epoch, Move: at.move}); err != nil {
		return err
	}
	m.metrics.stopSeconds.Observe(time.Since(stopped).Seconds())
	return nil
}

// whyNot says why a cut-over was refused.
func (m *Mover) whyNot(ctx context.Context, at moving) error {
	mine := false
	err := m.shards.Pool(at.From).QueryRow(ctx, `select state in ('copying', 'stopped') and move = $2 from placement where tbl = $1`,
		at.Table, at.move).Scan(&mine)
	switch {
	case err != nil:
		return fmt.Errorf("cut over: %w", err)
	case mine:
		return errStopOver
	}
	return errOvertaken
}

// open has the target take writes, now that the source says moved.
func (m *Mover) open(ctx context.Context, database int, incoming shards.Row) error {
	if err := m.before(ctx, OpenIt, incoming.Table); err != nil {
		return err
	}
	return m.shards.OpenTable(ctx, database, incoming)
}

// dropAll drops what tables have left behind. It is certain that they are served
// elsewhere. What a move that came to nothing has left at its target is not served by
// anybody and stays: the table may be on its way there again.
func (m *Mover) dropAll(ctx context.Context) error {
	found := m.shards.Survey(ctx)
	if err := found.Missing(); err != nil {
		return err
	}
	served := map[int]int64{} // epoch, by table
	for _, rows := range found.Rows {
		for _, r := range rows {
			if shards.Serving(r.State) {
				served[r.Table] = max(served[r.Table], r.Epoch)
			}
		}
	}
	for d, rows := range found.Rows {
		for _, r := range rows {
			if r.State != shards.Moved || served[r.Table] < r.Epoch {
				continue
			}
			if err := m.drop(ctx, d, r); err != nil {
				return fmt.Errorf("drop table %02d at %s: %w", r.Table, m.shards.Name(d), err)
			}
		}
	}
	return nil
}

func (m *Mover) drop(ctx context.Context, database int, r shards.Row) error {
	if err := m.before(ctx, Drop, r.Table); err != nil {
		return err
	}
	return pgx.BeginFunc(ctx, m.shards.Pool(database), func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, `update placement set state = 'dropped' where tbl = $1 and epoch = $2 and state = 'moved'`, r.Table, r.Epoch)
		if err != nil {
			return err
		}
		if tag.RowsAffected() == 0 {
			return errOvertaken
		}
		return shards.DropTable(ctx, tx, r.Table)
	})
}
