package main

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"relapse/replays"
)

// TestJudgeOfOnePlay holds that a play alone is told and ends the tool by its own
// outcome, also in an arm that proves nothing without others.
func TestJudgeOfOnePlay(t *testing.T) {
	for _, tc := range []struct {
		record  string
		outcome replays.Outcome
		code    int
	}{
		{"healthy", replays.Pass, exitAsExpected},
		{"unfixed", replays.Pass, exitAsExpected},
		{"fix-leaves", replays.Pass, exitAsExpected},
		{"symptom-not-seen", replays.Fail, exitNot},
		{"load-late", replays.Unknown, exitUnknown},
	} {
		t.Run(tc.record, func(t *testing.T) {
			code, out := printed(t, "judge", filepath.Join("replays", "testdata", "records", tc.record), "--json")
			var v replays.Verdict
			if err := json.Unmarshal(out, &v); err != nil {
				t.Fatalf("%v in %s", err, out)
			}
			if v.Outcome != tc.outcome || code != tc.code {
				t.Errorf("told %s, exit code %d; want %s, %d", v.Outcome, code, tc.outcome, tc.code)
			}
		})
	}
}

// printed runs the tool and gives its exit code and what it wrote to stdout.
func printed(t *testing.T, args ...string) (int, []byte) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "stdout")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	stdout := os.Stdout
	os.Stdout = file
	code := run(t.Context(), args)
	os.Stdout = stdout
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	out, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return code, out
}

// TestJudgeRefuses holds that a damaged record ends the tool as bad input, by a
// message that names the file and what to do, whoever reads it.
func TestJudgeRefuses(t *testing.T) {
	for _, tc := range []struct {
		name, file, content, want string
	}{
		{"plan without bytes", "plan.json", "", "plan.json"},
		{"plan {}", "plan.json", "{}", "plan.json"},
		{"plan null", "plan.json", "null", "plan.json"},
		{"environment cut short", "environment.json", `{"run":`, "environment.json"},
		{"samples without bytes", "samples.om.gz", "", "samples.om.gz"},
		{"events too long", "events.ndjson", strings.Repeat("x", 17<<20), "events.ndjson"},
		{"matrix cut short", "matrix.json", "{", "matrix.json"},
		{"matrix {}", "matrix.json", "{}", "matrix.json"},
		{"incident edited", "incident/incident.yaml", "incident: small\n", "incident"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.CopyFS(dir, os.DirFS(filepath.Join("replays", "testdata", "records", "healthy"))); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, tc.file), []byte(tc.content), 0o644); err != nil {
				t.Fatal(err)
			}
			_, err := readRun(t.Context(), dir)
			if err == nil || !strings.Contains(err.Error(), filepath.Join(dir, tc.want)+": ") || !strings.Contains(err.Error(), "play it anew") {
				t.Errorf("error %v, want one that names %s and what to do", err, tc.want)
			}
			for _, command := range []string{"judge", "report"} {
				if have, _ := printed(t, command, dir); have != exitBadInput {
					t.Errorf("%s: exit code %d, want %d", command, have, exitBadInput)
				}
			}
		})
	}
	path := filepath.Join("replays", "testdata", "records", "healthy", "plan.json")
	if have, _ := printed(t, "judge", path); have != exitBadInput {
		t.Errorf("a file: exit code %d, want %d", have, exitBadInput)
	}
}

// TestJudgeRefusesAnEditedPlan holds that a plan that asks for something else than the
// incident beside it ends the tool as bad input, by its first difference.
func TestJudgeRefusesAnEditedPlan(t *testing.T) {
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(filepath.Join("replays", "testdata", "records", "symptom-not-seen"))); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "plan.json")
	plan, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	// The symptom that was not seen is one that should not be.
	edited := strings.Replace(string(plan), `"expected": true`, `"expected": false`, 1)
	if edited == string(plan) {
		t.Fatal("the test changed nothing")
	}
	if err := os.WriteFile(path, []byte(edited), 0o644); err != nil {
		t.Fatal(err)
	}
	const want = "].expected is false, and by the incident beside it true"
	if _, err := readRun(t.Context(), dir); err == nil || !strings.Contains(err.Error(), path+": ") || !strings.Contains(err.Error(), want) {
		t.Errorf("error %v, want one that names %s and %s", err, path, want)
	}
	for _, command := range []string{"judge", "report"} {
		if have, _ := printed(t, command, dir); have != exitBadInput {
			t.Errorf("%s: exit code %d, want %d", command, have, exitBadInput)
		}
	}
}

// TestReportOfNoPlay holds that a run without a play is no input for a report, and that
// its verdict is unknown: it says nothing about the system.
func TestReportOfNoPlay(t *testing.T) {
	for _, tc := range []struct {
		name, matrix, want string
	}{
		{"a run that holds none", `{"incident":"account-service","arms":["healthy"],"repeat":1,"plays":[]}`, "relapse verify account-service"},
		{"a run that ended before its first one", `{"incident":"account-service","arms":["healthy"],"repeat":1,"plays":[],"trouble":"no engine answers"}`, "no engine answers"},
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "matrix.json"), []byte(tc.matrix), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := readReport(t.Context(), dir); err == nil || !strings.Contains(err.Error(), dir+": ") || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: error %v, want one that names the folder and %s", tc.name, err, tc.want)
		}
		if have, _ := printed(t, "report", dir); have != exitBadInput {
			t.Errorf("%s: report: exit code %d, want %d", tc.name, have, exitBadInput)
		}
		if have, _ := printed(t, "judge", dir); have != exitUnknown {
			t.Errorf("%s: judge: exit code %d, want %d", tc.name, have, exitUnknown)
		}
	}
}

// TestReadingInterrupted holds that whoever interrupts judge and report is heeded.
func TestReadingInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, command := range []string{"judge", "report"} {
		out := t.TempDir()
		dir := filepath.Join(out, "record")
		if err := os.CopyFS(dir, os.DirFS(filepath.Join("replays", "testdata", "records", "healthy"))); err != nil {
			t.Fatal(err)
		}
		if have := run(ctx, []string{command, dir}); have != exitRig {
			t.Errorf("%s: exit code %d, want %d", command, have, exitRig)
		}
		if _, err := os.Stat(filepath.Join(dir, "report.html")); err == nil {
			t.Errorf("%s wrote a report after the interrupt", command)
		}
	}
}
