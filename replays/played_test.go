package replays_test

import (
	"context"
	"errors"
	"path/filepath"
	"testing"

	"relapse/replays"
	"relapse/replays/samples"
)

// TestPhasesPlayed holds that a play counts the phases that it went through, not
// those that it was planned to have: 12 s, the first fault in effect after 4 s.
func TestPhasesPlayed(t *testing.T) {
	inc := loadSmall(t)
	cutAt := func(seconds float64) func(w *world) {
		return func(w *world) {
			w.cut(seconds)
			at := headStart + seconds
			w.events = append(w.events,
				replays.Event{T: at, Event: replays.EventPhasesCut},
				// What comes afterwards is no phase's time.
				replays.Event{T: at + 0.5, Event: replays.EventFault, Fault: "slow", Step: "gone"},
				replays.Event{T: at + 2, Event: replays.EventStopped},
				replays.Event{T: at + 2, Event: replays.EventTrouble, Detail: "the play was interrupted"})
		}
	}
	for _, tc := range []struct {
		name   string
		change func(w *world)
		want   float64
	}{
		{"to its end", func(*world) {}, 12},
		{"interrupted in its second phase", cutAt(6), 6},
		{"interrupted as the last phase ended", func(w *world) {
			w.cut(12)
			w.events = append(w.events, replays.Event{T: headStart + 12.125, Event: replays.EventPhasesCut})
		}, 12},
		{"interrupted before its first phase", cutAt(-1), 0},
		{"its tool was killed", func(w *world) { w.cut(6) }, 4 + 3.0/128},
		{"its tool was killed before its first phase", func(w *world) { w.cut(-1) }, 0},
		{"nothing happened at all", func(w *world) { w.events = nil }, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t, inc, "unfixed")
			tc.change(w)
			if have := replays.JudgePlay(w.record()).Phases; have != tc.want {
				t.Errorf("%g s of phases, want %g", have, tc.want)
			}
		})
	}
}

// TestRatioCountsWhatWasPlayed holds that a play that was cut short makes the
// rest of its run look no faster than it was.
func TestRatioCountsWhatWasPlayed(t *testing.T) {
	inc := loadSmall(t)
	dir := t.TempDir()
	matrix := replays.Matrix{Incident: inc.Name, Arms: []string{"healthy"}, Repeat: 1, Seed: 7, Seconds: 27}
	for _, name := range []string{"healthy-1", "healthy-1-again-1"} {
		w := newWorld(t, inc, "healthy")
		if name != "healthy-1" {
			w.plan.Seed += 1 << 32
		}
		if name == "healthy-1" {
			w.cut(6)
			w.events = append(w.events, replays.Event{T: headStart + 6, Event: replays.EventPhasesCut})
			w.seconds = 10
		}
		save(t, w.record(), filepath.Join(dir, name))
		matrix.Plays = append(matrix.Plays, name)
	}
	if err := replays.WriteJSON(filepath.Join(dir, "matrix.json"), matrix); err != nil {
		t.Fatal(err)
	}
	run, err := replays.ReadRun(dir)
	if err != nil {
		t.Fatal(err)
	}
	if have, want := run.Verdict.Timing, (replays.Timing{Total: 27, Phases: 18, Ratio: 1.5, WorstOver: 4}); have != want {
		t.Errorf("timing %+v, want %+v", have, want)
	}
}

// TestTimelineTellsOfACut holds that a play that is interrupted notes when its
// phases ended, and one that is not notes no such thing.
func TestTimelineTellsOfACut(t *testing.T) {
	const hour = 3600
	for _, tc := range []struct {
		name      string
		end       float64 // of the second phase
		interrupt bool    // as it begins
		want      string  // the last event
	}{
		{"interrupted", hour, true, replays.EventPhasesCut},
		{"to its end", 0.03125, false, replays.EventPhasesEnd},
	} {
		t.Run(tc.name, func(t *testing.T) {
			plan := &replays.Plan{Phases: []replays.PlannedPhase{
				{Name: "first", End: 0.015625},
				{Name: "second", Start: 0.015625, End: tc.end},
			}}
			ctx, interrupt := context.WithCancel(t.Context())
			defer interrupt()
			events, err := replays.Timeline(ctx, plan, filepath.Join(t.TempDir(), "events.ndjson"), func(e replays.Event) {
				if tc.interrupt && e.Phase == "second" {
					interrupt()
				}
			})
			if errors.Is(err, context.Canceled) != tc.interrupt || err != nil && !tc.interrupt {
				t.Fatalf("error %v, interrupted: %t", err, tc.interrupt)
			}
			if len(events) != 3 || events[2].Event != tc.want {
				t.Fatalf("events %+v, want two phases and %s", events, tc.want)
			}
			want := tc.end
			if tc.interrupt {
				want = events[2].T - events[0].T
			}
			if have := replays.JudgePlay(&replays.Record{Plan: plan, Events: events, Samples: samples.NewStore()}).Phases; have != want {
				t.Errorf("%g s of phases, want %g", have, want)
			}
		})
	}
}
