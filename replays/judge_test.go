package replays_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"relapse/faults"
	"relapse/replays"
)

// edit changes the events of a world.
func (w *world) edit(change func(e *replays.Event) (keep bool)) {
	var out []replays.Event
	for _, e := range w.events {
		if change(&e) {
			out = append(out, e)
		}
	}
	w.events = out
}

func (w *world) dropStep(fault string, steps ...faults.Step) {
	w.edit(func(e *replays.Event) bool {
		return e.Fault != fault || !slices.Contains(steps, faults.Step(e.Step))
	})
}

func (w *world) cut(t float64) {
	w.edit(func(e *replays.Event) bool { return e.T < headStart+t })
	w.drop = func(_ string, at float64) bool { return at >= t }
}

func (w *world) target(node string) *replays.TargetHealth {
	return &w.targets[slices.IndexFunc(w.targets, func(h replays.TargetHealth) bool { return h.Node == node })]
}

// forget takes a node out of the targets.
func (w *world) forget(node string) {
	w.targets = slices.DeleteFunc(w.targets, func(h replays.TargetHealth) bool { return h.Node == node })
}

// TestEveryArmPasses holds the table below against a judge that says unknown or
// fail of everything.
func TestEveryArmPasses(t *testing.T) {
	inc := loadSmall(t)
	for _, arm := range inc.Arms() {
		v := replays.JudgePlay(newWorld(t, inc, arm).record())
		if v.Outcome != replays.Pass {
			t.Errorf("arm %s is %s: %v, %s", arm, v.Outcome, v.Validity, unexpected(v))
		}
	}
}

// unexpected lists the findings that are no pass.
func unexpected(v replays.PlayVerdict) string {
	var out []string
	for _, f := range v.Findings {
		if f.Outcome != replays.Pass {
			out = append(out, f.Check+" in "+f.Phase+": "+string(f.Outcome)+": got "+f.Got+": "+f.Reason)
		}
	}
	return strings.Join(out, "; ")
}

