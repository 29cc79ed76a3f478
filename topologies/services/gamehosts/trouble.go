package gamehosts

import (
	"fmt"
	"slices"
	"time"
)

// What can be wrong with the readings of hosts.
const (
	TroubleNone    = ""
	TroubleFrozen  = "frozen"  // they stay as they were, under the time of now
	TroubleLate    = "late"    // they are of By minutes ago, and say so
	TroubleBiased  = "biased"  // CPU times By
	TroubleMissing = "missing" // a host whose CPU is above By does not answer
	TroubleAhead   = "ahead"   // clocks are By minutes ahead; behind, where it is below zero
)

// Troubles lists all of them.
var Troubles = []string{TroubleFrozen, TroubleLate, TroubleBiased, TroubleMissing, TroubleAhead}

// Trouble is what is wrong with readings from a moment on, documented time.
type Trouble struct {
	Kind string
	By   float64
	From time.Duration
}

// Validate checks a trouble.
func (t Trouble) Validate() error {
	if t.Kind != TroubleNone && !slices.Contains(Troubles, t.Kind) {
		return fmt.Errorf("gamehosts: trouble %q: want one of %q, or none", t.Kind, Troubles)
	}
	if t.Kind == TroubleLate && !(t.By > 0) {
		return fmt.Errorf("gamehosts: readings are late by %v minutes: want more than zero", t.By)
	}
	if t.Kind == TroubleBiased && !(t.By >= 0) || t.Kind == TroubleMissing && !(t.By > 0) {
		return fmt.Errorf("gamehosts: trouble %s by %v: want a number above zero", t.Kind, t.By)
	}
	if t.From < 0 {
		return fmt.Errorf("gamehosts: trouble from %v on: want zero or more", t.From)
	}
	return nil
}

// Answers makes answers of readings, with what is wrong with them. It is used by one
// goroutine at a time.
type Answers struct {
	Trouble
	Boot   int64
	number int64
	past   []Reading // of all answers, as they were read
	frozen []Reading
}

// Next gives the next answer, from what hosts read now.
func (a *Answers) Next(now time.Duration, readings []Reading) Answer {
	a.number++
	if a.Kind == TroubleLate {
		a.past = append(a.past, readings...)
	}
	if a.Kind != TroubleNone && now >= a.From {
		readings = a.distort(now, readings)
	}
	return Answer{Boot: a.Boot, Number: a.number, Now: now, Readings: readings}
}

func (a *Answers) distort(now time.Duration, readings []Reading) []Reading {
	by := time.Duration(a.By * float64(time.Minute))
	switch a.Kind {
	case TroubleFrozen:
		if a.frozen == nil {
			a.frozen = readings
		}
		out := slices.Clone(a.frozen)
		for n := range out {
			out[n].At = now
		}
		return out
	case TroubleLate:
		return latest(a.past, now-by)
	case TroubleBiased:
		out := slices.Clone(readings)
		for n := range out {
			out[n].CPU = min(1, out[n].CPU*a.By)
		}
		return out
	case TroubleMissing:
		return slices.DeleteFunc(slices.Clone(readings), func(r Reading) bool { return r.CPU > a.By })
	case TroubleAhead:
		out := slices.Clone(readings)
		for n := range out {
			out[n].At += by
		}
		return out
	}
	return readings
}

// latest gives the newest reading of each host that is no newer than a moment.
func latest(past []Reading, until time.Duration) []Reading {
	var out []Reading
	for _, r := range past {
		if r.At > until {
			continue
		}
		if n := slices.IndexFunc(out, func(o Reading) bool { return o.Host == r.Host }); n >= 0 {
			out[n] = r
		} else {
			out = append(out, r)
		}
	}
	return out
}
