package samples_test

import (
	"encoding/binary"
	"maps"
	"math"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgproto3"

	"relapse/replays/samples"
)

// fakePostgres is a server that knows one statement.
type fakePostgres struct {
	rows     []postgresRow
	starting bool         // refuses everybody, as while it reads its log
	stalls   atomic.Bool  // takes the statement and says nothing more
	dialled  atomic.Int32 // connections
	parsed   atomic.Int32 // statements
	startup  atomic.Pointer[map[string]string]
}

type postgresRow struct {
	name, database, state string
	value                 float64
}

// serve gives the server's address.
func (f *fakePostgres) serve(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			f.dialled.Add(1)
			go func() {
				defer conn.Close()
				f.talk(pgproto3.NewBackend(conn, conn))
			}()
		}
	}()
	return l.Addr().String()
}

// talk goes through the extended protocol until the client leaves.
func (f *fakePostgres) talk(b *pgproto3.Backend) {
	first, err := b.ReceiveStartupMessage()
	m, ok := first.(*pgproto3.StartupMessage)
	if err != nil || !ok {
		return
	}
	parameters := maps.Clone(m.Parameters)
	f.startup.Store(&parameters)
	if f.starting {
		b.Send(&pgproto3.ErrorResponse{Severity: "FATAL", Code: "57P03", Message: "the database system is starting up"})
		_ = b.Flush()
		return
	}
	b.Send(&pgproto3.AuthenticationOk{})
	b.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
	if b.Flush() != nil {
		return
	}
	fields := []pgproto3.FieldDescription{
		{Name: []byte("name"), DataTypeOID: 25, DataTypeSize: -1, TypeModifier: -1},
		{Name: []byte("datname"), DataTypeOID: 25, DataTypeSize: -1, TypeModifier: -1},
		{Name: []byte("state"), DataTypeOID: 25, DataTypeSize: -1, TypeModifier: -1},
		{Name: []byte("value"), DataTypeOID: 701, DataTypeSize: 8, TypeModifier: -1},
	}
	for {
		message, err := b.Receive()
		if err != nil {
			return
		}
		switch m := message.(type) {
		case *pgproto3.Parse:
			f.parsed.Add(1)
			b.Send(&pgproto3.ParseComplete{})
		case *pgproto3.Describe:
			if m.ObjectType == 'S' {
				b.Send(&pgproto3.ParameterDescription{})
			}
			b.Send(&pgproto3.RowDescription{Fields: fields})
		case *pgproto3.Bind:
			for n := range fields {
				switch len(m.ResultFormatCodes) {
				case 0:
					fields[n].Format = pgproto3.TextFormat
				case 1:
					fields[n].Format = m.ResultFormatCodes[0]
				default:
					fields[n].Format = m.ResultFormatCodes[n]
				}
			}
			b.Send(&pgproto3.BindComplete{})
		case *pgproto3.Execute:
			if f.stalls.Load() {
				continue
			}
			for _, r := range f.rows {
				b.Send(&pgproto3.DataRow{Values: [][]byte{[]byte(r.name), []byte(r.database), []byte(r.state), float8(r.value, fields[3].Format)}})
			}
			b.Send(&pgproto3.CommandComplete{CommandTag: []byte("SELECT")})
		case *pgproto3.Sync:
			if f.stalls.Load() {
				continue
			}
			b.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
			if b.Flush() != nil {
				return
			}
		case *pgproto3.Terminate:
			return
		}
	}
}

func float8(v float64, format int16) []byte {
	if format == pgproto3.BinaryFormat {
		return binary.BigEndian.AppendUint64(nil, math.Float64bits(v))
	}
	return []byte(formatFloat(v))
}

var postgresRows = []postgresRow{
	{"pg_stat_database_xact_commit", "wallet", "", 1200},
	{"pg_stat_database_numbackends", "wallet", "", 4},
	{"pg_stat_activity_count", "wallet", "active", 3},
	{"pg_stat_activity_count", "wallet", "idle in transaction", 0},
	{"pg_locks_waiting", "wallet", "", 2},
	{"pg_settings_max_connections", "", "", 100},
}