// TestGates holds that each validity gate makes a play unknown that would pass
// without it, and says why.
func TestGates(t *testing.T) {
	inc := loadSmall(t)
	for _, tc := range []struct {
		name, arm string
		change    func(w *world)
		gate      string
		reason    string // part of it
	}{
		{"fault never injected", "unfixed", func(w *world) {
			w.edit(func(e *replays.Event) bool { return e.Fault != "slow" })
		}, "fault-in-effect", "fault slow was never injected"},
		{"fault late", "unfixed", func(w *world) {
			w.edit(func(e *replays.Event) bool {
				if e.Fault == "slow" {
					e.T += 0.6
				}
				return true
			})
		}, "fault-in-effect", "s late, bound 500ms"},
		{"fault never in effect", "unfixed", func(w *world) { w.dropStep("slow", faults.InEffect) }, "fault-in-effect", "fault slow was never seen in effect"},
		{"fault not gone", "unfixed", func(w *world) { w.dropStep("slow", faults.Gone) }, "fault-in-effect", "fault slow was not seen gone after its undo"},
		{"condition never in effect", "healthy", func(w *world) { w.dropStep("narrow", faults.InEffect) }, "fault-in-effect", "fault narrow was never seen in effect"},
		{"fault failed", "unfixed", func(w *world) {
			w.events = append(w.events, replays.Event{T: 7, Event: replays.EventFault, Fault: "slow", Step: "failed", Detail: "undo: no answer"})
		}, "fault-in-effect", "fault slow failed: undo: no answer"},
		{"load late", "unfixed", func(w *world) { w.late = 0.09 }, "load-on-time", "load generator players was late"},
		{"lateness not measured", "unfixed", func(w *world) {
			w.drop = func(s string, _ float64) bool { return s == "relapse_lateness_seconds_bucket" }
		}, "load-on-time", "cannot be read"},
		{"load short", "unfixed", func(w *world) { w.offered = during(w.plan, "after", 0.9, 1) }, "load-complete", "players sent 90 ask/s during after, planned 100"},
		{"surge not sent", "unfixed", func(w *world) { w.offered = during(w.plan, "broken", 0.5, 1) }, "load-complete", "during broken, planned 200"},
		{"load not sent", "healthy", func(w *world) { w.unsent = during(w.plan, "before", 0.2, 0) }, "load-complete", "during before, planned 100"},
		{"load not measured", "healthy", func(w *world) {
			w.drop = func(s string, t float64) bool { return s == "relapse_offered_total" && t > 8 }
		}, "load-complete", "what players sent of ask during after cannot be read"},
		{"samples missing", "healthy", func(w *world) { w.target("store").WorstGap = 1.5 }, "samples-complete", "store gave no sample for 1.50s, bound 1s"},
		{"not asked", "healthy", func(w *world) { w.target("server").WorstMiss = 1.1 }, "samples-complete", "server was not asked for 1.10s, bound 1s"},
		{"gaps are evidence, but it was not asked", "healthy", func(w *world) {
			*w.target("server") = replays.TargetHealth{Node: "server", WorstGap: 3, WorstMiss: 3, GapsAreEvidence: true}
		}, "samples-complete", "server was not asked"},
		{"nothing measured", "healthy", func(w *world) { w.targets = nil }, "samples-complete", "no node was measured"},
		{"no target of the load generator", "healthy", func(w *world) { w.forget("players") }, "samples-complete", "players is no target of the measuring"},
		{"no target of what left samples", "healthy", func(w *world) { w.forget("store") }, "samples-complete", "store is no target of the measuring"},
		{"no target of the machine", "healthy", func(w *world) { w.forget("relapse") }, "samples-complete", "relapse is no target of the measuring"},
		{"no target of a proxied link", "healthy", func(w *world) { w.plan.Proxied = append(w.plan.Proxied, "server->store") }, "samples-complete", "server->store is no target of the measuring"},
		{"no target of what the plan measures", "healthy", func(w *world) {
			w.forget("store")
			w.drop = func(s string, _ float64) bool { return s == "store_items" }
		}, "samples-complete", "store is no target of the measuring"},
		{"no rounds", "healthy", func(w *world) { w.target("store").Rounds = 0 }, "samples-complete", "store was asked in no round"},
		{"no samples of a target", "healthy", func(w *world) {
			w.drop = func(s string, _ float64) bool { return s == "store_items" }
		}, "samples-complete", "no samples of store, which answered"},
		{"machine noisy", "healthy", func(w *world) { w.over = 0.15 }, "machine-quiet", "a 1 ms ticker overshot: 0.15, want <= 0.1"},
		{"machine not watched", "healthy", func(w *world) {
			w.drop = func(s string, _ float64) bool { return s == "relapse_tool_overshoot_seconds" }
		}, "machine-quiet", "cannot be read"},
		{"CPU stolen", "healthy", func(w *world) { w.steal = 0.2 }, "machine-quiet", "the hypervisor took CPU time away: 0.2, want <= 0.1"},
		{"node dead", "healthy", func(w *world) {
			w.events = append(w.events, replays.Event{T: 15, Event: replays.EventNodeDead, Node: "store", Detail: "exit code 137"})
		}, "nodes-alive", "node store is dead (exit code 137) and no fault killed it"},
		{"other node dead than the one killed", "unfixed-on-death", func(w *world) {
			w.events = append(w.events, replays.Event{T: 15, Event: replays.EventNodeDead, Node: "server", Detail: "exit code 1"})
		}, "nodes-alive", "node server is dead"},
		{"cut short", "unfixed", func(w *world) { w.cut(9) }, "play-complete", "the play stopped before its last phase ended"},
		{"trouble", "unfixed", func(w *world) {
			w.cut(9)
			w.events = append(w.events, replays.Event{T: 12, Event: replays.EventTrouble, Detail: "the engine is gone"})
		}, "play-complete", "the play stopped before its last phase ended: the engine is gone"},
		{"fault undone early", "unfixed", func(w *world) {
			w.edit(func(e *replays.Event) bool {
				if e.Fault == "slow" && e.Step == string(faults.Undone) {
					e.T -= 1
				}
				return true
			})
		}, "fault-in-effect", "fault slow was undone 0.98 s before its planned end, bound 100ms"},
		{"fault gone early", "unfixed", func(w *world) {
			w.edit(func(e *replays.Event) bool {
				if e.Fault == "slow" && e.Step == string(faults.Gone) {
					e.T -= 1
				}
				return true
			})
		}, "fault-in-effect", "fault slow was gone 0.98 s before its planned end"},
		{"condition undone early", "healthy", func(w *world) {
			w.edit(func(e *replays.Event) bool {
				if e.Fault == "narrow" && e.Step == string(faults.Undone) {
					e.T -= 5
				}
				return true
			})
		}, "fault-in-effect", "fault narrow was undone"},
		{"phase without event", "unfixed", func(w *world) {
			w.edit(func(e *replays.Event) bool { return e.Phase != "broken" })
		}, "play-complete", "phase broken never began"},
		{"phase late", "unfixed", func(w *world) {
			w.edit(func(e *replays.Event) bool {
				if e.Phase == "broken" {
					e.T += 1.5
				}
				return true
			})
		}, "play-complete", "phase broken began 1.50 s late, bound 1s"},
		{"phases ended early", "unfixed", func(w *world) {
			w.edit(func(e *replays.Event) bool {
				if e.Event == replays.EventPhasesEnd {
					e.T -= 1.5
				}
				return true
			})
		}, "play-complete", "the last phase ended 1.50 s early, bound 1s"},
		{"phases cut", "unfixed", func(w *world) {
			w.events = append(w.events, replays.Event{T: headStart + 9, Event: replays.EventPhasesCut})
		}, "play-complete", "the phases were cut at 9.00 s"},
		{"trouble after the end", "unfixed", func(w *world) {
			w.events = append(w.events, replays.Event{T: 16, Event: replays.EventTrouble, Detail: "a log is lost"})
		}, "play-complete", "there was trouble: a log is lost"},
		{"never began", "unfixed", func(w *world) { w.cut(-0.1) }, "play-complete", "the first phase never began"},
		{"nothing at all", "unfixed", func(w *world) { w.events = nil; w.cut(-1) }, "play-complete", "the first phase never began"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t, inc, tc.arm)
			tc.change(w)
			v := replays.JudgePlay(w.record())
			if v.Outcome != replays.Unknown {
				t.Errorf("outcome %s, want unknown", v.Outcome)
			}
			if !slices.ContainsFunc(v.Validity, func(g replays.Gate) bool {
				return g.Gate == tc.gate && strings.Contains(g.Reason, tc.reason)
			}) {
				t.Errorf("gates %q, want %s: %s", v.Validity, tc.gate, tc.reason)
			}
		})
	}
}

