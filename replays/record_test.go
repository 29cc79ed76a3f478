package replays_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"relapse/replays"
)

// saved are the records that this package's tests made themselves. A bug in the
// judge adds a folder of its own under testdata/records, made by a play.
var saved = []struct {
	name, arm string
	change    func(w *world)
	damage    func(dir string) error
}{
	{name: "healthy", arm: "healthy"},
	{name: "unfixed", arm: "unfixed"},
	{name: "fix-leaves", arm: "fix-patience"},
	{name: "symptom-not-seen", arm: "unfixed", change: func(w *world) { w.wait = during(w.plan, "broken", 0.3, 0.02) }},
	{name: "load-late", arm: "unfixed", change: func(w *world) { w.late = 0.09 }},
	{name: "interrupted", arm: "unfixed", change: func(w *world) { w.cut(6) }},
	{name: "events-cut-short", arm: "unfixed", change: func(w *world) { w.cut(6) }, damage: func(dir string) error {
		path := filepath.Join(dir, "events.ndjson")
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(path, b[:len(b)-20], 0o644)
	}},
	{name: "no-samples", arm: "healthy", damage: func(dir string) error { return os.Remove(filepath.Join(dir, "samples.om.gz")) }},
	{name: "no-environment", arm: "healthy", damage: func(dir string) error { return os.Remove(filepath.Join(dir, "environment.json")) }},
}

