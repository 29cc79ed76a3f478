package reports_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"relapse/replays"
	"relapse/reports"
)

const qStarts = `sum(rate(game_starts_total[$phase])) / sum(rate(relapse_offered_total{op="start"}[$phase]))`

// classFinding is what an arm says of its kind of outage, held against it.
func classFinding(c *replays.Class, want string) replays.Finding {
	held := strings.Contains(want, string(c.Is))
	f := replays.Finding{Check: "class", Kind: replays.KindClass, Says: "What becomes of the outage once its trigger is gone", Phase: "quiet",
		Outcome: replays.Pass, Expected: ptr(true), Held: &held, Got: string(c.Is), Want: want, Query: "sum(rate(game_starts_total[1s]))"}
	switch {
	case c.Is == replays.ClassUnknown:
		f.Outcome, f.Held, f.Got, f.Reason = replays.Unknown, nil, "", strings.Join(c.Evidence, "; ")
	case !held:
		f.Outcome = replays.Fail
	}
	return f
}

// together is an outage that is said to need three causes, and that one of them
// does without; a sweep with a step that was not played; and classes that were
// stated, missed and not seen.
func together() reports.Report {
	starts := func(got float64, expected bool) []replays.Finding {
		return []replays.Finding{
			finding("edge-01", replays.KindSymptom, "burst", qStarts, "<", got, 0.5, !expected),
			finding("games-start", replays.KindObjective, "burst", qStarts, ">=", got, 0.98, expected),
		}
	}
	healthy := arm("healthy", "health", "Nothing triggers the incident", 1, 1, 70.1, starts(0.999, true))
	healthy.Faults = nil
	unfixed := arm("unfixed", "outage", "The incident as documented", 1, 1, 71.2, starts(0.12, false))
	unfixed.Class = &replays.Class{Is: replays.ClassMetastable, Evidence: []string{
		"in the baseline, 9.0 s, goodput was 39.9/s of 40/s offered",
		"in the last third of the wait, 27.0 s to 32.0 s, goodput was 8.1 % of the baseline",
		"there were 4.81 attempts for each request offered, and 1.02 in the baseline (bound 1.22)",
		"the load was cut to 5.0 % for 10.0 s, and with all of it again goodput was back: two states at one load",
	}, Amplification: ptr(4.812), Hysteresis: ptr(true)}
	unfixed.Findings = append(unfixed.Findings, classFinding(unfixed.Class, "metastable"))
	fix := arm("fix-budget", "cured", "One resend for ten requests", 0, 1, 70.9, starts(0.97, true))
	fix.Class = &replays.Class{Is: replays.ClassTriggerBound, RecoveredAfter: ptr(4.26), Amplification: ptr(1.0),
		Evidence: []string{"the trigger was seen gone at 12.03 s, and 4.3 s later goodput was back for 5.0 s in a row"}}
	fix.Findings = append(fix.Findings, classFinding(fix.Class, "no-failure"))
	without := arm("without-leak", "cured", "The hosts leak memory", 1, 1, 70.4, starts(0.991, true))
	without.Class = &replays.Class{Is: replays.ClassUnknown, Evidence: []string{"goodput has no value from 14.25 s to 16.50 s"}}
	noisy := arm("without-retries", "cured", "Clients ask again at once", 1, 1, 70.2, starts(0.995, true))
	noisy.Outcome, noisy.Passed, noisy.Unknown = replays.Unknown, 0, 1
	noisy.Validity = []replays.Gate{{Gate: "machine-quiet", Reason: "a 1 ms ticker overshot: 0.15, want <= 0.1"}}
	noisy.Runs[0].Outcome, noisy.Runs[0].Validity = replays.Unknown, noisy.Validity
	down := arm("without-leak-and-co-location", "cured", "Without all of these: The hosts leak memory; Clusters share a host", 0, 1, 70.8, starts(0.71, true))
	arms := []replays.ArmVerdict{
		healthy, unfixed, without, noisy, down,
		arm("co-location-2", "no outage", "Two clusters share a host", 1, 1, 70.3, starts(0.99, true)),
		arm("co-location-3", "outage", "Three, as documented", 1, 1, 71.0, starts(0.14, false)),
		fix,
	}
	yes, no := true, false
	cell := func(arm string, outage *bool, got string, margin float64) replays.Cell {
		return replays.Cell{Arm: arm, Outage: outage, DecidedBy: "games-start", Phase: "burst", Got: got, Want: ">= 0.98", Margin: &margin}
	}
	unplayed := func(arm string) replays.Cell { return replays.Cell{Arm: arm, Reason: "not played in this run"} }
	return reports.Report{
		Incident: reports.IncidentInfo{
			Name: "edge", Title: "Games stop starting in three regions", Story: "Three things lined up.",
			Source: reports.Source{Publisher: "Riot Games", Date: "2020-02-18"},
			Checks: []reports.CheckInfo{
				{ID: "edge-01", Kind: replays.KindSymptom, Says: "Fewer than half of the games start", Fact: "A steep fall in games created", During: "burst", Query: qStarts + " < 0.5", Documented: true},
				{ID: "games-start", Kind: replays.KindObjective, Says: "Games start", During: "burst", Query: qStarts + " >= 0.98"},
			},
			Causes: []reports.CauseInfo{{Name: "leak", Says: "The hosts leak memory", Necessary: true}, {Name: "retries", Says: "Clients ask again at once", Necessary: true}, {Name: "co-location", Says: "Clusters share a host", Necessary: true}},
			Fixes:  []reports.FixInfo{{Name: "budget", Says: "One resend for ten requests", Documented: true, Restores: []string{"games-start"}}},
			Sweeps: []reports.SweepInfo{{Name: "co-location", Says: "How many clusters share a host", Steps: []reports.StepInfo{
				{Name: "1", Says: "Each has its own"}, {Name: "2", Says: "Two clusters share a host"}, {Name: "3", Says: "Three, as documented", Outage: true}}}},
			Class: &reports.ClassInfo{Unfixed: []string{"metastable"}, Wait: "quiet", WaitFor: 8, WaitReason: "The clients give up after 300 ms"},
		},
		Verdict: replays.Verdict{
			Incident: "edge", Title: "Games stop starting in three regions", Outcome: replays.Fail, Reproduced: true, Arms: arms,
			Reasons: []string{
				"arm fix-budget fails in 1 of 1 plays: games-start should hold during burst: got 0.97, want >= 0.98",
				"arm without-leak-and-co-location is an outage, and it should take leak, retries, co-location together to make one: games-start during burst: got 0.71, want >= 0.98",
			},
			Combinations: []replays.Combination{
				{On: []string{"leak", "retries", "co-location"}, Cell: cell("unfixed", &yes, "0.12", 0.8776)},
				{On: []string{"retries", "co-location"}, Cell: cell("without-leak", &no, "0.991", 0.0112)},
				{On: []string{"leak", "co-location"}, Cell: replays.Cell{Arm: "without-retries", Reason: "a 1 ms ticker overshot: 0.15, want <= 0.1"}},
				{On: []string{"leak", "retries"}, Cell: unplayed("without-co-location")},
				{On: []string{"co-location"}, Cell: unplayed("without-leak-and-retries")},
				{On: []string{"retries"}, Cell: cell("without-leak-and-co-location", &yes, "0.71", 0.2755)},
				{On: []string{"leak"}, Cell: unplayed("without-retries-and-co-location")},
				{On: []string{}, Cell: unplayed("without-leak-and-retries-and-co-location")},
			},
			Sweeps: []replays.SweepVerdict{{Name: "co-location", Steps: []replays.StepVerdict{
				{Step: "2", Outcome: replays.Pass, Cell: cell("co-location-2", &no, "0.99", 0.0102)},
				{Step: "3", Expected: true, Outcome: replays.Pass, Cell: cell("co-location-3", &yes, "0.14", 0.8571)},
			}}},
		},
		Command: "relapse verify edge --repeat 1 --seed 1",
	}
}

