package gamehosts

import (
	"fmt"
	"slices"
	"time"
)

// Curve is what a game costs over its life, in parts of what it costs at its dearest.
// It is cheap at first, becomes dearer, and stays at its dearest to its end. All times
// are documented ones.
type Curve struct {
	Early float64       // cost at first, 0 to 1
	Cheap time.Duration // how long it costs that
	Ramp  time.Duration // how long it takes from there to 1
	Full  time.Duration // how long it costs 1
}

// Length is how long a game lasts.
func (c Curve) Length() time.Duration { return c.Cheap + c.Ramp + c.Full }

// At is what a game of an age costs; nothing before it begins and once it has ended.
func (c Curve) At(age time.Duration) float64 {
	switch {
	case age < 0 || age >= c.Length():
		return 0
	case age < c.Cheap:
		return c.Early
	case age < c.Cheap+c.Ramp:
		return c.Early + (1-c.Early)*float64(age-c.Cheap)/float64(c.Ramp)
	}
	return 1
}

// Mean is what a game costs on average over its life.
func (c Curve) Mean() float64 {
	if c.Length() <= 0 {
		return 0
	}
	sum := c.Early*c.Cheap.Minutes() + (1+c.Early)/2*c.Ramp.Minutes() + c.Full.Minutes()
	return sum / c.Length().Minutes()
}

// Mode is a kind of game.
type Mode struct {
	Name string
	Curve
}

// Clash is the name of the tournament's mode.
const Clash = "clash"

// Modes are all kinds of games. That the heavy load is seen around 25 minutes after a
// start of which 7 go to Champ Select, and that 10 to 15 minutes are cheap, is
// documented (Riot Games, Deep Dive into the Clash Crash); how long and how dear games
// are is not, and chosen here.
var Modes = []Mode{
	{Clash, Curve{Early: 0.35, Cheap: 12 * time.Minute, Ramp: 6 * time.Minute, Full: 15 * time.Minute}},
	{"aram", Curve{Early: 0.3, Cheap: 20 * time.Minute}},
	{"tft", Curve{Early: 0.3, Cheap: 20 * time.Minute}},
	{"rift", Curve{Early: 0.6, Cheap: 20 * time.Minute}},
}

// ModeOf finds a mode by its name.
func ModeOf(name string) (Mode, error) {
	n := modeNumber(name)
	if n < 0 {
		names := make([]string, len(Modes))
		for k, m := range Modes {
			names[k] = m.Name
		}
		return Mode{}, fmt.Errorf("no mode %q: want one of %q", name, names)
	}
	return Modes[n], nil
}

func modeNumber(name string) int {
	return slices.IndexFunc(Modes, func(m Mode) bool { return m.Name == name })
}

// Late is the share of a host's ticks that come late, 0 to 1, by its load: none up to
// 80 % of its CPU, and sharply more from 85 % on. The two bounds are documented, the
// parabola between 80 and 100 % is a model.
func Late(load float64) float64 {
	over := min(max(0, (load-0.8)/0.2), 1)
	return over * over
}
