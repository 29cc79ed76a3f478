package replays_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"relapse/faults"
	"relapse/replays"
)

// classText is the small incident with its kind of outage looked for.
func classText(t testing.TB, more ...string) string {
	t.Helper()
	return edited(t, smallText(t)+`class:
  goodput: sum(rate(relapse_requests_total{op="ask",outcome="ok"}[1s]))
  offered: sum(rate(relapse_offered_total{op="ask"}[1s]))
  attempts: sum(rate(relapse_offered_total{op="ask"}[1s])) + sum(rate(app_errors_total[1s]))
  latency: max(app_wait_seconds)
  baseline: before
  trigger: broken
  wait: after
  client_timeout: 300ms
  wait_at_least: {lasts: 4s, reason: The store forgets at once}
  unfixed: trigger-bound
`, append([]string{
		"    says: The server asks twice\n", "    says: The server asks twice\n    class: [trigger-bound, no-failure]\n",
		"        says: Half as many again ask\n", "        says: Half as many again ask\n        class: no-failure\n",
		"    says: The store is slow\n", "    says: The store is slow\n    class: no-failure\n",
	}, more...)...)
}

func TestClassOfAnArm(t *testing.T) {
	inc := loadText(t, classText(t))
	for arm, want := range map[string]string{
		"healthy": "", "unfixed": "trigger-bound", "unfixed-on-death": "", "without-delay": "no-failure", "without-narrowness": "",
		"fix-patience": "trigger-bound no-failure", "fix-patience-on-death": "",
		// A challenge speaks for itself, though it keeps what the fix promises.
		"fix-patience-under-crowd": "no-failure", "fix-patience-under-death": "",
	} {
		c := plan(t, inc, arm).Class
		if c == nil {
			t.Errorf("arm %s is not looked at", arm)
			continue
		}
		if have := strings.Join(c.Expected, " "); have != want {
			t.Errorf("arm %s may be %q, want %q", arm, have, want)
		}
	}
	if c := plan(t, loadSmall(t), "unfixed").Class; c != nil {
		t.Errorf("an incident without class: looks for %v", c)
	}
	want := &replays.PlannedClass{
		Goodput: `sum(rate(relapse_requests_total{op="ask",outcome="ok"}[1s]))`, Offered: `sum(rate(relapse_offered_total{op="ask"}[1s]))`,
		Attempts: `sum(rate(relapse_offered_total{op="ask"}[1s])) + sum(rate(app_errors_total[1s]))`, Latency: "max(app_wait_seconds)",
		Baseline: "before", Trigger: "broken", Wait: "after", WaitAtLeast: 4, WaitReason: "The store forgets at once", Expected: []string{"trigger-bound"},
	}
	if diff := cmp.Diff(want, plan(t, inc, "unfixed").Class); diff != "" {
		t.Errorf("class (-want +have):\n%s", diff)
	}
}

// TestWaitFor holds how long a wait must be.
func TestWaitFor(t *testing.T) {
	long := []string{"name: after, lasts: 4s", "name: after, lasts: 60s", "  wait_at_least: {lasts: 4s, reason: The store forgets at once}\n", ""}
	for _, tc := range []struct {
		name string
		edit []string
		want float64
	}{
		{"as the file says", nil, 4},
		{"fifteen seconds, of short timeouts", long, 15},
		{"ten timeouts", append(long, "client_timeout: 300ms", "client_timeout: 5s"), 50},
	} {
		if have := plan(t, loadText(t, classText(t, tc.edit...)), "unfixed").Class.WaitAtLeast; have != tc.want {
			t.Errorf("%s: %g s, want %g s", tc.name, have, tc.want)
		}
	}
}

