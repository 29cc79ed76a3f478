// Package shards says on which of several PostgreSQL databases a player's rows are,
// and sees to it that they are written nowhere else.
//
// Documented (Riot, 2020, https://technology.riotgames.com/news/scalability-and-load-testing-valorant):
// players were hashed into 64 tables from the first day, so that a further database
// only takes over whole tables and no row is ever hashed anew: 2 databases x 32 tables
// become 4 x 16. How a table was moved while it was in use is not documented; what
// follows is this project's.
//
// # Where a table is
//
// A table is three tables of PostgreSQL that have the rows of the same players:
// wallet_NN, inventory_NN and ledger_NN. Every database has a row of placement for each
// table that it has, had, or is being given:
//
//	         begin            stop              cut over           drop
//	open ────────────▶ copying ────▶ stopped ────────────▶ moved ─────────▶ dropped
//	                      ▲             │                  epoch + 1
//	                      └─────────────┘
//	                      the stop is over
//
//	               the source says moved
//	incoming ───────────────────────────────▶ open       at the target, epoch + 1
//
// The row at the home of a table decides where the table is, and nothing else does:
// cutting over is one update of one row, so that no two databases have to agree.
//
//   - Whoever writes locks that row for share, in the transaction that writes, and is
//     refused unless the row has the epoch that the writer knows and the table takes
//     writes. So a write that reaches the old home after the cut-over is refused,
//     however old the writer's knowledge; and once a stop is there, no write is under
//     way.
//   - While the table is being copied, whoever writes notes the player in the table
//     changes, in the same transaction. Whoever moves the table copies those players
//     again.
//   - A stop has an end. The first writer who comes after it undoes the stop, so that a
//     mover that was killed or sleeps stops writes for no longer than it said. A mover
//     that wakes up finds the table copying and cannot cut over.
//   - Between the cut-over at the source and the opening at the target nobody takes
//     writes. Whoever sees that state may open the target, so that it does not take the
//     mover.
//   - Whoever begins a move gives it a number, and every later step names it. Two
//     movers at once, or one that was thought dead, undo nothing of each other's.
//
// # The other scheme
//
// With hash-mod-n a player's rows are on the database whose place in the list is the
// player's number modulo the number of databases. It stands for what the documented
// scheme avoids: with 4 databases instead of 2, half of all rows have to move, one by
// one. All databases have all 64 tables then, and a row of modulus. While rows are
// being hashed anew they are looked for on the old database first, under a lock on the
// player's wallet, and then on the new one.
package shards

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
)

// ErrUnavailable says that no database takes a read or a write now: its database does
// not answer, or its table is between two homes for longer than the timeout. A write
// was not carried out.
var ErrUnavailable = errors.New("no database takes it now; ask again later")

// Shards are the databases, and where rows are as far as this process knows. Many
// goroutines can use them.
type Shards struct {
	config    Config
	databases []database
	metrics   *metrics
	view      atomic.Pointer[view]
	reloading sync.Mutex
}

type database struct {
	name string // as it is configured
	pool *pgxpool.Pool
}

// Open makes the pools. It connects to nothing: a database may come up later. The
// metrics go to the registry, unless it is nil.
func Open(c Config, registry *prometheus.Registry) (*Shards, error) {
	c, err := c.complete()
	if err != nil {
		return nil, err
	}
	s := &Shards{config: c}
	s.view.Store(unknown())
	for _, name := range c.Databases {
		pool, err := open(name, c)
		if err != nil {
			s.Close()
			return nil, fmt.Errorf("shards: database %s: %w", name, err)
		}
		s.databases = append(s.databases, database{name, pool})
	}
	s.metrics = newMetrics(s, registry)
	return s, nil
}

func open(address string, c Config) (*pgxpool.Pool, error) {
	hostPort, name, named := strings.Cut(address, "/")
	if !named {
		name = c.Name
	}
	if host, port, err := net.SplitHostPort(hostPort); err != nil || host == "" || port == "" || name == "" {
		return nil, fmt.Errorf("%q: want HOST:PORT or HOST:PORT/NAME", address)
	}
	at := url.URL{
		Scheme: "postgres", User: url.UserPassword(c.User, c.Password), Host: hostPort, Path: "/" + name,
		RawQuery: "sslmode=disable",
	}
	config, err := pgxpool.ParseConfig(at.String())
	if err != nil {
		return nil, err
	}
	config.MaxConns = int32(c.Connections)
	config.ConnConfig.ConnectTimeout = c.Timeout
	// There are hundreds of statements, some of them on tables that are dropped and
	// made again elsewhere: prepared ones would be prepared over and over, or be stale.
	config.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec
	within := strconv.FormatInt(c.Timeout.Milliseconds(), 10)
	for name, value := range map[string]string{
		"application_name":  "relapse",
		"statement_timeout": within,
		"lock_timeout":      within,
		// Whoever sleeps in the middle of a transaction loses the locks that it holds.
		"idle_in_transaction_session_timeout": within,
	} {
		config.ConnConfig.RuntimeParams[name] = value
	}
	return pgxpool.NewWithConfig(context.Background(), config)
}

// Close closes all connections, once those in use are given back.
func (s *Shards) Close() {
	for _, d := range s.databases {
		d.pool.Close()
	}
}

// Timeout is how long a transaction may take.
func (s *Shards) Timeout() time.Duration { return s.config.Timeout }

// Len is how many databases there are.
func (s *Shards) Len() int { return len(s.databases) }

// Name gives a database's name, as it was configured.
func (s *Shards) Name(database int) string { return s.databases[database].name }

// Pool gives the connections to a database. What is written through it passes no
// fence.
func (s *Shards) Pool(database int) *pgxpool.Pool { return s.databases[database].pool }

// Index gives a database by its name, below zero if there is none.
func (s *Shards) Index(name string) int {
	return slices.IndexFunc(s.databases, func(d database) bool { return d.name == name })
}

// ErrHeld says that somebody else holds a lock.
var ErrHeld = errors.New("somebody else holds the lock")

// Exclusive takes a lock of a database that lasts as long as the session that took it,
// and so no longer than the process; whoever cannot have it gets [ErrHeld] at once.
// Release ends the session.
func (s *Shards) Exclusive(ctx context.Context, database int, key int64) (release func(), err error) {
	ctx, cancel := context.WithTimeout(ctx, s.config.Timeout)
	defer cancel()
	conn, err := s.databases[database].pool.Acquire(ctx)
	if err != nil {
		return nil, fmt.Errorf("lock %d of %s: %w", key, s.Name(database), err)
	}
	got := false
	if err := conn.QueryRow(ctx, `select pg_try_advisory_lock($1)`, key).Scan(&got); err != nil {
		conn.Release()
		return nil, fmt.Errorf("lock %d of %s: %w", key, s.Name(database), err)
	}
	if !got {
		conn.Release()
		return nil, fmt.Errorf("lock %d of %s: %w", key, s.Name(database), ErrHeld)
	}
	return func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = conn.Conn().Close(ctx) // the lock goes with the session, however it ends
		conn.Release()
	}, nil
}
