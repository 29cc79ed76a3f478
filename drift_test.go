package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"relapse/replays"
)

// TestDrift holds what the tool says of a configuration against a tested one, and
// by which exit code.
func TestDrift(t *testing.T) {
	const small = "replays/testdata/small"
	inc, err := replays.Find(small)
	if err != nil {
		t.Fatal(err)
	}
	plan, err := inc.Plan("healthy", 1)
	if err != nil {
		t.Fatal(err)
	}
	configuration := plan.Configuration(nil)
	tested := replays.NewTested(replays.Tested{
		Incident: "small", Arm: "healthy", Top: "step-400", At: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Configuration: configuration,
	})
	save := func(name string, change func(t *replays.Tested)) string {
		t.Helper()
		changed := tested
		change(&changed)
		path := filepath.Join(t.TempDir(), name)
		if err := replays.WriteJSON(path, changed); err != nil {
			t.Fatal(err)
		}
		return path
	}
	file := save("tested.json", func(*replays.Tested) {})
	for _, tc := range []struct {
		name string
		args []string
		code int
		want string // part of what is printed; "" for nothing at all
	}{
		{"nothing differs", []string{file, small}, exitAsExpected, "nothing differs\n"},
		{"the folder of the play", []string{filepath.Dir(file), small}, exitAsExpected, "arm healthy, clean up to step-400 on 2026-01-02 03:04  " + tested.Digest},
		{"an arm with other settings", []string{file, small, "--arm", "fix-patience"}, exitNot,
			"one setting differs\n  node server command: tested [\"service\",\"account\"], deployed [\"service\",\"account\",\"--tries=2\"]\n"},
		{"an arm with the same ones", []string{file, small, "--arm", "unfixed"}, exitAsExpected, "nothing differs\n"},
		{"no such arm", []string{file, small, "--arm", "fix-patiense"}, exitBadInput, ""},
		{"no such file", []string{"none.json", small}, exitBadInput, ""},
		{"a folder without one", []string{small, small}, exitBadInput, ""},
		{"no tested configuration", []string{"go.mod", small}, exitBadInput, ""},
		{"another incident", []string{save("tested.json", func(t *replays.Tested) { t.Incident = "other" }), small}, exitBadInput, ""},
		{"edited since", []string{save("tested.json", func(t *replays.Tested) { t.Configuration = replays.Configuration{"node server cpus": "2"} }), small}, exitBadInput, ""},
		{"of another tool", []string{save("tested.json", func(t *replays.Tested) { t.Schema = "relapse-tested/0" }), small}, exitBadInput, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			code, out := printed(t, append([]string{"drift"}, tc.args...)...)
			if code != tc.code || !strings.Contains(string(out), tc.want) || tc.want == "" && len(out) > 0 {
				t.Errorf("exit code %d, want %d; printed:\n%s\nwant:\n%s", code, tc.code, out, tc.want)
			}
		})
	}
	t.Run("as JSON", func(t *testing.T) {
		code, out := printed(t, "drift", file, small, "--arm", "fix-patience", "--json")
		var have struct {
			Deployed    struct{ Arm string }
			Differences []replays.Difference
		}
		if err := json.Unmarshal(out, &have); err != nil {
			t.Fatalf("%v in %s", err, out)
		}
		if code != exitNot || have.Deployed.Arm != "fix-patience" || len(have.Differences) != 1 || have.Differences[0].Setting != "node server command" {
			t.Errorf("exit code %d, %+v", code, have)
		}
	})
}

// TestDriftOfARun holds that a run of several plays is one tested configuration or
// none.
func TestDriftOfARun(t *testing.T) {
	dir := t.TempDir()
	save := func(play string, c replays.Configuration) {
		t.Helper()
		if err := os.MkdirAll(filepath.Join(dir, play), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := replays.WriteJSON(filepath.Join(dir, play, replays.TestedFile), replays.NewTested(replays.Tested{Incident: "small", Arm: play, Configuration: c})); err != nil {
			t.Fatal(err)
		}
	}
	matrix := replays.Matrix{Incident: "small", Plays: []string{"healthy-1", "unfixed-1", "healthy-2", "fix-1"}}
	if err := replays.WriteJSON(filepath.Join(dir, "matrix.json"), matrix); err != nil {
		t.Fatal(err)
	}
	if _, err := replays.ReadTested(dir); err == nil || !strings.Contains(err.Error(), "no play of it climbed a ladder") {
		t.Errorf("no play tested anything: %v", err)
	}
	save("healthy-1", replays.Configuration{"node a cpus": "1"})
	save("healthy-2", replays.Configuration{"node a cpus": "1"})
	if have, err := replays.ReadTested(dir); err != nil || have.Arm != "healthy-1" {
		t.Errorf("two plays of one configuration: %+v, %v", have, err)
	}
	save("fix-1", replays.Configuration{"node a cpus": "2"})
	if _, err := replays.ReadTested(dir); err == nil || !strings.Contains(err.Error(), "name the folder of one play") {
		t.Errorf("two configurations: %v", err)
	}
}
