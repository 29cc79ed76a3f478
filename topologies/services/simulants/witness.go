package simulants

import (
	"fmt"
	"net/http"
)

// claim is something that a player was told, and that what it is told later must agree
// with. The harness compares them as a witness from outside: it reads no database and
// asks no service what it believes.
type claim uint8

const (
	saysAnswer   claim = iota // an answer that says yes can be read
	saysPlayer                // an answer that names a player names the one who asked
	saysToken                 // a token is known for as long as it was said to last
	saysBalance               // what buying leaves is what there was less the price
	saysWallet                // the wallet read is as it was told
	saysStale                 // the wallet read is not one of before a change
	saysItems                 // the inventory has what was bought, and nothing else
	saysEquipped              // the inventory shows the skin that was put on
	saysRefused               // what is refused could not be had, by what was told
	saysMatch                 // a match that is over has granted something
	claims
)

var claimNames = [claims]string{"answer", "player", "token", "balance", "wallet", "wallet_stale", "items", "equipped", "refused", "match"}

// mostTold is how many mismatches are logged; all are counted.
const mostTold = 50

// check counts a comparison, and one that does not hold once more.
func (s *shard) check(p *player, c claim, holds bool, format string, args ...any) bool {
	s.h.metrics.checks[c].Inc()
	if holds {
		return true
	}
	s.h.metrics.mismatches[c].Inc()
	if s.h.told.Add(1) <= mostTold {
		s.h.log.Warn(fmt.Sprintf(format, args...), "player", p.number, "what", claimNames[c])
	}
	return false
}

// witness compares an answer with what the player was told before, and has the player
// remember it.
func (s *shard) witness(p *player, a *action, r *result) {
	switch {
	case a.by == onScenario && a.number != p.ops:
		return // of a step that is over
	case r.became == declined:
		s.declined(p, a, r)
		return
	case r.became != succeeded || !calls[a.op].answer && a.op != opEquip:
		return
	case !s.check(p, saysAnswer, r.bad == nil, "%s: an answer that cannot be read: %v", calls[a.op].name, r.bad):
		return
	}
	if whose := r.answer.Settings.Player; whose != nil {
		r.foreign = !s.check(p, saysPlayer, *whose == p.id().String(), "%s: an answer for player %s", calls[a.op].name, *whose)
	}
	switch {
	case a.op == opWallet && p.step != matchResult: // which expects a change
		s.readWallet(p, r)
	case a.op == opBuy:
		s.bought(p, r)
	case a.op == opInventory:
		s.readInventory(p, r)
	case a.op == opEquip:
		p.equipped = p.item
		p.learn(knowsEquipped)
	}
}

// declined checks that what is refused could not be had.
func (s *shard) declined(p *player, a *action, r *result) {
	if r.status != http.StatusConflict {
		return // locked for the moment
	}
	switch a.op {
	case opBuy:
		s.check(p, saysRefused, !p.knowing(knowsWallet|knowsItems), "%s is refused at %d, with a balance of %d and items %b",
			a.what, s.catalog.goods[p.item].Price, p.balance, p.owned)
		// Whatever the platform has is news.
		p.forget(knowsWallet | knowsItems | unsettled)
	case opEquip:
		s.check(p, saysRefused, !p.knowing(knowsItems), "%s is refused, which it owns", a.what)
		p.forget(knowsItems)
	}
}

func (s *shard) readWallet(p *player, r *result) {
	balance, version := *r.answer.Balance, uint32(r.answer.Version)
	if p.knowing(knowsWallet) {
		granted := s.granted(p, balance-p.balance)
		stale := balance != p.balance && !granted && p.knowing(changedWallet) && version != 0 && version <= p.version
		if !s.check(p, saysStale, !stale, "it was told that a purchase leaves %d, and reads %d of version %d, from before that",
			p.balance, balance, version) {
			return // what it was told is newer
		}
		s.check(p, saysWallet, balance == p.balance || granted, "it was told that it has %d, and reads %d", p.balance, balance)
	}
	p.noteWallet(balance, version)
}

// noteWallet has a player know what it has, unless that can change without a word.
func (p *player) noteWallet(balance int64, version uint32) {
	p.balance, p.version = balance, version
	p.forget(changedWallet)
	if !p.knowing(unsettled) {
		p.learn(knowsWallet)
	}
}

func (s *shard) bought(p *player, r *result) {
	price, balance := s.catalog.goods[p.item].Price, *r.answer.Balance
	if p.knowing(knowsWallet) {
		by := balance - (p.balance - price)
		s.check(p, saysBalance, by == 0 || s.granted(p, by), "it had %d and paid %d for %s, which leaves %d by the answer",
			p.balance, price, s.catalog.goods[p.item].Item, balance)
	}
	p.balance = balance
	p.owned |= 1 << p.item
	// A store finishes a purchase before it begins the player's next one.
	p.forget(unsettled)
	p.learn(knowsWallet | changedWallet)
}

// granted says whether a wallet may hold so much more than a player was told, because
// of a match that the player left before its end.
func (s *shard) granted(p *player, by int64) bool {
	if by <= 0 || !p.knowing(mayBeGranted) {
		return false
	}
	p.forget(mayBeGranted)
	return true
}

func (s *shard) readInventory(p *player, r *result) {
	items, equipped := s.catalog.set(r.answer.Items), r.answer.Equipped
	if p.knowing(knowsItems) {
		s.check(p, saysItems, items == p.owned, "it was told that it owns items %b, and reads %b", p.owned, items)
	}
	if p.knowing(knowsEquipped) {
		s.check(p, saysEquipped, equipped == s.catalog.goods[p.equipped].Item, "it has put on %s, and reads %q",
			s.catalog.goods[p.equipped].Item, equipped)
	}
	p.owned = items
	if !p.knowing(unsettled) {
		p.learn(knowsItems)
	}
	p.forget(knowsEquipped)
	if equipped == "" {
		return
	}
	if n, known := s.catalog.find(equipped); known {
		p.equipped = uint8(n)
		p.learn(knowsEquipped)
	}
}
