package replays_test

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"relapse/replays"
	"relapse/topologies"
)

var findLibrary = sync.OnceValues(func() (*replays.Incident, error) { return replays.Find("account-service") })

func accountService(t testing.TB) *replays.Incident {
	t.Helper()
	inc, err := findLibrary()
	if err != nil {
		t.Fatal(err)
	}
	return inc
}

func plan(t testing.TB, inc *replays.Incident, arm string) *replays.Plan {
	t.Helper()
	p, err := inc.Plan(arm, 1)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestPlans(t *testing.T) {
	inc := accountService(t)
	for _, arm := range []string{"healthy", "unfixed", "unfixed-on-silence", "without-shared-pool", "fix-route-limits", "fix-route-limits-under-cache-paused"} {
		t.Run(arm, func(t *testing.T) {
			golden(t, filepath.Join("testdata", "plans", arm+".json"), []byte(toJSON(t, plan(t, inc, arm))))
		})
	}
}

// TestOverlaysOfAllArms holds that an incident's own overlays are in every arm,
// before those of its changes, and that what repeats them changes nothing.
func TestOverlaysOfAllArms(t *testing.T) {
	text := strings.Replace(smallText(t), "topology: line\n", "topology: line\noverlays: [hasty]\n", 1)
	fsys := small(text).(fstest.MapFS)
	fsys["line/overlays/hasty.yaml"] = &fstest.MapFile{Data: []byte("services:\n  server:\n    command: [service, account, --tries=1]\n")}
	inc, err := replays.Load(fsys, ".")
	if err != nil {
		t.Fatal(err)
	}
	for _, arm := range inc.Arms() {
		want := []string{"hasty"}
		if strings.HasPrefix(arm, "fix-patience") {
			want = append(want, "patient")
		}
		if have := plan(t, inc, arm).Overlays; !slices.Equal(have, want) {
			t.Errorf("arm %s: have overlays %v, want %v", arm, have, want)
		}
	}
	fsys[replays.FileName] = &fstest.MapFile{Data: []byte(strings.Replace(text, "[hasty]", "[hasty, patient]", 1))}
	if _, err := replays.Load(fsys, "."); err == nil || !strings.Contains(err.Error(), "arm fix-patience plays as unfixed does") {
		t.Errorf("have %v, want a fix refused whose overlay is in every arm", err)
	}
}

// TestUnfixedIsOfAllArmsButHealthy holds that what is wrong from the start comes
// before what an arm changes.
func TestUnfixedIsOfAllArmsButHealthy(t *testing.T) {
	text := strings.Replace(smallText(t), "symptoms:\n", "unfixed:\n  says: Everybody is in a hurry\n  change: {overlays: [hasty]}\nsymptoms:\n", 1)
	fsys := small(text).(fstest.MapFS)
	fsys["line/overlays/hasty.yaml"] = &fstest.MapFile{Data: []byte("services:\n  server:\n    command: [service, account, --tries=1]\n")}
	inc, err := replays.Load(fsys, ".")
	if err != nil {
		t.Fatal(err)
	}
	for _, arm := range inc.Arms() {
		have := plan(t, inc, arm).Overlays
		if arm == "healthy" {
			if len(have) != 0 {
				t.Errorf("healthy: have overlays %q, want none", have)
			}
			continue
		}
		if len(have) == 0 || have[0] != "hasty" {
			t.Errorf("%s: have overlays %q, want hasty first", arm, have)
		}
	}
	if have, want := plan(t, inc, "unfixed").Says, "Everybody is in a hurry"; have != want {
		t.Errorf("unfixed says %q, want %q", have, want)
	}
}

func TestPlanIsPure(t *testing.T) {
	inc := accountService(t)
	arm := "fix-bigger-cache-under-cache-paused"
	want := toJSON(t, plan(t, inc, arm))
	for n := range 50 {
		if diff := cmp.Diff(want, toJSON(t, plan(t, inc, arm))); diff != "" {
			t.Fatalf("plan %d differs (-want +have):\n%s", n+2, diff)
		}
	}
}

// TestEveryArmPlans plans every arm of the library, and holds that arms differ
// in their changes and not in their paths: a link is proxied in all arms where
// it exists, or in none.
func TestEveryArmPlans(t *testing.T) {
	names := replays.LibraryNames()
	if len(names) == 0 {
		t.Fatal("the library is empty")
	}
	for _, name := range names {
		inc, err := replays.Find(name)
		if err != nil {
			t.Error(err)
			continue
		}
		proxied := map[string]bool{}
		arms := inc.Arms()
		for _, arm := range arms {
			p := plan(t, inc, arm)
			if p.Arm != arm || p.Length() <= 0 || len(p.Checks) == 0 || len(p.Load) == 0 {
				t.Errorf("%s: arm %s has an empty plan", name, arm)
			}
			for _, l := range p.Proxied {
				proxied[l] = true
			}
		}
		for _, arm := range arms {
			p := plan(t, inc, arm)
			links, err := inc.LinkNames(p.Overlays)
			if err != nil {
				t.Fatal(err)
			}
			for l := range proxied {
				if slices.Contains(links, l) != slices.Contains(p.Proxied, l) {
					t.Errorf("%s: link %s exists in arm %s: %t, proxied: %t", name, l, arm, slices.Contains(links, l), slices.Contains(p.Proxied, l))
				}
			}
		}
	}
}

// TestPlannedFaults holds when faults are held.
func TestPlannedFaults(t *testing.T) {
	more := func(phases string) func(string) string {
		return func(text string) string {
			return strings.Replace(text, "  - {name: after, lasts: 4s, settle: 1s}\n", "  - {name: after, lasts: 4s, settle: 1s}\n"+phases, 1)
		}
	}
	for _, tc := range []struct {
		name, arm string
		edit      func(text string) string
		want      string
	}{
		{"healthy", "healthy", nil, "narrow 0-12"},
		{"unfixed", "unfixed", nil, "narrow 0-12, slow 4-8, more 4-8"},
		{"other trigger", "unfixed-on-death", nil, "narrow 0-12, more 4-8, dead 4-8"},
		{"condition taken away", "without-narrowness", nil, "slow 4-8, more 4-8"},
		{"neighbours hold through", "unfixed", func(text string) string {
			return strings.Replace(text, "  - {name: after, lasts: 4s, settle: 1s}", "  - {name: after, lasts: 4s, settle: 1s, faults: [slow, dead]}", 1)
		}, "narrow 0-12, slow 4-12, more 4-8, dead 8-12"},
		{"held twice", "unfixed", more("  - {name: again, lasts: 2s, faults: [slow]}\n"), "narrow 0-14, slow 4-8, more 4-8, slow#2 12-14"},
		{"held three times", "unfixed", more("  - {name: again, lasts: 2s, faults: [slow]}\n  - {name: pause, lasts: 1s}\n  - {name: third, lasts: 2s, faults: [slow]}\n"),
			"narrow 0-17, slow 4-8, more 4-8, slow#2 12-14, slow#3 15-17"},
		{"faults change places", "fix-patience", func(text string) string {
			return strings.Replace(text, "change: {overlays: [patient]}", "change: {overlays: [patient], replace: {slow: more, more: slow}}", 1)
		}, "narrow 0-12, more 4-8, slow 4-8"},
		{"replaced by one that is held", "fix-patience", func(text string) string {
			return strings.Replace(text, "change: {overlays: [patient]}", "change: {overlays: [patient], replace: {slow: more}}", 1)
		}, "narrow 0-12, more 4-8"},
		{"added though a condition", "fix-patience", func(text string) string {
			return strings.Replace(text, "change: {overlays: [patient]}", "change: {overlays: [patient], add: {broken: [narrow, slow]}}", 1)
		}, "narrow 0-12, slow 4-8, more 4-8"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			text := smallText(t)
			if tc.edit != nil {
				edited := tc.edit(text)
				if edited == text {
					t.Fatal("the test changed nothing")
				}
				text = edited
			}
			p := plan(t, loadText(t, text), tc.arm)
			var have []string
			for _, f := range p.Faults {
				have = append(have, fmt.Sprintf("%s %g-%g", f.Name, f.Start, f.End))
			}
			if have := strings.Join(have, ", "); have != tc.want {
				t.Errorf("have %s\nwant %s", have, tc.want)
			}
		})
	}
}