// TestTogetherIsTold holds what a reader must find in each format.
func TestTogetherIsTold(t *testing.T) {
	for name, wants := range map[string][]string{
		"markdown": {
			"| `without-leak-and-co-location` | ✗ off | ✓ on | ✗ off | outage | games-start (burst) | 0.71 not ≥ 0.98 | 28 % to spare | **✗ fail** |",
			"| `without-leak` | ✗ off | ✓ on | ✓ on | no outage | games-start (burst) | 0.991 ≥ 0.98 | 1.1 % to spare | **✓ pass** |",
			"| `without-retries` | ✓ on | ✗ off | ✓ on | not known | – | a 1 ms ticker overshot: 0.15, want &lt;= 0.1 | – | **? unknown** |",
			"| `1` Each has its own | no outage | not known | – | not played in this run | – | **? unknown** |",
			"| `3` Three, as documented | outage | outage | games-start (burst) | 0.14 not ≥ 0.98 | 86 % to spare | **✓ pass** |",
			"| `unfixed` | metastable | metastable | – | 4.812 | brought it back | **✓ pass** |",
			"| `fix-budget` | trigger-bound | no-failure | 4.26 s | 1 | – | **✗ fail** |",
			"| `without-leak` | unknown | – | – | – | – | – |",
			"- there were 4.81 attempts for each request offered, and 1.02 in the baseline (bound 1.22)",
			"The wait, `quiet`, may be as short as 8.00 s: The clients give up after 300 ms",
			"- Once the trigger is gone and the load is as before, the un-fixed arm is metastable.",
			"Not all 3 combined causes are needed.",
		},
		"html": {
			`<th scope="row" class="id">without-leak-and-co-location</th><td class="on">✗ off</td><td class="on">✓ on</td><td class="on">✗ off</td><td class="on">outage</td>`,
			`<th scope="row"><span class="id">3</span> Three, as documented</th><td data-label="Stated">outage</td><td data-label="Seen">outage</td>`,
			`<li>there were 4.81 attempts for each request offered, and 1.02 in the baseline (bound 1.22)</li>`,
			`<b>trigger-bound</b> <span class="want">stated: no-failure</span>`,
			`may be as short as 8.00 s: The clients give up after 300 ms`,
			`<a href="#class">Class</a>`, `<a href="#sweeps">Sweeps</a>`,
		},
		"junit": {
			`<testcase name="combination unfixed" classname="edge"></testcase>`,
			`<failure message="leak ✗ off, retries ✓ on, co-location ✗ off: outage: games-start (burst) 0.71 not ≥ 0.98" type="fail"></failure>`,
			`<error message="leak ✓ on, retries ✗ off, co-location ✓ on: not known: a 1 ms ticker overshot: 0.15, want &lt;= 0.1" type="unknown"></error>`,
			`<skipped message="not played in this run"></skipped>`,
			`<property name="class" value="metastable"></property>`,
			`<testcase name="class class during quiet" classname="edge.fix-budget">`,
		},
		"json": {`"on":["retries"],"arm":"without-leak-and-co-location","outage":true,"decided_by":"games-start"`, `"is":"metastable"`},
	} {
		f, err := reports.Lookup(name)
		if err != nil {
			t.Fatal(err)
		}
		files, err := f.Render(together())
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range wants {
			if !strings.Contains(string(files[0].Data), want) {
				t.Errorf("%s does not show %s", name, want)
			}
		}
	}
}

