// Package limiter says how many games of a tournament may begin in a minute. [Rule] has
// the arithmetic, which is pure; [Limiter] asks every game server once a minute and
// keeps the limit that follows.
//
//	limiter -> hosts:      GET /readings, which answers gamehosts.Answer
//	tournament -> limiter: GET /limit, which answers [Limit]
//	audit -> limiter:      GET /log, pages of [Limit]
//
// The rules are those that Riot Games went through one after the other (Deep Dive into
// the Clash Crash). The formula of the automatic one is prose without brackets in the
// source; how it is read is said at [Rule.Automatic].
package limiter

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"
)

// Names of the rules.
const (
	RuleCap       = "cap"       // 1.5 times the 99th percentile of usual starts, clamped
	RuleStatic    = "static"    // and what hosts hold if every game cost what one of Clash does
	RuleSampled   = "sampled"   // and what they hold by what a game cost at one moment
	RuleGate      = "gate"      // the cap while hosts are below the target, else none
	RuleAutomatic = "automatic" // and what each poll says, by mode
)

// Rules lists all of them.
var Rules = []string{RuleCap, RuleStatic, RuleSampled, RuleGate, RuleAutomatic}

// Rule is how a limit comes about.
type Rule struct {
	Name    string
	Target  float64            // part of the hosts' CPU that may be used, 0 to 1; documented as 0.7
	Length  time.Duration      // of a game of Clash on a host
	Cost    map[string]float64 // part of a host's CPU that a game of Clash takes on average, by hardware type
	Factor  float64            // of the 99th percentile; documented as 1.5
	Lowest  float64            // clamps of the cap, starts a minute
	Highest float64
	Usual   float64 // ordinary games that are on at a usual evening, for the static rule
}

// Host is what is known of one host at a poll.
type Host struct {
	Kind  string
	CPU   float64 // used, 0 to 1
	Clash int     // games of Clash
	Other int     // all other games
	Full  bool    // it did not answer, or its reading is too old: it counts as fully used and without games
}

// Validate checks a rule.
func (r Rule) Validate() error {
	switch {
	case !slices.Contains(Rules, r.Name):
		return fmt.Errorf("limiter: rule %q: want one of %q", r.Name, Rules)
	case !(r.Target > 0) || r.Target > 1:
		return fmt.Errorf("limiter: a target of %v: want more than zero, up to 1", r.Target)
	case r.Length <= 0:
		return fmt.Errorf("limiter: games of %v: want more than zero, since starts are spread over it", r.Length)
	case len(r.Cost) == 0:
		return errors.New("limiter: no cost of a game on any hardware type: give --cost KIND=PART")
	case !(r.Factor > 0):
		return fmt.Errorf("limiter: %v times the percentile: want more than zero", r.Factor)
	case !(r.Lowest >= 0) || !(r.Highest >= r.Lowest):
		return fmt.Errorf("limiter: clamps of %v and %v: want zero or more, in order", r.Lowest, r.Highest)
	case !(r.Usual >= 0):
		return fmt.Errorf("limiter: %v ordinary games: want zero or more", r.Usual)
	}
	for kind, cost := range r.Cost {
		if !(cost > 0) || cost > 1 {
			return fmt.Errorf("limiter: a game takes %v of a host of kind %s: want more than zero, up to 1", cost, kind)
		}
	}
	return nil
}

// Cap is the limit from the starts of usual minutes: 1.5 times their 99th percentile,
// clamped. Without a history it is the lower clamp: nobody knows what is usual.
func (r Rule) Cap(history []float64) float64 {
	p, ok := Percentile99(history)
	if !ok {
		return r.Lowest
	}
	return min(max(r.Factor*p, r.Lowest), r.Highest)
}

// Percentile99 is the smallest figure that 99 of 100 do not exceed. What is no number
// or below zero is left out; false if nothing is left.
func Percentile99(history []float64) (float64, bool) {
	var sorted []float64
	for _, v := range history {
		if v >= 0 && !math.IsInf(v, 1) {
			sorted = append(sorted, v)
		}
	}
	if len(sorted) == 0 {
		return 0, false
	}
	slices.Sort(sorted)
	return sorted[(len(sorted)*99+99)/100-1], true
}

// Static is the first rule for the hosts' capacity: the target divided by what a game
// takes, summed over the hosts by their types, divided by a game's length, less what
// ordinary games of a usual evening take at the same price. Since they are cheaper, it
// says less than there is.
func (r Rule) Static(hosts []Host) float64 {
	room := -r.Usual
	for _, h := range hosts {
		if cost := r.Cost[h.Kind]; !h.Full && cost > 0 {
			room += r.Target / cost
		}
	}
	return max(0, room/r.Length.Minutes())
}

// Sampled is the static rule with what a game takes as it was at one moment, on all
// hosts and over all modes, and the ordinary games that were on then. It depends on how
// old the games happened to be. Of hosts without a game it says nothing: false.
func (r Rule) Sampled(hosts []Host) (float64, bool) {
	room, other, games := 0.0, 0, 0
	for _, h := range hosts {
		n := h.Clash + h.Other
		if h.Full || n == 0 || !(h.CPU > 0) {
			continue
		}
		games += n
		other += h.Other
		room += r.Target / (h.CPU / float64(n))
	}
	if games == 0 {
		return 0, false
	}
	return max(0, (room-float64(other))/r.Length.Minutes()), true
}

// Automatic is the rule of each poll. Its formula, as it is read here:
//
//	(games running + (target − CPU) ÷ CPU of a game) ÷ length of a game
//
// summed over all hosts. The first part is the rate at which running games end; the
// second has spare room filled over the length of a game. Only games of Clash count as
// running: where ordinary ones end, ordinary ones begin, so that counting them grants
// their room twice. A host that is above the target takes away from what others have.
func (r Rule) Automatic(hosts []Host) float64 {
	room := 0.0
	for _, h := range hosts {
		cost := r.Cost[h.Kind]
		if !(cost > 0) {
			continue // of an unknown type: nothing is known to fit
		}
		if h.Full || !(h.CPU >= 0) {
			room += (r.Target - 1) / cost
			continue
		}
		room += float64(h.Clash) + (r.Target-h.CPU)/cost
	}
	return max(0, room/r.Length.Minutes())
}

// Limit is the limit by the rule. sampled is what [Rule.Sampled] gave once, if it did.
// The clamps are those of the cap: its lower one lifts no other rule, or hosts without
// room would be given games.
func (r Rule) Limit(hosts []Host, history []float64, sampled *float64) float64 {
	limit := r.Cap(history)
	switch r.Name {
	case RuleStatic:
		limit = min(limit, r.Static(hosts))
	case RuleSampled:
		if sampled != nil {
			limit = min(limit, *sampled)
		}
	case RuleGate:
		used, all := 0.0, 0.0
		for _, h := range hosts {
			if cost := r.Cost[h.Kind]; cost > 0 {
				cpu := h.CPU
				if h.Full || !(cpu >= 0) {
					cpu = 1
				}
				used, all = used+cpu/cost, all+1/cost
			}
		}
		if all == 0 || used/all >= r.Target {
			limit = 0
		}
	case RuleAutomatic:
		limit = min(limit, r.Automatic(hosts))
	}
	return limit
}

// Override is a limit that an operator sets in place of the rule's.
type Override struct {
	Limit float64
	From  time.Duration // documented time
	For   time.Duration // 0 for until it is taken back
}

// Active says whether the override is in force.
func (o *Override) Active(now time.Duration) bool {
	return o != nil && now >= o.From && (o.For == 0 || now < o.From+o.For)
}
