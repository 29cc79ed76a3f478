package replays_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"relapse/replays"
	"relapse/replays/samples"
)

// ladderText is the small incident with a ladder of three steps behind its phases:
// step-100 from 12 s to 16 s, step-200 to 20 s, step-400 to 24 s.
func ladderText(t testing.TB, more ...string) string {
	t.Helper()
	return edited(t, smallText(t)+`ladder:
  says: Twice as many ask in each step
  from: 100
  steps: 3
  lasts: 4s
  settle: 1s
  metrics: [works, quick]
  drift: {fix-patience: true, unfixed: false}
`, more...)
}

func TestLadderPlan(t *testing.T) {
	p := plan(t, loadText(t, ladderText(t)), "healthy")
	var phases []string
	for _, ph := range p.Phases[3:] {
		phases = append(phases, fmt.Sprintf("%s %g-%g settles %g asks %g", ph.Name, ph.Start, ph.End, ph.Settle, ph.Traffic["players"]["ask"]))
	}
	if diff := cmp.Diff([]string{"step-100 12-16 settles 1 asks 100", "step-200 16-20 settles 1 asks 200", "step-400 20-24 settles 1 asks 400"}, phases); diff != "" {
		t.Errorf("phases (-want +have):\n%s", diff)
	}
	yes := true
	want := &replays.PlannedLadder{
		Says: "Twice as many ask in each step", Metrics: []string{"works", "quick"}, Clean: &yes, Tested: "healthy", Drift: []replays.Difference{},
		Steps: []replays.PlannedLadderStep{{Phase: "step-100", Players: 100, Load: 100}, {Phase: "step-200", Players: 200, Load: 200}, {Phase: "step-400", Players: 400, Load: 400}},
	}
	if diff := cmp.Diff(want, p.Ladder); diff != "" {
		t.Errorf("ladder (-want +have):\n%s", diff)
	}
	if l := plan(t, loadSmall(t), "healthy").Ladder; l != nil {
		t.Errorf("an incident without ladder: has %v", l)
	}
}

// TestLadderSteps holds what becomes of the fields of a ladder.
func TestLadderSteps(t *testing.T) {
	for _, tc := range []struct {
		name string
		edit []string
		arm  string
		want string // phase, players, load, and whether a fault is held in it
	}{
		{"whole players of a half", []string{"from: 100", "from: 62.5"}, "healthy", "step-62 62 100, step-125 125 200, step-250 250 400"},
		{"three times as many", []string{"from: 100", "from: 100\n  times: 3"}, "healthy", "step-100 100 100, step-300 300 300, step-900 900 900"},
		{"with a fault", []string{"  settle: 1s\n  metrics", "  settle: 1s\n  faults: [dead]\n  metrics"}, "unfixed", "step-100 100 100 dead, step-200 200 200 dead, step-400 400 400 dead"},
		{"of the load of a challenge", nil, "fix-patience-under-crowd", "step-100 100 150, step-200 200 300, step-400 400 600"},
		{"phases of the file", []string{
			"  from: 100\n  steps: 3\n  lasts: 4s\n  settle: 1s\n", "  phases: [before, after]\n  players: [62, 125]\n",
			"{name: after, lasts: 4s, settle: 1s}", "{name: after, lasts: 4s, settle: 1s, traffic: {players: {ask: 200/s}}}",
		}, "healthy", "before 62 100, after 125 200"},
	} {
		p := plan(t, loadText(t, ladderText(t, tc.edit...)), tc.arm)
		var have []string
		for _, s := range p.Ladder.Steps {
			line := fmt.Sprintf("%s %g %g", s.Phase, s.Players, s.Load)
			ph, _ := p.Phase(s.Phase)
			for _, f := range p.Faults {
				if !f.Condition && f.Start <= ph.Start && f.End >= ph.End {
					line += " " + f.Name
				}
			}
			have = append(have, line)
		}
		if diff := cmp.Diff(tc.want, strings.Join(have, ", ")); diff != "" {
			t.Errorf("%s (-want +have):\n%s", tc.name, diff)
		}
	}
}

// TestLadderInThePhasesOfChecks holds that the word stands for all steps.
func TestLadderInThePhasesOfChecks(t *testing.T) {
	p := plan(t, loadText(t, ladderText(t, "during: [before, broken]\n    query: max_over_time", "during: [before, ladder]\n    query: max_over_time")), "healthy")
	for _, c := range p.Checks {
		if c.ID == "quick" && strings.Join(c.During, " ") != "before step-100 step-200 step-400" {
			t.Errorf("quick is read during %v", c.During)
		}
	}
}