// TestPlannedTargets holds what the engine must know of a fault's targets: links
// to proxy, nodes that stop, rates that change.
func TestPlannedTargets(t *testing.T) {
	const more = "more: {kind: surge, node: players, operation: ask, times: 2}"
	for _, tc := range []struct {
		name, fault              string
		proxied, stopped, surges string
	}{
		{"surge", more, "[server -> store:11211]", "[]", "[ask 2]"},
		{"malformed", "more: {kind: malformed, node: players, operation: ask, percent: 25%}", "[server -> store:11211]", "[]", "[ask 0.75]"},
		{"reconnect-wave", "more: {kind: reconnect-wave, node: players, every: 1s}", "[server -> store:11211]", "[]", "[]"},
		{"crash-loop", "more: {kind: crash-loop, nodes: [s*]}", "[server -> store:11211]", "[server store]", "[]"},
		// Only one of its directions is a link.
		{"partition", "more: {kind: partition, sides: [['se*', store], [players]]}", "[players -> server:8080 server -> store:11211]", "[]", "[]"},
	} {
		// Of the store's death nothing is asked here, and nothing else may stop it then.
		text := edited(t, smallText(t), more, tc.fault, "dead: {kind: kill, nodes: [store]}", `dead: {kind: blackhole, links: ["server -> store"]}`)
		p := plan(t, loadText(t, text), "unfixed")
		surges := []string{}
		for _, s := range p.Surges {
			surges = append(surges, fmt.Sprint(s.Operation, " ", s.Times))
		}
		if have := fmt.Sprint(p.Proxied); have != tc.proxied {
			t.Errorf("%s: proxied %s, want %s", tc.name, have, tc.proxied)
		}
		if have := fmt.Sprint(p.Stopped); have != tc.stopped {
			t.Errorf("%s: stopped %s, want %s", tc.name, have, tc.stopped)
		}
		if have := fmt.Sprint(surges); have != tc.surges {
			t.Errorf("%s: surges %s, want %s", tc.name, have, tc.surges)
		}
	}
}

