package simulants_test

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"relapse/topologies/services/simulants"
)

func TestAPlayerIsSmall(t *testing.T) {
	if simulants.PlayerBytes > 100 {
		t.Errorf("have %d bytes a player, want 100 at most", simulants.PlayerBytes)
	}
}

type wheel interface {
	Set(entry int32, at uint32)
	Drop(entry int32)
	Advance(now uint32) []simulants.Due
}

func TestWheel(t *testing.T) {
	const far = 3*simulants.WheelSize + 7
	for _, c := range []struct {
		name string
		do   func(w wheel)
		now  uint32 // advanced to
		want []simulants.Due
		left int
	}{
		{"nothing", nil, 100, nil, 0},
		{"one at its time", func(w wheel) { w.Set(1, 100) }, 100, []simulants.Due{{1, 100}}, 0},
		{"one before its time", func(w wheel) { w.Set(1, 100) }, 99, nil, 1},
		{"one that was set again", func(w wheel) { w.Set(1, 50); w.Set(1, 100) }, 99, nil, 1},
		{"one that was dropped", func(w wheel) { w.Set(1, 50); w.Drop(1); w.Drop(1) }, 99, nil, 0},
		{"the middle one of a slot dropped", func(w wheel) { w.Set(1, 50); w.Set(2, 50); w.Set(3, 50); w.Drop(2) }, 50, []simulants.Due{{1, 50}, {3, 50}}, 0},
		{"no time is the next one", func(w wheel) { w.Set(1, 0) }, 1, []simulants.Due{{1, 1}}, 0},
		{"what is over is the next one", func(w wheel) { w.Advance(10); w.Set(1, 5) }, 11, []simulants.Due{{1, 11}}, 0},
		{"rounds later", func(w wheel) { w.Set(1, far) }, far - 1, nil, 1},
		{"rounds later, at its time", func(w wheel) { w.Set(1, far); w.Set(2, 7) }, far, []simulants.Due{{1, far}, {2, 7}}, 0},
	} {
		w := simulants.NewWheel(4)
		if c.do != nil {
			c.do(w)
		}
		have := w.Advance(c.now)
		slices.SortFunc(have, func(a, b simulants.Due) int { return int(a.Entry - b.Entry) })
		if !slices.Equal(have, c.want) || w.Waiting() != c.left {
			t.Errorf("%s: have %v and %d waiting, want %v and %d", c.name, have, w.Waiting(), c.want, c.left)
		}
	}
}

// A wheel gives out what a map of due times would, each entry at its time, whatever
// happens before.
func TestWheelAgreesWithAMap(t *testing.T) {
	const entries = 200
	rng := rand.New(rand.NewPCG(1, 2))
	w, model := simulants.NewWheel(entries), map[int32]uint32{}
	now := uint32(0)
	for round := range 20_000 {
		e := int32(rng.IntN(entries))
		switch rng.IntN(4) {
		case 0:
			w.Drop(e)
			delete(model, e)
		case 1, 2:
			at := now + uint32(rng.IntN(2*simulants.WheelSize))
			w.Set(e, at)
			model[e] = max(at, now+1)
		case 3:
			if next := w.Upcoming(50); next > now+1 {
				for e, at := range model {
					if at < next {
						t.Fatalf("round %d: entry %d is due at %d, before %d, which was given as the next", round, e, at, next)
					}
				}
			}
			now += uint32(rng.IntN(100))
			want := map[int32]uint32{}
			for e, at := range model {
				if at <= now {
					want[e] = at
					delete(model, e)
				}
			}
			have := map[int32]uint32{}
			for _, d := range w.Advance(now) {
				if _, twice := have[d.Entry]; twice {
					t.Fatalf("round %d: entry %d is given out twice", round, d.Entry)
				}
				have[d.Entry] = d.At
			}
			if !maps.Equal(have, want) {
				t.Fatalf("round %d: have %v at %d, want %v", round, have, now, want)
			}
		}
		if w.Waiting() != len(model) || w.At(e) != model[e] {
			t.Fatalf("round %d: have %d waiting, and entry %d at %d; want %d and %d", round, w.Waiting(), e, w.At(e), len(model), model[e])
		}
	}
}
