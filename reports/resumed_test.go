package reports_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"relapse/replays"
	"relapse/reports"
)

// resumed is a report of a run that ended early twice and was gone on with, the
// second time by another build.
func resumed(r reports.Report) reports.Report {
	r.Environment.Resumed = []reports.Resumption{
		{At: time.Date(2026, 10, 10, 3, 40, 0, 0, time.UTC), After: 1, Tool: "0.3.0", Commit: "8146769d0c1f"},
		{At: time.Date(2026, 10, 11, 2, 15, 0, 0, time.UTC), After: 5, Tool: "0.3.1", Commit: "cfa09f9", Dirty: true},
	}
	return r
}

// TestResumptionsAreTold holds that a report says when, after how many plays and
// by which build a run was gone on with, where it says whether the run can be
// trusted; and nothing of it where the run went through.
func TestResumptionsAreTold(t *testing.T) {
	for _, c := range []struct {
		format, mark string // mark is what tells of any resumption
		want         []string
	}{
		{"html", "Resumed", []string{
			`<dt>Resumed</dt><dd>2026-10-10 03:40:00 UTC, after 1 play<br>relapse 0.3.0, commit <span class="id">8146769d0c1f</span></dd>`,
			`<dt>Resumed</dt><dd>2026-10-11 02:15:00 UTC, after 5 plays<br>relapse 0.3.1, commit <span class="id">cfa09f9</span>, with uncommitted changes</dd>`,
		}},
		{"markdown", "Resumed", []string{
			"- Resumed: 2026-10-10 03:40:00 UTC, after 1 play, by relapse 0.3.0, commit 8146769d0c1f\n",
			"- Resumed: 2026-10-11 02:15:00 UTC, after 5 plays, by relapse 0.3.1, commit cfa09f9 with uncommitted changes\n",
		}},
		{"json", `"resumed"`, []string{
			`"resumed":[{"at":"2026-10-10T03:40:00Z","after":1,"tool":"0.3.0","commit":"8146769d0c1f","dirty":false},`,
		}},
	} {
		body := func(r reports.Report) string {
			f, err := reports.Lookup(c.format)
			if err != nil {
				t.Fatal(err)
			}
			files, err := f.Render(r)
			if err != nil {
				t.Fatal(err)
			}
			return string(files[0].Data)
		}
		told := body(resumed(sample()))
		if c.format != "json" {
			_, told, _ = strings.Cut(told, "Can it be trusted?")
			told, _, _ = strings.Cut(told, "Images that the nodes were made from")
		}
		for _, want := range c.want {
			if !strings.Contains(told, want) {
				t.Errorf("%s does not say, where it says whether it can be trusted: %s", c.format, want)
			}
		}
		if strings.Contains(body(sample()), c.mark) {
			t.Errorf("%s tells of a resumption where there was none", c.format)
		}
	}
}

func TestResumptionsComeBackFromJSON(t *testing.T) {
	f, err := reports.Lookup("json")
	if err != nil {
		t.Fatal(err)
	}
	files, err := f.Render(resumed(sample()))
	if err != nil {
		t.Fatal(err)
	}
	var got reports.Report
	if err := json.Unmarshal(files[0].Data, &got); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(resumed(sample()).Environment, got.Environment); d != "" {
		t.Error(d)
	}
}

// TestFromRunTellsResumptions holds that a report takes them from the run's
// folder, where verify wrote them.
func TestFromRunTellsResumptions(t *testing.T) {
	at := time.Date(2026, 10, 11, 2, 15, 0, 0, time.UTC)
	for _, c := range []struct {
		name string
		have []replays.Resumption
		want []reports.Resumption
	}{
		{"went through", nil, nil},
		{"resumed", []replays.Resumption{{At: at, Tool: replays.Tool{Version: "0.3.1", Commit: "cfa09f9", Dirty: true}, After: 1}},
			[]reports.Resumption{{At: at, After: 1, Tool: "0.3.1", Commit: "cfa09f9", Dirty: true}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.CopyFS(filepath.Join(dir, "healthy-1"), os.DirFS(filepath.Join("..", "replays", "testdata", "records", "healthy"))); err != nil {
				t.Fatal(err)
			}
			matrix := replays.Matrix{Incident: "small", Arms: []string{"healthy"}, Repeat: 1, Plays: []string{"healthy-1"}, Resumed: c.have}
			if err := replays.WriteJSON(filepath.Join(dir, "matrix.json"), matrix); err != nil {
				t.Fatal(err)
			}
			run, err := replays.ReadRun(dir)
			if err != nil {
				t.Fatal(err)
			}
			r, err := reports.FromRun(run)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(c.want, r.Environment.Resumed); d != "" {
				t.Errorf("resumptions (-want +got):\n%s", d)
			}
		})
	}
}

// TestNoRatioWithoutPhases holds that a run that was interrupted before its first
// phase is not said to have taken no time for each of its seconds.
func TestNoRatioWithoutPhases(t *testing.T) {
	r := sample()
	r.Verdict.Timing = replays.Timing{Total: 3.25, WorstOver: 3.25}
	var summary strings.Builder
	if err := reports.Summary(&summary, r.Verdict, false); err != nil {
		t.Fatal(err)
	}
	f, err := reports.Lookup("html")
	if err != nil {
		t.Fatal(err)
	}
	files, err := f.Render(r)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"summary": summary.String(), "html": string(files[0].Data)} {
		if want := "for 0.00 s of phases; the slowest play took 3.25 s beyond its phases"; !strings.Contains(text, want) {
			t.Errorf("%s does not say: %s", name, want)
		}
	}
}