// TestRecords judges every record under testdata/records and compares with the
// verdict beside it. Under -update, records of the list above that are not there
// are made.
func TestRecords(t *testing.T) {
	if *update {
		for _, s := range saved {
			dir := filepath.Join("testdata", "records", s.name)
			if _, err := os.Stat(dir); err == nil {
				continue
			}
			w := newWorld(t, loadSmall(t), s.arm)
			if s.change != nil {
				s.change(w)
			}
			save(t, w.record(), dir)
			if s.damage != nil {
				if err := s.damage(dir); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	plans, err := filepath.Glob(filepath.Join("testdata", "records", "*", "plan.json"))
	if err != nil || len(plans) < len(saved) {
		t.Fatalf("%d records under testdata/records, want %d or more: %v", len(plans), len(saved), err)
	}
	for _, path := range plans {
		dir := filepath.Dir(path)
		t.Run(filepath.Base(dir), func(t *testing.T) {
			r, err := replays.ReadRecord(dir)
			if err != nil {
				t.Fatal(err)
			}
			v := replays.JudgePlay(r)
			v.Record = filepath.Base(dir)
			golden(t, filepath.Join(dir, replays.VerdictFile), []byte(toJSON(t, v)))
			if _, err := r.Incident(); err != nil {
				t.Errorf("the incident cannot be read back: %v", err)
			}
		})
	}
}

// TestRecordRoundTrip holds that a record judged from disk is judged as it was
// in memory.
func TestRecordRoundTrip(t *testing.T) {
	inc := loadSmall(t)
	for _, arm := range inc.Arms() {
		w := newWorld(t, inc, arm)
		live := w.record()
		live.Dir = filepath.Join(t.TempDir(), arm)
		save(t, live, live.Dir)
		back, err := replays.ReadRecord(live.Dir)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(replays.JudgePlay(live), replays.JudgePlay(back)); diff != "" {
			t.Errorf("arm %s (-live +disk):\n%s", arm, diff)
		}
		if diff := cmp.Diff(toJSON(t, live.Plan), toJSON(t, back.Plan)); diff != "" {
			t.Errorf("plan of %s (-live +disk):\n%s", arm, diff)
		}
		if diff := cmp.Diff(live.Events, back.Events); diff != "" {
			t.Errorf("events of %s (-live +disk):\n%s", arm, diff)
		}
		again, err := back.Incident()
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(toJSON(t, live.Plan), toJSON(t, plan7(t, again, arm))); diff != "" {
			t.Errorf("plan of %s from the record's incident (-want +have):\n%s", arm, diff)
		}
	}
}

func plan7(t *testing.T, inc *replays.Incident, arm string) *replays.Plan {
	t.Helper()
	p, err := inc.Plan(arm, 7)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// write puts other content into a file of a record.
func write(file, content string) func(dir string) error {
	return func(dir string) error {
		return os.WriteFile(filepath.Join(dir, filepath.FromSlash(file)), []byte(content), 0o644)
	}
}

// pipe puts a pipe that nobody writes to in a file's place.
func pipe(file string) func(dir string) error {
	return func(dir string) error {
		path := filepath.Join(dir, filepath.FromSlash(file))
		return errors.Join(os.Remove(path), unix.Mkfifo(path, 0o644))
	}
}

func TestReadRecordRefuses(t *testing.T) {
	for _, tc := range []struct {
		name   string
		damage func(dir string) error
		is     error
		want   string
	}{
		{"no plan", func(dir string) error { return os.Remove(filepath.Join(dir, "plan.json")) }, replays.ErrNoRecord, "it has no plan.json"},
		{"no folder", os.RemoveAll, replays.ErrNoRecord, "there is no such folder"},
		{"plan cut short", func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "plan.json"), []byte(`{"incident":`), 0o644)
		}, replays.ErrDamaged, "plan.json"},
		{"no events", func(dir string) error { return os.Remove(filepath.Join(dir, "events.ndjson")) }, os.ErrNotExist, "events.ndjson"},
		{"events damaged in their middle", func(dir string) error {
			path := filepath.Join(dir, "events.ndjson")
			b, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			lines := strings.SplitAfter(string(b), "\n")
			lines[3] = "{\n"
			return os.WriteFile(path, []byte(strings.Join(lines, "")), 0o644)
		}, replays.ErrDamaged, "events.ndjson:4: the record is damaged: an event that is no last line cannot be read"},
		{"samples cut short", func(dir string) error { return os.Truncate(filepath.Join(dir, "samples.om.gz"), 300) }, replays.ErrDamaged, "samples.om.gz"},
		{"no rules", func(dir string) error { return os.Remove(filepath.Join(dir, "incident", "alerts.yaml")) }, os.ErrNotExist, "its alert rules are missing"},
		{"a file", func(dir string) error {
			return errors.Join(os.RemoveAll(dir), os.WriteFile(dir, []byte("{}"), 0o644))
		}, replays.ErrNoRecord, "it is no folder"},
		{"empty plan", write("plan.json", "{}"), replays.ErrDamaged, "plan.json: the record is damaged: it names no incident"},
		{"null plan", write("plan.json", "null"), replays.ErrDamaged, "it names no incident"},
		{"plan without bytes", write("plan.json", ""), replays.ErrDamaged, "plan.json: the record is damaged: it is no whole JSON"},
		{"plan without arm", write("plan.json", `{"incident":"small"}`), replays.ErrDamaged, "it names no arm"},
		{"plan without phases", write("plan.json", `{"incident":"small","arm":"healthy"}`), replays.ErrDamaged, "it has no phases"},
		{"phase without length", write("plan.json", `{"incident":"small","arm":"healthy","phases":[{"name":"a"}]}`), replays.ErrDamaged, "phase a ends at 0 s"},
		{"samples without bytes", write("samples.om.gz", ""), replays.ErrDamaged, "samples.om.gz: the record is damaged"},
		{"samples not packed", write("samples.om.gz", "up 1 1\n# EOF\n"), replays.ErrDamaged, "samples.om.gz: the record is damaged"},
		{"environment cut short", write("environment.json", `{"run":`), replays.ErrDamaged, "environment.json: the record is damaged"},
		{"an event too long", write("events.ndjson", strings.Repeat("x", 17<<20)), replays.ErrDamaged, "events.ndjson: the record is damaged: a line of it is longer than 16 MiB"},
		{"rules that are none", write("incident/alerts.yaml", "groups: 7\n"), replays.ErrDamaged, "its alert rules cannot be read"},
		{"plan is a pipe", pipe("plan.json"), replays.ErrDamaged, "plan.json: the record is damaged: it is no regular file"},
		{"events are a pipe", pipe("events.ndjson"), replays.ErrDamaged, "it is no regular file"},
		{"environment is a pipe", pipe("environment.json"), replays.ErrDamaged, "it is no regular file"},
		{"samples are a pipe", pipe("samples.om.gz"), replays.ErrDamaged, "it is no regular file"},
		{"rules are a pipe", pipe("incident/alerts.yaml"), replays.ErrDamaged, "it is no regular file"},
		{"plan is a folder", func(dir string) error {
			return errors.Join(os.Remove(filepath.Join(dir, "plan.json")), os.Mkdir(filepath.Join(dir, "plan.json"), 0o755))
		}, replays.ErrDamaged, "it is no regular file"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := t.TempDir()
			save(t, newWorld(t, loadSmall(t), "healthy").record(), dir)
			if err := tc.damage(dir); err != nil {
				t.Fatal(err)
			}
			_, err := replays.ReadRecord(dir)
			if err == nil || !strings.Contains(err.Error(), tc.want) || tc.is != nil && !errors.Is(err, tc.is) {
				t.Errorf("error %v, want %s", err, tc.want)
			}
			if _, err := replays.ReadRun(dir); err == nil {
				t.Error("the run was read, want an error")
			}
		})
	}
}