// TestTwoClocks holds that an event of which one time was edited makes a play
// unknown.
func TestTwoClocks(t *testing.T) {
	inc := loadSmall(t)
	for _, tc := range []struct {
		name   string
		change func(e *replays.Event)
		want   replays.Outcome
	}{
		{"none", func(*replays.Event) {}, replays.Pass},
		{"the play's clock", func(e *replays.Event) { e.T += 0.2 }, replays.Unknown},
		{"the wall's clock", func(e *replays.Event) { e.At = e.At.Add(-200 * time.Millisecond) }, replays.Unknown},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newWorld(t, inc, "unfixed").record()
			for n := range r.Events {
				if r.Events[n].Fault == "slow" {
					tc.change(&r.Events[n])
				}
			}
			if v := replays.JudgePlay(r); v.Outcome != tc.want {
				t.Errorf("outcome %s, want %s: %v", v.Outcome, tc.want, v.Validity)
			}
		})
	}
}

// TestGatesAllow holds what the gates must not take for trouble of the rig.
func TestGatesAllow(t *testing.T) {
	inc := loadSmall(t)
	for _, tc := range []struct {
		name, arm string
		change    func(w *world)
	}{
		{"node killed by a fault", "unfixed-on-death", func(w *world) {
			w.target("store").WorstGap = 4
			w.events = append(w.events, replays.Event{T: 15, Event: replays.EventNodeDead, Node: "store", Detail: "exit code 137"})
		}},
		{"gaps that are evidence", "healthy", func(w *world) {
			*w.target("server") = replays.TargetHealth{Node: "server", Rounds: 48, WorstGap: 3, WorstMiss: 0.3, GapsAreEvidence: true}
		}},
		{"a phase and an undo a little off", "unfixed", func(w *world) {
			w.edit(func(e *replays.Event) bool {
				switch {
				case e.Phase == "broken":
					e.T += 0.9
				case e.Fault == "slow" && (e.Step == string(faults.Undone) || e.Step == string(faults.Gone)):
					e.T -= 0.1
				case e.Event == replays.EventPhasesEnd:
					e.T -= 0.9
				}
				return true
			})
		}},
		{"a little late", "healthy", func(w *world) { w.late = 0.009 }},
		{"a little short", "healthy", func(w *world) { w.offered = constant(0.96) }},
		{"a little noise", "healthy", func(w *world) { w.over, w.steal = 0.09, 0.09 }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t, inc, tc.arm)
			tc.change(w)
			if v := replays.JudgePlay(w.record()); v.Outcome != replays.Pass {
				t.Errorf("outcome %s, want pass: %v, %s", v.Outcome, v.Validity, unexpected(v))
			}
		})
	}
}