// TestFaultsBesideTheTrigger holds which faults may be held after the trigger, in an
// incident whose kind of outage is looked at. Those that may not are under
// testdata/bad.
func TestFaultsBesideTheTrigger(t *testing.T) {
	const steady = "  steady: {kind: latency, links: [\"players -> server\"], latency: 20ms}\nsymptoms:\n"
	for _, tc := range []struct {
		name, arm string
		edit      []string
		want      string // the faults held after the trigger
	}{
		{"a condition", "unfixed", nil, "narrow"},
		{"held all the time", "unfixed", []string{
			"{name: before, lasts: 4s, settle: 1s}", "{name: before, lasts: 4s, settle: 1s, faults: [steady]}",
			"faults: [slow, more]", "faults: [slow, more, steady]",
			"{name: after, lasts: 4s, settle: 1s}", "{name: after, lasts: 4s, settle: 1s, faults: [steady]}",
			"symptoms:\n", steady,
		}, "narrow steady"},
		{"in an arm that says nothing of its class", "fix-patience-under-death", []string{"add: {broken: [dead]}}\n        holds", "add: {after: [dead]}}\n        holds"}, "narrow dead"},
	} {
		var have []string
		for _, f := range plan(t, loadText(t, classText(t, tc.edit...)), tc.arm).Faults {
			if f.End > 8 {
				have = append(have, f.Name)
			}
		}
		if have := strings.Join(have, " "); have != tc.want {
			t.Errorf("%s: %s held after the trigger, want %s", tc.name, have, tc.want)
		}
	}
}

