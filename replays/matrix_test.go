package replays_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"relapse/replays"
)

// TestMatrixEdited holds that a matrix that somebody edited is never a pass.
func TestMatrixEdited(t *testing.T) {
	inc := loadSmall(t)
	for _, tc := range []struct {
		name    string
		change  func(m *replays.Matrix)
		damage  func(dir string) error
		refused bool
		want    string // of the error, or of a reason
	}{
		{"a play taken out", func(m *replays.Matrix) { m.Plays = m.Plays[:len(m.Plays)-1] }, nil, false, "has 0 of 1 plays"},
		{"an arm put in", func(m *replays.Matrix) { m.Arms = append(slices.Clone(m.Arms), "fix-none") }, nil, true, "fix-none"},
		{"more asked for", func(m *replays.Matrix) { m.Repeat = 2 }, nil, false, "has 1 of 2 plays"},
		{"none asked for", func(m *replays.Matrix) { m.Repeat = 0 }, nil, true, "repeat is 0"},
		{"less than none", func(m *replays.Matrix) { m.Repeat = -1 }, nil, true, "repeat is -1"},
		{"no incident", func(m *replays.Matrix) { m.Incident, m.Plays = "", m.Plays[:1] }, nil, true, "names no incident"},
		{"another incident", func(m *replays.Matrix) { m.Incident = "large" }, nil, true, "is a play of small"},
		{"an arm taken out, its play left", func(m *replays.Matrix) { m.Arms = m.Arms[1:] }, nil, true, "does not list"},
		{"a play of another folder", func(m *replays.Matrix) { m.Plays[0] = "../healthy-1" }, nil, true, "no folder beside it"},
		{"a play by its whole path", func(m *replays.Matrix) { m.Plays[0] = "/tmp" }, nil, true, "no folder beside it"},
		{"the folder itself", func(m *replays.Matrix) { m.Plays[0] = "." }, nil, true, "no folder beside it"},
		{"a play twice", func(m *replays.Matrix) { m.Plays = append(m.Plays, m.Plays[0]) }, nil, true, "listed twice"},
		{"a play gone", nil, func(dir string) error { return os.RemoveAll(filepath.Join(dir, "healthy-1")) }, true, "cannot be found"},
		{"a link to a play", func(m *replays.Matrix) { m.Plays = append(m.Plays, "healthy-2") }, func(dir string) error {
			return os.Symlink("healthy-1", filepath.Join(dir, "healthy-2"))
		}, true, "no folder beside it"},
		{"a copy of a play", func(m *replays.Matrix) { m.Plays = append(m.Plays, "healthy-2") }, func(dir string) error {
			return os.CopyFS(filepath.Join(dir, "healthy-2"), os.DirFS(filepath.Join(dir, "healthy-1")))
		}, true, "a copy of it"},
		{"a play under another's name", func(m *replays.Matrix) { m.Plays[0] = "healthy-1x" }, func(dir string) error {
			return os.Rename(filepath.Join(dir, "healthy-1"), filepath.Join(dir, "healthy-1x"))
		}, true, "by its plan"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir, m := ended(t, inc)
			if tc.change != nil {
				tc.change(&m)
			}
			if tc.damage != nil {
				if err := tc.damage(dir); err != nil {
					t.Fatal(err)
				}
			}
			if err := replays.WriteJSON(filepath.Join(dir, "matrix.json"), m); err != nil {
				t.Fatal(err)
			}
			run, err := replays.ReadRun(dir)
			if tc.refused {
				if !errors.Is(err, replays.ErrDamaged) || !strings.Contains(err.Error(), tc.want) {
					t.Errorf("error %v, want that the record is damaged: %s", err, tc.want)
				}
				if _, err := replays.Resume(t.Context(), inc, replays.VerifyOptions{Dir: dir}); !errors.Is(err, replays.ErrDamaged) {
					t.Errorf("resumed: error %v, want that the record is damaged", err)
				}
				if err := replays.CheckResume(inc, dir); !errors.Is(err, replays.ErrDamaged) {
					t.Errorf("checked: error %v, want that the record is damaged", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if err := replays.CheckResume(inc, dir); err != nil {
				t.Errorf("checked: error %v, want none", err)
			}
			if have := run.Verdict; have.Outcome != replays.Unknown || !strings.Contains(strings.Join(have.Reasons, "; "), tc.want) {
				t.Errorf("outcome %s since %q, want unknown since %s", have.Outcome, have.Reasons, tc.want)
			}
		})
	}
	dir, _ := ended(t, inc)
	if run, err := replays.ReadRun(dir); err != nil || run.Verdict.Outcome != replays.Pass {
		t.Errorf("nothing edited: %v, want a pass", err)
	}
}

// TestResumePlaysMissing holds that a run is gone on with at the play that was
// taken out of its matrix: here that ends at once, as there is no engine.
func TestResumePlaysMissing(t *testing.T) {
	t.Setenv("DOCKER_HOST", "unix://"+filepath.Join(t.TempDir(), "nobody.sock"))
	inc := loadSmall(t)
	dir, m := ended(t, inc)
	last := len(m.Plays) - 1
	want := m.Arms[last]
	m.Plays = m.Plays[:last]
	if err := replays.WriteJSON(filepath.Join(dir, "matrix.json"), m); err != nil {
		t.Fatal(err)
	}
	var have []string
	v, err := replays.Resume(t.Context(), inc, replays.VerifyOptions{
		Dir: dir, PlayOptions: replays.PlayOptions{Run: "test"},
		Playing: func(p *replays.Plan, _, _ int) { have = append(have, p.Arm) },
	})
	if err == nil || v.Outcome == replays.Pass || !slices.Equal(have, []string{want}) {
		t.Errorf("played %q, outcome %s, error %v; want %s and an error, as there is no engine", have, v.Outcome, err, want)
	}
}

// ended saves a run of the small incident that went to its end.
func ended(t *testing.T, inc *replays.Incident) (string, replays.Matrix) {
	t.Helper()
	dir := t.TempDir()
	m := replays.Matrix{Incident: inc.Name, Arms: inc.Arms(), Repeat: 1, Seed: 7, Seconds: 150}
	for _, arm := range inc.Arms() {
		save(t, newWorld(t, inc, arm).record(), filepath.Join(dir, arm+"-1"))
		m.Plays = append(m.Plays, arm+"-1")
	}
	if err := replays.WriteJSON(filepath.Join(dir, "matrix.json"), m); err != nil {
		t.Fatal(err)
	}
	return dir, m
}