// A redirect is planned where its generator is linked to both nodes.
func TestARedirectIsPlanned(t *testing.T) {
	const more = "more: {kind: surge, node: players, operation: ask, times: 2}"
	fsys := small(strings.Replace(smallText(t), more, "more: {kind: redirect, node: players, from: server, to: store}", 1)).(fstest.MapFS)
	line := fsys["line/compose.yaml"]
	line.Data = bytes.Replace(line.Data, []byte("links: [server]"), []byte("links: [server, store]"), 1)
	inc, err := replays.Load(fsys, ".")
	if err != nil {
		t.Fatal(err)
	}
	p := plan(t, inc, "unfixed")
	if !slices.ContainsFunc(p.Faults, func(f replays.PlannedFault) bool { return f.Kind == "redirect" }) {
		t.Errorf("faults: have %+v, want a redirect among them", p.Faults)
	}
	if len(p.Surges) > 0 || len(p.Stopped) > 0 {
		t.Errorf("have surges %v and stopped nodes %v, want none: no rate changes", p.Surges, p.Stopped)
	}
}

// A skew is planned where its node is a front and linked to the other one.
func TestASkewIsPlanned(t *testing.T) {
	const more = "more: {kind: surge, node: players, operation: ask, times: 2}"
	fsys := small(strings.Replace(smallText(t), more, "more: {kind: skew, node: server, to: store, share: 70%}", 1)).(fstest.MapFS)
	line := fsys["line/compose.yaml"]
	line.Data = bytes.Replace(line.Data, []byte("relapse.probe: tcp}"), []byte(`relapse.probe: tcp, relapse.front: "9091"}`), 1)
	line.Data = bytes.Replace(line.Data, []byte("links: [store]"), []byte("links: [store, players]"), 1) // one node alone gets all
	inc, err := replays.Load(fsys, ".")
	if err != nil {
		t.Fatal(err)
	}
	p := plan(t, inc, "unfixed")
	if !slices.ContainsFunc(p.Faults, func(f replays.PlannedFault) bool { return f.Kind == "skew" }) {
		t.Errorf("faults: have %+v, want a skew among them", p.Faults)
	}
	if len(p.Surges) > 0 || len(p.Stopped) > 0 {
		t.Errorf("have surges %v and stopped nodes %v, want none: no rate changes", p.Surges, p.Stopped)
	}
}

