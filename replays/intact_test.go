package replays_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"relapse/replays"
)

// TestEditedPlans holds that a plan that says something else than the incident beside
// it is refused, by the first difference.
func TestEditedPlans(t *testing.T) {
	inc := loadSmall(t)
	for _, tc := range []struct {
		name   string
		change func(p *replays.Plan)
		want   string // of the error; "" for a record that is read
	}{
		{"as it was", func(*replays.Plan) {}, ""},
		{"another seed, as every play has", func(p *replays.Plan) { p.Seed = 1<<32 + 9 }, ""},
		{"of a build before plans said what is measured", func(p *replays.Plan) { p.Measured = nil }, ""},
		{"less measured", func(p *replays.Plan) { p.Measured = p.Measured[:1] }, "measured has 1 entries, and by the incident beside it 3"},
		{"an arm that is none", func(p *replays.Plan) { p.Arm = "fix-none" }, "the incident beside it makes no such plan"},
		{"another arm", func(p *replays.Plan) { p.Arm = "unfixed-on-death" }, "checks[waits].expected is true"},
		{"another incident", func(p *replays.Plan) { p.Incident = "large" }, `incident is "large", and by the incident beside it "small"`},
		{"another role", func(p *replays.Plan) { p.Role = replays.RoleFix }, `role is "fix", and by the incident beside it "unfixed"`},
		{"a phase longer", func(p *replays.Plan) { p.Phases[2].End = 13 }, "phases[after].end is 13, and by the incident beside it 12"},
		{"a phase fewer", func(p *replays.Plan) { p.Phases = p.Phases[:2] }, "fault narrow is held from 0 s to 12 s, of 8 s"},
		{"a phase more", func(p *replays.Plan) {
			p.Phases = append(p.Phases, replays.PlannedPhase{Name: "more", Start: 12, End: 13})
		}, "phases has 4 entries, and by the incident beside it 3"},
		{"less traffic", func(p *replays.Plan) { p.Phases[1].Traffic["players"]["ask"] = 10 }, "phases[broken].traffic.players.ask is 10, and by the incident beside it 100"},
		{"another fault", func(p *replays.Plan) { p.Faults[1].Kind = "jitter" }, `faults[slow].kind is "jitter", and by the incident beside it "latency"`},
		{"a milder fault", func(p *replays.Plan) { p.Faults[1].Parameters = "latency: 10ms" }, "faults[slow].parameters is"},
		{"no fault", func(p *replays.Plan) { p.Faults = p.Faults[:1] }, "faults has 1 entries"},
		{"a check that is always met", func(p *replays.Plan) { p.Checks[0].Query = "vector(1) > 0" }, "checks[waits].query is"},
		{"a check turned around", func(p *replays.Plan) { p.Checks[0].Expected = new(bool) }, "checks[waits].expected is false, and by the incident beside it true"},
		{"a check without a promise", func(p *replays.Plan) { p.Checks[0].Expected = nil }, "checks[waits].expected is null"},
		{"no alerts", func(p *replays.Plan) { p.Alerts = []replays.PlannedAlert{} }, "alerts has 0 entries"},
		{"more nodes that may die", func(p *replays.Plan) { p.Stopped = []string{"server"} }, "stopped has 1 entries"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := t.TempDir()
			w := newWorld(t, inc, "unfixed")
			save(t, w.record(), dir)
			tc.change(w.plan)
			if err := replays.WriteJSON(filepath.Join(dir, "plan.json"), w.plan); err != nil {
				t.Fatal(err)
			}
			refuses(t, dir, "plan.json", tc.want)
		})
	}
	dir := t.TempDir()
	save(t, newWorld(t, inc, "unfixed").record(), dir)
	path := filepath.Join(dir, "incident", replays.FileName)
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(edited(t, string(b), "app_open >= 10", "app_open >= 1")), 0o644); err != nil {
		t.Fatal(err)
	}
	refuses(t, dir, "plan.json", `checks[full].query is "app_open >= 10", and by the incident beside it "app_open >= 1"`)
	if err := os.RemoveAll(filepath.Join(dir, "incident", "line")); err != nil {
		t.Fatal(err)
	}
	refuses(t, dir, "incident", "what was to be played cannot be read")
}