// answers writes how a node could be measured, as the scraper does: whether it was
// asked at a moment, and whether it answered.
func answers(w *world, s *samples.Store, node string, asked, answered func(t float64) bool) {
	for n := -1; n <= int(w.plan.Length()*4)+1; n++ {
		t := float64(n) / 4
		if asked != nil && !asked(t) {
			continue
		}
		v := 1.0
		if answered != nil && !answered(t) {
			v = 0
		}
		s.Append("relapse_scrape_success", map[string]string{"node": node, "kind": "prometheus"}, playStart.Add(time.Duration((headStart+t)*float64(time.Second))), v)
	}
}

func TestLadder(t *testing.T) {
	inc := loadText(t, ladderText(t))
	waits := func(in float64, at ...float64) func(w *world) {
		return func(w *world) {
			w.wait = func(t float64) float64 {
				for _, moment := range at {
					if t == moment {
						return in
					}
				}
				return 0.02
			}
		}
	}
	between := func(from, to float64) func(t float64) bool {
		return func(t float64) bool { return t <= from || t > to }
	}
	for _, tc := range []struct {
		name, arm string
		change    func(w *world)
		scraped   func(w *world, s *samples.Store) // what the scraper saw; nil for nothing at all
		outcome   replays.Outcome
		clean     string
		states    string // of the steps
		breach    string // "" for none
		unknown   string // part of the reason
	}{
		{"no breach at all", "healthy", func(*world) {}, nil, replays.Pass, "step-400", "clean, clean, clean", "", ""},
		// The mean of the step is 0.03, and its objective is not even read there.
		{"one brief breach in an otherwise clean step", "healthy", waits(0.2, 19), nil, replays.Fail, "step-100", "clean, breached, not reached",
			"step-200 breached 3.00 s in by quick of server: 0.2, want < 0.1", ""},
		{"at the last moment of a step", "healthy", waits(0.2, 20), nil, replays.Fail, "step-100", "clean, breached, not reached",
			"step-200 breached 4.00 s in by quick of server: 0.2, want < 0.1", ""},
		{"while the step settles", "healthy", waits(0.2, 16.25, 17), nil, replays.Pass, "step-400", "clean, clean, clean", "", ""},
		{"before the ladder", "healthy", waits(0.09, 5), nil, replays.Pass, "step-400", "clean, clean, clean", "", ""},
		{"of what players see, for one sample", "healthy", func(w *world) {
			w.answered = func(t float64) float64 {
				if t == 19 {
					return 0.2
				}
				return 0.97
			}
		}, nil, replays.Fail, "step-100", "clean, breached, not reached", "step-200 breached 3.00 s in by works of players: 0.7133, want >= 0.9", ""},
		{"the first of two metrics", "healthy", func(w *world) {
			waits(0.2, 18.75)(w)
			w.answered = func(t float64) float64 {
				if t >= 18.25 && t < 19 {
					return 0.2
				}
				return 0.97
			}
		}, nil, replays.Fail, "step-100", "clean, breached, not reached", "step-200 breached 2.25 s in by works of players: 0.7133, want >= 0.9", ""},
		{"in the first step", "healthy", func(w *world) { w.wait = during(w.plan, "step-100", 0.3, 0.02) }, nil, replays.Fail, "", "breached, not reached, not reached",
			"step-100 breached 2.00 s in by quick of server: 0.3, want < 0.1", ""},
		{"samples of a metric missing", "healthy", func(w *world) {
			w.drop = func(s string, t float64) bool { return s == "app_wait_seconds" && t > 17.5 && t < 19.5 }
		}, nil, replays.Fail, "step-100", "clean, breached, not reached", "step-200 breached 2.50 s in by quick of server: missing: no samples match app_wait_seconds in its window", ""},
		// Whatever the metrics read: this node is in none of them.
		{"a node that gives no samples", "healthy", func(w *world) { w.target("store").WorstGap = 3 }, func(w *world, s *samples.Store) {
			answers(w, s, "store", nil, between(17, 19.75))
		}, replays.Fail, "step-100", "clean, breached, not reached", "step-200 breached 1.00 s in by samples of store: missing: it gave none from 17.00 s to 20.00 s", ""},
		{"a node that gives none for less than a second", "healthy", func(*world) {}, func(w *world, s *samples.Store) {
			answers(w, s, "store", nil, between(17, 17.75))
		}, replays.Pass, "step-400", "clean, clean, clean", "", ""},
		{"a node that the tool did not ask", "healthy", func(w *world) { w.target("store").WorstMiss = 3 }, func(w *world, s *samples.Store) {
			answers(w, s, "store", between(17, 19.75), nil)
		}, replays.Unknown, "step-100", "clean, unknown, not reached", "", "store was not measured from 17.00 s to 20.00 s"},
		{"a node that the tool did not ask, after a breach", "healthy", func(w *world) {
			waits(0.2, 15)(w)
			w.target("store").WorstMiss = 3
		}, func(w *world, s *samples.Store) { answers(w, s, "store", between(17, 19.75), nil) },
			replays.Fail, "", "breached, not reached, not reached", "step-100 breached 3.00 s in by quick of server: 0.2, want < 0.1", ""},
		{"what the load does after a breach", "healthy", func(w *world) {
			waits(0.2, 15)(w)
			w.offered, w.late = during(w.plan, "step-400", 0.3, 1), 0.009
		}, nil, replays.Fail, "", "breached, not reached, not reached", "step-100 breached 3.00 s in by quick of server: 0.2, want < 0.1", ""},
		{"a node that dies after a breach", "healthy", func(w *world) {
			waits(0.2, 15)(w)
			w.events = append(w.events, replays.Event{T: 30, Event: replays.EventNodeDead, Node: "store", Detail: "exit code 137"})
		}, func(w *world, s *samples.Store) { answers(w, s, "store", nil, func(t float64) bool { return t < 18 }) },
			replays.Fail, "", "breached, not reached, not reached", "step-100 breached 3.00 s in by quick of server: 0.2, want < 0.1", ""},
		{"load that was short before a breach", "healthy", func(w *world) {
			waits(0.2, 19)(w)
			w.offered = during(w.plan, "step-100", 0.5, 1)
		}, nil, replays.Unknown, "step-100", "clean, breached, not reached", "step-200 breached 3.00 s in by quick of server: 0.2, want < 0.1", ""},
		{"a play that ended early", "healthy", func(w *world) { w.cut(18) }, nil, replays.Unknown, "step-100", "clean, unknown, not reached", "", "step step-200: the play ended before it did"},
		{"a play that was interrupted after a breach", "healthy", func(w *world) {
			waits(0.2, 15)(w)
			w.edit(func(e *replays.Event) bool { return e.Event == replays.EventFault || e.T < headStart+18 })
			w.events = append(w.events, replays.Event{T: headStart + 18, Event: replays.EventPhasesCut})
			w.drop = func(_ string, t float64) bool { return t >= 18 }
		}, nil, replays.Fail, "", "breached, not reached, not reached", "step-100 breached 3.00 s in by quick of server: 0.2, want < 0.1", ""},
		{"an arm that promises nothing of it", "unfixed", func(w *world) {
			before := w.wait
			w.wait = func(t float64) float64 { return max(before(t), map[bool]float64{true: 0.2}[t == 19]) }
		}, nil, replays.Pass, "step-100", "clean, breached, not reached",
			"step-200 breached 3.00 s in by quick of server: 0.2, want < 0.1", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t, inc, tc.arm)
			tc.change(w)
			r := w.record()
			if tc.scraped != nil {
				tc.scraped(w, r.Samples)
			}
			v := replays.JudgePlay(r)
			if v.Outcome != tc.outcome {
				t.Errorf("play is %s, want %s: %v, %s", v.Outcome, tc.outcome, v.Validity, unexpected(v))
			}
			l := v.Ladder
			if l == nil {
				t.Fatal("no ladder was judged")
			}
			var states []string
			for _, s := range l.Steps {
				states = append(states, s.State)
			}
			breach := ""
			if l.Breach != nil {
				breach = l.Breach.String()
			}
			if have := strings.Join(states, ", "); l.Clean != tc.clean || have != tc.states {
				t.Errorf("clean up to %q, %s; want %q, %s", l.Clean, have, tc.clean, tc.states)
			}
			if !strings.HasPrefix(breach, tc.breach) || (breach == "") != (tc.breach == "") {
				t.Errorf("breach\nhave %s\nwant %s", breach, tc.breach)
			}
			if !strings.Contains(l.Unknown, tc.unknown) || (l.Unknown == "") != (tc.unknown == "") {
				t.Errorf("unknown\nhave %s\nwant %s", l.Unknown, tc.unknown)
			}
		})
	}
}

