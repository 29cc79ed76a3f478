package replays_test

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"relapse/replays"
)

// togetherText is the small incident with both of its causes needed together,
// and a sweep.
func togetherText(t testing.TB, more ...string) string {
	t.Helper()
	return edited(t, smallText(t)+`combine: [delay, narrowness]
sweeps:
  crowd:
    says: How many ask
    steps:
      - {name: "50", says: Half as many, change: {traffic: {players: {ask: 50/s}}}, outage: false}
      - {name: "100", says: As documented, outage: true}
`, append([]string{"    without: {remove: [narrow]}\n", "    without: {remove: [narrow]}\n    necessary: true\n"}, more...)...)
}

// edited replaces parts of a text, each of which must be there.
func edited(t testing.TB, text string, pairs ...string) string {
	t.Helper()
	for n := 0; n < len(pairs); n += 2 {
		if !strings.Contains(text, pairs[n]) {
			t.Fatalf("the test would change nothing: there is no %q", pairs[n])
		}
		text = strings.Replace(text, pairs[n], pairs[n+1], 1)
	}
	return text
}

func TestCombinedArms(t *testing.T) {
	third := []string{
		"combine: [delay, narrowness]", "combine: [delay, crowded, narrowness]",
		"fixes:\n", "  crowded:\n    says: Many ask\n    without: {remove: [more]}\n    necessary: true\nfixes:\n",
	}
	for _, tc := range []struct {
		name string
		edit []string
		want string // of the arms between the un-fixed ones and the fixes
	}{
		{"two", nil, "without-delay without-narrowness without-delay-and-narrowness crowd-50 crowd-100"},
		{"three, in the order of combine", third, "without-delay without-narrowness without-crowded " +
			"without-delay-and-crowded without-delay-and-narrowness without-crowded-and-narrowness without-delay-and-crowded-and-narrowness crowd-50 crowd-100"},
	} {
		inc := loadText(t, togetherText(t, tc.edit...))
		var have []string
		for _, arm := range inc.Arms() {
			if strings.HasPrefix(arm, "without-") || strings.HasPrefix(arm, "crowd-") {
				have = append(have, arm)
			}
		}
		if diff := cmp.Diff(tc.want, strings.Join(have, " ")); diff != "" {
			t.Errorf("%s (-want +have):\n%s", tc.name, diff)
		}
	}
	inc := loadText(t, togetherText(t, third...))
	p := plan(t, inc, "without-delay-and-narrowness")
	if diff := cmp.Diff(&replays.PlannedCombination{On: []string{"crowded"}, Of: []string{"delay", "crowded", "narrowness"}}, p.Combination); diff != "" {
		t.Errorf("combination (-want +have):\n%s", diff)
	}
	if p.Role != replays.RoleCause || len(p.Faults) != 1 || p.Faults[0].Name != "more" {
		t.Errorf("role %s, faults %v: want the one of the cause that is there", p.Role, p.Faults)
	}
	if c := plan(t, inc, "fix-patience").Combination; c != nil {
		t.Errorf("a fix is the combination %v", c)
	}
	s := plan(t, inc, "crowd-50")
	if diff := cmp.Diff(&replays.PlannedStep{Sweep: "crowd", Step: "50"}, s.Step); diff != "" || s.Role != replays.RoleSweep || s.Phases[0].Traffic["players"]["ask"] != 50 {
		t.Errorf("role %s, traffic %v, step (-want +have):\n%s", s.Role, s.Phases[0].Traffic, diff)
	}
}