func TestTogetherComesBackAsItWas(t *testing.T) {
	f, err := reports.Lookup("json")
	if err != nil {
		t.Fatal(err)
	}
	files, err := f.Render(together())
	if err != nil {
		t.Fatal(err)
	}
	var got reports.Report
	if err := json.Unmarshal(files[0].Data, &got); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(together(), got, cmpopts.EquateEmpty()); d != "" {
		t.Error(d)
	}
}

// TestTogetherInTheHeadline holds when it is said that all causes are needed.
func TestTogetherInTheHeadline(t *testing.T) {
	yes, no := true, false
	cells := func(without, both *bool) []replays.Combination {
		return []replays.Combination{
			{On: []string{"a", "b"}, Cell: replays.Cell{Arm: "unfixed", Outage: &yes}},
			{On: []string{"b"}, Cell: replays.Cell{Arm: "without-a", Outage: &no}},
			{On: []string{"a"}, Cell: replays.Cell{Arm: "without-b", Outage: without}},
			{On: []string{}, Cell: replays.Cell{Arm: "without-a-and-b", Outage: both}},
		}
	}
	for _, tc := range []struct {
		name string
		have []replays.Combination
		want string
	}{
		{"nothing is combined", nil, "Reproduced."},
		{"only with both", cells(&no, &no), "Reproduced. It takes all 2 causes together."},
		{"without one of them too", cells(&yes, &no), "Reproduced. Not all 2 combined causes are needed."},
		{"one is not known", cells(nil, &no), "Reproduced."},
		{"one is not known, and another is an outage", cells(nil, &yes), "Reproduced. Not all 2 combined causes are needed."},
	} {
		v := replays.Verdict{Outcome: replays.Pass, Reproduced: true, Combinations: tc.have, Arms: []replays.ArmVerdict{
			{Arm: "healthy", Outcome: replays.Pass}, {Arm: "unfixed", Outcome: replays.Pass}}}
		var b strings.Builder
		if err := reports.Summary(&b, v, false); err != nil {
			t.Fatal(err)
		}
		if _, got, _ := strings.Cut(strings.Split(b.String(), "\n")[1], "  "); got != tc.want {
			t.Errorf("%s: got %q, want %q", tc.name, got, tc.want)
		}
	}
}

