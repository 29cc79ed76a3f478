package audit_test

import (
	"testing"
	"time"

	"relapse/topologies/services/gamehosts"
	"relapse/topologies/services/limiter"
	"relapse/topologies/services/tournament"
	"relapse/topologies/services/tournament/audit"
)

func minutes(n float64) time.Duration { return time.Duration(n * float64(time.Minute)) }

// checker is one of hosts of which each holds 100 games at their mean cost, with games
// of 33 minutes and a target of 70 %.
func checker(gated bool) *audit.Checker {
	return audit.New(audit.Config{Gated: gated, Target: 0.7, Length: minutes(33), Capacity: map[string]float64{"large": 100}})
}

func reading(host string, at, cpu float64, clash int) gamehosts.Reading {
	return gamehosts.Reading{Host: host, Kind: "large", At: minutes(at), CPU: cpu, Games: map[string]int{gamehosts.Clash: clash, "aram": 40}}
}

func answer(number int64, now float64, readings ...gamehosts.Reading) gamehosts.Answer {
	return gamehosts.Answer{Boot: 1, Number: number, Now: minutes(now), Readings: readings}
}

// limit is one by the automatic rule, from the answer of that number.
func limit(number int64, at, value float64) limiter.Limit {
	return limiter.Limit{
		Boot: 9, Number: number, At: minutes(at), Rule: limiter.RuleAutomatic, Limit: value, Cap: 60,
		Sources: []limiter.Source{{Node: "hosts", Boot: 1, Number: number}},
	}
}

func TestFormula(t *testing.T) {
	first := answer(1, 1, reading("a", 1, 0.3, 10), reading("b", 1, 0.5, 30))
	// 40 games, and room for 40 + 20: 100 ÷ 33 a minute.
	const right = 100.0 / 33
	for _, tc := range []struct {
		name   string
		second gamehosts.Answer
		since  float64 // minutes
		have   float64
		want   int // violations
	}{
		{"as documented", answer(2, 2, reading("a", 2, 0.3, 10), reading("b", 2, 0.5, 30)), 0, right, 0},
		{"within 2 %", answer(2, 2, reading("a", 2, 0.3, 10), reading("b", 2, 0.5, 30)), 0, right * 1.015, 0},
		{"too high", answer(2, 2, reading("a", 2, 0.3, 10), reading("b", 2, 0.5, 30)), 0, right * 1.03, 1},
		{"too low", answer(2, 2, reading("a", 2, 0.3, 10), reading("b", 2, 0.5, 30)), 0, right * 0.97, 1},
		// 100 − 30 − 20: host b counts as full.
		{"a host that does not answer is left out of the sum", answer(2, 2, reading("a", 2, 0.3, 10)), 0, 50.0 / 33, 1},
		{"a host that does not answer is full", answer(2, 2, reading("a", 2, 0.3, 10)), 0, 20.0 / 33, 0},
		{"an old reading is used", answer(2, 6, reading("a", 6, 0.3, 10), reading("b", 2, 0.5, 30)), 0, right, 1},
		{"an old reading is of a full host", answer(2, 6, reading("a", 6, 0.3, 10), reading("b", 2, 0.5, 30)), 0, 20.0 / 33, 0},
		{"an answer has grown old, and is used", answer(2, 2, reading("a", 2, 0.3, 10), reading("b", 2, 0.5, 30)), 3, right, 1},
		{"an answer has grown old: all are full", answer(2, 2, reading("a", 2, 0.3, 10), reading("b", 2, 0.5, 30)), 3, 0, 0},
		{"a reading of the future is of a full host", answer(2, 2, reading("a", 2, 0.3, 10), reading("b", 12, 0.5, 30)), 0, 20.0 / 33, 0},
		{"ordinary games that end are counted as room", answer(2, 2, reading("a", 2, 0.3, 10), reading("b", 2, 0.5, 30)), 0, 180.0 / 33, 1},
	} {
		c := checker(true)
		c.Answered("hosts", first)
		if found := c.Limited(limit(1, 1, right), true); len(found) > 0 {
			t.Errorf("%s: the first limit: have %v, want nothing", tc.name, found)
		}
		c.Answered("hosts", tc.second)
		l := limit(2, 2, tc.have)
		l.Sources[0].Since = minutes(tc.since)
		if !c.Known(l) {
			t.Fatalf("%s: its answers are not known", tc.name)
		}
		found := c.Limited(l, true)
		if len(found) != tc.want || tc.want > 0 && found[0].Invariant != audit.Formula {
			t.Errorf("%s: have %v, want %d violations of %s", tc.name, found, tc.want, audit.Formula)
		}
	}
}

