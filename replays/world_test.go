package replays_test

import (
	"cmp"
	"compress/gzip"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"relapse/faults"
	"relapse/replays"
	"relapse/replays/samples"
)

// world is what would be measured in a play of the small incident, as functions
// of the seconds since the first phase began. Tests change one thing in it and
// look at what the judge makes of that.
type world struct {
	plan     *replays.Plan
	answered func(t float64) float64 // share of the questions
	offered  func(t float64) float64 // share of the planned rate
	spoilt   func(t float64) float64 // malformed questions a second; nil where none can be
	unsent   func(t float64) float64 // share of the offered questions, of malformed ones too
	wait     func(t float64) float64 // seconds
	open     func(t float64) float64
	errors   func(t float64) float64 // a second
	up       func(t float64) float64
	late     float64 // seconds by which each question is sent late
	over     float64 // seconds by which a 1 ms ticker overshoots
	steal    float64 // share of the machine
	drop     func(series string, t float64) bool
	events   []replays.Event // T from the play's start
	targets  []replays.TargetHealth
	seconds  float64
}

// headStart is the time from a play's start to its first phase.
const headStart = 2.5

var playStart = time.Date(2026, 1, 2, 3, 4, 5, 678_912_345, time.UTC)

func constant(v float64) func(float64) float64 { return func(float64) float64 { return v } }

// during gives one value in the phase named and another in all others.
func during(plan *replays.Plan, phase string, in, out float64) func(float64) float64 {
	p, _ := plan.Phase(phase)
	return func(t float64) float64 {
		if t > p.Start && t <= p.End {
			return in
		}
		return out
	}
}

// newWorld is a play that comes out as its arm should.
func newWorld(t testing.TB, inc *replays.Incident, arm string) *world {
	t.Helper()
	plan, err := inc.Plan(arm, 7)
	if err != nil {
		t.Fatal(err)
	}
	w := &world{
		plan: plan, answered: constant(0.97), offered: constant(1), unsent: constant(0), wait: constant(0.02), open: constant(3),
		errors: constant(0), up: constant(1), drop: func(string, float64) bool { return false }, seconds: 15.25,
	}
	if plan.Expected == "outage" || plan.Expected == "mixed" {
		w.wait = during(plan, "broken", 1, 0.02)
	}
	if plan.Expected == "outage" {
		w.answered = during(plan, "broken", 0.1, 0.97)
		w.open, w.errors = during(plan, "broken", 12, 3), during(plan, "broken", 40, 0)
	}
	w.events = playEvents(plan)
	for _, node := range append([]string{"players", "relapse", "server", "store"}, plan.Proxied...) {
		w.targets = append(w.targets, replays.TargetHealth{Node: node, Kind: "prometheus", Rounds: 48, WorstGap: 0.26, WorstMiss: 0.26})
	}
	return w
}

// playEvents is the journal of a play in which all went well.
func playEvents(plan *replays.Plan) []replays.Event {
	var out []replays.Event
	add := func(t float64, e replays.Event) { e.T = t; out = append(out, e) }
	fault := func(t float64, name string, step faults.Step) {
		add(t, replays.Event{Event: replays.EventFault, Fault: name, Step: string(step)})
	}
	add(0, replays.Event{Event: replays.EventStarting, Detail: "nodes"})
	add(2, replays.Event{Event: replays.EventStarted})
	for _, f := range plan.Faults {
		begin, end := headStart+f.Start, headStart+f.End
		if f.Condition {
			begin -= 0.25
		}
		for n, step := range []faults.Step{faults.Injecting, faults.Injected, faults.InEffect} {
			fault(begin+float64(n+1)/128, f.Name, step)
		}
		for n, step := range []faults.Step{faults.Undoing, faults.Undone, faults.Gone} {
			fault(end+float64(n+1)/128, f.Name, step)
		}
	}
	for _, p := range plan.Phases {
		add(headStart+p.Start, replays.Event{Event: replays.EventPhase, Phase: p.Name})
	}
	add(headStart+plan.Length(), replays.Event{Event: replays.EventPhasesEnd})
	add(headStart+plan.Length()+0.25, replays.Event{Event: replays.EventStopped})
	return out
}