// A loss of servers is planned where its node is a fleet.
func TestACapacityLossIsPlanned(t *testing.T) {
	const more = "more: {kind: surge, node: players, operation: ask, times: 2}"
	fsys := small(strings.Replace(smallText(t), more, "more: {kind: capacity-loss, node: server, share: 40%, cluster: main}", 1)).(fstest.MapFS)
	line := fsys["line/compose.yaml"]
	line.Data = bytes.Replace(line.Data, []byte("relapse.probe: tcp}"), []byte(`relapse.probe: tcp, relapse.fleet: "9091"}`), 1)
	inc, err := replays.Load(fsys, ".")
	if err != nil {
		t.Fatal(err)
	}
	p := plan(t, inc, "unfixed")
	if !slices.ContainsFunc(p.Faults, func(f replays.PlannedFault) bool { return f.Kind == "capacity-loss" }) {
		t.Errorf("faults: have %+v, want a loss of capacity among them", p.Faults)
	}
	if len(p.Surges) > 0 || len(p.Stopped) > 0 {
		t.Errorf("have surges %v and stopped nodes %v, want none: no rate changes, and the fleet goes on", p.Surges, p.Stopped)
	}
}

// A fault that neighbouring phases hold is held over all of them: what does not fit
// into one of them may fit into both. One of these is too short for a second stretch.
func TestFaultsBiteWhereTheyAreHeld(t *testing.T) {
	for _, tc := range []struct {
		name, loop string
		held       []string // phases of 4 s
		refused    bool
	}{
		{"in one phase", "up: 2s, down: 1900ms", []string{"broken"}, false},
		{"as long as its phase", "up: 2s, down: 2s", []string{"broken"}, true},
		{"as long as one of two phases", "up: 2s, down: 2s", []string{"broken", "after"}, false},
		{"longer than both", "up: 1s, down: 7s", []string{"broken", "after"}, true},
		{"as long as each of two that are apart", "up: 2s, down: 2s", []string{"before", "after"}, true},
		{"all the time", "up: 6s, down: 5s", []string{"before", "broken", "after"}, false},
	} {
		text := edited(t, smallText(t), "faults:\n", "faults:\n  loop: {kind: crash-loop, nodes: [store], "+tc.loop+"}\n",
			"dead: {kind: kill, nodes: [store]}", `dead: {kind: blackhole, links: ["server -> store"]}`)
		for _, phase := range tc.held {
			faults := ""
			if phase == "broken" {
				faults = "slow, more, "
				text = edited(t, text, ", faults: [slow, more]", "")
			}
			text = edited(t, text, "{name: "+phase+", lasts: 4s, settle: 1s}", "{name: "+phase+", lasts: 4s, settle: 1s, faults: ["+faults+"loop]}")
		}
		_, err := replays.Load(small(text), ".")
		var placed *topologies.FileError
		switch {
		case !tc.refused && err != nil:
			t.Errorf("%s: refused: %v", tc.name, err)
		case tc.refused && !errors.As(err, &placed):
			t.Errorf("%s: error %v, want one with the place of the loop", tc.name, err)
		case tc.refused && !strings.Contains(err.Error(), "loop: {kind: crash-loop"):
			t.Errorf("%s: error %v, want one that shows the loop", tc.name, err)
		}
	}
}

func TestArms(t *testing.T) {
	inc := loadSmall(t)
	want := []string{
		"healthy", "unfixed", "unfixed-on-death", "without-delay", "without-narrowness",
		"fix-patience", "fix-patience-on-death", "fix-patience-under-crowd", "fix-patience-under-death",
	}
	if diff := cmp.Diff(want, inc.Arms()); diff != "" {
		t.Errorf("arms (-want +have):\n%s", diff)
	}
	var unknown *replays.UnknownArmError
	_, err := inc.Plan("unfixd", 1)
	if !errors.As(err, &unknown) || unknown.Arm != "unfixd" || err.Error() != `incident small has no arm "unfixd": did you mean unfixed?` {
		t.Errorf("error %v", err)
	}
	traffic := plan(t, inc, "fix-patience-under-crowd").Phases[0].Traffic["players"]["ask"]
	if traffic != 150 {
		t.Errorf("traffic %g under crowd, want 150", traffic)
	}
	if stopped := plan(t, inc, "fix-patience-under-death").Stopped; !slices.Equal(stopped, []string{"store"}) {
		t.Errorf("stopped %v, want store", stopped)
	}
}