// TestFromRunTellsSweepsAndClass holds what a report takes from a record's
// incident.
func TestFromRunTellsSweepsAndClass(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "unfixed")
	if err := os.CopyFS(dir, os.DirFS(filepath.Join("..", "replays", "testdata", "records", "unfixed"))); err != nil {
		t.Fatal(err)
	}
	file, err := os.OpenFile(filepath.Join(dir, "incident", replays.FileName), os.O_APPEND|os.O_WRONLY, 0)
	if err == nil {
		_, err = file.WriteString(`sweeps:
  crowd:
    says: How many ask
    steps:
      - {name: "50", says: Half as many, change: {traffic: {players: {ask: 50/s}}}, outage: false}
      - {name: "100", says: As documented, outage: true}
class:
  goodput: sum(rate(relapse_requests_total{op="ask",outcome="ok"}[1s]))
  offered: sum(rate(relapse_offered_total{op="ask"}[1s]))
  baseline: before
  trigger: broken
  wait: after
  client_timeout: 300ms
  wait_at_least: {lasts: 4s, reason: The store forgets at once}
  unfixed: trigger-bound
`)
	}
	if err := errors.Join(err, file.Close()); err != nil {
		t.Fatal(err)
	}
	// As a play of that incident would have planned it.
	inc, err := replays.Load(os.DirFS(filepath.Join(dir, "incident")), ".")
	if err != nil {
		t.Fatal(err)
	}
	plan, err := inc.Plan("unfixed", 7)
	if err == nil {
		err = replays.WriteJSON(filepath.Join(dir, "plan.json"), plan)
	}
	if err != nil {
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
	sweeps := []reports.SweepInfo{{Name: "crowd", Says: "How many ask", Steps: []reports.StepInfo{{Name: "50", Says: "Half as many"}, {Name: "100", Says: "As documented", Outage: true}}}}
	if d := cmp.Diff(sweeps, r.Incident.Sweeps); d != "" {
		t.Errorf("sweeps (-want +got):\n%s", d)
	}
	class := &reports.ClassInfo{Unfixed: []string{"trigger-bound"}, Wait: "after", WaitFor: 4, WaitReason: "The store forgets at once"}
	if d := cmp.Diff(class, r.Incident.Class); d != "" {
		t.Errorf("class (-want +got):\n%s", d)
	}
}