// TestMalformedLoad holds that malformed requests are arrivals like any other: a
// generator that makes none of them, or cannot send them, makes the play unknown,
// also where the operation has no good ones.
func TestMalformedLoad(t *testing.T) {
	for _, tc := range []struct {
		name    string
		percent string
		spoilt  float64 // a second while the fault is held, of 100 questions
		offered float64 // share of the good ones meanwhile
		unsent  float64 // share meanwhile
		want    string  // gates
	}{
		{"all of them", "100%", 100, 1, 0, ""},
		{"all of them, and none is made", "100%", 0, 1, 0, "players sent 0 ask and ask-malformed/s during broken, planned 100"},
		{"all of them, and too few are made", "100%", 90, 1, 0, "players sent 90 ask and ask-malformed/s during broken, planned 100"},
		{"all of them, and some cannot be sent", "100%", 100, 1, 0.5, "players sent 50 ask and ask-malformed/s during broken, planned 100"},
		{"a quarter", "25%", 25, 1, 0, ""},
		{"a quarter, and none is made", "25%", 0, 1, 0, "players sent 75 ask and ask-malformed/s during broken, planned 100"},
		{"a quarter, and too few good ones", "25%", 75, 0.5, 0, "players sent 37.5 ask/s during broken, planned 75"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			inc := loadText(t, edited(t, smallText(t), "more: {kind: surge, node: players, operation: ask, times: 2}",
				"more: {kind: malformed, node: players, operation: ask, percent: "+tc.percent+"}"))
			w := newWorld(t, inc, "unfixed")
			w.spoilt, w.offered, w.unsent = during(w.plan, "broken", tc.spoilt, 0), during(w.plan, "broken", tc.offered, 1), during(w.plan, "broken", tc.unsent, 0)
			var have []string
			for _, g := range replays.JudgePlay(w.record()).Validity {
				have = append(have, g.Gate+": "+g.Reason)
			}
			want := tc.want
			if want != "" {
				want = "load-complete: " + want
			}
			if have := strings.Join(have, "; "); have != want {
				t.Errorf("gates %q, want %q", have, want)
			}
		})
	}
}

