package reports_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"relapse/replays"
	"relapse/reports"
)

func runsFolder(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	write := func(folder, file string, v any) {
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		if s, ok := v.(string); ok {
			b = []byte(s)
		}
		if err := os.MkdirAll(filepath.Join(dir, folder), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, folder, file), b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	v := sample().Verdict
	good := v
	good.Outcome, good.Reasons = replays.Pass, nil
	good.Arms = v.Arms[:8]
	unsure := good
	unsure.Outcome, unsure.Reproduced = replays.Unknown, false
	other := good
	other.Incident, other.Title = "matchmaking", "A list that grows without end <b>"
	write("2026-10-08T02-15-00-account-service", "verdict.json", good)
	write("2026-10-09T02-15-00-account-service", "verdict.json", unsure)
	write("2026-10-10T02-15-00-account-service", "verdict.json", v)
	write("2026-10-10T02-15-00-account-service", "report.html", "page")
	write("2026-10-10T02-40-00-matchmaking", "verdict.json", other)
	write("2026-10-10T03-00-00-broken", "verdict.json", "{")
	write("2026-10-10T03-10-00-single", "verdict.json", replays.PlayVerdict{Arm: "unfixed", Outcome: replays.Pass})
	write("2026-10-10T03-20-00-going-on", "events.ndjson", "")
	return dir
}

func TestIndex(t *testing.T) {
	t.Setenv("TZ", "UTC")
	dir := runsFolder(t)
	path, err := reports.WriteIndex(dir)
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for what, want := range map[string]string{
		"both incidents and all runs": "2 incidents, 4 runs",
		"the last report":             `href="2026-10-10T02-15-00-account-service/report.html"`,
		"a run without a report":      `href="2026-10-08T02-15-00-account-service/verdict.json"`,
		"how often it reproduced":     `<td data-label="Reproduced" class="num">2 of 2, 1 unknown</td>`,
		"how often it passed":         `<td data-label="Passed" class="num">1 of 2, 1 unknown</td>`,
		"what could not be read":      "2026-10-10T03-00-00-broken/verdict.json: unexpected end of JSON input",
		"the margins over time":       `<svg class="trend" role="img"`,
		"what was thinnest":           `<td data-label="Thinnest margin"`,
		"a title as text":             "without end &lt;b&gt;",
	} {
		if !strings.Contains(string(page), want) {
			t.Errorf("the index does not show %s: %s", what, want)
		}
	}
}

func TestAnIndexOfNothingIsAnError(t *testing.T) {
	path, err := reports.WriteIndex(t.TempDir())
	if !errors.Is(err, reports.ErrNoRuns) {
		t.Errorf("got %v, want ErrNoRuns", err)
	}
	page, err := os.ReadFile(path)
	if err != nil || !strings.Contains(string(page), "nothing was played") {
		t.Errorf("the page does not say that nothing was played: %v", err)
	}
	if _, err := reports.WriteIndex(filepath.Join(t.TempDir(), "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a folder that is not there: got %v, want ErrNotExist", err)
	}
}