func TestScrapePostgres(t *testing.T) {
	want := []string{
		`pg_locks_waiting{datname=wallet,node=n} 2`, `pg_settings_max_connections{node=n} 100`,
		`pg_stat_activity_count{datname=wallet,node=n,state=active} 3`, `pg_stat_activity_count{datname=wallet,node=n,state=idle in transaction} 0`,
		`pg_stat_database_numbackends{datname=wallet,node=n} 4`, `pg_stat_database_xact_commit{datname=wallet,node=n} 1200`,
		`pg_up{node=n} 1`,
		`relapse_scrape_missed_total{kind=postgres,node=n} 0`, `relapse_scrape_success{kind=postgres,node=n} 1`, `up{node=n} 1`,
	}
	f := &fakePostgres{rows: postgresRows}
	target, s := target(t, samples.Endpoint{Node: "n", Kind: "postgres", Address: f.serve(t)}), samples.NewStore()
	for i := range 3 {
		at := start.Add(time.Duration(i) * samples.Period)
		if err := target.Scrape(t.Context(), s, at); err != nil {
			t.Fatal(err)
		}
		have := stored(s, at)
		slices.Sort(have)
		if diff := cmp.Diff(slices.Sorted(slices.Values(want)), have); diff != "" {
			t.Fatalf("scrape %d (-want +have):\n%s", i, diff)
		}
	}
	if dialled, parsed := f.dialled.Load(), f.parsed.Load(); dialled != 1 || parsed != 1 {
		t.Errorf("three scrapes made %d connections and prepared %d statements, want one of each", dialled, parsed)
	}
}

// TestScrapePostgresSignsIn holds whom the scraper signs in as: as the official
// image's variables say, and never as this process's own environment does.
func TestScrapePostgresSignsIn(t *testing.T) {
	for _, name := range []string{"PGUSER", "PGDATABASE", "PGAPPNAME", "PGOPTIONS"} {
		t.Setenv(name, "wrong")
	}
	t.Setenv("PGHOST", "192.0.2.1")
	t.Setenv("PGSSLMODE", "require")
	for _, tt := range []struct {
		name        string
		environment map[string]string
		user, db    string
	}{
		{"nothing said", nil, "postgres", "postgres"},
		{"a user", map[string]string{"POSTGRES_USER": "wallet"}, "wallet", "wallet"},
		{"a user and a database", map[string]string{"POSTGRES_USER": "wallet", "POSTGRES_DB": "money"}, "wallet", "money"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := &fakePostgres{rows: postgresRows}
			target := target(t, samples.Endpoint{Node: "n", Kind: "postgres", Address: f.serve(t), Environment: tt.environment})
			if err := target.Scrape(t.Context(), samples.NewStore(), start); err != nil {
				t.Fatal(err)
			}
			have := *f.startup.Load()
			if have["user"] != tt.user || have["database"] != tt.db || have["application_name"] != "relapse" || have["options"] != "" {
				t.Errorf("signed in with %v, want user %s and database %s", have, tt.user, tt.db)
			}
		})
	}
}

func TestScrapePostgresFailures(t *testing.T) {
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	// The kernel accepts here, and then nothing answers, as with a paused container.
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	stalling := &fakePostgres{rows: postgresRows}
	stalling.stalls.Store(true)
	var dialled atomic.Int32
	for _, tt := range []struct{ name, address string }{
		{"refuses", closed.Addr().String()},
		{"is silent", silent.Addr().String()},
		{"is no Postgres", serveMemcached(t, "ERROR\r\n", &dialled)},
		{"is starting", (&fakePostgres{starting: true}).serve(t)},
		{"stalls", stalling.serve(t)},
		{"has no rows", (&fakePostgres{}).serve(t)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			target, s := target(t, samples.Endpoint{Node: "n", Kind: "postgres", Address: tt.address}), samples.NewStore()
			began := time.Now()
			if err := target.Scrape(t.Context(), s, start); err == nil {
				t.Error("want an error, got none")
			}
			if took := time.Since(began); took > 2*time.Second {
				t.Errorf("it took %s, with a deadline of %s", took, samples.Deadline)
			}
			want := []string{"pg_up{node=n} 0", "relapse_scrape_missed_total{kind=postgres,node=n} 0",
				"relapse_scrape_success{kind=postgres,node=n} 0", "up{node=n} 0"}
			if diff := cmp.Diff(want, stored(s, start)); diff != "" {
				t.Errorf("-want +have:\n%s", diff)
			}
		})
	}
}

