package gamehosts_test

import (
	"math"
	"testing"
	"time"

	"relapse/topologies/services/gamehosts"
)

func minutes(n float64) time.Duration { return time.Duration(n * float64(time.Minute)) }

func TestCurve(t *testing.T) {
	clash, err := gamehosts.ModeOf(gamehosts.Clash)
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		age, want float64 // minutes, part of the dearest
	}{{-1, 0}, {0, 0.35}, {11.9, 0.35}, {12, 0.35}, {15, 0.675}, {18, 1}, {32.9, 1}, {33, 0}} {
		if have := clash.At(minutes(tc.age)); math.Abs(have-tc.want) > 1e-9 {
			t.Errorf("after %v minutes: have %v, want %v", tc.age, have, tc.want)
		}
	}
	if have, want := clash.Mean(), 23.25/33; math.Abs(have-want) > 1e-9 {
		t.Errorf("on average: have %v, want %v", have, want)
	}
	if have := (gamehosts.Curve{}).Mean(); have != 0 {
		t.Errorf("a game without a length: have %v, want 0", have)
	}
	if _, err := gamehosts.ModeOf("chess"); err == nil {
		t.Error("chess: no error")
	}
}

func TestLate(t *testing.T) {
	for _, tc := range []struct{ load, most, least float64 }{{0.5, 0, 0}, {0.8, 0, 0}, {0.85, 0.07, 0.05}, {0.95, 0.6, 0.5}, {1.5, 1, 1}} {
		if have := gamehosts.Late(tc.load); have < tc.least || have > tc.most {
			t.Errorf("at %v: have %v, want %v to %v", tc.load, have, tc.least, tc.most)
		}
	}
}

func hosts(t *testing.T, spec string) (*gamehosts.Hosts, []gamehosts.HostConfig) {
	t.Helper()
	configs, err := gamehosts.ParseHosts("a", spec)
	if err != nil {
		t.Fatal(err)
	}
	h, err := gamehosts.New(configs)
	if err != nil {
		t.Fatal(err)
	}
	return h, configs
}

// TestOneCohort holds the delay chain: games that begin together are dear together, 18
// minutes later, which is 25 after they entered Champ Select.
func TestOneCohort(t *testing.T) {
	h, configs := hosts(t, "large=1*50")
	for n := range 50 {
		if began, err := h.Place(minutes(7), gamehosts.Placement{Game: int64(n), Mode: gamehosts.Clash, Host: configs[0].Name}); !began || err != nil {
			t.Fatal(began, err)
		}
	}
	for _, tc := range []struct{ at, want float64 }{{7, 0.35}, {18, 0.35}, {25, 1}, {39.9, 1}, {40, 0}} {
		h.Advance(minutes(tc.at))
		if have := h.States()[0].Load; math.Abs(have-tc.want) > 1e-9 {
			t.Errorf("after %v minutes: have a load of %v, want %v", tc.at, have, tc.want)
		}
	}
	if have, want := h.Totals(gamehosts.Clash), (gamehosts.Totals{Begun: 50, Ended: 50}); have != want {
		t.Errorf("have %+v, want %+v", have, want)
	}
}

func TestOverloadedHostsShutGamesDown(t *testing.T) {
	for _, tc := range []struct {
		name  string
		games int
		want  int // shut down, in five minutes
	}{
		{"a host that is full", 50, 0},
		{"above for five minutes", 60, 11}, // 6 after one minute, 5 after two: 49 are left
	} {
		h, configs := hosts(t, "large=1*50")
		for n := range tc.games {
			if _, err := h.Place(0, gamehosts.Placement{Game: int64(n), Mode: gamehosts.Clash, Host: configs[0].Name, Age: minutes(18)}); err != nil {
				t.Fatal(err)
			}
		}
		for at := 0.0; at <= 5; at += 0.1 {
			h.Advance(minutes(at))
		}
		if have := h.Totals(gamehosts.Clash).Killed; have != tc.want {
			t.Errorf("%s: have %d shut down, want %d", tc.name, have, tc.want)
		}
	}
}

func TestPlacing(t *testing.T) {
	h, configs := hosts(t, "large=2*75")
	good := gamehosts.Placement{Game: 1, Mode: "aram", Host: configs[0].Name}
	for _, tc := range []struct {
		name   string
		spoil  func(*gamehosts.Placement)
		began  bool
		failed bool
	}{
		{"an unknown host", func(p *gamehosts.Placement) { p.Host = "b-1" }, false, true},
		{"an unknown mode", func(p *gamehosts.Placement) { p.Mode = "chess" }, false, true},
		{"of the future", func(p *gamehosts.Placement) { p.Age = -1 }, false, true},
		{"as it should be", func(*gamehosts.Placement) {}, true, false},
		{"a message that comes twice", func(*gamehosts.Placement) {}, false, false},
	} {
		p := good
		tc.spoil(&p)
		began, err := h.Place(0, p)
		if began != tc.began || (err != nil) != tc.failed {
			t.Errorf("%s: have %t, %v, want %t, an error: %t", tc.name, began, err, tc.began, tc.failed)
		}
	}
}

