// Package audit checks from the logs of others that a limit of starts is worked out as
// documented and kept. It shares no arithmetic with the limiter: the answers are those
// that hosts wrote down, the limits those that the limiter did, and the starts those that
// the tournament did. [Checker] is the checks, which are pure.
package audit

import (
	"fmt"
	"math"
	"time"

	"relapse/topologies/services/gamehosts"
	"relapse/topologies/services/limiter"
	"relapse/topologies/services/tournament"
)

// The invariants.
const (
	Formula    = "formula"     // a limit by the automatic rule is what the answers come to, within 2 %
	AboveLimit = "above-limit" // no more games start than a limit of the last four minutes allows
	Unfair     = "unfair"      // of a tier, who is ready first starts first
	Unready    = "unready"     // a game that begins on a host was let go before
)

// Invariants lists all of them.
var Invariants = []string{Formula, AboveLimit, Unfair, Unready}

const (
	tolerance = 0.02
	// inForce is how long a limit may be obeyed: three polls, and one more for messages.
	inForce = 4 * time.Minute
	// slack is what clocks of services may differ by, as a part of a minute's starts.
	slack = 0.5
)

// Config is what a checker must know.
type Config struct {
	Gated    bool               // starts are limited at all
	Target   float64            // part of the CPU
	Length   time.Duration      // of a game on a host
	Capacity map[string]float64 // games of Clash, at their mean cost, that fill a host of a type
}

// Violation is one thing that must not be.
type Violation struct {
	Invariant string
	At        time.Duration
	Says      string
}

type answerKey struct {
	node   string
	boot   int64
	number int64
}

// Checker reads logs in any order of their parts. It is used by one goroutine at a time.
type Checker struct {
	config  Config
	answers map[answerKey]gamehosts.Answer
	hosts   map[string]map[string]string // kinds of hosts by limiter's life and node, and their names
	limits  []limiter.Limit
	level   float64
	last    time.Duration
	ready   map[int][]int64 // games that wait, by tier, in order
	entered map[int64]bool
	Checked int // limits that were compared
}

// New makes a checker of nothing.
func New(c Config) *Checker {
	return &Checker{config: c, answers: map[answerKey]gamehosts.Answer{}, hosts: map[string]map[string]string{}, ready: map[int][]int64{}, entered: map[int64]bool{}}
}

// Answered takes an answer of a node of hosts.
func (c *Checker) Answered(node string, a gamehosts.Answer) {
	c.answers[answerKey{node, a.Boot, a.Number}] = a
}

// Known says whether all answers that a limit goes by were taken.
func (c *Checker) Known(l limiter.Limit) bool {
	for _, s := range l.Sources {
		if _, ok := c.answers[answerKey{s.Node, s.Boot, s.Number}]; s.Number > 0 && !ok {
			return false
		}
	}
	return true
}

// Stated takes a limit, which starts are held against from then on.
func (c *Checker) Stated(l limiter.Limit) { c.limits = append(c.limits, l) }

// Limited compares a limit with what it should be. whole is false where answers are
// missing for good, as of a node that died: nothing is compared then.
func (c *Checker) Limited(l limiter.Limit, whole bool) []Violation {
	games := c.games(l)
	if !whole || l.Rule != limiter.RuleAutomatic {
		return nil
	}
	c.Checked++
	want := min(l.Cap, max(0, games/c.config.Length.Minutes()))
	if math.Abs(l.Limit-want) <= tolerance*want+1e-6 {
		return nil
	}
	return []Violation{{Formula, l.At, fmt.Sprintf("poll %d: a limit of %.3f a minute, and the answers come to %.3f", l.Number, l.Limit, want)}}
}

// games is how many games of Clash hosts have or have room for, by the answers.
func (c *Checker) games(l limiter.Limit) float64 {
	sum := 0.0
	for _, s := range l.Sources {
		known := c.knownHosts(l.Boot, s.Node)
		a := c.answers[answerKey{s.Node, s.Boot, s.Number}]
		here := map[string]bool{}
		for _, r := range a.Readings {
			known[r.Host], here[r.Host] = r.Kind, true
			fits := c.config.Capacity[r.Kind]
			old := a.Now+s.Since > r.At+2*time.Minute
			if old || r.At-a.Now > time.Minute || math.IsNaN(r.CPU) {
				sum -= (1 - c.config.Target) * fits
				continue
			}
			sum += float64(r.Games[gamehosts.Clash]) + c.config.Target*fits - r.CPU*fits
		}
		for host, kind := range known {
			if !here[host] {
				sum -= (1 - c.config.Target) * c.config.Capacity[kind]
			}
		}
	}
	return sum
}

// knownHosts is what a limiter has heard of a node since it started.
func (c *Checker) knownHosts(boot int64, node string) map[string]string {
	key := fmt.Sprint(boot, node)
	if c.hosts[key] == nil {
		c.hosts[key] = map[string]string{}
	}
	return c.hosts[key]
}

// Happened takes an event of the tournament.
func (c *Checker) Happened(e tournament.Event) (found []Violation) {
	switch e.Kind {
	case tournament.EventEligible:
		c.ready[e.Tier] = append(c.ready[e.Tier], e.Game)
	case tournament.EventForfeit:
		c.leaves(e)
	case tournament.EventEntered:
		first := c.leaves(e)
		if c.config.Gated {
			if !first {
				found = append(found, Violation{Unfair, e.At, fmt.Sprintf("game %d of tier %d starts while one waits that was ready before it", e.Game, e.Tier)})
			}
			found = append(found, c.start(e)...)
		}
		c.entered[e.Game] = true
	}
	return found
}

// leaves takes a game off those that wait, and says whether it was the first.
func (c *Checker) leaves(e tournament.Event) bool {
	waits := c.ready[e.Tier]
	for n, game := range waits {
		if game == e.Game {
			c.ready[e.Tier] = append(waits[:n:n], waits[n+1:]...)
			return n == 0
		}
	}
	return false
}

// start holds a start against the highest limit that may be in force.
func (c *Checker) start(e tournament.Event) []Violation {
	highest := 0.0
	for _, l := range c.limits {
		if l.At >= e.At-inForce {
			highest = max(highest, l.Limit)
		}
	}
	c.level = max(0, c.level-highest*(e.At-c.last).Minutes()) + 1
	c.last = e.At
	if most := slack*highest + 2; c.level > most {
		c.level = 0 // one violation for each excess
		return []Violation{{AboveLimit, e.At, fmt.Sprintf("game %d starts at more than the limit of %.2f a minute", e.Game, highest)}}
	}
	return nil
}

// Began takes a game that a host says began.
func (c *Checker) Began(b gamehosts.Began) []Violation {
	if c.entered[b.Game] {
		return nil
	}
	return []Violation{{Unready, b.At, fmt.Sprintf("game %d began on %s, and never was in Champ Select", b.Game, b.Host)}}
}