// TestScrapePostgresRecovers holds that a server that stood still is asked again
// over a new connection, and that nothing else is dialled meanwhile.
func TestScrapePostgresRecovers(t *testing.T) {
	f := &fakePostgres{rows: postgresRows}
	target, s := target(t, samples.Endpoint{Node: "n", Kind: "postgres", Address: f.serve(t)}), samples.NewStore()
	for n, stalls := range []bool{false, true, false} {
		f.stalls.Store(stalls)
		if err := target.Scrape(t.Context(), s, start); (err != nil) != stalls {
			t.Errorf("scrape %d: error %v, and it stalls: %t", n, err, stalls)
		}
	}
	if n := f.dialled.Load(); n != 2 {
		t.Errorf("%d connections, want one and another after the failure", n)
	}
}

// TestScrapePostgresItself holds the statement against a real server, with a lock
// that somebody waits for.
func TestScrapePostgresItself(t *testing.T) {
	address := startPostgres(t)
	target := target(t, samples.Endpoint{Node: "n", Kind: "postgres", Address: address})
	lines := scraped(t, target, "PostgreSQL answers", func([]string) bool { return true })
	series := []string{"pg_up{node=n}", "pg_settings_max_connections{node=n}", "pg_locks_waiting{datname=postgres,node=n}"}
	for _, name := range []string{"numbackends", "xact_commit", "xact_rollback", "blks_read", "blks_hit", "tup_returned", "tup_fetched",
		"tup_inserted", "tup_updated", "tup_deleted", "temp_bytes", "deadlocks"} {
		series = append(series, "pg_stat_database_"+name+"{datname=postgres,node=n}")
	}
	for _, state := range []string{"active", "idle", "idle in transaction", "idle in transaction (aborted)", "fastpath function call", "disabled"} {
		series = append(series, "pg_stat_activity_count{datname=postgres,node=n,state="+state+"}", "pg_stat_activity_max_tx_duration{datname=postgres,node=n,state="+state+"}")
	}
	if err := has(lines, series...); err != nil {
		t.Error(err)
	}
	if strings.Contains(strings.Join(lines, "\n"), "template") {
		t.Errorf("templates are measured, which nobody uses:\n%s", strings.Join(lines, "\n"))
	}
	connect := func() *pgx.Conn {
		conn, err := pgx.Connect(t.Context(), "postgres://postgres@"+address+"/postgres?sslmode=disable")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close(t.Context()) })
		return conn
	}
	holder, waiter := connect(), connect()
	for _, statement := range []string{"CREATE TABLE purse (id int)", "BEGIN", "LOCK TABLE purse"} {
		if _, err := holder.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	waited := make(chan error, 1)
	go func() {
		_, err := waiter.Exec(t.Context(), "SELECT * FROM purse")
		waited <- err
	}()
	scraped(t, target, "somebody waits for a lock", func(lines []string) bool {
		waiting, _ := value(lines, "pg_locks_waiting{datname=postgres,node=n}")
		active, _ := value(lines, "pg_stat_activity_count{datname=postgres,node=n,state=active}")
		idle, _ := value(lines, "pg_stat_activity_count{datname=postgres,node=n,state=idle in transaction}")
		age, _ := value(lines, "pg_stat_activity_max_tx_duration{datname=postgres,node=n,state=idle in transaction}")
		return waiting == 1 && active == 1 && idle == 1 && age > 0
	})
	if _, err := holder.Exec(t.Context(), "COMMIT"); err != nil {
		t.Fatal(err)
	}
	if err := <-waited; err != nil {
		t.Error(err)
	}
}
