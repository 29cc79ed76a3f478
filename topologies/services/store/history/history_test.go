package history_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"relapse/topologies/services/store/history"
)

const initial = 1000

func checker(t *testing.T, change func(*history.Config)) *history.Checker {
	t.Helper()
	c := history.Config{Initial: initial, Bound: 10 * time.Second}
	change(&c)
	checker, err := history.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return checker
}

// withLedger is a home where player 1 has bought a hat for 300 by op-1, was granted 50
// by op-2, and is about to buy a coat for 200 by op-3; player 2 has done nothing.
func withLedger(database string, change func(*history.Home)) history.Home {
	h := history.Home{
		Database: database, Epoch: 1,
		Wallets: []history.Wallet{
			{Player: 1, Balance: 550, Locked: 200, Granted: 50, Spent: 300, Version: 5},
			{Player: 2, Balance: initial, Version: 1},
		},
		Items: []history.Item{{Player: 1, Item: "hat", Op: "op-1", Price: 300}},
		Entries: []history.Entry{
			{Op: "op-1", Player: 1, Kind: history.Purchase, Item: "hat", Amount: 300, State: history.Settled, Age: 60},
			{Op: "op-2", Player: 1, Kind: history.Grant, Amount: 50, State: history.Settled, Age: 50},
			{Op: "op-3", Player: 1, Kind: history.Purchase, Item: "coat", Amount: 200, State: history.Locked, Age: 1},
			{Op: "op-0", Player: 1, Kind: history.Purchase, Item: "hat", Amount: 300, State: history.Released, Age: 55},
		},
	}
	change(&h)
	return h
}

// without is a home where player 1 has bought a hat for 300 and was granted 50.
func without(database string, change func(*history.Home)) history.Home {
	h := history.Home{
		Database: database, Epoch: 1,
		Wallets: []history.Wallet{{Player: 1, Balance: 750, Granted: 50, Spent: 300, Version: 3}, {Player: 2, Balance: initial, Version: 1}},
		Items:   []history.Item{{Player: 1, Item: "hat", Op: "op-1", Price: 300}},
	}
	change(&h)
	return h
}

func asItIs(*history.Home) {}

func none(*history.Config) {}

func noLedger(c *history.Config) { c.NoLedger = true }

func byRow(c *history.Config) { c.ByRow = true }