// TestCombinedExpectations holds what an arm promises without several causes, and
// at a step of a sweep.
func TestCombinedExpectations(t *testing.T) {
	for _, tc := range []struct {
		name, arm string
		edit      []string
		want      string
		expected  string
	}{
		{"necessary causes that say nothing", "without-delay-and-narrowness", nil, "waits-no full-no noticed-no works-yes quick-yes alive-yes", "cured"},
		{"what one of them restores and cures", "without-delay-and-narrowness", []string{
			"    without: {remove: [slow]}\n", "    without: {remove: [slow]}\n    restores: [works]\n    cures: [waits]\n    leaves: [full]\n",
			"    without: {remove: [narrow]}\n", "    without: {remove: [narrow]}\n    restores: [quick]\n    leaves: [full, noticed]\n",
		}, "waits-no full-yes noticed-? works-yes quick-yes alive-yes", "mixed"},
		{"what only one of them leaves", "without-delay-and-narrowness", []string{
			"    without: {remove: [slow]}\n", "    without: {remove: [slow]}\n    restores: [works]\n    leaves: [full]\n",
			"    without: {remove: [narrow]}\n", "    without: {remove: [narrow]}\n    restores: [quick]\n    leaves: [noticed]\n",
		}, "waits-? full-? noticed-? works-yes quick-yes alive-yes", "cured"},
		{"one that says something, and one that does not", "without-delay-and-narrowness", []string{
			"    without: {remove: [slow]}\n", "    without: {remove: [slow]}\n    restores: [works]\n    leaves: [full]\n",
		}, "waits-no full-no noticed-no works-yes quick-yes alive-yes", "cured"},
		{"a step without an outage", "crowd-50", nil, "waits-? full-? noticed-? works-yes quick-yes alive-yes", "no outage"},
		{"a step with one", "crowd-100", nil, "waits-yes full-yes noticed-yes works-? quick-? alive-yes", "outage"},
	} {
		p := plan(t, loadText(t, togetherText(t, tc.edit...)), tc.arm)
		if have := expectations(p); have != tc.want || p.Expected != tc.expected {
			t.Errorf("%s: expected %s\nhave %s\nwant %s", tc.name, p.Expected, have, tc.want)
		}
	}
}

// TestTogether plays every arm as it should come out, and judges them together.
func TestTogether(t *testing.T) {
	inc := loadText(t, togetherText(t))
	var plays []replays.Judged
	for _, arm := range inc.Arms() {
		r := newWorld(t, inc, arm).record()
		v := replays.JudgePlay(r)
		if v.Outcome != replays.Pass {
			t.Errorf("arm %s is %s: %v, %s", arm, v.Outcome, v.Validity, unexpected(v))
		}
		plays = append(plays, replays.Judged{Plan: r.Plan, Verdict: v})
	}
	v := replays.JudgeIncident(plays, 1)
	if v.Outcome != replays.Pass || !v.Reproduced {
		t.Errorf("%s, reproduced %t: %v", v.Outcome, v.Reproduced, v.Reasons)
	}
	for n, want := range []string{
		// Of two objectives that fail, the one that is further from holding.
		`{"on":["delay","narrowness"],"arm":"unfixed","outage":true,"decided_by":"quick","phase":"broken","got":"1","want":"< 0.1","margin":9}`,
		`{"on":["narrowness"],"arm":"without-delay","outage":false,"decided_by":"works","phase":"broken","got":"0.97","want":">= 0.9","margin":0.077}`,
		`{"on":["delay"],"arm":"without-narrowness","outage":false,"decided_by":"works","phase":"broken","got":"0.97","want":">= 0.9","margin":0.077}`,
		`{"on":[],"arm":"without-delay-and-narrowness","outage":false,"decided_by":"works","phase":"broken","got":"0.97","want":">= 0.9","margin":0.077}`,
	} {
		if n >= len(v.Combinations) {
			t.Fatalf("%d combinations, want 4", len(v.Combinations))
		}
		if have := compact(t, v.Combinations[n]); have != want {
			t.Errorf("combination %d\nhave %s\nwant %s", n, have, want)
		}
	}
	want := `[{"name":"crowd","steps":[` +
		`{"step":"50","expected":false,"outcome":"pass","arm":"crowd-50","outage":false,"decided_by":"works","phase":"broken","got":"0.97","want":">= 0.9","margin":0.077},` +
		`{"step":"100","expected":true,"outcome":"pass","arm":"crowd-100","outage":true,"decided_by":"quick","phase":"broken","got":"1","want":"< 0.1","margin":9}]}]`
	if have := compact(t, v.Sweeps); have != want {
		t.Errorf("sweeps\nhave %s\nwant %s", have, want)
	}
}

// long are digits that a test would not write.
var long = regexp.MustCompile(`(\d\.\d{3})\d{3,}`)

// compact is a value as one line of JSON, its long numbers cut to a thousandth.
func compact(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return long.ReplaceAllString(strings.NewReplacer("\\u003e", ">", "\\u003c", "<").Replace(string(b)), "$1")
}

