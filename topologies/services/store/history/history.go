// Package history checks the rows of a store, read as they are from its databases by a
// party that is not under test, against what must hold whatever happens to the store.
//
// A round is all rows of one of the 64 tables, read in one snapshot of each database
// that has them. Rounds of a table follow each other; a violation is said when two in a
// row show it, the grace or more apart, so that what is between two databases, or a
// purchase that is under way without a ledger, is no violation. It is said once, until
// it is gone.
//
// The invariants:
//
//   - money: what a wallet began with, and was granted, less what it spent, is what
//     can be spent and what is locked. None of them is below zero.
//   - book: what is locked, was spent and was granted is what the ledger's entries sum
//     up to: the unfinished purchases, the settled ones, the grants. Without a ledger
//     nothing is locked.
//   - charged: who has paid for an item has it, by the purchase that paid for it; so
//     nobody has paid for one item twice. Without a ledger: what was spent is not more
//     than the prices of the items owned.
//   - unpaid: every item is owned by a purchase that is settled, or under way. Without
//     a ledger: what was spent is not less than the prices of the items owned.
//   - doubled: no table is served by two databases, and with hash-mod-n no player is on
//     two.
//   - lost: a player who was there is there, and has a wallet if there is anything else.
//   - rolled-back: a wallet's version never falls, nor does the number of a player's
//     items, nor of the ledger's entries.
//   - left-behind: where a table has moved away, nothing is newer than in its new home.
//   - overdue: no purchase is unfinished for longer than the bound.
//
// Documented (Riot, 2020) are the ledger of unfinished operations, retries that change
// nothing twice, and locked states, since no transaction covers two services; that
// they keep money and items exact is this project's reading.
package history

import (
	"fmt"
	"time"
)

// Names of the invariants.
const (
	Money      = "money"
	Book       = "book"
	Charged    = "charged"
	Unpaid     = "unpaid"
	Doubled    = "doubled"
	Lost       = "lost"
	RolledBack = "rolled-back"
	LeftBehind = "left-behind"
	Overdue    = "overdue"
)

// Invariants lists all of them.
var Invariants = []string{Money, Book, Charged, Unpaid, Doubled, Lost, RolledBack, LeftBehind, Overdue}

// Round is what one table was, wherever it was.
type Round struct {
	At    time.Duration // when it was begun, on one monotonic clock
	Table int
	// Incomplete says that a database did not answer: what is not here may be there.
	Incomplete bool
	// Homes are the databases that have the table. Those that are old were read before
	// the others.
	Homes []Home
}

// Home is the rows of a table on one database, in one snapshot.
type Home struct {
	Database string
	Epoch    int64
	Old      bool // the table has moved away, and what is here was left behind
	Wallets  []Wallet
	Items    []Item
	Entries  []Entry
}

// Wallet is a row of wallet_NN.
type Wallet struct {
	Player  int64
	Balance int64 // that can be spent
	Locked  int64 // for purchases under way
	Granted int64 // ever
	Spent   int64 // ever
	Version int64 // rises with every change
}

// Item is a row of inventory_NN.
type Item struct {
	Player int64
	Item   string
	Op     string // of the purchase that it was bought by
	Price  int64
}

// Kinds and states of an [Entry].
const (
	Purchase = "purchase"
	Grant    = "grant"

	Locked   = "locked"   // the money is, and the item may be there
	Settled  = "settled"  // paid, or granted
	Released = "released" // the money was given back
)

// Entry is a row of ledger_NN.
type Entry struct {
	Op     string
	Player int64
	Kind   string
	Item   string
	Amount int64
	State  string
	Age    float64 // seconds since it was made, on the database's clock
}

// Violation is one thing that must not be.
type Violation struct {
	Invariant string
	Table     int
	Player    int64 // below zero where it is the table's
	Says      string
	At        time.Duration
}

// String gives a violation in one line.
func (v Violation) String() string {
	who := fmt.Sprintf("table %02d", v.Table)
	if v.Player >= 0 {
		who += fmt.Sprintf(", player %d", v.Player)
	}
	return fmt.Sprintf("%.3f s: %s: %s: %s", v.At.Seconds(), v.Invariant, who, v.Says)
}
