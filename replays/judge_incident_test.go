package replays_test

import (
	"slices"
	"strings"
	"testing"

	"relapse/replays"
)

func TestWorst(t *testing.T) {
	const p, f, u = replays.Pass, replays.Fail, replays.Unknown
	for _, tc := range []struct {
		have []replays.Outcome
		want replays.Outcome
	}{
		{nil, u}, {[]replays.Outcome{p}, p}, {[]replays.Outcome{u}, u}, {[]replays.Outcome{f}, f},
		{[]replays.Outcome{p, u}, u}, {[]replays.Outcome{u, p}, u}, {[]replays.Outcome{u, f, p}, f}, {[]replays.Outcome{p, p}, p},
		{[]replays.Outcome{""}, u}, {[]replays.Outcome{p, "passed"}, u}, {[]replays.Outcome{"", f}, f},
	} {
		if have := replays.Worst(tc.have...); have != tc.want {
			t.Errorf("worst of %q is %s, want %s", tc.have, have, tc.want)
		}
	}
	var o replays.Outcome
	if err := o.UnmarshalText([]byte("passed")); err == nil {
		t.Error("outcome passed was read, want an error")
	}
}

// played is a play of an arm with an outcome. Its one symptom and objective
// come out as in an outage, or as in none.
func played(role replays.Role, arm string, o replays.Outcome, outage bool) replays.Judged {
	yes := true
	symptom, objective := outage, !outage
	v := replays.PlayVerdict{Arm: arm, Outcome: o, Findings: []replays.Finding{
		{Check: "seen", Kind: replays.KindSymptom, Phase: "broken", Held: &symptom, Expected: &symptom, Outcome: replays.Pass},
		{Check: "works", Kind: replays.KindObjective, Phase: "broken", Held: &objective, Outcome: replays.Pass},
		{Check: "alive", Kind: replays.KindInvariant, Phase: "broken", Held: &yes, Expected: &yes, Outcome: replays.Pass},
	}}
	switch o {
	case replays.Fail:
		v.Findings[0].Outcome = replays.Fail
	case replays.Unknown:
		v.Validity = []replays.Gate{{Gate: "machine-quiet", Reason: "the machine was noisy"}}
	}
	return replays.Judged{Plan: &replays.Plan{Incident: "small", Title: "Small", Arm: arm, Role: role}, Verdict: v}
}