func TestHostsAreRefused(t *testing.T) {
	for _, spec := range []string{"", "large", "large=10", "=1*75", "large=0*75", "large=1*x", "large=100000*75"} {
		if have, err := gamehosts.ParseHosts("a", spec); err == nil {
			t.Errorf("%q: have %d hosts, want an error", spec, len(have))
		}
	}
	for _, spec := range []string{"large=1*0", "large=1*-1", "large=1*NaN"} {
		configs, err := gamehosts.ParseHosts("a", spec)
		if err == nil {
			_, err = gamehosts.New(configs)
		}
		if err == nil {
			t.Errorf("%q: no error", spec)
		}
	}
}

// TestTroubles holds what each trouble makes of readings, and that it does nothing
// before its time.
func TestTroubles(t *testing.T) {
	at := func(minute, cpu float64) []gamehosts.Reading {
		return []gamehosts.Reading{{Host: "a-1", At: minutes(minute), CPU: cpu}}
	}
	for _, tc := range []struct {
		trouble gamehosts.Trouble
		cpu     float64 // at 6 minutes; -1 for no answer
		read    float64 // minutes
	}{
		{gamehosts.Trouble{}, 0.8, 6},
		{gamehosts.Trouble{Kind: gamehosts.TroubleFrozen}, 0.3, 6},
		{gamehosts.Trouble{Kind: gamehosts.TroubleFrozen, From: minutes(10)}, 0.8, 6},
		{gamehosts.Trouble{Kind: gamehosts.TroubleLate, By: 3}, 0.5, 3},
		{gamehosts.Trouble{Kind: gamehosts.TroubleBiased, By: 0.5}, 0.4, 6},
		{gamehosts.Trouble{Kind: gamehosts.TroubleMissing, By: 0.75}, -1, 0},
		{gamehosts.Trouble{Kind: gamehosts.TroubleMissing, By: 0.85}, 0.8, 6},
		{gamehosts.Trouble{Kind: gamehosts.TroubleAhead, By: 10}, 0.8, 16},
		{gamehosts.Trouble{Kind: gamehosts.TroubleAhead, By: -4}, 0.8, 2},
	} {
		if err := tc.trouble.Validate(); err != nil {
			t.Errorf("%+v: %v", tc.trouble, err)
		}
		answers := gamehosts.Answers{Trouble: tc.trouble, Boot: 1}
		answers.Next(minutes(1), at(1, 0.3))
		answers.Next(minutes(3), at(3, 0.5))
		have := answers.Next(minutes(6), at(6, 0.8))
		switch {
		case have.Number != 3 || have.Now != minutes(6):
			t.Errorf("%+v: have answer %d of %v, want the third, of six minutes", tc.trouble, have.Number, have.Now)
		case tc.cpu < 0 && len(have.Readings) > 0:
			t.Errorf("%+v: have %+v, want no answer", tc.trouble, have.Readings)
		case tc.cpu < 0:
		case len(have.Readings) != 1 || math.Abs(have.Readings[0].CPU-tc.cpu) > 1e-9 || have.Readings[0].At != minutes(tc.read):
			t.Errorf("%+v: have %+v, want a CPU of %v at %v minutes", tc.trouble, have.Readings, tc.cpu, tc.read)
		}
	}
	for _, bad := range []gamehosts.Trouble{{Kind: "odd"}, {Kind: gamehosts.TroubleLate}, {Kind: gamehosts.TroubleMissing}, {From: -1}, {Kind: gamehosts.TroubleBiased, By: math.NaN()}} {
		if err := bad.Validate(); err == nil {
			t.Errorf("%+v: accepted, want an error", bad)
		}
	}
}

func TestLog(t *testing.T) {
	l := gamehosts.NewLog[int]()
	for n := range 700 {
		l.Add(n)
	}
	for _, tc := range []struct {
		name              string
		boot              int64
		from, first, size int
	}{
		{"of a reader that knows nothing", 0, 0, 0, 500},
		{"the rest", l.Boot(), 500, 500, 200},
		{"nothing new", l.Boot(), 700, 700, 0},
		{"of another process", l.Boot() + 1, 500, 0, 500},
		{"more than there is", l.Boot(), 701, 0, 500},
	} {
		have := l.Since(tc.boot, tc.from)
		if have.Boot != l.Boot() || have.From != tc.first || len(have.Entries) != tc.size {
			t.Errorf("%s: have %d from %d on, want %d from %d", tc.name, len(have.Entries), have.From, tc.size, tc.first)
		}
	}
}