// TestNothingIsComparedWithoutAnswers holds that a limit is compared once, where its
// answers are there and the rule has a formula.
func TestNothingIsComparedWithoutAnswers(t *testing.T) {
	c := checker(true)
	if c.Known(limit(1, 1, 5)) {
		t.Error("an answer that was not read is known")
	}
	other := limit(1, 1, 5)
	other.Rule = limiter.RuleCap
	if found := append(c.Limited(limit(1, 1, 5), false), c.Limited(other, true)...); len(found) > 0 || c.Checked > 0 {
		t.Errorf("have %v and %d compared, want nothing", found, c.Checked)
	}
}

func event(kind string, at float64, game int64) tournament.Event {
	return tournament.Event{At: minutes(at), Kind: kind, Game: game}
}

func TestStarts(t *testing.T) {
	const eligible, entered, forfeit = tournament.EventEligible, tournament.EventEntered, tournament.EventForfeit
	// even is games that start one after the other.
	even := func(games int, perMinute float64) []tournament.Event {
		var out []tournament.Event
		for n := range games {
			out = append(out, event(eligible, 1, int64(n)))
		}
		for n := range games {
			out = append(out, event(entered, 1+float64(n)/perMinute, int64(n)))
		}
		return out
	}
	for _, tc := range []struct {
		name   string
		gated  bool
		events []tournament.Event
		want   string // "" for nothing
	}{
		{"at the limit of 20", true, even(60, 20), ""},
		{"at twice the limit", true, even(60, 40), audit.AboveLimit},
		{"a double burst", true, even(40, 1000), audit.AboveLimit},
		{"without a limit", false, even(60, 1000), ""},
		{"in order", true, []tournament.Event{event(eligible, 1, 1), event(eligible, 1, 2), event(entered, 1, 1), event(entered, 1, 2)}, ""},
		{"overtaken", true, []tournament.Event{event(eligible, 1, 1), event(eligible, 1, 2), event(entered, 1, 2)}, audit.Unfair},
		{"the first has forfeited", true, []tournament.Event{event(eligible, 1, 1), event(eligible, 1, 2), event(forfeit, 1, 1), event(entered, 1, 2)}, ""},
		{"it was never ready", true, []tournament.Event{event(entered, 1, 2)}, audit.Unfair},
		{"overtaken where there is no limit", false, []tournament.Event{event(eligible, 1, 1), event(eligible, 1, 2), event(entered, 1, 2)}, ""},
	} {
		c := checker(tc.gated)
		for minute := range 5 {
			c.Stated(limit(int64(minute), float64(minute), 20))
		}
		seen := map[string]bool{}
		for _, e := range tc.events {
			for _, v := range c.Happened(e) {
				seen[v.Invariant] = true
			}
		}
		if tc.want == "" && len(seen) > 0 || tc.want != "" && (len(seen) != 1 || !seen[tc.want]) {
			t.Errorf("%s: have %v, want %q alone", tc.name, seen, tc.want)
		}
	}
}

// TestNoOldLimitIsInForce holds that a limit which nobody has confirmed for minutes
// allows nothing.
func TestNoOldLimitIsInForce(t *testing.T) {
	c := checker(true)
	c.Stated(limit(1, 1, 20))
	for n := range 10 {
		c.Happened(event(tournament.EventEligible, 9, int64(n)))
	}
	found := 0
	for n := range 10 {
		found += len(c.Happened(event(tournament.EventEntered, 10, int64(n))))
	}
	if found == 0 {
		t.Error("ten games start under a limit of nine minutes ago: want a violation")
	}
}

func TestGamesFromNowhere(t *testing.T) {
	c := checker(false)
	c.Happened(event(tournament.EventEntered, 1, 7))
	if found := c.Began(gamehosts.Began{At: minutes(8), Game: 7, Host: "a"}); len(found) > 0 {
		t.Errorf("have %v, want nothing", found)
	}
	if found := c.Began(gamehosts.Began{At: minutes(8), Game: 8, Host: "a"}); len(found) != 1 || found[0].Invariant != audit.Unready {
		t.Errorf("have %v, want one of %s", found, audit.Unready)
	}
}