// TestInvariants shows every round twice, the first one before what is checked and two
// after it.
func TestInvariants(t *testing.T) {
	coat := history.Item{Player: 1, Item: "coat", Op: "op-3", Price: 200}
	for _, c := range []struct {
		name   string
		config func(*history.Config)
		before []history.Home
		after  []history.Home
		want   []string // invariant and player of each violation, in their order
	}{
		{"all is well", none, []history.Home{withLedger("a", asItIs)}, []history.Home{withLedger("a", asItIs)}, nil},
		{"the item of a purchase under way is there", none, nil, []history.Home{withLedger("a", func(h *history.Home) {
			h.Items = append(h.Items, coat)
		})}, nil},

		{"money is gone", none, nil, []history.Home{withLedger("a", func(h *history.Home) { h.Wallets[0].Balance -= 10 })}, []string{"money 1"}},
		{"money came from nowhere", none, nil, []history.Home{withLedger("a", func(h *history.Home) { h.Wallets[1].Balance += 10 })}, []string{"money 2"}},
		{"a debt", none, nil, []history.Home{withLedger("a", func(h *history.Home) {
			h.Wallets[1].Balance, h.Wallets[1].Locked = -200, 1200
		})}, []string{"money 2", "book 2"}},

		{"locked by nothing", none, nil, []history.Home{withLedger("a", func(h *history.Home) {
			h.Wallets[1].Balance, h.Wallets[1].Locked = 900, 100
		})}, []string{"book 2"}},
		{"spent on nothing", none, nil, []history.Home{withLedger("a", func(h *history.Home) {
			h.Wallets[1].Balance, h.Wallets[1].Spent = 900, 100
		})}, []string{"book 2"}},
		{"granted by nobody", none, nil, []history.Home{withLedger("a", func(h *history.Home) {
			h.Wallets[1].Balance, h.Wallets[1].Granted = 1100, 100
		})}, []string{"book 2"}},

		{"paid, and no item", none, nil, []history.Home{withLedger("a", func(h *history.Home) { h.Items = nil })}, []string{"charged 1"}},
		{"paid twice for one item", none, nil, []history.Home{withLedger("a", func(h *history.Home) {
			h.Wallets[0].Balance, h.Wallets[0].Spent = 250, 600
			h.Entries[3].State = history.Settled
		})}, []string{"charged 1"}},

		{"an item that nobody paid", none, nil, []history.Home{withLedger("a", func(h *history.Home) {
			h.Items = append(h.Items, history.Item{Player: 2, Item: "hat", Op: "op-9", Price: 300})
		})}, []string{"unpaid 2"}},
		{"an item whose money was given back", none, nil, []history.Home{withLedger("a", func(h *history.Home) {
			h.Items = append(h.Items, history.Item{Player: 1, Item: "cap", Op: "op-0", Price: 300})
		})}, []string{"unpaid 1"}},

		{"unfinished for too long", none, nil, []history.Home{withLedger("a", func(h *history.Home) { h.Entries[2].Age = 11 })}, []string{"overdue 1"}},

		{"two homes", none, nil, []history.Home{withLedger("a", asItIs), withLedger("b", func(h *history.Home) { h.Epoch = 2 })}, []string{"doubled -1"}},
		{"a move", none, []history.Home{withLedger("a", asItIs)}, []history.Home{withLedger("b", func(h *history.Home) { h.Epoch = 2 })}, nil},
		{"between two homes", none, []history.Home{withLedger("a", asItIs)}, []history.Home{withLedger("a", func(h *history.Home) { h.Old = true })}, nil},

		{"a player is gone", none, []history.Home{withLedger("a", asItIs)}, []history.Home{withLedger("a", func(h *history.Home) {
			h.Wallets = h.Wallets[:1]
		})}, []string{"lost 2"}},
		{"a wallet is gone", none, nil, []history.Home{withLedger("a", func(h *history.Home) { h.Wallets = h.Wallets[1:] })}, []string{"lost 1"}},

		{"a write is gone", none, []history.Home{withLedger("a", asItIs)}, []history.Home{withLedger("a", func(h *history.Home) {
			h.Wallets[1].Version = 0
		})}, []string{"rolled-back 2"}},
		{"an entry is gone", none, []history.Home{withLedger("a", asItIs)}, []history.Home{withLedger("a", func(h *history.Home) {
			h.Entries = h.Entries[:3]
		})}, []string{"rolled-back 1"}},
		{"an item is gone, with its purchase", none, []history.Home{withLedger("a", asItIs)}, []history.Home{withLedger("a", func(h *history.Home) {
			h.Items = nil
			h.Entries[0].State = history.Released
			h.Wallets[0].Balance, h.Wallets[0].Spent = 850, 0
		})}, []string{"rolled-back 1"}},

		{"newer where it was before", none, nil, []history.Home{
			withLedger("a", func(h *history.Home) { h.Old, h.Wallets[1].Version = true, 2 }),
			withLedger("b", func(h *history.Home) { h.Epoch = 2 }),
		}, []string{"left-behind 2"}},
		{"as new where it was before", none, nil, []history.Home{
			withLedger("a", func(h *history.Home) { h.Old = true }),
			withLedger("b", func(h *history.Home) { h.Epoch = 2 }),
		}, nil},

		{"all is well without a ledger", noLedger, nil, []history.Home{without("a", asItIs)}, nil},
		{"paid without a ledger, and no item", noLedger, nil, []history.Home{without("a", func(h *history.Home) { h.Items = nil })}, []string{"charged 1"}},
		{"not paid without a ledger", noLedger, nil, []history.Home{without("a", func(h *history.Home) {
			h.Items = append(h.Items, coat)
		})}, []string{"unpaid 1"}},
		{"locked without a ledger", noLedger, nil, []history.Home{without("a", func(h *history.Home) {
			h.Wallets[1].Balance, h.Wallets[1].Locked = 900, 100
		})}, []string{"book 2"}},
		{"money is gone without a ledger", noLedger, nil, []history.Home{without("a", func(h *history.Home) { h.Wallets[1].Balance-- })}, []string{"money 2"}},

		{"a table on two databases by row", byRow, nil, []history.Home{
			withLedger("a", func(h *history.Home) { h.Wallets = h.Wallets[:1] }),
			withLedger("b", func(h *history.Home) { h.Wallets, h.Items, h.Entries = h.Wallets[1:], nil, nil }),
		}, nil},
		{"a player on two databases by row", byRow, nil, []history.Home{
			withLedger("a", asItIs),
			withLedger("b", func(h *history.Home) { h.Wallets, h.Items, h.Entries = h.Wallets[1:], nil, nil }),
		}, []string{"doubled 2"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			have := checker(t, c.config)
			add := func(at time.Duration, homes []history.Home) (found []string) {
				for _, v := range have.Add(history.Round{At: at, Table: 7, Homes: homes}) {
					if v.Table != 7 || v.At != at || v.String() == "" {
						t.Errorf("have %+v, want table 7 at %v", v, at)
					}
					found = append(found, fmt.Sprintf("%s %d", v.Invariant, v.Player))
				}
				return found
			}
			if found := add(time.Second, c.before); found != nil {
				t.Errorf("before: have %v, want nothing", found)
			}
			for at, want := range [][]string{nil, c.want, nil} { // seen once, said, said already
				if found := add(time.Duration(10+at)*time.Second, c.after); !slices.Equal(found, want) {
					t.Errorf("round %d: have %v, want %v", at, found, want)
				}
			}
		})
	}
}