// TestReadRun holds that a folder of plays gives the verdict that was given
// when they were made.
func TestReadRun(t *testing.T) {
	inc := loadSmall(t)
	dir := t.TempDir()
	matrix := replays.Matrix{Incident: inc.Name, Arms: inc.Arms(), Repeat: 1, Seed: 7, Seconds: 150}
	var live []replays.Judged
	for _, arm := range inc.Arms() {
		r := newWorld(t, inc, arm).record()
		r.Dir = filepath.Join(dir, arm+"-1")
		save(t, r, r.Dir)
		matrix.Plays = append(matrix.Plays, arm+"-1")
		live = append(live, replays.Judged{Plan: r.Plan, Verdict: replays.JudgePlay(r)})
	}
	if err := replays.WriteJSON(filepath.Join(dir, "matrix.json"), matrix); err != nil {
		t.Fatal(err)
	}
	run, err := replays.ReadRun(dir)
	if err != nil {
		t.Fatal(err)
	}
	want := replays.JudgeIncident(live, 1)
	want.Record = dir
	want.Timing = replays.Timing{Total: 150, Phases: 9 * 12, Ratio: 150.0 / 108, WorstOver: 3.25}
	if diff := cmp.Diff(want, run.Verdict); diff != "" {
		t.Errorf("verdict (-live +disk):\n%s", diff)
	}
	if want.Outcome != replays.Pass || !want.Reproduced {
		t.Errorf("the matrix is %s: %v", want.Outcome, want.Reasons)
	}
	for name, early := range map[string]func(*replays.Matrix){
		"with trouble":   func(m *replays.Matrix) { m.Trouble = "the engine is gone" },
		"without an end": func(m *replays.Matrix) { m.Unfinished = true },
	} {
		matrix := matrix
		early(&matrix)
		if err := replays.WriteJSON(filepath.Join(dir, "matrix.json"), matrix); err != nil {
			t.Fatal(err)
		}
		if run, err = replays.ReadRun(dir); err != nil || run.Verdict.Outcome != replays.Unknown || len(run.Verdict.Reasons) == 0 {
			t.Errorf("a run that ended early %s is %s, %v, %v; want unknown", name, run.Verdict.Outcome, run.Verdict.Reasons, err)
		}
	}
	one, err := replays.ReadRun(filepath.Join(dir, "healthy-1"))
	if err != nil {
		t.Fatal(err)
	}
	if m := one.Matrix; m.Incident != "small" || !slices.Equal(m.Arms, []string{"healthy"}) || m.Repeat != 1 || m.Seed != 7 || len(one.Plays) != 1 {
		t.Errorf("matrix of one play: %+v", m)
	}
	// Among others it would prove nothing without the un-fixed arm.
	if one, err = replays.ReadRun(filepath.Join(dir, "fix-patience-1")); err != nil {
		t.Fatal(err)
	}
	if v := one.Verdict; v.Outcome != replays.Pass || v.Timing.Phases != 12 {
		t.Errorf("a fix alone is %s, timing %+v; want pass and 12 s of phases", v.Outcome, v.Timing)
	}
}