// TestSteps holds that a step can come out otherwise than it says.
func TestSteps(t *testing.T) {
	inc := loadText(t, togetherText(t))
	for _, tc := range []struct {
		name, arm string
		change    func(w *world)
		check     string
		outage    string
	}{
		{"an outage where none is stated", "crowd-50", func(w *world) { w.answered = during(w.plan, "broken", 0.5, 0.97) }, "works in broken", "true"},
		{"no outage where one is stated", "crowd-100", func(w *world) { w.answered, w.wait = constant(0.97), constant(0.02) }, "outage in ", "false"},
		{"a symptom that is not seen", "crowd-100", func(w *world) { w.open = constant(3) }, "full in broken", "true"},
		{"an outage from the start", "crowd-100", func(w *world) { w.answered = constant(0.1) }, "works in before", "true"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t, inc, tc.arm)
			tc.change(w)
			v := replays.JudgePlay(w.record())
			if v.Outcome != replays.Fail || !strings.Contains(unexpected(v), tc.check) {
				t.Errorf("%s: %v, %s; want %s to fail", v.Outcome, v.Validity, unexpected(v), tc.check)
			}
			step := replays.JudgeIncident([]replays.Judged{{Plan: w.plan, Verdict: v}}, 1).Sweeps[0].Steps[0]
			if step.Outcome != replays.Fail || compact(t, step.Outage) != tc.outage {
				t.Errorf("step is %s, outage %s; want fail, %s", step.Outcome, compact(t, step.Outage), tc.outage)
			}
		})
	}
}

func TestCombinations(t *testing.T) {
	const pass, unknown = replays.Pass, replays.Unknown
	of := []string{"a", "b"}
	arm := func(name string, o replays.Outcome, outage bool, on ...string) replays.Judged {
		role := replays.RoleCause
		if name == "unfixed" {
			role = replays.RoleUnfixed
		}
		j := played(role, name, o, outage)
		j.Plan.Combination = &replays.PlannedCombination{On: on, Of: of}
		for n := range j.Verdict.Findings {
			j.Verdict.Findings[n].Got, j.Verdict.Findings[n].Want = "0.5", ">= 0.9"
		}
		return j
	}
	healthy := played(replays.RoleHealthy, "healthy", pass, false)
	unfixed := arm("unfixed", pass, true, "a", "b")
	one, other, both := arm("without-a", pass, false, "b"), arm("without-b", pass, false, "a"), arm("without-a-and-b", pass, false)
	unread := arm("without-b", pass, false, "a")
	unread.Verdict.Findings[1].Held, unread.Verdict.Findings[1].Reason = nil, "no samples match x"
	for _, tc := range []struct {
		name    string
		plays   []replays.Judged
		outcome replays.Outcome
		cells   string // by arm
		reason  string // part of one; "" for none at all
	}{
		{"only with both", []replays.Judged{healthy, unfixed, one, other, both}, pass, "unfixed-true without-a-false without-b-false without-a-and-b-false", ""},
		{"without one of them too", []replays.Judged{healthy, unfixed, one, arm("without-b", pass, true, "a"), both}, replays.Fail,
			"unfixed-true without-a-false without-b-true without-a-and-b-false", "arm without-b is an outage, and it should take a, b together to make one: works during broken: got 0.5, want >= 0.9"},
		{"without both of them too", []replays.Judged{healthy, unfixed, one, other, arm("without-a-and-b", pass, true)}, replays.Fail,
			"unfixed-true without-a-false without-b-false without-a-and-b-true", "arm without-a-and-b is an outage"},
		// Each play of an arm counts, and not the first alone.
		{"without one of them too, in its second play", []replays.Judged{healthy, unfixed, one, other, both, one, arm("without-b", pass, true, "a")}, replays.Fail,
			"unfixed-true without-a-false without-b-true without-a-and-b-false", "arm without-b is an outage"},
		{"but for a play that is not valid", []replays.Judged{healthy, unfixed, one, arm("without-b", unknown, true, "a"), other, both}, pass,
			"unfixed-true without-a-false without-b-false without-a-and-b-false", ""},
		{"one cannot be read, and then it can", []replays.Judged{healthy, unfixed, one, unread, other, both}, pass, "unfixed-true without-a-false without-b-false without-a-and-b-false", ""},
		{"one cannot be read", []replays.Judged{healthy, unfixed, one, unread, both}, unknown, "unfixed-true without-a-false without-b-null without-a-and-b-false", "whether arm without-b is an outage is not known: works: no samples match x"},
		{"one is not valid", []replays.Judged{healthy, unfixed, one, arm("without-b", unknown, false, "a"), both}, unknown, "unfixed-true without-a-false without-b-null without-a-and-b-false", "arm without-b is unknown"},
		{"one is not played", []replays.Judged{healthy, unfixed, one, both}, pass, "unfixed-true without-a-false without-b-null without-a-and-b-false", ""},
		{"none is played", []replays.Judged{healthy, unfixed}, pass, "", ""},
		{"nothing is combined", []replays.Judged{healthy, played(replays.RoleUnfixed, "unfixed", pass, true)}, pass, "", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			v := replays.JudgeIncident(tc.plays, 1)
			var cells []string
			for _, c := range v.Combinations {
				cells = append(cells, c.Arm+"-"+compact(t, c.Outage))
				if (c.Outage == nil) != (c.Reason != "") {
					t.Errorf("arm %s: outage %s, reason %q", c.Arm, compact(t, c.Outage), c.Reason)
				}
			}
			if have := strings.Join(cells, " "); v.Outcome != tc.outcome || have != tc.cells {
				t.Errorf("%s, %s\nwant %s, %s", v.Outcome, have, tc.outcome, tc.cells)
			}
			if tc.reason == "" && len(v.Reasons) > 0 || tc.reason != "" && !slices.ContainsFunc(v.Reasons, func(r string) bool { return strings.Contains(r, tc.reason) }) {
				t.Errorf("reasons %q, want %q", v.Reasons, tc.reason)
			}
		})
	}
}

