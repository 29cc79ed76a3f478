// Package audit reads the rows of a store from its databases, one table after the other
// and round again, and checks them. It is not under test, writes nothing, and believes
// nothing that a store says: package history states what must hold.
package audit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"relapse/topologies/services/platform/api"
	"relapse/topologies/services/store/history"
	"relapse/topologies/services/store/shards"
)

// DefaultSweep is how long it takes to read all tables once.
const DefaultSweep = 3 * time.Second

// printed is how many violations are written out. What matters is how they began; the
// metrics count all of them.
const printed = 20

// Config is what an audit is made of.
type Config struct {
	Shards  shards.Config
	History history.Config // ByRow follows from the scheme of Shards
	Sweep   time.Duration  // all tables once; 0 for the default

	Violations io.Writer    // gets the first violations, a line each; nil for nobody
	Log        *slog.Logger // nil for none
}

// Audit is a running audit.
type Audit struct {
	config  Config
	shards  *shards.Shards
	checker *history.Checker
	metrics *metrics
	start   time.Time
	said    int // violations
}

// New makes an audit that has yet to reach the databases; its metrics go to the registry.
func New(c Config, registry *prometheus.Registry) (*Audit, error) {
	if c.Sweep == 0 {
		c.Sweep = DefaultSweep
	}
	if c.Violations == nil {
		c.Violations = io.Discard
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Sweep < api.Tables*time.Millisecond {
		return nil, fmt.Errorf("audit: all %d tables in %v: want 1 ms for each at least", api.Tables, c.Sweep)
	}
	c.History.ByRow = c.Shards.Scheme == shards.ByModulus
	checker, err := history.New(c.History)
	if err != nil {
		return nil, err
	}
	databases, err := shards.Open(c.Shards, nil)
	if err != nil {
		return nil, err
	}
	return &Audit{config: c, shards: databases, checker: checker, metrics: newMetrics(c, registry), start: time.Now()}, nil
}

// Run audits until the context ends.
func (a *Audit) Run(ctx context.Context) error {
	defer a.shards.Close()
	ticker := time.NewTicker(a.config.Sweep / api.Tables)
	defer ticker.Stop()
	for table := 0; ; table = (table + 1) % api.Tables {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil
		}
		a.Table(ctx, table)
	}
}

// Table reads one table from all databases, and checks it.
func (a *Audit) Table(ctx context.Context, table int) {
	round := a.read(ctx, table)
	if ctx.Err() != nil {
		return
	}
	a.metrics.show(round)
	for _, v := range a.checker.Add(round) {
		a.metrics.violations[v.Invariant].Inc()
		a.said++
		if a.said <= printed {
			fmt.Fprintln(a.config.Violations, "violation", v)
		}
	}
}

// errGone says that a database has nothing of a table.
var errGone = errors.New("the database does not have the table")

func (a *Audit) read(ctx context.Context, table int) history.Round {
	round := history.Round{At: time.Since(a.start), Table: table}
	failed := func(database int, err error) {
		if errors.Is(err, errGone) {
			return
		}
		round.Incomplete = true
		a.metrics.failures[a.shards.Name(database)].Inc()
		a.config.Log.Debug("a table was not read", "table", table, "database", a.shards.Name(database), "reason", err)
	}
	old, silent := make([]bool, a.shards.Len()), make([]bool, a.shards.Len())
	for d := range old {
		state, err := a.state(ctx, d, table)
		if err != nil {
			failed(d, err)
			silent[d] = true
		}
		old[d] = state == shards.Moved
	}
	// What was left behind comes first: the table's home can only be newer then.
	for _, wanted := range []bool{true, false} {
		for d := range old {
			if silent[d] || old[d] != wanted {
				continue
			}
			home, err := a.home(ctx, d, table)
			switch {
			case err != nil:
				failed(d, err)
			case home.Old != wanted:
				// It was cut over in between: the next round has the new home.
				round.Incomplete = true
			default:
				round.Homes = append(round.Homes, home)
			}
		}
	}
	return round
}

const readState = `select epoch, state from placement where tbl = $1`

// state gives what a database says of a table, or errGone.
func (a *Audit) state(ctx context.Context, database, table int) (state string, err error) {
	ctx, cancel := context.WithTimeout(ctx, a.shards.Timeout())
	defer cancel()
	var epoch int64
	err = a.shards.Pool(database).QueryRow(ctx, readState, table).Scan(&epoch, &state)
	return state, gone(err)
}
