package replays_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"relapse/replays"
)

// endedEarly saves a run of the small incident that was stopped by trouble after
// every arm had been played once.
func endedEarly(t *testing.T, inc *replays.Incident) string {
	t.Helper()
	dir := t.TempDir()
	matrix := replays.Matrix{Incident: inc.Name, Arms: inc.Arms(), Repeat: 1, Seed: 7, Seconds: 150, Trouble: "the engine is gone", Unfinished: true}
	for _, arm := range inc.Arms() {
		r := newWorld(t, inc, arm).record()
		r.Dir = filepath.Join(dir, arm+"-1")
		save(t, r, r.Dir)
		if err := os.RemoveAll(filepath.Join(r.Dir, "incident")); err != nil {
			t.Fatal(err)
		}
		if err := os.CopyFS(filepath.Join(r.Dir, "incident"), os.DirFS(filepath.Join("testdata", "small"))); err != nil {
			t.Fatal(err)
		}
		matrix.Plays = append(matrix.Plays, arm+"-1")
	}
	if err := replays.WriteJSON(filepath.Join(dir, "matrix.json"), matrix); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestResume holds that a run that is gone on with plays nothing twice: here
// there is nothing left to play, and no engine to play it on.
func TestResume(t *testing.T) {
	inc := loadSmall(t)
	dir := endedEarly(t, inc)
	playing, told := 0, 0
	v, err := replays.Resume(t.Context(), inc, replays.VerifyOptions{
		Dir:         dir,
		PlayOptions: replays.PlayOptions{Tool: replays.Tool{Commit: "later"}},
		Playing:     func(*replays.Plan, int, int) { playing++ },
		Resumed:     func(m replays.Matrix) { told = len(m.Plays) },
	})
	if err != nil {
		t.Fatal(err)
	}
	if playing != 0 || told != len(inc.Arms()) {
		t.Errorf("%d arms were played, and it was told of %d plays; want 0 and %d", playing, told, len(inc.Arms()))
	}
	if v.Outcome != replays.Pass || !v.Reproduced || v.Timing.Total < 150 {
		t.Errorf("the run is %s, reproduced %t, %g s: %v; want a pass of 150 s and more", v.Outcome, v.Reproduced, v.Timing.Total, v.Reasons)
	}
	run, err := replays.ReadRun(dir)
	if err != nil {
		t.Fatal(err)
	}
	if m := run.Matrix; m.Trouble != "" || m.Unfinished || len(m.Resumed) != 1 || m.Resumed[0].Tool.Commit != "later" || m.Resumed[0].After != len(inc.Arms()) {
		t.Errorf("the matrix does not say that it was gone on with: %+v", m)
	}
}

func TestResumeRefuses(t *testing.T) {
	inc := loadSmall(t)
	for _, c := range []struct {
		name   string
		change func(dir string) error
		want   error
	}{
		{"an incident that has changed", func(dir string) error {
			f, err := os.OpenFile(filepath.Join(dir, "healthy-1", "incident", "alerts.yaml"), os.O_APPEND|os.O_WRONLY, 0)
			if err != nil {
				return err
			}
			_, err = f.WriteString("# later\n")
			return errors.Join(err, f.Close())
		}, replays.ErrOtherIncident},
		{"a folder without plays", func(dir string) error {
			return replays.WriteJSON(filepath.Join(dir, "matrix.json"), replays.Matrix{Incident: inc.Name, Arms: inc.Arms(), Repeat: 1})
		}, replays.ErrNoRecord},
		{"no folder of a run", func(dir string) error { return os.Remove(filepath.Join(dir, "matrix.json")) }, replays.ErrNoRecord},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := endedEarly(t, inc)
			if err := c.change(dir); err != nil {
				t.Fatal(err)
			}
			if _, err := replays.Resume(t.Context(), inc, replays.VerifyOptions{Dir: dir}); !errors.Is(err, c.want) {
				t.Errorf("error %v, want %v", err, c.want)
			}
		})
	}
}