// TestStepPlayedTwice holds that a step of a sweep is an outage if one of its plays
// is, and shows the play that says most.
func TestStepPlayedTwice(t *testing.T) {
	play := func(outage bool, margin float64) replays.Judged {
		j := played(replays.RoleSweep, "crowd-50", replays.Pass, outage)
		j.Plan.Step = &replays.PlannedStep{Sweep: "crowd", Step: "50"}
		j.Verdict.Findings[1].Margin = &margin
		return j
	}
	for _, tc := range []struct {
		name  string
		plays []replays.Judged
		want  string // outage, margin
	}{
		{"none", []replays.Judged{play(false, 0.5), play(false, 0.2), play(false, 0.3)}, "false 0.2"},
		{"the second one", []replays.Judged{play(false, 0.5), play(true, -0.1)}, "true 0.1"},
		{"the first one", []replays.Judged{play(true, -0.1), play(false, 0.5)}, "true 0.1"},
		{"both", []replays.Judged{play(true, -0.1), play(true, -0.4)}, "true 0.4"},
	} {
		step := replays.JudgeIncident(tc.plays, 1).Sweeps[0].Steps[0]
		if have := compact(t, step.Outage) + " " + compact(t, step.Margin); have != tc.want {
			t.Errorf("%s: outage, margin %s, want %s", tc.name, have, tc.want)
		}
	}
}

// TestDecidedBy holds which objective a cell is decided by.
func TestDecidedBy(t *testing.T) {
	yes, no := true, false
	finding := func(check, phase, want string, held *bool, margin float64) replays.Finding {
		return replays.Finding{Check: check, Kind: replays.KindObjective, Phase: phase, Held: held, Got: "x", Want: want, Margin: &margin}
	}
	symptom := replays.Finding{Check: "seen", Kind: replays.KindSymptom, Phase: "broken", Held: &no, Outcome: replays.Pass}
	for _, tc := range []struct {
		name     string
		findings []replays.Finding
		want     string // check, margin
	}{
		{"the nearest to failing", []replays.Finding{symptom, finding("a", "broken", ">= 1", &yes, 0.5), finding("b", "broken", ">= 1", &yes, 0.2), finding("c", "broken", ">= 1", &yes, 0.3)}, "b 0.2"},
		{"while anything is broken", []replays.Finding{finding("a", "before", ">= 1", &yes, 0.1), finding("b", "broken", ">= 1", &yes, 0.2), symptom}, "b 0.2"},
		{"but for equalities", []replays.Finding{symptom, finding("a", "broken", "== 1", &yes, 0), finding("b", "before", ">= 1", &yes, 0.2)}, "b 0.2"},
		{"an equality alone", []replays.Finding{symptom, finding("a", "broken", "== 1", &yes, 0)}, "a null"},
		{"the furthest from holding", []replays.Finding{symptom, finding("a", "broken", ">= 1", &no, -0.2), finding("b", "broken", "== 1", &no, -0.9), finding("c", "broken", ">= 1", &yes, 0.1)}, "b 0.9"},
	} {
		v := replays.PlayVerdict{Arm: "without-a", Outcome: replays.Pass, Findings: tc.findings}
		p := &replays.Plan{Arm: "without-a", Role: replays.RoleCause, Combination: &replays.PlannedCombination{On: []string{"b"}, Of: []string{"a", "b"}}}
		c := replays.JudgeIncident([]replays.Judged{{Plan: p, Verdict: v}}, 1).Combinations[1]
		if have := c.DecidedBy + " " + compact(t, c.Margin); have != tc.want {
			t.Errorf("%s: decided by %s, want %s", tc.name, have, tc.want)
		}
	}
}