// TestLadderVerdict holds what a verdict says of a breach, as JSON.
func TestLadderVerdict(t *testing.T) {
	w := newWorld(t, loadText(t, ladderText(t)), "healthy")
	w.wait = func(t float64) float64 {
		if t == 19 {
			return 0.2
		}
		return 0.095
	}
	v := replays.JudgePlay(w.record())
	want := `{"clean":"step-100","breach":{"step":"step-200","metric":"quick","at":19,"into":3,"node":"server","series":"{node=\"server\"}","got":"0.2","want":"< 0.1"},` +
		`"steps":[{"step":"step-100","players":100,"load":100,"state":"clean","nearest":{"metric":"quick","node":"server","at":14,"got":"0.095","want":"< 0.1","margin":0.050}},` +
		`{"step":"step-200","players":200,"load":200,"state":"breached","nearest":{"metric":"quick","node":"server","at":19,"got":"0.2","want":"< 0.1","margin":-1}},` +
		`{"step":"step-400","players":400,"load":400,"state":"not reached","nearest":null}],"ignored":"what was played after 19.00 s, with all of step-400"}`
	if have := compact(t, v.Ladder); have != want {
		t.Errorf("ladder\nhave %s\nwant %s", have, want)
	}
	a := replays.JudgeIncident([]replays.Judged{{Plan: w.plan, Verdict: v}}, 1)
	if have := compact(t, a.Arms[0].Ladder); have != want {
		t.Errorf("ladder of the arm\nhave %s\nwant %s", have, want)
	}
	reason := "arm healthy fails in 1 of 1 plays: ladder should hold during step-200: got clean up to step-100; step-200 breached 3.00 s in by quick of server: 0.2, want < 0.1, want clean up to step-400"
	if len(a.Reasons) != 1 || a.Reasons[0] != reason {
		t.Errorf("reasons\nhave %q\nwant %q", a.Reasons, reason)
	}
}

