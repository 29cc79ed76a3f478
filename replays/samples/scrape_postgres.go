package samples

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
)

func init() { register("postgres", openPostgres) }

// postgresQuery gives all that is kept of a server in one statement: the metric's
// name after postgres_exporter, the database, the state of a session ("" for
// metrics without) and the value. Sessions are counted without our own; those of
// every state are there, so that none reads as zero and not as missing. Locks that
// are waited for have no name there: pg_locks_waiting counts them by the database
// of who waits, since a lock on a row belongs to no database.
const postgresQuery = `
SELECT v.name, d.datname::text, '' AS state, v.value
FROM pg_database d
JOIN pg_stat_database s ON s.datid = d.oid
CROSS JOIN LATERAL (VALUES
  ('pg_stat_database_numbackends', s.numbackends::float8),
  ('pg_stat_database_xact_commit', s.xact_commit::float8),
  ('pg_stat_database_xact_rollback', s.xact_rollback::float8),
  ('pg_stat_database_blks_read', s.blks_read::float8),
  ('pg_stat_database_blks_hit', s.blks_hit::float8),
  ('pg_stat_database_tup_returned', s.tup_returned::float8),
  ('pg_stat_database_tup_fetched', s.tup_fetched::float8),
  ('pg_stat_database_tup_inserted', s.tup_inserted::float8),
  ('pg_stat_database_tup_updated', s.tup_updated::float8),
  ('pg_stat_database_tup_deleted', s.tup_deleted::float8),
  ('pg_stat_database_temp_bytes', s.temp_bytes::float8),
  ('pg_stat_database_deadlocks', s.deadlocks::float8)
) AS v(name, value)
WHERE d.datallowconn AND NOT d.datistemplate
UNION ALL
SELECT v.name, x.datname, x.state, v.value
FROM (
  SELECT d.datname::text AS datname, st.state AS state, count(a.pid)::float8 AS sessions,
    coalesce(max(extract(epoch FROM clock_timestamp() - a.xact_start)), 0)::float8 AS oldest
  FROM pg_database d
  CROSS JOIN (VALUES ('active'), ('idle'), ('idle in transaction'), ('idle in transaction (aborted)'),
    ('fastpath function call'), ('disabled')) AS st(state)
  LEFT JOIN pg_stat_activity a ON a.datid = d.oid AND a.state = st.state AND a.pid <> pg_backend_pid()
  WHERE d.datallowconn AND NOT d.datistemplate
  GROUP BY d.datname, st.state
) AS x
CROSS JOIN LATERAL (VALUES
  ('pg_stat_activity_count', x.sessions),
  ('pg_stat_activity_max_tx_duration', x.oldest)
) AS v(name, value)
UNION ALL
SELECT 'pg_locks_waiting', d.datname::text, '', count(l.pid)::float8
FROM pg_database d
LEFT JOIN (pg_stat_activity a JOIN pg_locks l ON l.pid = a.pid AND NOT l.granted) ON a.datid = d.oid
WHERE d.datallowconn AND NOT d.datistemplate
GROUP BY d.datname
UNION ALL
SELECT 'pg_settings_max_connections', '', '', current_setting('max_connections')::float8
`

// postgresNode asks one prepared statement over a kept connection, which takes one
// of the server's for as long as the target lives.
type postgresNode struct {
	dialer     net.Dialer
	config     *pgx.ConnConfig
	conn       *pgx.Conn // nil until the first scrape, and after one that failed
	connecting atomic.Bool
}

// openPostgres signs in as the official image's variables say (POSTGRES_USER,
// POSTGRES_PASSWORD, POSTGRES_DB, each with that image's default), without TLS:
// the address is one of our own network. A user that is no superuser and no member
// of pg_monitor sees no states of others' sessions.
func openPostgres(e Endpoint) (source, error) {
	host, text, err := net.SplitHostPort(e.Address)
	if err != nil {
		return nil, fmt.Errorf("kind %s: address %q: want host:port: %w", e.Kind, e.Address, err)
	}
	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return nil, fmt.Errorf("kind %s: address %q: want a port of 1 to 65535: %w", e.Kind, e.Address, err)
	}
	// The parser reads PG* variables of the environment, which are about other
	// servers: whatever they may say is written here or put in place below.
	config, err := pgx.ParseConfig(fmt.Sprintf("host=%s port=%d sslmode=disable target_session_attrs=any", host, port))
	if err != nil {
		return nil, fmt.Errorf("kind %s: %w", e.Kind, err)
	}
	p := &postgresNode{config: config}
	config.User = cmp.Or(e.Environment["POSTGRES_USER"], "postgres")
	config.Password = e.Environment["POSTGRES_PASSWORD"]
	config.Database = cmp.Or(e.Environment["POSTGRES_DB"], config.User)
	config.Host, config.Port, config.TLSConfig, config.Fallbacks = host, uint16(port), nil, nil
	config.DialFunc = p.dial
	config.RuntimeParams = map[string]string{
		"application_name": "relapse",
		// A statement that is given up here ends there as well.
		"statement_timeout": strconv.FormatInt(Deadline.Milliseconds(), 10),
	}
	return p, nil
}

var errLateDial = errors.New("no second connection is made to cancel a statement")

// dial refuses what nobody waits for: to cancel a statement that came to its
// deadline, pgx dials a second connection in the background, which on a node that
// stands still would stay for 15 s after each failed scrape.
func (p *postgresNode) dial(ctx context.Context, network, address string) (net.Conn, error) {
	if !p.connecting.Load() {
		return nil, errLateDial
	}
	return p.dialer.DialContext(ctx, network, address)
}

func (p *postgresNode) scrape(ctx context.Context, to *sink) error {
	if p.conn == nil {
		p.connecting.Store(true)
		conn, err := pgx.ConnectConfig(ctx, p.config)
		p.connecting.Store(false)
		if err != nil {
			return err
		}
		p.conn = conn
	}
	err := p.ask(ctx, to)
	if err != nil {
		p.close() // what is left of a late answer must not be read as the next one
	}
	return err
}

func (p *postgresNode) ask(ctx context.Context, to *sink) error {
	rows, err := p.conn.Query(ctx, postgresQuery)
	if err != nil {
		return fmt.Errorf("asking for statistics: %w", err)
	}
	var name, database, state string
	var v float64
	_, err = pgx.ForEachRow(rows, []any{&name, &database, &state, &v}, func() error {
		var pairs []string
		if database != "" {
			pairs = append(pairs, "datname", database)
		}
		if state != "" {
			pairs = append(pairs, "state", state)
		}
		to.add(v, name, pairs...)
		return nil
	})
	switch {
	case err != nil:
		return fmt.Errorf("reading statistics: %w", err)
	case len(to.points) == 0:
		return errors.New("statistics: not one row, where every server has some")
	}
	to.add(1, "pg_up")
	return nil
}

// down says what postgres_exporter would of a server that it cannot ask.
func (*postgresNode) down(to *sink) { to.add(0, "pg_up") }

// close also waits for what pgx does in the background about a connection on which
// a statement was given up.
func (p *postgresNode) close() {
	if p.conn == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), Deadline)
	defer cancel()
	_ = p.conn.Close(ctx) // of no use any more, whatever it says
	select {
	case <-p.conn.PgConn().CleanupDone():
	case <-ctx.Done():
	}
	p.conn = nil
}
