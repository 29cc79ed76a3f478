package history

import (
	"fmt"
	"slices"
)

// person is all rows of one player.
type person struct {
	player    int64
	hasWallet bool
	wallet    Wallet
	items     []Item
	entries   []Entry
}

func (p person) known() known { return known{p.wallet.Version, len(p.items), len(p.entries)} }

// gather sorts rows by player. Of a player who is on several databases, the one with
// the highest version counts.
func gather(homes []Home) (people []person, doubled []finding) {
	all := map[int64]person{}
	on := map[int64]string{}
	for _, h := range homes {
		for player, p := range byPlayer(h) {
			other, twice := all[player]
			if twice && p.hasWallet && other.hasWallet {
				doubled = append(doubled, finding{Doubled, player, fmt.Sprintf("the player is on %s and on %s", on[player], h.Database)})
			}
			if !twice || other.wallet.Version < p.wallet.Version {
				all[player], on[player] = *p, h.Database
			}
		}
	}
	for _, p := range all {
		people = append(people, p)
	}
	slices.SortFunc(people, func(a, b person) int { return order(finding{player: a.player}, finding{player: b.player}) })
	slices.SortFunc(doubled, order)
	return people, doubled
}

func byPlayer(h Home) map[int64]*person {
	all := map[int64]*person{}
	of := func(player int64) *person {
		if all[player] == nil {
			all[player] = &person{player: player}
		}
		return all[player]
	}
	for _, w := range h.Wallets {
		p := of(w.Player)
		p.hasWallet, p.wallet = true, w
	}
	for _, i := range h.Items {
		p := of(i.Player)
		p.items = append(p.items, i)
	}
	for _, e := range h.Entries {
		p := of(e.Player)
		p.entries = append(p.entries, e)
	}
	return all
}

// person checks the rows of one player against each other.
func (c *Checker) person(p person) (found []finding) {
	say := func(invariant, format string, args ...any) {
		found = append(found, finding{invariant, p.player, fmt.Sprintf(format, args...)})
	}
	w := p.wallet
	if !p.hasWallet {
		say(Lost, "there are %d items and %d entries and no wallet", len(p.items), len(p.entries))
		return found
	}
	if off := c.config.Initial + w.Granted - w.Spent - w.Balance - w.Locked; off != 0 {
		say(Money, "it began with %d, was granted %d and spent %d; it has %d and %d locked, which is %d too few", c.config.Initial, w.Granted, w.Spent, w.Balance, w.Locked, off)
	}
	if min(w.Balance, w.Locked, w.Granted, w.Spent) < 0 {
		say(Money, "it has %d and %d locked, was granted %d and spent %d: want none below zero", w.Balance, w.Locked, w.Granted, w.Spent)
	}
	if c.config.NoLedger {
		c.withoutLedger(p, say)
	} else {
		c.withLedger(p, say)
	}
	return found
}

type sayFunc func(invariant, format string, args ...any)

func (c *Checker) withoutLedger(p person, say sayFunc) {
	if p.wallet.Locked != 0 {
		say(Book, "%d is locked, and there is no ledger that says for what", p.wallet.Locked)
	}
	prices := int64(0)
	for _, i := range p.items {
		prices += i.Price
	}
	switch spent := p.wallet.Spent; {
	case spent > prices:
		say(Charged, "%d was spent, and the items owned cost %d", spent, prices)
	case spent < prices:
		say(Unpaid, "%d was spent, and the items owned cost %d", spent, prices)
	}
}

func (c *Checker) withLedger(p person, say sayFunc) {
	owned := map[string]Item{}
	for _, i := range p.items {
		owned[i.Item] = i
	}
	paid := map[string]bool{} // ops of purchases that may have an item
	var locked, spent, granted int64
	for _, e := range p.entries {
		switch {
		case e.Kind == Grant:
			granted += e.Amount
		case e.State == Locked:
			locked += e.Amount
			paid[e.Op] = true
			if e.Age > c.config.Bound.Seconds() {
				say(Overdue, "purchase %s of %s is unfinished for longer than %v", e.Op, e.Item, c.config.Bound)
			}
		case e.State == Settled:
			spent += e.Amount
			paid[e.Op] = true
			switch i, has := owned[e.Item]; {
			case !has:
				say(Charged, "purchase %s paid %d for %s, which the player does not have", e.Op, e.Amount, e.Item)
			case i.Op != e.Op:
				say(Charged, "purchase %s paid %d for %s, which the player has by purchase %s", e.Op, e.Amount, e.Item, i.Op)
			}
		}
	}
	for _, i := range p.items {
		if !paid[i.Op] {
			say(Unpaid, "the player has %s by purchase %s, which has not paid", i.Item, i.Op)
		}
	}
	for _, sum := range []struct {
		of           string
		wallet, book int64
	}{
		{"locked", p.wallet.Locked, locked}, {"spent", p.wallet.Spent, spent}, {"granted", p.wallet.Granted, granted},
	} {
		if sum.wallet != sum.book {
			say(Book, "the wallet has %d %s, and the ledger %d", sum.wallet, sum.of, sum.book)
		}
	}
}