// TestLadderNode holds which service a breach is put down to.
func TestLadderNode(t *testing.T) {
	const query = "query: max_over_time(app_wait_seconds[$phase]) < 0.1"
	for _, tc := range []struct{ name, query, node, of string }{
		{"the one beyond the limit", "max_over_time(app_wait_seconds[$phase]) < 0.1", "server", ""},
		{"as far as an aggregation keeps it", "max by (node) (app_wait_seconds) < 0.1", "server", ""},
		{"the one that it reads", `max(app_wait_seconds{node="server"}) < 0.1`, "server", ""},
		{"one of several", "max(app_wait_seconds) < 0.1", "", "server store"},
	} {
		w := newWorld(t, loadText(t, ladderText(t, query, "query: "+tc.query)), "healthy")
		w.wait = during(w.plan, "step-200", 0.3, 0.02)
		r := w.record()
		for n := range 100 {
			r.Samples.Append("app_wait_seconds", map[string]string{"node": "store"}, playStart.Add(time.Duration(headStart*1000+float64(n)*250)*time.Millisecond), 0.01)
		}
		b := replays.JudgePlay(r).Ladder.Breach
		if b == nil || b.Step != "step-200" || b.Metric != "quick" || b.Node != tc.node || strings.Join(b.Of, " ") != tc.of {
			t.Errorf("%s: breach %+v, want node %q of %q", tc.name, b, tc.node, tc.of)
		}
	}
}