// TestPlayWithoutEngine holds that a play that cannot start leaves a record
// that can be read, and that is unknown.
func TestPlayWithoutEngine(t *testing.T) {
	t.Setenv("DOCKER_HOST", "unix://"+filepath.Join(t.TempDir(), "nobody.sock"))
	inc := loadSmall(t)
	dir := filepath.Join(t.TempDir(), "play")
	var seen []string
	live, err := replays.Play(t.Context(), inc, plan7(t, inc, "unfixed"), dir, replays.PlayOptions{
		Run: "test", Observe: func(e replays.Event) { seen = append(seen, e.Event) },
	})
	if err == nil || live == nil {
		t.Fatalf("record %v, error %v: want both", live, err)
	}
	back, readErr := replays.ReadRecord(dir)
	if readErr != nil {
		t.Fatal(readErr)
	}
	v := replays.JudgePlay(back)
	if v.Outcome != replays.Unknown || len(v.Validity) != 1 || !strings.Contains(v.Validity[0].Reason, err.Error()) {
		t.Errorf("%s, %v; want unknown, since %v", v.Outcome, v.Validity, err)
	}
	if diff := cmp.Diff(replays.JudgePlay(live), v); diff != "" {
		t.Errorf("verdict (-live +disk):\n%s", diff)
	}
	if !slices.Contains(seen, replays.EventTrouble) {
		t.Errorf("observed %v, want trouble among it", seen)
	}
	if _, err := back.Incident(); err != nil {
		t.Error(err)
	}
}

func TestJournal(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events.ndjson")
	journal, err := replays.OpenJournal(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	const writers, each = 8, 200
	for range writers {
		go func() {
			for range each {
				journal.Write(replays.Event{Event: replays.EventFault, Fault: "slow", Detail: strings.Repeat("x", 100)})
			}
			done <- struct{}{}
		}()
	}
	for range writers {
		<-done
	}
	// Read before it is closed, as after a crash.
	lines := readLines(t, path)
	events, err := journal.Close()
	if err != nil {
		t.Fatal(err)
	}
	if len(lines) != writers*each || len(events) != writers*each {
		t.Fatalf("%d lines and %d events, want %d", len(lines), len(events), writers*each)
	}
	last := -1.0
	for n, line := range lines {
		var e replays.Event
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("line %d: %v", n+1, err)
		}
		if e.T < last || e.T != events[n].T {
			t.Fatalf("line %d is of %g, after %g; the event is of %g", n+1, e.T, last, events[n].T)
		}
		last = e.T
	}
	journal.Write(replays.Event{Event: replays.EventTrouble})
	if _, err := journal.Close(); err == nil {
		t.Error("a write that failed was not told of")
	}
	if _, err := replays.OpenJournal(filepath.Join(path, "none"), nil); err == nil {
		t.Error("a journal where none can be was opened")
	}
}

func readLines(t *testing.T, path string) []string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSpace(string(b)), "\n")
}

// TestWriteJSONIsWholeOrNotThere holds that a disk that is full, for which the kernel's
// own device stands, leaves what was there before, and no half of a file.
func TestWriteJSONIsWholeOrNotThere(t *testing.T) {
	for _, tc := range []struct {
		name   string
		before string // "" for no file
		full   bool
		want   string
	}{
		{"a new file", "", false, "{\n  \"a\": 1\n}\n"},
		{"in the place of another", "{}", false, "{\n  \"a\": 1\n}\n"},
		{"a new file, on a full disk", "", true, ""},
		{"in the place of another, on a full disk", "{}", true, "{}"},
	} {
		dir := t.TempDir()
		path := filepath.Join(dir, "x.json")
		if tc.before != "" {
			if err := os.WriteFile(path, []byte(tc.before), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if tc.full {
			if err := os.Symlink("/dev/full", path+".part"); err != nil {
				t.Fatal(err)
			}
		}
		err := replays.WriteJSON(path, map[string]int{"a": 1})
		if tc.full != errors.Is(err, unix.ENOSPC) || !tc.full && err != nil {
			t.Errorf("%s: error %v", tc.name, err)
		}
		have, err := os.ReadFile(path)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		if string(have) != tc.want {
			t.Errorf("%s: have %q, want %q", tc.name, have, tc.want)
		}
		if left, err := filepath.Glob(path + ".*"); err != nil || len(left) > 0 {
			t.Errorf("%s: it left %v, %v", tc.name, left, err)
		}
	}
}
