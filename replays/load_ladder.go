package replays

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"
)

// everyStep in a check's phases stands for all steps of the ladder.
const everyStep = "ladder"

// Bounds of a ladder; beyond them somebody mistyped.
const (
	mostSteps   = 20
	mostTimes   = 10.0
	mostPlayers = 1e9
	// roundedUp is how far over its factor a step may rise: 62 and 125 players are
	// twice as many in anybody's words.
	roundedUp = 1.05
	// leastRead is how much of a step must be left once it has settled and a metric
	// has something to read.
	leastRead = time.Second
)

// ladderPhases makes the steps that a ladder does not name, and puts the steps'
// names in the place of the word ladder in the phases of checks. It comes before all
// other checks, to which a step is a phase like any other.
func (l *loader) ladderPhases() error {
	d := l.inc.Ladder
	if d == nil {
		return nil
	}
	makes := d.From != 0 || d.Steps != 0 || d.Lasts != 0 || d.Settle != nil || len(d.Faults) > 0
	switch {
	case len(d.Phases) > 0 && makes:
		return l.fail("ladder names phases, and has steps made as well", "keep phases: [step-62, step-125], or from:, steps: and lasts:", "ladder")
	case len(d.Phases) == 0 && !makes:
		return l.fail("ladder has no step", "name phases of this file, phases: [step-62, step-125], or have steps made: from: 62.5, steps: 6, lasts: 8s", keyOf("ladder"))
	case makes && len(d.Players) > 0:
		return l.fail("ladder makes its steps, and with them their players", "leave players: out", "ladder", keyOf("players"))
	}
	if child(find(l.root, "ladder"), "times") == nil {
		d.Times = 2
	}
	if !(d.Times > 1 && d.Times <= mostTimes) {
		return l.fail(fmt.Sprintf("times is %g: steps rise by that factor", d.Times), fmt.Sprintf("write a factor above 1 and up to %g, such as 2", mostTimes), "ladder", "times")
	}
	if makes {
		if err := l.makeSteps(d); err != nil {
			return err
		}
	}
	for n, p := range l.inc.Phases {
		if p.Name == everyStep {
			return l.fail("a phase is named ladder, which stands for all steps", "give it a name of its own", "phases", n, "name")
		}
	}
	for _, checks := range [][]Check{l.inc.Symptoms, l.inc.Objectives, l.inc.Invariants} {
		for n := range checks {
			var during Names
			for _, name := range checks[n].During {
				if name == everyStep {
					during = append(during, d.Phases...)
				} else {
					during = append(during, name)
				}
			}
			checks[n].During = during
		}
	}
	return nil
}

// makeSteps puts the steps behind the phases that the file lists.
func (l *loader) makeSteps(d *Ladder) error {
	at := func(keys ...any) []any { return append([]any{"ladder"}, keys...) }
	top := d.From * math.Pow(d.Times, float64(d.Steps-1))
	switch settle := (Phase{Settle: d.Settle}).settle(); {
	case !(d.From >= 1):
		return l.fail(fmt.Sprintf("from is %g", d.From), "say how many players the first step has, 1 or more: from: 62.5; the rates of traffic: are of that many", at("from")...)
	case d.Steps < 2 || d.Steps > mostSteps:
		return l.fail(fmt.Sprintf("steps is %d", d.Steps), fmt.Sprintf("write 2 to %d", mostSteps), at("steps")...)
	case !(top <= mostPlayers):
		return l.fail(fmt.Sprintf("the last step has %.3g players", top), "start lower, or with fewer steps", at("steps")...)
	case d.Lasts <= 0 || d.Lasts > longestPhase:
		return l.fail(fmt.Sprintf("lasts is %s", d.Lasts), fmt.Sprintf("say how long each step lasts, up to %s: lasts: 8s", longestPhase), at("lasts")...)
	case settle < 0 || settle >= d.Lasts:
		return l.fail(fmt.Sprintf("a step settles for %s of its %s", settle, d.Lasts), "write a longer lasts: or a shorter settle:, which is 500ms where it is left out", at("settle")...)
	}
	for n, name := range d.Faults {
		if err := l.known("fault", name, l.inc.Faults.Names(), at("faults", n)...); err != nil {
			return err
		}
		if slices.Contains(d.Faults[:n], name) || slices.Contains(l.inc.Conditions, name) {
			return l.fail(fmt.Sprintf("fault %s is held already during the steps", name), "name it once, here or under conditions", at("faults", n)...)
		}
	}
	players, factor := d.From, 1.0
	for range d.Steps {
		name := fmt.Sprintf("step-%.0f", math.Floor(players))
		if slices.Contains(l.inc.phaseNames(), name) {
			return l.fail(fmt.Sprintf("two phases are named %s", name), "start the ladder higher, have it rise by more, or name the phase in the file otherwise", at("from")...)
		}
		l.inc.Phases = append(l.inc.Phases, Phase{Name: name, Lasts: d.Lasts, Settle: d.Settle, Faults: slices.Clone(d.Faults), times: factor})
		d.Phases, d.Players = append(d.Phases, name), append(d.Players, math.Floor(players))
		players, factor = players*d.Times, factor*d.Times
	}
	return nil
}