// record makes the play's record, in memory.
func (w *world) record() *replays.Record {
	r := &replays.Record{Plan: w.plan, Samples: w.samples(), Targets: w.targets}
	for _, e := range w.events {
		e.At = playStart.Add(time.Duration(e.T * float64(time.Second)))
		r.Events = append(r.Events, e)
	}
	// As the journal has them.
	slices.SortStableFunc(r.Events, func(a, b replays.Event) int { return cmp.Compare(a.T, b.T) })
	rules, err := os.ReadFile(filepath.Join("testdata", "small", "alerts.yaml"))
	if err == nil {
		r.Rules, err = samples.ParseRules(rules)
	}
	if err != nil {
		panic(err) // of this package's own files
	}
	r.Environment = replays.Environment{
		Run: "test", Started: playStart, Seconds: w.seconds, Command: []string{"relapse", "replay", "small"},
		Tool: replays.Tool{Version: "test"}, Machine: replays.Machine{OS: "linux", CPUs: 2}, Targets: w.targets,
	}
	return r
}

func (w *world) samples() *samples.Store {
	s := samples.NewStore()
	var offered, ok, failed, unsent, spoilt, spoiltUnsent, errors, steal float64
	const period = 0.25
	for n := -1; n <= int(w.plan.Length()/period)+1; n++ {
		t := float64(n) * period
		at := playStart.Add(time.Duration((headStart + t) * float64(time.Second)))
		put := func(name string, value float64, labels ...string) {
			if w.drop(name, t) {
				return
			}
			set := map[string]string{}
			for k := 0; k+1 < len(labels); k += 2 {
				set[labels[k]] = labels[k+1]
			}
			s.Append(name, set, at, value)
		}
		sent := w.rate(t) * w.offered(t) * period
		offered += sent
		unsent += sent * w.unsent(t)
		ok += sent * w.answered(t)
		failed += sent * (1 - w.answered(t))
		errors += w.errors(t) * period
		steal += w.steal * period
		put("relapse_offered_total", offered, "node", "players", "op", "ask")
		put("relapse_requests_total", ok, "node", "players", "op", "ask", "outcome", "ok")
		put("relapse_requests_total", failed, "node", "players", "op", "ask", "outcome", "error")
		put("relapse_requests_total", unsent, "node", "players", "op", "ask", "outcome", "unsent")
		if w.spoilt != nil {
			spoilt += w.spoilt(t) * period
			spoiltUnsent += w.spoilt(t) * w.unsent(t) * period
			put("relapse_offered_total", spoilt, "node", "players", "op", "ask-malformed")
			put("relapse_requests_total", spoiltUnsent, "node", "players", "op", "ask-malformed", "outcome", "unsent")
		}
		for _, le := range []float64{0.001, 0.01, 0.1, 1, math.Inf(1)} {
			count := 0.0
			if w.late <= le {
				count = offered
			}
			put("relapse_lateness_seconds_bucket", count, "node", "players", "le", strconv.FormatFloat(le, 'g', -1, 64))
		}
		put("relapse_tool_overshoot_seconds", w.over, "node", "relapse")
		put("relapse_machine_steal_seconds_total", steal, "node", "relapse")
		put("up", w.up(t), "node", "server")
		put("store_items", 5, "node", "store")
		for _, link := range w.plan.Proxied {
			put("relapse_link_wait_seconds", 0, "node", link)
		}
		put("app_wait_seconds", w.wait(t), "node", "server")
		put("app_open", w.open(t), "node", "server")
		put("app_errors_total", errors, "node", "server")
	}
	return s
}

// rate is what the plan asks of the load generator.
func (w *world) rate(t float64) float64 {
	for _, p := range w.plan.Phases {
		if t > p.End && p.Name != w.plan.Phases[len(w.plan.Phases)-1].Name {
			continue
		}
		rate := p.Traffic["players"]["ask"]
		for _, s := range w.plan.Surges {
			if t > s.Start && t <= s.End {
				rate *= s.Times
			}
		}
		return rate
	}
	return 0
}

// save writes the record's folder as a play leaves it.
func save(t testing.TB, r *replays.Record, dir string) {
	t.Helper()
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	check(os.MkdirAll(filepath.Join(dir, "incident"), 0o755))
	check(os.CopyFS(filepath.Join(dir, "incident"), os.DirFS(filepath.Join("testdata", "small"))))
	check(replays.WriteJSON(filepath.Join(dir, "plan.json"), r.Plan))
	check(replays.WriteJSON(filepath.Join(dir, "environment.json"), r.Environment))
	var journal []byte
	for _, e := range r.Events {
		line, err := json.Marshal(e)
		check(err)
		journal = append(append(journal, line...), '\n')
	}
	check(os.WriteFile(filepath.Join(dir, "events.ndjson"), journal, 0o644))
	f, err := os.Create(filepath.Join(dir, "samples.om.gz"))
	check(err)
	defer f.Close()
	z := gzip.NewWriter(f)
	check(r.Samples.WriteOpenMetrics(z))
	check(z.Close())
}
