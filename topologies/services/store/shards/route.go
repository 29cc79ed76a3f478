package shards

import (
	"context"
	"errors"
	"fmt"

	"relapse/topologies/services/platform/api"
)

// nowhere is the database of what has none, as far as is known.
const nowhere = -1

// home is where rows are, and the epoch under which they may be read and written there.
type home struct {
	database int
	epoch    int64
}

// view is where this process takes everything to be. It is replaced as a whole and
// never changed.
type view struct {
	tables  [api.Tables]home // with ByTable
	modulus Modulus          // with ByModulus
}

func unknown() *view {
	v := &view{}
	for table := range v.tables {
		v.tables[table].database = nowhere
	}
	return v
}

// homes gives where a player's rows are to be looked for, in this order.
func (s *Shards) homes(v *view, p api.Player) []home {
	table := p.Table()
	if s.config.Scheme == ByTable {
		return v.tables[table : table+1]
	}
	m := v.modulus
	if m.N == 0 {
		return []home{{nowhere, 0}}
	}
	was, is := home{int(int64(p) % int64(m.Was)), m.Epoch}, home{int(int64(p) % int64(m.N)), m.Epoch}
	if was == is {
		return []home{is}
	}
	return []home{was, is}
}

// Homes gives the tables that each database has, as far as is known.
func (s *Shards) Homes() [][]int {
	v := s.view.Load()
	tables := make([][]int, len(s.databases))
	for table := range api.Tables {
		if s.config.Scheme == ByModulus {
			for d := range min(max(v.modulus.Was, v.modulus.N), len(tables)) {
				tables[d] = append(tables[d], table)
			}
			continue
		}
		if d := v.tables[table].database; d != nowhere {
			tables[d] = append(tables[d], table)
		}
	}
	return tables
}

// Refresh reads where everything is.
func (s *Shards) Refresh(ctx context.Context) error { return s.reload(ctx, s.view.Load()) }

// reload reads where everything is, unless somebody else has since it was seen.
func (s *Shards) reload(ctx context.Context, seen *view) error {
	s.reloading.Lock()
	defer s.reloading.Unlock()
	if s.view.Load() != seen {
		return nil
	}
	return s.adopt(ctx, seen, s.Survey(ctx))
}

// adopt makes what a survey says the view, and opens tables whose cut-over was not
// finished.
func (s *Shards) adopt(ctx context.Context, seen *view, found Survey) error {
	answered := false
	for _, err := range found.Errs {
		answered = answered || err == nil
	}
	if !answered {
		return fmt.Errorf("where tables are: %w", errors.Join(found.Errs...))
	}
	next := s.merge(seen, found)
	for d, rows := range found.Rows {
		for _, r := range rows {
			// The source decided; the target has yet to hear of it.
			if r.State != Incoming || next.tables[r.Table] != (home{d, r.Epoch}) {
				continue
			}
			if err := s.OpenTable(ctx, d, r); err != nil {
				s.config.Log.Debug("a table has no home that takes writes", "reason", err)
			}
		}
	}
	s.view.Store(next)
	s.metrics.loads.Inc()
	return nil
}

// merge gives what is known together with what a survey says. The higher epoch holds:
// a database that does not answer takes nothing away.
func (s *Shards) merge(seen *view, found Survey) *view {
	next := *seen
	if m := found.Newest(); m.Epoch > next.modulus.Epoch {
		next.modulus = m
	}
	for d, rows := range found.Rows {
		for _, r := range rows {
			at := home{d, r.Epoch}
			switch {
			case r.Table < 0 || r.Table >= api.Tables:
				continue
			case r.State == Moved || r.State == Dropped:
				at.database = s.Index(r.Peer)
			case !Serving(r.State):
				continue
			}
			if at.database != nowhere && at.epoch > next.tables[r.Table].epoch {
				next.tables[r.Table] = at
			}
		}
	}
	return &next
}