// ladder checks what a ladder names, once phases, objectives and arms are known.
func (l *loader) ladder() error {
	d := l.inc.Ladder
	if d == nil {
		return nil
	}
	names, last := l.inc.phaseNames(), -1
	for n, name := range d.Phases {
		if err := l.known("phase", name, names, "ladder", "phases", n); err != nil {
			return err
		}
		at := slices.Index(names, name)
		if at <= last {
			return l.fail(fmt.Sprintf("step %s does not come after the one before it", name), "list the steps in the order of the phases, each once", "ladder", "phases", n)
		}
		last = at
	}
	switch {
	case len(d.Phases) < 2:
		return l.fail("ladder has one step", "name two phases or more, each with twice the load of the one before", "ladder", "phases")
	case len(d.Players) > 0 && len(d.Players) != len(d.Phases):
		return l.fail(fmt.Sprintf("ladder has %d steps, and players of %d", len(d.Phases), len(d.Players)), "write one number a step, or leave players: out", "ladder", "players")
	}
	for n, players := range d.Players {
		if !(players > 0) {
			return l.fail(fmt.Sprintf("step %s has %g players", d.Phases[n], players), "write how many players the step stands for", "ladder", "players", n)
		}
	}
	arms := l.inc.Arms()
	if len(d.Clean) == 0 {
		d.Clean = Names{"healthy"}
	}
	for n, arm := range d.Clean {
		if err := l.known("arm", arm, arms, "ladder", "clean", n); err != nil {
			return err
		}
	}
	for _, arm := range slices.Sorted(maps.Keys(d.Drift)) {
		if err := l.known("arm", arm, arms, "ladder", "drift", keyOf(arm)); err != nil {
			return err
		}
	}
	return l.ladderMetrics(d)
}

// ladderMetrics holds that every metric can be read at the moments of every step.
func (l *loader) ladderMetrics(d *Ladder) error {
	ids := checkIDs(l.inc.Objectives)
	if len(d.Metrics) == 0 {
		d.Metrics = ids
	}
	for n, id := range d.Metrics {
		if err := l.known("objective", id, ids, "ladder", "metrics", n); err != nil {
			return err
		}
		if slices.Contains(d.Metrics[:n], id) {
			return l.fail(fmt.Sprintf("metric %s is there twice", id), "name each objective once", "ladder", "metrics", n)
		}
		c := l.inc.Objectives[slices.Index(ids, id)]
		if c.Holds.Mode == HoldsEventually {
			return l.fail(fmt.Sprintf("metric %s holds %s, and a ladder asks for it at every moment", id, c.Holds),
				"leave it out of metrics: ["+strings.Join(slices.DeleteFunc(slices.Clone(ids), func(other string) bool { return other == id }), ", ")+"]", "ladder", "metrics", n)
		}
		spans := c.query.Spans(readOver)
		for _, name := range d.Phases {
			phase := l.inc.phase(name)
			settle := c.settleIn(phase)
			if least := settle + max(spans, ladderEvery) + leastRead; phase.Lasts < least {
				return l.fail(fmt.Sprintf("metric %s reads %s before each moment: of step %s, which lasts %s and settles for %s, that leaves too little", id, spans, name, phase.Lasts, settle),
					fmt.Sprintf("have the step last %s or more", least), "ladder", "metrics", n)
			}
		}
	}
	return nil
}

// ladderRises holds that each step asks for more than the one before, and not for
// more than its share more: else the first breach tells little of how much it takes.
func (l *loader) ladderRises(plans map[string]*Plan) error {
	d := l.inc.Ladder
	if d == nil {
		return nil
	}
	steps := plans[d.Clean[0]].Ladder.Steps
	for n, step := range steps[1:] {
		before, at := steps[n], []any{"ladder", "phases", n + 1}
		switch {
		case step.Load <= before.Load:
			return l.fail(fmt.Sprintf("step %s asks for %g/s, and %s before it for %g/s", step.Phase, step.Load, before.Phase, before.Load),
				fmt.Sprintf("a ladder rises: give each step's phase traffic of its own, up to %g times that of the one before", d.Times), at...)
		case step.Load > before.Load*d.Times*roundedUp:
			return l.fail(fmt.Sprintf("step %s asks for %g/s, and %s before it for %g/s: that is more than %g times as much", step.Phase, step.Load, before.Phase, before.Load, d.Times),
				"rise by smaller steps, so that the first breach tells how much it takes; or say times: 3", at...)
		}
	}
	return nil
}
