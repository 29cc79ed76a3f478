package simulants

import "time"

// kind is a scenario that is handed out.
type kind uint8

const (
	matching kind = iota // queue, agent select, match
	buying
	skinning
	kinds
)

var kindNames = [kinds]string{"match", "buy", "skin"}

// ending is how a scenario ended.
type ending uint8

const (
	done    ending = iota
	broken         // a step failed
	gaveUp         // what it waited for did not come
	nothing        // there was nothing to buy, or to put on
	nobody         // it was handed out, and nobody was free to play it
	left           // the player was gone before it was over
	endings
)

var endingNames = [endings]string{"done", "failed", "gave_up", "nothing", "nobody", "left"}

// step is a step of a scenario; each is one request, or several of the same until it
// has the answer that it waits for.
type step uint8

const (
	noStep step = iota
	buyWallet
	buyOwned
	buyCatalog
	buyBuy
	buyWalletAfter
	buyInventory
	skinInventory
	skinEquip
	skinLook
	matchParty // the leader; the others wait
	matchQueue
	matchTicket
	matchWait   // the others, without a request
	matchWallet // everyone, from here on
	matchAgent
	matchWatch
	matchResult
	matchUnqueue // the leader, if it gives up
	matchDisband // the leader
	steps
)

var stepOps = [steps]op{
	buyWallet: opWallet, buyOwned: opInventory, buyCatalog: opCatalog, buyBuy: opBuy, buyWalletAfter: opWallet, buyInventory: opInventory,
	skinInventory: opInventory, skinEquip: opEquip, skinLook: opInventory,
	matchParty: opParty, matchQueue: opQueue, matchTicket: opTicket,
	matchWallet: opWallet, matchAgent: opAgent, matchWatch: opMatch, matchResult: opWallet,
	matchUnqueue: opUnqueue, matchDisband: opDisband,
}

// kindOf is the scenario that a player is in.
func kindOf(st state) kind {
	switch st {
	case shopping:
		return buying
	case dressing:
		return skinning
	}
	return matching
}

// handOut has somebody who is free play a scenario, from a time on.
func (s *shard) handOut(k kind, at time.Duration) {
	s.recent[1+k].Add(at)
	if len(s.idle) == 0 {
		s.h.metrics.scenarios[k][nobody].Inc()
		return
	}
	switch k {
	case matching:
		s.meet(at)
	case buying:
		s.start(s.pick(), shopping, buyWallet, at)
	case skinning:
		s.start(s.pick(), dressing, skinInventory, at)
	}
}

// pick draws a player who is free, who is not any more then.
func (s *shard) pick() int32 {
	place := s.idle[s.rng.IntN(len(s.idle))]
	s.unlist(&s.population[place])
	return place
}

// start has a player play a scenario.
func (s *shard) start(place int32, st state, first step, at time.Duration) {
	p := &s.population[place]
	s.become(p, st)
	s.h.metrics.started[kindOf(st)].Inc()
	s.to(p, first)
	if !s.defers(p, onScenario) {
		s.act(place, at)
	}
}

// to has a player be at a step. Each has an operation id of its own, which its tries
// share.
func (s *shard) to(p *player, next step) {
	p.step, p.tries = next, 0
	p.ops++
}

// enter has a player take a step after a while.
func (s *shard) enter(place int32, next step, after, now time.Duration) {
	s.to(&s.population[place], next)
	s.again(place, after, now)
}

// again has a player take its step once more after a while.
func (s *shard) again(place int32, after, now time.Duration) {
	s.wheel.set(entry(place, onScenario), tickAfter(now+after))
}

// think draws what passes between two steps.
func (s *shard) think() time.Duration {
	return s.around(s.h.config.played(s.h.config.Think), 0.5)
}

// act has a player make the request of its step.
func (s *shard) act(place int32, at time.Duration) {
	p := &s.population[place]
	if p.step == noStep || p.step == matchWait {
		return
	}
	a := action{place: place, op: stepOps[p.step], by: onScenario, due: at}
	switch p.step {
	case buyBuy, skinEquip:
		a.what = s.catalog.goods[p.item].Item
	case matchParty:
		a.party = s.numbers(p.where)
	case matchQueue:
		a.id, a.party = s.groups[p.where].party, s.numbers(p.where)
	case matchTicket, matchUnqueue:
		a.id = s.groups[p.where].ticket
	case matchAgent:
		agents := s.h.config.Match.Agents
		a.id, a.what = s.groups[p.where].match, agents[(int(p.number)+int(p.item))%len(agents)]
	case matchWatch:
		a.id = s.groups[p.where].match
	case matchDisband:
		a.id = s.groups[p.where].party
	}
	s.send(p, a)
}

// stepEnded has a player go on from a step that has an answer, or that will have none.
func (s *shard) stepEnded(a *action, r *result, now time.Duration) {
	p := &s.population[a.place]
	switch {
	case a.number != p.ops:
		// Of a step that is over: the others have left the match meanwhile.
	case r.bad != nil || r.foreign:
		s.fail(a.place)
	case !r.definite():
		s.retry(a.place, now)
	case p.state == shopping:
		s.shopped(a, r, now)
	case p.state == dressing:
		s.dressed(a, r, now)
	default:
		s.matched(a, r, now)
	}
}

// retry has a player take a step again that has no definite answer: the same operation,
// by its id. A player that has tried often enough does not know what has become of it.
func (s *shard) retry(place int32, now time.Duration) {
	p := &s.population[place]
	if p.tries++; int(p.tries) < s.h.config.Tries {
		s.h.metrics.retries[stepOps[p.step]].Inc()
		s.again(place, s.around(s.h.config.RetryAfter, 0.5), now)
		return
	}
	switch p.step {
	case buyBuy:
		p.forget(knowsWallet | knowsItems)
		p.learn(unsettled)
	case skinEquip:
		p.forget(knowsEquipped)
	}
	s.fail(place)
}

// fail has a player's scenario end before its time.
func (s *shard) fail(place int32) {
	if s.population[place].state >= queueing {
		s.abandon(place, broken)
		return
	}
	s.end(place, broken)
}

// end has a player be idle again.
func (s *shard) end(place int32, how ending) {
	p := &s.population[place]
	s.h.metrics.scenarios[kindOf(p.state)][how].Inc()
	if p.state >= queueing {
		s.quit(place)
	}
	s.wheel.drop(entry(place, onScenario))
	p.step = noStep
	p.waits &^= 1 << onScenario
	s.become(p, idle)
	s.list(place)
}