// TestLoad holds that a change of load multiplies all rates, those of a phase and
// of other changes too.
func TestLoad(t *testing.T) {
	for _, tc := range []struct {
		name, fix, challenge string
		want                 []float64 // of ask, by phase
	}{
		{"none", "{overlays: [patient]}", "{traffic: {players: {ask: 150/s}}}", []float64{150, 150, 150}},
		{"half", "{overlays: [patient], load: 0.5}", "{add: {broken: [dead]}}", []float64{50, 100, 50}},
		{"half of other traffic", "{overlays: [patient], load: 0.5}", "{traffic: {players: {ask: 150/s}}}", []float64{75, 75, 75}},
		{"half of a half", "{overlays: [patient], load: 0.5}", "{load: 0.5}", []float64{25, 50, 25}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			inc := loadText(t, edited(t, smallText(t), "change: {overlays: [patient]}", "change: "+tc.fix,
				"change: {traffic: {players: {ask: 150/s}}}", "change: "+tc.challenge,
				"name: broken, lasts: 4s", "name: broken, lasts: 4s, traffic: {players: {ask: 200/s}}"))
			var have []float64
			for _, p := range plan(t, inc, "fix-patience-under-crowd").Phases {
				have = append(have, p.Traffic["players"]["ask"])
			}
			if !slices.Equal(have, tc.want) {
				t.Errorf("have %v, want %v", have, tc.want)
			}
		})
	}
}

// TestExpectations holds what each role of arm promises of each check.
func TestExpectations(t *testing.T) {
	inc := loadSmall(t)
	for arm, want := range map[string]string{
		"healthy":                  "waits-no full-no noticed-no works-yes quick-yes alive-yes",
		"unfixed":                  "waits-yes full-yes noticed-yes works-? quick-? alive-yes",
		"unfixed-on-death":         "waits-? full-yes noticed-yes works-? quick-? alive-yes",
		"without-delay":            "waits-no full-no noticed-no works-yes quick-yes alive-yes",
		"without-narrowness":       "waits-yes full-yes noticed-yes works-? quick-? alive-yes",
		"fix-patience":             "waits-yes full-no noticed-? works-yes quick-no alive-yes",
		"fix-patience-on-death":    "waits-? full-? noticed-? works-yes quick-? alive-yes",
		"fix-patience-under-crowd": "waits-yes full-no noticed-? works-yes quick-no alive-yes",
		"fix-patience-under-death": "waits-? full-no noticed-? works-yes quick-? alive-yes",
	} {
		if have := expectations(plan(t, inc, arm)); have != want {
			t.Errorf("%s\nhave %s\nwant %s", arm, have, want)
		}
	}
}

// TestBreaks holds that an arm which is there to show that an invariant is broken comes
// out as it should only where that is seen.
func TestBreaks(t *testing.T) {
	inc := loadText(t, edited(t, smallText(t), "        holds: [works, full]\n", "        holds: [works]\n        breaks: [alive]\n"))
	const arm = "fix-patience-under-death"
	p := plan(t, inc, arm)
	if have, want := expectations(p), "waits-? full-? noticed-? works-yes quick-? alive-no"; have != want || p.Expected != "mixed" {
		t.Errorf("expected %s\nhave %s\nwant %s", p.Expected, have, want)
	}
	for _, tc := range []struct {
		name string
		up   func(float64) float64
		want replays.Outcome
	}{
		{"it is broken in one phase", during(p, "broken", 0, 1), replays.Pass},
		{"it holds throughout", constant(1), replays.Fail},
	} {
		w := newWorld(t, inc, arm)
		w.up = tc.up
		if v := replays.JudgePlay(w.record()); v.Outcome != tc.want {
			t.Errorf("%s: have %s, want %s: %v, %s", tc.name, v.Outcome, tc.want, v.Validity, unexpected(v))
		}
	}
}

// expectations is what a plan promises of each check, in one line.
func expectations(p *replays.Plan) string {
	var out []string
	for _, c := range p.Checks {
		word := "?"
		if c.Expected != nil {
			word = map[bool]string{true: "yes", false: "no"}[*c.Expected]
		}
		out = append(out, c.ID+"-"+word)
	}
	return strings.Join(out, " ")
}