func TestARoundThatIsIncompleteTakesNobodyForLost(t *testing.T) {
	have := checker(t, none)
	have.Add(history.Round{At: 0, Homes: []history.Home{withLedger("a", asItIs)}})
	for at := range 3 {
		found := have.Add(history.Round{At: time.Duration(at+1) * 10 * time.Second, Incomplete: true, Homes: []history.Home{
			withLedger("b", func(h *history.Home) { h.Wallets = h.Wallets[:1] }),
		}})
		if len(found) > 0 {
			t.Errorf("have %v, want nothing", found)
		}
	}
}

func TestAViolationTakesTwoRoundsTheGraceApart(t *testing.T) {
	bad := []history.Home{withLedger("a", func(h *history.Home) { h.Wallets[1].Balance-- })}
	worse := []history.Home{withLedger("a", func(h *history.Home) { h.Wallets[1].Balance -= 2 })}
	good := []history.Home{withLedger("a", asItIs)}
	have := checker(t, func(c *history.Config) { c.Grace = 3 * time.Second })
	for i, round := range []struct {
		homes []history.Home
		want  int
	}{
		{bad, 0}, {bad, 0}, {bad, 0}, {bad, 1}, {bad, 0}, // said once
		{good, 0}, {bad, 0}, {good, 0}, {bad, 0}, {bad, 0}, {bad, 0}, {bad, 1}, // gone, and there again
		{worse, 0}, {worse, 0}, {worse, 0}, {worse, 1}, // another one
	} {
		found := have.Add(history.Round{At: time.Duration(i) * time.Second, Homes: round.homes})
		if len(found) != round.want {
			t.Errorf("round %d: have %v, want %d", i, found, round.want)
		}
	}
}

func TestTablesAreCheckedApart(t *testing.T) {
	have := checker(t, none)
	for at := range 3 {
		for table := range 2 {
			home := withLedger("a", func(h *history.Home) { h.Wallets = h.Wallets[table : table+1 : table+1] })
			if table == 1 {
				home.Items, home.Entries = nil, nil
			}
			if found := have.Add(history.Round{At: time.Duration(at) * 10 * time.Second, Table: table, Homes: []history.Home{home}}); len(found) > 0 {
				t.Errorf("table %d: have %v, want nothing", table, found)
			}
		}
	}
}

func TestNewRefusesWhatItCannotCheck(t *testing.T) {
	for name, c := range map[string]history.Config{
		"a debt to begin with": {Initial: -1, Bound: time.Second},
		"no bound":             {},
		"a negative grace":     {Bound: time.Second, Grace: -1},
	} {
		if _, err := history.New(c); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