// TestClassFinding holds what the judge makes of a play's course.
func TestClassFinding(t *testing.T) {
	hides := func(series string, from, to float64) func(w *world) {
		return func(w *world) {
			w.drop = func(s string, t float64) bool { return s == series && t > from && t <= to }
		}
	}
	// down keeps the outage up in the phase after it.
	down := func(w *world) {
		w.answered = func(t float64) float64 {
			if t > 4 {
				return 0.1
			}
			return 0.97
		}
	}
	for _, tc := range []struct {
		name, arm string
		edit      []string
		change    func(w *world)
		is        replays.OutageClass
		outcome   replays.Outcome // of the finding; "" for none
		says      string          // part of the evidence
	}{
		{"as documented", "unfixed", nil, func(*world) {}, replays.ClassTriggerBound, replays.Pass, "the trigger was seen gone at 8.02 s"},
		{"the reason of a short wait is told", "unfixed", nil, func(*world) {}, replays.ClassTriggerBound, replays.Pass, "the wait may be as short as 4 s: The store forgets at once"},
		{"it stays down and makes work", "unfixed", nil, func(w *world) {
			down(w)
			w.errors = during(w.plan, "after", 400, 0)
		}, replays.ClassMetastable, replays.Fail, "5.00 attempts for each request"},
		{"it stays down", "unfixed", nil, down, replays.ClassUnknown, replays.Unknown, "nothing tells a system that keeps itself down from a broken one"},
		{"nothing falls", "unfixed", nil, func(w *world) { w.answered = constant(0.97) }, replays.ClassNoFailure, replays.Fail, "goodput never fell"},
		{"it was down before", "unfixed", nil, func(w *world) { w.answered = constant(0.5) }, replays.ClassOverload, replays.Fail, "the load is more than the system carries"},
		{"latency stays", "unfixed", nil, func(w *world) {
			w.wait = func(t float64) float64 {
				if t > 4 {
					return 1
				}
				return 0.02
			}
		}, replays.ClassUnknown, replays.Unknown, "latency was 1 s there"},
		{"another load after the trigger", "unfixed", nil, func(w *world) { w.offered = during(w.plan, "after", 0.5, 1) }, replays.ClassUnknown, replays.Unknown, "the load did not stay the same"},
		{"the trigger is not seen gone", "unfixed", nil, func(w *world) { w.dropStep("slow", faults.Gone) }, replays.ClassUnknown, replays.Unknown, "fault slow was not seen gone"},
		{"the trigger is seen gone late", "unfixed", nil, func(w *world) {
			w.edit(func(e *replays.Event) bool {
				if e.Fault == "more" && faults.Step(e.Step) == faults.Gone {
					e.T += 1.5
				}
				return true
			})
		}, replays.ClassUnknown, replays.Unknown, "the trigger was seen gone at 9.52 s, which leaves 2.5 s of the wait"},
		{"goodput is not measured for a while", "unfixed", nil, hides("relapse_requests_total", 9, 11.5), replays.ClassUnknown, replays.Unknown, "goodput has no value from"},
		{"goodput is not measured", "unfixed", nil, hides("relapse_requests_total", -1, 99), replays.ClassUnknown, replays.Unknown, "goodput cannot be read: no samples match relapse_requests_total"},
		{"attempts are not measured", "unfixed", nil, hides("app_errors_total", -1, 99), replays.ClassUnknown, replays.Unknown, "attempts cannot be read: no samples match app_errors_total"},
		{"several series", "unfixed", []string{`goodput: sum(rate(relapse_requests_total{op="ask",outcome="ok"}[1s]))`, `goodput: rate(relapse_requests_total{op="ask"}[1s])`}, func(*world) {},
			replays.ClassUnknown, replays.Unknown, "gives 3 series: put sum(…) around it"},
		{"no series", "unfixed", []string{`outcome="ok"}[1s])`, `outcome="fine"}[1s])`}, func(*world) {}, replays.ClassUnknown, replays.Unknown, "gives no series"},
		{"cut short", "unfixed", nil, func(w *world) { w.cut(9) }, replays.ClassUnknown, replays.Unknown, "has no value from"},
		{"a cause taken away", "without-delay", nil, func(*world) {}, replays.ClassNoFailure, replays.Pass, ""},
		{"a cause taken away, and down all the same", "without-delay", nil, func(w *world) { w.answered = during(w.plan, "broken", 0.1, 0.97) }, replays.ClassTriggerBound, replays.Fail, ""},
		{"a fix that may fall", "fix-patience", nil, func(w *world) { w.answered = during(w.plan, "broken", 0.3, 0.97) }, replays.ClassTriggerBound, replays.Pass, ""},
		{"a fix that does not", "fix-patience", nil, func(*world) {}, replays.ClassNoFailure, replays.Pass, ""},
		{"a challenge that falls", "fix-patience-under-crowd", nil, func(w *world) { w.answered = during(w.plan, "broken", 0.3, 0.97) }, replays.ClassTriggerBound, replays.Fail, ""},
		{"an arm that says nothing", "without-narrowness", nil, down, replays.ClassUnknown, "", "nothing tells"},
		{"without a fault", "healthy", nil, func(*world) {}, replays.ClassNoFailure, "", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t, loadText(t, classText(t, tc.edit...)), tc.arm)
			tc.change(w)
			v := replays.JudgePlay(w.record())
			if v.Class == nil {
				t.Fatal("no class was looked for")
			}
			evidence := strings.Join(v.Class.Evidence, "; ")
			if v.Class.Is != tc.is || !strings.Contains(evidence, tc.says) {
				t.Errorf("%s: %s\nwant %s: %s", v.Class.Is, evidence, tc.is, tc.says)
			}
			n := slices.IndexFunc(v.Findings, func(f replays.Finding) bool { return f.Kind == replays.KindClass })
			if n < 0 {
				if tc.outcome != "" {
					t.Errorf("no finding of the class, want %s", tc.outcome)
				}
				return
			}
			f := v.Findings[n]
			if f.Outcome != tc.outcome || f.Check != "class" || f.Phase != "after" || (f.Held == nil) != (tc.is == replays.ClassUnknown) {
				t.Errorf("finding %+v, want %s", f, tc.outcome)
			}
			if tc.is != replays.ClassUnknown && f.Got != string(tc.is) || tc.is == replays.ClassUnknown && !strings.Contains(f.Reason, tc.says) {
				t.Errorf("got %q, reason %q", f.Got, f.Reason)
			}
			if v.Outcome == replays.Pass && tc.outcome != replays.Pass {
				t.Errorf("the play is %s, its class %s", v.Outcome, tc.outcome)
			}
		})
	}
}

// TestClassOfTheArm holds that an arm shows the class of the play that decided
// it.
func TestClassOfTheArm(t *testing.T) {
	inc := loadText(t, classText(t))
	var plays []replays.Judged
	for _, change := range []func(w *world){
		func(*world) {},
		func(w *world) { w.answered = constant(0.97) },
	} {
		w := newWorld(t, inc, "unfixed")
		change(w)
		plays = append(plays, replays.Judged{Plan: w.plan, Verdict: replays.JudgePlay(w.record())})
	}
	a := replays.JudgeIncident(plays, 1).Arms[0]
	if a.Outcome != replays.Fail || a.Class == nil || a.Class.Is != replays.ClassNoFailure {
		t.Errorf("arm is %s, its class %s; want that of the play that failed", a.Outcome, show(a.Class))
	}
	if have := compact(t, plays[0].Verdict.Class); !strings.HasPrefix(have, `{"is":"trigger-bound","evidence":["in the baseline`) ||
		!strings.Contains(have, `"recovered_after":0.7`) || !strings.HasSuffix(have, `,"amplification":1,"hysteresis":null}`) {
		t.Errorf("class %s", have)
	}
}