// TestFindings holds what the judge makes of single checks.
func TestFindings(t *testing.T) {
	inc := loadSmall(t)
	hides := func(series string, from, to float64) func(w *world) {
		return func(w *world) {
			w.drop = func(s string, t float64) bool { return s == series && t > from && t <= to }
		}
	}
	for _, tc := range []struct {
		name, arm string
		change    func(w *world)
		want      replays.Outcome // of the play
		check     string          // CHECK or CHECK in PHASE
		finding   replays.Outcome // of the check
		got       string          // of the finding; "-" for any
		reason    string          // part of it
	}{
		{"symptom not seen", "unfixed", func(w *world) { w.wait = during(w.plan, "broken", 0.3, 0.02) }, replays.Fail, "waits in broken", replays.Fail, "0.3", ""},
		{"always, but for one sample", "unfixed", func(w *world) {
			w.open = func(t float64) float64 {
				if t == 6.5 {
					return 9
				}
				return during(w.plan, "broken", 12, 3)(t)
			}
		}, replays.Fail, "full in broken", replays.Fail, "9", ""},
		{"eventually, too late", "unfixed", func(w *world) {
			w.errors = func(t float64) float64 {
				if t > 6.25 && t <= 8 {
					return 40
				}
				return 0
			}
		}, replays.Fail, "noticed in broken", replays.Fail, "0", ""},
		{"eventually, in time", "unfixed", func(w *world) {
			w.errors = func(t float64) float64 {
				if t > 5.5 && t <= 8 {
					return 40
				}
				return 0
			}
		}, replays.Pass, "noticed in broken", replays.Pass, "-", ""},
		// At the phase's start its query reads the last second of the phase before.
		{"eventually, but only before its phase", "unfixed", func(w *world) { w.errors = during(w.plan, "before", 40, 0) }, replays.Fail, "noticed in broken", replays.Fail, "0", ""},
		{"eventually, sooner than it can be read", "unfixed", func(w *world) {
			n := slices.IndexFunc(w.plan.Checks, func(c replays.PlannedCheck) bool { return c.ID == "noticed" })
			w.plan.Checks[n].Within = 0.75
		}, replays.Unknown, "noticed in broken", replays.Unknown, "", "it reads the 1 s before a moment"},
		{"symptom without data", "unfixed", hides("app_wait_seconds", -1, 99), replays.Unknown, "waits in broken", replays.Unknown, "", "no samples match app_wait_seconds"},
		{"symptom without data is not cured", "without-delay", hides("app_wait_seconds", 4, 8), replays.Unknown, "waits in broken", replays.Unknown, "", "no samples match app_wait_seconds"},
		{"always, without data at its end", "unfixed", hides("app_open", 6, 8), replays.Unknown, "full in broken", replays.Unknown, "", "no samples match app_open"},
		{"always, failing, then without data", "unfixed", func(w *world) {
			w.open = constant(1)
			hides("app_open", 7, 8)(w)
		}, replays.Fail, "full in broken", replays.Fail, "1", ""},
		{"objective fails before the trigger", "unfixed", func(w *world) { w.answered = constant(0.1) }, replays.Fail, "works in before", replays.Fail, "0.1", "before the trigger"},
		{"no objective fails", "unfixed", func(w *world) {
			w.answered = constant(0.97)
			w.wait = func(t float64) float64 { return 0.02 }
		}, replays.Fail, "outage", replays.Fail, "none", ""},
		{"an objective unread, none failing", "unfixed", func(w *world) {
			w.answered = constant(0.97)
			hides("app_wait_seconds", 4, 8)(w) // which makes the alert fail
		}, replays.Fail, "outage", replays.Unknown, "", "none fails, and these could not be read: quick in broken"},
		{"an objective unread, another failing", "unfixed", hides("up", 0, 0.5), replays.Pass, "outage", replays.Pass, "-", ""},
		{"invariant broken", "unfixed", func(w *world) { w.up = during(w.plan, "after", 0, 1) }, replays.Fail, "alive in after", replays.Fail, "0", ""},
		{"invariant broken in a fix", "fix-patience", func(w *world) { w.up = during(w.plan, "after", 0, 1) }, replays.Fail, "alive in after", replays.Fail, "0", ""},
		{"healthy, and yet a symptom", "healthy", func(w *world) { w.open = during(w.plan, "broken", 12, 3) }, replays.Fail, "full in broken", replays.Fail, "12", ""},
		{"fix does not restore", "fix-patience", func(w *world) { w.answered = during(w.plan, "broken", 0.89, 0.97) }, replays.Fail, "works in broken", replays.Fail, "0.89", ""},
		{"fix does not restore later", "fix-patience", func(w *world) { w.answered = during(w.plan, "after", 0.5, 0.97) }, replays.Fail, "works in after", replays.Fail, "0.5", ""},
		{"fix does not cure", "fix-patience", func(w *world) { w.open = during(w.plan, "broken", 12, 3) }, replays.Fail, "full in broken", replays.Fail, "12", ""},
		{"fix leaves less than it says", "fix-patience", func(w *world) { w.wait = constant(0.02) }, replays.Fail, "quick in broken", replays.Fail, "0.02", ""},
		{"left objective holds in one phase", "fix-patience", func(*world) {}, replays.Pass, "quick in before", replays.Pass, "0.02", ""},
		{"what a fix promises nothing of", "fix-patience", func(w *world) { w.errors = during(w.plan, "broken", 40, 0) }, replays.Pass, "noticed in broken", replays.Pass, "-", ""},
		{"lacked symptom of another trigger", "unfixed-on-death", func(w *world) { w.wait = during(w.plan, "broken", 0.3, 0.02) }, replays.Fail, "StoreIsSlow in broken", replays.Fail, "silent", ""},
		{"alert fires", "unfixed", func(*world) {}, replays.Pass, "StoreIsSlow in broken", replays.Pass, "fires after 0.75s", ""},
		{"alert without data", "healthy", hides("app_wait_seconds", -1, 99), replays.Unknown, "StoreIsSlow in before", replays.Unknown, "", "no samples match app_wait_seconds"},
		{"alert too late", "unfixed", func(w *world) {
			w.wait = func(t float64) float64 {
				if t > 6 && t <= 8 {
					return 1
				}
				return 0.02
			}
		}, replays.Fail, "StoreIsSlow in broken", replays.Fail, "silent", ""},
		{"alert fires where it should be silent", "unfixed", func(w *world) { w.wait = func(t float64) float64 { return 1 } }, replays.Fail, "StoreIsSlow in before", replays.Fail, "fires after 0.50s", ""},
		{"alert fires in the healthy arm", "healthy", func(w *world) { w.wait = during(w.plan, "broken", 0.6, 0.02) }, replays.Fail, "StoreIsSlow in broken", replays.Fail, "fires after 0.75s", ""},
		{"alert in a fix, of which nothing is said", "fix-patience", func(*world) {}, replays.Pass, "StoreIsSlow in broken", replays.Pass, "fires after 0.75s", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t, inc, tc.arm)
			tc.change(w)
			v := replays.JudgePlay(w.record())
			if v.Outcome != tc.want {
				t.Errorf("play is %s, want %s: %v, %s", v.Outcome, tc.want, v.Validity, unexpected(v))
			}
			if len(v.Validity) > 0 {
				t.Errorf("gates %v, want none", v.Validity)
			}
			check, phase, _ := strings.Cut(tc.check, " in ")
			n := slices.IndexFunc(v.Findings, func(f replays.Finding) bool {
				return f.Check == check && (phase == "" || f.Phase == phase)
			})
			if n < 0 {
				t.Fatalf("no finding of %s", tc.check)
			}
			f := v.Findings[n]
			if f.Outcome != tc.finding || tc.got != "-" && f.Got != tc.got || !strings.Contains(f.Reason, tc.reason) {
				t.Errorf("%s is %s, got %q, reason %q; want %s, got %q, reason %q", tc.check, f.Outcome, f.Got, f.Reason, tc.finding, tc.got, tc.reason)
			}
			if (f.Held == nil) != (f.Outcome == replays.Unknown) {
				t.Errorf("%s is %s, and held is %v", tc.check, f.Outcome, f.Held)
			}
		})
	}
}