// TestDriftOfAnArm holds that an arm can be found to have drifted from the tested
// configuration, and to be as it was tested, and that either can be wrong.
func TestDriftOfAnArm(t *testing.T) {
	const command = `node server command: tested ["service","account"], deployed ["service","account","--tries=2"]`
	for _, tc := range []struct {
		name, arm, drift string
		outcome          replays.Outcome
		got, want        string // "" where nothing is said
	}{
		{"drifted, as it should", "fix-patience", "{fix-patience: true}", replays.Pass, command, "another configuration than arm healthy's"},
		{"drifted, and should not", "fix-patience", "{fix-patience: false}", replays.Fail, command, "the configuration of arm healthy"},
		{"as it was tested", "unfixed", "{unfixed: false}", replays.Pass, "no setting differs", "the configuration of arm healthy"},
		{"as it was tested, and should have drifted", "unfixed", "{unfixed: true}", replays.Fail, "no setting differs", "another configuration than arm healthy's"},
		{"nothing is said", "unfixed", "{fix-patience: true}", replays.Pass, "", ""},
	} {
		w := newWorld(t, loadText(t, ladderText(t, "drift: {fix-patience: true, unfixed: false}", "drift: "+tc.drift)), tc.arm)
		v := replays.JudgePlay(w.record())
		if v.Outcome != tc.outcome {
			t.Errorf("%s: play is %s, want %s: %v, %s", tc.name, v.Outcome, tc.outcome, v.Validity, unexpected(v))
		}
		got, want := "", ""
		for _, f := range v.Findings {
			if f.Kind == replays.KindDrift {
				got, want = f.Got, f.Want
			}
		}
		if got != tc.got || want != tc.want {
			t.Errorf("%s: got %q, want %q; it should be %q, %q", tc.name, got, want, tc.got, tc.want)
		}
	}
}

// TestTested holds that a clean ladder leaves its configuration, and that nothing
// else does.
func TestTested(t *testing.T) {
	inc := loadText(t, ladderText(t))
	for _, tc := range []struct {
		name, arm string
		change    func(w *world)
		want      bool
	}{
		{"clean", "healthy", func(*world) {}, true},
		{"breached", "healthy", func(w *world) { w.wait = during(w.plan, "step-400", 0.3, 0.02) }, false},
		{"clean, in a play that is not valid", "healthy", func(w *world) { w.over = 0.15 }, false},
		{"clean, in a play that failed otherwise", "healthy", func(w *world) { w.open = during(w.plan, "broken", 12, 3) }, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t, inc, tc.arm)
			tc.change(w)
			r := w.record()
			r.Dir = t.TempDir()
			if err := r.SaveTested(replays.JudgePlay(r)); err != nil {
				t.Fatal(err)
			}
			tested, err := replays.ReadTested(r.Dir)
			if (err == nil) != tc.want {
				t.Fatalf("read back: %v, want one: %t", err, tc.want)
			}
			if !tc.want {
				return
			}
			if tested.Incident != "small" || tested.Arm != "healthy" || tested.Top != "step-400" || tested.Players != 400 || tested.Load != 400 {
				t.Errorf("tested %+v", tested)
			}
			if have := tested.Configuration["node store image"]; have != "memcached:1.6.18" {
				t.Errorf("the store's image is %q", have)
			}
			again, err := replays.ReadTested(filepath.Join(r.Dir, replays.TestedFile))
			if diff := cmp.Diff(tested, again); diff != "" || err != nil {
				t.Errorf("from the file: %v (-folder +file):\n%s", err, diff)
			}
			if d := tested.Configuration.Drift(plan(t, inc, "fix-patience").Configuration(nil)); len(d) != 1 || d[0].Setting != "node server command" {
				t.Errorf("differences %v, want that of the overlay", d)
			}
		})
	}
	r := newWorld(t, loadSmall(t), "healthy").record()
	if _, ok, err := r.Tested(replays.JudgePlay(r)); ok || err != nil {
		t.Errorf("an incident without ladder: tested %t, %v", ok, err)
	}
}

func TestFirstTrigger(t *testing.T) {
	phases := []replays.PlannedPhase{{Name: "a", End: 4}, {Name: "b", Start: 4, End: 8}, {Name: "c", Start: 8, End: 12}}
	ladder := &replays.PlannedLadder{Steps: []replays.PlannedLadderStep{{Phase: "b"}, {Phase: "c"}}}
	for _, c := range []struct {
		name   string
		faults []replays.PlannedFault
		ladder *replays.PlannedLadder
		want   float64
	}{
		{"a fault", []replays.PlannedFault{{Start: 8}, {Start: 4}}, nil, 4},
		{"a fault and a ladder", []replays.PlannedFault{{Start: 4}}, ladder, 4},
		{"a ladder", nil, ladder, 8},
		{"a ladder under a condition", []replays.PlannedFault{{Condition: true}}, ladder, 8},
		{"nothing", nil, nil, 0},
	} {
		if have := replays.FirstTrigger(&replays.Plan{Phases: phases, Faults: c.faults, Ladder: c.ladder}); have != c.want {
			t.Errorf("%s: have %g s, want %g s", c.name, have, c.want)
		}
	}
}
