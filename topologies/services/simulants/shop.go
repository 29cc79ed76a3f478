package simulants

import (
	"math/bits"
	"time"
)

// mostGoods is how many items a shard tells apart; what it hears of behind them,
// players neither buy nor count.
const mostGoods = 64

// catalog numbers the items that a shard has heard of, so that what a player owns is a
// bit each.
type catalog struct {
	goods  []good
	number map[string]int // by item
}

// find gives an item's number; false if it has none.
func (c *catalog) find(item string) (int, bool) {
	n, known := c.number[item]
	if !known && len(c.goods) < mostGoods {
		if c.number == nil {
			c.number = map[string]int{}
		}
		n, known = len(c.goods), true
		c.number[item] = n
		c.goods = append(c.goods, good{Item: item})
	}
	return n, known
}

// set gives items by their numbers, a bit each.
func (c *catalog) set(items []string) (set uint64) {
	for _, item := range items {
		if n, known := c.find(item); known {
			set |= 1 << n
		}
	}
	return set
}

// shopped goes on with a purchase: the wallet, the inventory of a player who does not
// know it, the catalog, the item, and then whether wallet and inventory show it.
func (s *shard) shopped(a *action, r *result, now time.Duration) {
	place := a.place
	p := &s.population[place]
	switch {
	case r.became == succeeded && p.step == buyWallet && !p.knowing(knowsItems):
		s.enter(place, buyOwned, s.think(), now)
	case r.became == succeeded && (p.step == buyWallet || p.step == buyOwned):
		s.enter(place, buyCatalog, s.think(), now)
	case r.became == succeeded && p.step == buyCatalog:
		if !s.choose(p, r.goods) {
			s.end(place, nothing)
			return
		}
		s.enter(place, buyBuy, s.think(), now)
	case p.step == buyBuy && r.became == succeeded:
		s.enter(place, buyWalletAfter, s.think(), now)
	case p.step == buyBuy && r.became == declined:
		s.end(place, nothing)
	case r.became == succeeded && p.step == buyWalletAfter:
		s.enter(place, buyInventory, s.think(), now)
	case r.became == succeeded && p.step == buyInventory:
		s.end(place, done)
	default:
		s.end(place, broken)
	}
}

// choose draws an item of those on offer that a player does not own and can pay.
func (s *shard) choose(p *player, goods []good) bool {
	can := uint64(0)
	for _, g := range goods {
		n, known := s.catalog.find(g.Item)
		if !known {
			continue
		}
		s.catalog.goods[n].Price = g.Price
		if g.Price <= p.balance {
			can |= 1 << n
		}
	}
	can &^= p.owned
	if can == 0 {
		return false
	}
	p.item = s.draw(can)
	return true
}

// draw draws one of the numbers in a set that is not empty.
func (s *shard) draw(set uint64) uint8 {
	for range s.rng.IntN(bits.OnesCount64(set)) {
		set &= set - 1 // without the lowest
	}
	return uint8(bits.TrailingZeros64(set))
}

// dressed goes on with a change of the skin: the inventory, one item of it, and then
// whether the inventory shows it.
func (s *shard) dressed(a *action, r *result, now time.Duration) {
	place := a.place
	p := &s.population[place]
	switch {
	case r.became == succeeded && p.step == skinInventory:
		if p.owned == 0 {
			s.end(place, nothing)
			return
		}
		p.item = s.draw(p.owned)
		s.enter(place, skinEquip, s.think(), now)
	case r.became == succeeded && p.step == skinEquip:
		s.enter(place, skinLook, s.think(), now)
	case r.became == succeeded && p.step == skinLook:
		s.end(place, done)
	default:
		s.end(place, broken)
	}
}