func TestJudgeIncident(t *testing.T) {
	const pass, fail, unknown = replays.Pass, replays.Fail, replays.Unknown
	healthy := func(o replays.Outcome) replays.Judged { return played(replays.RoleHealthy, "healthy", o, false) }
	unfixed := func(o replays.Outcome) replays.Judged { return played(replays.RoleUnfixed, "unfixed", o, true) }
	fix := func(o replays.Outcome) replays.Judged { return played(replays.RoleFix, "fix-a", o, false) }
	with := func(j replays.Judged, change func(f []replays.Finding)) replays.Judged {
		change(j.Verdict.Findings)
		return j
	}
	no := false
	for _, tc := range []struct {
		name       string
		plays      []replays.Judged
		repeat     int
		outcome    replays.Outcome
		reproduced bool
		vacuous    string
		reason     string // part of one; "" for none at all
	}{
		{"nothing played", nil, 1, unknown, false, "", ""},
		{"healthy and unfixed", []replays.Judged{healthy(pass), unfixed(pass)}, 1, pass, true, "", ""},
		{"with a fix", []replays.Judged{healthy(pass), unfixed(pass), fix(pass)}, 1, pass, true, "", ""},
		{"fix that fails", []replays.Judged{healthy(pass), unfixed(pass), fix(fail)}, 1, fail, true, "", "arm fix-a fails in 1 of 1 plays: seen should not hold during broken"},
		{"healthy alone", []replays.Judged{healthy(pass)}, 1, pass, false, "", ""},
		{"unfixed alone", []replays.Judged{unfixed(pass)}, 1, pass, false, "", ""},
		{"healthy fails", []replays.Judged{healthy(fail), unfixed(pass)}, 1, fail, false, "", "arm healthy fails"},
		{"healthy unknown", []replays.Judged{healthy(unknown), unfixed(pass)}, 1, unknown, false, "", "arm healthy is unknown in 1 of 1 plays: the machine was noisy"},
		{"unfixed fails", []replays.Judged{healthy(pass), unfixed(fail)}, 1, fail, false, "", "arm unfixed fails"},
		{"unfixed unknown", []replays.Judged{healthy(pass), unfixed(unknown)}, 1, unknown, false, "", "arm unfixed is unknown"},
		{"fix without reproduction", []replays.Judged{fix(pass)}, 1, unknown, false, "", "not reproduced in this run"},
		{"fix without healthy", []replays.Judged{unfixed(pass), fix(pass)}, 1, unknown, false, "", "not reproduced in this run"},
		{"fix under another trigger alone", []replays.Judged{healthy(pass), played(replays.RoleUnfixed, "unfixed-on-x", pass, true), fix(pass)}, 1, unknown, false, "", "not reproduced in this run"},
		{"another trigger fails", []replays.Judged{healthy(pass), unfixed(pass), played(replays.RoleUnfixed, "unfixed-on-x", fail, true)}, 1, fail, false, "", "arm unfixed-on-x fails"},
		{"challenge without reproduction", []replays.Judged{healthy(pass), played(replays.RoleChallenge, "fix-a-under-b", pass, false)}, 1, unknown, false, "", "not reproduced"},
		{"cause without reproduction", []replays.Judged{healthy(pass), played(replays.RoleCause, "without-c", pass, false)}, 1, unknown, false, "", "not reproduced"},
		{"three of three", []replays.Judged{healthy(pass), unfixed(pass), healthy(pass), unfixed(pass), healthy(pass), unfixed(pass)}, 3, pass, true, "", ""},
		{"two of three", []replays.Judged{healthy(pass), unfixed(pass), healthy(pass), unfixed(pass)}, 3, unknown, false, "", "2 passed, and more were asked for"},
		{"one of three fails", []replays.Judged{healthy(pass), unfixed(pass), healthy(pass), unfixed(fail), healthy(pass), unfixed(pass)}, 3, fail, false, "", "arm unfixed fails in 1 of 3 plays"},
		{"unknown, then enough", []replays.Judged{healthy(unknown), healthy(pass), unfixed(pass)}, 1, pass, true, "", ""},
		{"unknown does not count", []replays.Judged{healthy(pass), healthy(unknown), unfixed(pass), unfixed(pass)}, 2, unknown, false, "", "arm healthy is unknown in 1 of 2 plays"},
		{"unknown, then fail", []replays.Judged{healthy(unknown), healthy(fail), unfixed(pass)}, 1, fail, false, "", "arm healthy fails in 1 of 2 plays"},
		{"symptom seen in every arm", []replays.Judged{with(healthy(pass), func(f []replays.Finding) { f[0].Held = f[2].Held }), unfixed(pass)}, 1, fail, true, "seen", "symptom seen came out the same in every arm"},
		{"objective failing in every arm", []replays.Judged{with(healthy(pass), func(f []replays.Finding) { f[1].Held = &no }), unfixed(pass)}, 1, fail, true, "works", "objective works came out the same"},
		{"objective failing in a fix alone", []replays.Judged{
			healthy(pass), with(unfixed(pass), func(f []replays.Finding) { f[1].Held = f[2].Held }), with(fix(pass), func(f []replays.Finding) { f[1].Held = &no }),
		}, 1, pass, true, "", ""},
		{"the same but for an invalid play", []replays.Judged{
			healthy(pass), with(unfixed(pass), func(f []replays.Finding) { f[1].Held = f[2].Held }), with(unfixed(unknown), func(f []replays.Finding) { f[1].Held = &no }),
		}, 1, fail, true, "works", "came out the same"},
		{"the same, and unread in an arm", []replays.Judged{
			healthy(pass), with(unfixed(pass), func(f []replays.Finding) { f[1].Held = f[2].Held }), with(fix(pass), func(f []replays.Finding) { f[1].Held = nil }),
		}, 1, pass, true, "", ""},
		{"the same, and an arm without a valid play", []replays.Judged{
			healthy(pass), with(unfixed(pass), func(f []replays.Finding) { f[1].Held = f[2].Held }), fix(unknown),
		}, 1, unknown, true, "", "arm fix-a is unknown"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			v := replays.JudgeIncident(tc.plays, tc.repeat)
			if v.Outcome != tc.outcome || v.Reproduced != tc.reproduced {
				t.Errorf("%s, reproduced %t; want %s, %t", v.Outcome, v.Reproduced, tc.outcome, tc.reproduced)
			}
			var names []string
			for _, x := range v.Vacuous {
				names = append(names, x.Check)
			}
			if have := strings.Join(names, " "); have != tc.vacuous {
				t.Errorf("vacuous %q, want %q", have, tc.vacuous)
			}
			if tc.reason == "" && len(v.Reasons) > 0 || tc.reason != "" && !slices.ContainsFunc(v.Reasons, func(r string) bool { return strings.Contains(r, tc.reason) }) {
				t.Errorf("reasons %q, want %q", v.Reasons, tc.reason)
			}
			total := 0
			for _, a := range v.Arms {
				if a.Plays != len(a.Runs) || a.Plays != a.Passed+a.Failed+a.Unknown {
					t.Errorf("arm %s: %d plays, %d runs, %d+%d+%d", a.Arm, a.Plays, len(a.Runs), a.Passed, a.Failed, a.Unknown)
				}
				total += a.Plays
			}
			if total != len(tc.plays) {
				t.Errorf("%d plays in the verdict, %d were made", total, len(tc.plays))
			}
		})
	}
}