// TestMissingRules holds that alerts are unknown without rules, not silent.
func TestMissingRules(t *testing.T) {
	r := newWorld(t, loadSmall(t), "healthy").record()
	r.Rules = nil
	v := replays.JudgePlay(r)
	for _, f := range v.Findings {
		if f.Kind == replays.KindAlert && (f.Outcome != replays.Unknown || f.Held != nil) {
			t.Errorf("alert %s in %s is %s, want unknown", f.Check, f.Phase, f.Outcome)
		}
	}
	if v.Outcome != replays.Unknown {
		t.Errorf("play is %s, want unknown", v.Outcome)
	}
}

// TestEmptyPlan holds that a play without checks proves nothing.
func TestEmptyPlan(t *testing.T) {
	w := newWorld(t, loadSmall(t), "healthy")
	w.plan.Checks, w.plan.Alerts = nil, nil
	if v := replays.JudgePlay(w.record()); v.Outcome != replays.Unknown {
		t.Errorf("play is %s, want unknown", v.Outcome)
	}
}

func TestMargin(t *testing.T) {
	inc := loadSmall(t)
	w := newWorld(t, inc, "unfixed")
	for _, f := range replays.JudgePlay(w.record()).Findings {
		if f.Kind == replays.KindAlert || f.Check == "outage" {
			continue
		}
		if f.Margin == nil {
			t.Errorf("%s in %s has no margin", f.Check, f.Phase)
		} else if *f.Margin < 0 == *f.Held {
			t.Errorf("%s in %s: held %t with a margin of %g", f.Check, f.Phase, *f.Held, *f.Margin)
		}
	}
}
