package shards

import (
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Scheme is how a player's database is found.
type Scheme string

// The schemes.
const (
	ByTable   Scheme = "tables"     // it is the home of the player's table
	ByModulus Scheme = "hash-mod-n" // it is the player's number modulo the number of databases
)

// Defaults; the source gives none of them.
const (
	DefaultUser        = "postgres"
	DefaultName        = "postgres"
	DefaultConnections = 8
	DefaultTimeout     = time.Second
)

// Config is which databases there are, and how they are used.
type Config struct {
	// Databases are HOST:PORT or HOST:PORT/NAME. Their order stays, and new ones are
	// added at the end; some of them may have no rows yet.
	Databases []string
	Name      string // of the database on a server where Databases names none
	User      string
	Password  string

	// Spread is how many of the databases, from the first one on, have rows to begin
	// with; 0 for all.
	Spread int
	Scheme Scheme // "" for ByTable

	Connections int           // to each database at most; 0 for the default, 2 at least
	Timeout     time.Duration // of a transaction with all its waits; 0 for the default

	// Unfenced has writes ignore what the placement says. It shows that an audit sees
	// what the fence prevents.
	Unfenced bool

	Log *slog.Logger // nil for none
}

// Flags adds the flags that say which databases there are.
func (c *Config) Flags(flags *flag.FlagSet) {
	flags.Func("databases", "PostgreSQL servers, HOST:PORT or HOST:PORT/NAME, separated by commas, in an order that stays", func(s string) error {
		c.Databases = nil
		for part := range strings.SplitSeq(s, ",") {
			c.Databases = append(c.Databases, strings.TrimSpace(part))
		}
		return nil
	})
	flags.StringVar(&c.User, "user", DefaultUser, "user of the databases")
	flags.StringVar(&c.Password, "password", "", "password of that user")
	flags.StringVar(&c.Name, "name", DefaultName, "name of the database on each server")
	flags.IntVar(&c.Spread, "spread", 0, "how many of the databases, from the first on, have rows to begin with; 0 for all")
	flags.BoolFunc("single-database", "all rows on the first database, without the documented split over several", func(s string) error {
		single, err := strconv.ParseBool(s)
		if single {
			c.Spread = 1
		}
		return err
	})
	flags.Func("scheme", "tables: whole tables on databases, as documented; hash-mod-n: rows by the player's number modulo the number of databases, which the documented tables avoid (default tables)", func(s string) error {
		c.Scheme = Scheme(s)
		return nil
	})
	flags.IntVar(&c.Connections, "connections", DefaultConnections, "connections to each database at most")
	flags.DurationVar(&c.Timeout, "query-timeout", DefaultTimeout, "a transaction's time, with its waits for a connection, a lock or a write stop")
}

func (c Config) complete() (Config, error) {
	for _, d := range []struct {
		field *string
		value string
	}{{&c.User, DefaultUser}, {&c.Name, DefaultName}} {
		if *d.field == "" {
			*d.field = d.value
		}
	}
	if c.Scheme == "" {
		c.Scheme = ByTable
	}
	if c.Connections == 0 {
		c.Connections = DefaultConnections
	}
	if c.Timeout == 0 {
		c.Timeout = DefaultTimeout
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	for i, database := range c.Databases {
		if slices.Contains(c.Databases[:i], database) {
			return c, fmt.Errorf("shards: database %s is there twice; its rows would be taken for those of two", database)
		}
	}
	switch {
	case len(c.Databases) == 0:
		return c, errors.New("shards: no databases; give --databases=HOST:PORT,…")
	case c.Spread < 0 || c.Spread > len(c.Databases):
		return c, fmt.Errorf("shards: a spread over %d of %d databases: want 1 to %d, or 0 for all", c.Spread, len(c.Databases), len(c.Databases))
	case c.Scheme != ByTable && c.Scheme != ByModulus:
		return c, fmt.Errorf("shards: scheme %q: want %s or %s", c.Scheme, ByTable, ByModulus)
	case c.Connections < 2:
		return c, fmt.Errorf("shards: %d connections: want 2 at least, as whoever holds a lock needs another one to work", c.Connections)
	case c.Timeout < 0:
		return c, fmt.Errorf("shards: a transaction may take %v: want more than zero", c.Timeout)
	}
	if c.Spread == 0 {
		c.Spread = len(c.Databases)
	}
	return c, nil
}