// TestJudgeAlone holds that one play is judged as that play, whatever its arm
// would prove in a run with others.
func TestJudgeAlone(t *testing.T) {
	for _, role := range []replays.Role{replays.RoleHealthy, replays.RoleUnfixed, replays.RoleCause, replays.RoleFix, replays.RoleChallenge, replays.RoleSweep} {
		for _, o := range []replays.Outcome{replays.Pass, replays.Fail, replays.Unknown} {
			j := played(role, "an-arm", o, role == replays.RoleUnfixed)
			j.Plan.Combination = &replays.PlannedCombination{On: []string{"a"}, Of: []string{"a", "b"}}
			v := replays.JudgeAlone(j)
			if v.Outcome != o || v.Reproduced || len(v.Vacuous)+len(v.Combinations) > 0 {
				t.Errorf("%s: have %s, reproduced %t, vacuous %v, combinations %v; want %s alone", role, v.Outcome, v.Reproduced, v.Vacuous, v.Combinations, o)
			}
			if (len(v.Reasons) == 0) != (o == replays.Pass) || len(v.Arms) != 1 || v.Arms[0].Plays != 1 {
				t.Errorf("%s: %s for %q, in %d arms", role, o, v.Reasons, len(v.Arms))
			}
		}
	}
}

// TestDecidingPlay holds that an arm shows the play that decided it.
func TestDecidingPlay(t *testing.T) {
	one, two, three := played(replays.RoleHealthy, "healthy", replays.Pass, false), played(replays.RoleHealthy, "healthy", replays.Fail, false), played(replays.RoleHealthy, "healthy", replays.Unknown, false)
	one.Verdict.Seconds, two.Verdict.Seconds, three.Verdict.Seconds = 1, 2, 3
	a := replays.JudgeIncident([]replays.Judged{three, one, two}, 1).Arms[0]
	if a.Outcome != replays.Fail || a.Seconds != 2 || len(a.Validity) > 0 || a.Findings[0].Outcome != replays.Fail {
		t.Errorf("arm shows %s of %g s, validity %v; want the failed play of 2 s", a.Outcome, a.Seconds, a.Validity)
	}
}
