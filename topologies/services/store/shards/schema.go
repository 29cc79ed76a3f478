package shards

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"relapse/topologies/services/platform/api"
)

// MostOp is how long the id of an operation may be, in characters. With bounds on all
// texts, rows need no second table for long ones, of which there would be 128 more.
const MostOp = 128

// Kind is one of the three tables of PostgreSQL that a table consists of.
type Kind struct {
	Name    string
	Columns []string // all of them; one is the player
	create  [api.Tables]string
}

// The kinds.
var (
	// Wallet has a row for each player who has had to do with money: what can be
	// spent, what is locked for purchases under way, and what was ever granted and
	// spent. The version rises with every change.
	Wallet = kind("wallet", []string{"player", "balance", "locked", "granted", "spent", "version"}, `
		create table if not exists wallet_NN (
			player  bigint primary key,
			balance bigint not null check (balance >= 0),
			locked  bigint not null default 0 check (locked >= 0),
			granted bigint not null default 0,
			spent   bigint not null default 0,
			version bigint not null default 1
		);`)

	// Inventory has a row for each item that a player owns, with the operation that it
	// was bought by and what that paid.
	Inventory = kind("inventory", []string{"player", "item", "op", "price", "equipped"}, `
		create table if not exists inventory_NN (
			player   bigint not null,
			item     varchar(64) not null,
			op       varchar(128) not null,
			price    bigint not null,
			equipped boolean not null default false,
			primary key (player, item)
		);`)

	// Ledger has a row for each operation of a player: kind is purchase or grant, state is locked,
	// settled or released. The answer is what the operation's caller was told, and is
	// forgotten at answer_until; the row is kept.
	Ledger = kind("ledger", []string{"player", "op", "kind", "item", "amount", "state", "answer", "answer_until", "lease_until", "began"}, `
		create table if not exists ledger_NN (
			player       bigint not null,
			op           varchar(128) not null,
			kind         varchar(16) not null,
			item         varchar(64) not null,
			amount       bigint not null,
			state        varchar(16) not null,
			answer       bigint,
			answer_until timestamptz,
			lease_until  timestamptz,
			began        timestamptz not null default clock_timestamp(),
			primary key (player, op)
		);
		create index if not exists ledger_NN_locked on ledger_NN (lease_until) where state = 'locked';`)
)

// Kinds lists all of them.
var Kinds = []Kind{Wallet, Inventory, Ledger}

func kind(name string, columns []string, create string) Kind {
	return Kind{Name: name, Columns: columns, create: PerTable(create)}
}

// Table is the kind's name in PostgreSQL, of one table.
func (k Kind) Table(table int) string { return fmt.Sprintf("%s_%02d", k.Name, table) }

// PerTable gives a statement once for each table: its number, in two digits, stands
// where the statement has _NN.
func PerTable(statement string) (all [api.Tables]string) {
	for table := range all {
		all[table] = strings.ReplaceAll(statement, "_NN", fmt.Sprintf("_%02d", table))
	}
	return all
}

// base has what every database has.
const base = `
	create table if not exists placement (
		tbl      smallint primary key,
		epoch    bigint not null,
		state    text not null check (state in ('open', 'copying', 'stopped', 'moved', 'dropped', 'incoming')),
		writable boolean not null generated always as (state in ('open', 'copying')) stored,
		move     bigint not null default 0,
		peer     text not null default '',
		until    timestamptz
	);
	create table if not exists changes (
		tbl    smallint not null,
		player bigint not null
	);
	create index if not exists changes_tbl on changes (tbl);
	create table if not exists modulus (
		single boolean primary key default true check (single),
		epoch  bigint not null,
		was    int not null,
		n      int not null
	);`

// CreateTables makes tables that are not there. It makes no placement.
func CreateTables(ctx context.Context, tx pgx.Tx, tables ...int) error {
	var all strings.Builder
	for _, table := range tables {
		for _, k := range Kinds {
			all.WriteString(k.create[table])
		}
	}
	_, err := tx.Exec(ctx, all.String())
	return err
}

// DropTable drops a table if it is there, and what was noted of it.
func DropTable(ctx context.Context, tx pgx.Tx, table int) error {
	for _, k := range Kinds {
		if _, err := tx.Exec(ctx, "drop table if exists "+k.Table(table)); err != nil {
			return err
		}
	}
	_, err := tx.Exec(ctx, `delete from changes where tbl = $1`, table)
	return err
}
