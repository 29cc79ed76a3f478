package main

import (
	"encoding/json"
	"os"
	"path/filepath"
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