// TestEditedPlanOfARun holds that one edited play is enough to refuse its run, and that
// it is named.
func TestEditedPlanOfARun(t *testing.T) {
	inc := loadSmall(t)
	dir, _ := ended(t, inc)
	play := filepath.Join(dir, "unfixed-1")
	w := newWorld(t, inc, "unfixed")
	w.plan.Checks[0].Expected = nil
	if err := replays.WriteJSON(filepath.Join(play, "plan.json"), w.plan); err != nil {
		t.Fatal(err)
	}
	refuses(t, dir, filepath.Join("unfixed-1", "plan.json"), "checks[waits].expected is null")
}

// TestWritten holds that what a play wrote is told from what somebody made of it
// later, and that a plan of a build that planned otherwise is none of that. The play
// ends at once, as there is no engine.
func TestWritten(t *testing.T) {
	t.Setenv("DOCKER_HOST", "unix://"+filepath.Join(t.TempDir(), "nobody.sock"))
	inc := loadSmall(t)
	plan := func(change func(p *replays.Plan)) *replays.Plan {
		p := plan7(t, inc, "unfixed")
		change(p)
		return p
	}
	same := func(*replays.Plan) {}
	otherwise := func(p *replays.Plan) { p.Phases[1].Settle, p.Says = 2, "Planned by another build" }
	for _, tc := range []struct {
		name    string
		planned func(p *replays.Plan)
		damage  func(dir string) error
		file    string
		want    string // of the error; "" for a record that is read
	}{
		{"as it was", same, nil, "", ""},
		{"of a build that planned otherwise", otherwise, nil, "", ""},
		{"a plan edited", same, func(dir string) error {
			return replays.WriteJSON(filepath.Join(dir, "plan.json"), plan(func(p *replays.Plan) { p.Phases[1].Settle = 2 }))
		}, "plan.json", "it is not as the play has left it: phases[broken].settle is 2, and by the incident beside it 1"},
		{"a plan written anew with the same content", same, func(dir string) error {
			b, err := json.Marshal(plan(same))
			return errors.Join(err, os.WriteFile(filepath.Join(dir, "plan.json"), b, 0o644))
		}, "plan.json", "it is not as the play has left it"},
		{"an incident edited", same, write("incident/incident.yaml", "incident: small\n"), "incident/incident.yaml", "it is not as the play has left it"},
		{"an overlay edited", same, write("incident/line/overlays/patient.yaml", "services: {}\n"), "incident/line/overlays/patient.yaml", "it is not as the play has left it"},
		{"an incident gone", same, func(dir string) error { return os.RemoveAll(filepath.Join(dir, "incident", "line")) }, "", "it is not as the play has left it"},
		{"a way out of the record", same, func(dir string) error {
			return replays.WriteJSON(filepath.Join(dir, "environment.json"), replays.Environment{Written: map[string]string{"../plan.json": "sha256:0"}})
		}, "environment.json", "it is not as the play has left it"},
		{"digests taken out, by a build that planned otherwise", otherwise, func(dir string) error {
			return replays.WriteJSON(filepath.Join(dir, "environment.json"), replays.Environment{Tool: replays.Tool{Commit: "0a1b2c3"}})
		}, "plan.json", "play it anew, or judge it with the build that played it, 0a1b2c3"},
		{"killed before it could say", same, func(dir string) error { return os.Remove(filepath.Join(dir, "environment.json")) }, "", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "play")
			if _, err := replays.Play(t.Context(), inc, plan(tc.planned), dir, replays.PlayOptions{Run: "test"}); err == nil {
				t.Fatal("it was played, want an error, as there is no engine")
			}
			if tc.damage != nil {
				if err := tc.damage(dir); err != nil {
					t.Fatal(err)
				}
			}
			refuses(t, dir, filepath.FromSlash(tc.file), tc.want)
		})
	}
}

// refuses reads a run and holds that it is damaged in a file, for a reason; without one,
// that it is read.
func refuses(t *testing.T, dir, file, want string) {
	t.Helper()
	_, err := replays.ReadRun(dir)
	switch {
	case want == "" && err != nil:
		t.Errorf("error %v, want none", err)
	case want != "" && !errors.Is(err, replays.ErrDamaged):
		t.Errorf("error %v, want that the record is damaged", err)
	case want != "" && (!strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), filepath.Join(dir, file)) || !strings.Contains(err.Error(), "play it anew")):
		t.Errorf("error %v, want %s: %s, and what to do", err, file, want)
	}
}
