package reports_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"relapse/replays"
	"relapse/reports"
)

const qQueue = `max by (node) (app_queue_seconds)`

// rehearsal is a ladder that one arm climbs to its top, that one does not, that one
// need not, and that was not read to its end in one; with an arm whose configuration
// has drifted.
func rehearsal() reports.Report {
	room := func(node string, at float64, got string, margin float64) *replays.LadderRoom {
		return &replays.LadderRoom{Metric: "queue-quick", Node: node, At: at, Got: got, Want: "<= 0.25", Margin: margin}
	}
	step := func(name string, players float64, state string, nearest *replays.LadderRoom) replays.LadderStep {
		return replays.LadderStep{Step: name, Players: players, Load: players / 10, State: state, Nearest: nearest}
	}
	stated := func(kind string, expected, held *bool, got, want string) replays.Finding {
		f := replays.Finding{Check: kind, Kind: kind, Says: "Every metric stays in its range", Phase: "step-250", Outcome: replays.Pass, Expected: expected, Held: held, Got: got, Want: want}
		switch {
		case held == nil:
			f.Outcome, f.Reason = replays.Unknown, got
		case expected != nil && *expected != *held:
			f.Outcome = replays.Fail
		}
		return f
	}
	const top = "clean up to step-250"
	queue := func(got float64) replays.Finding {
		return finding("queue-quick", replays.KindObjective, "step-62", qQueue, "<=", got, 0.25, true)
	}

	clean := arm("healthy", "health", "Nothing triggers the incident", 1, 1, 30.2, []replays.Finding{queue(0.09), stated(replays.KindLadder, ptr(true), ptr(true), top, top)})
	clean.Faults = nil
	clean.Ladder = &replays.LadderVerdict{Clean: "step-250", Steps: []replays.LadderStep{
		step("step-62", 62, replays.StepClean, room("party", 3.5, "0.05", 0.8)),
		step("step-125", 125, replays.StepClean, room("party", 12.25, "0.11", 0.56)),
		step("step-250", 250, replays.StepClean, room("matchmaking", 21.75, "0.22", 0.12)),
	}}

	breach := &replays.Breach{Step: "step-125", Metric: "queue-quick", At: 12.25, Into: 4.25, Node: "matchmaking", Series: `{node="matchmaking"}`, Got: "0.31", Want: "<= 0.25"}
	broken := arm("fix-cache", "cured", "Keep what is asked for often", 0, 1, 30.4, []replays.Finding{queue(0.1), stated(replays.KindLadder, ptr(true), ptr(false), "clean up to step-62; "+breach.String(), top)})
	broken.Ladder = &replays.LadderVerdict{Clean: "step-62", Breach: breach, Ignored: "what was played after 12.25 s, with all of step-250", Steps: []replays.LadderStep{
		step("step-62", 62, replays.StepClean, room("party", 3.5, "0.05", 0.8)),
		step("step-125", 125, replays.StepBreached, room("matchmaking", 12.25, "0.31", -0.24)),
		step("step-250", 250, replays.StepNotReached, nil),
	}}

	missing := &replays.Breach{Step: "step-62", At: 2.5, Into: 2.5, Node: "store", Missing: true, Reason: "it gave none from 2.50 s to 7.50 s"}
	unfixed := arm("unfixed", "outage", "The incident as documented", 1, 1, 30.3, []replays.Finding{queue(0.4), stated(replays.KindLadder, nil, ptr(false), missing.String(), top),
		stated(replays.KindDrift, ptr(true), ptr(true), "node store mem_limit: tested 67108864, deployed nothing", "another configuration than arm healthy's")})
	unfixed.Ladder = &replays.LadderVerdict{Breach: missing, Ignored: "what was played after 2.50 s, with all of step-125, step-250",
		Drift: []replays.Difference{{Setting: "node store mem_limit", Tested: ptr("67108864")}, {Setting: "node store environment MODE", Tested: ptr("")}},
		Steps: []replays.LadderStep{
			step("step-62", 62, replays.StepBreached, nil),
			step("step-125", 125, replays.StepNotReached, nil),
			step("step-250", 250, replays.StepNotReached, nil),
		}}

	blind := arm("without-cache", "cured", "There is no cache", 1, 1, 30.1, []replays.Finding{queue(0.1), stated(replays.KindLadder, ptr(true), nil, "step step-125: the play ended before it did", top)})
	blind.Ladder = &replays.LadderVerdict{Clean: "step-62", Unknown: "step step-125: the play ended before it did", Steps: []replays.LadderStep{
		step("step-62", 0, replays.StepClean, nil),
		step("step-125", 0, replays.StepUnknown, nil),
		step("step-250", 0, replays.StepNotReached, nil),
	}}
	return reports.Report{
		Incident: reports.IncidentInfo{
			Name: "launch", Title: "A platform before its launch", Story: "It was rehearsed.", Source: reports.Source{Publisher: "Riot Games", Date: "2020-06-02"},
			Checks: []reports.CheckInfo{{ID: "queue-quick", Kind: replays.KindObjective, Says: "Queues are quick", During: "step-62, step-125, step-250", Query: qQueue + " <= 0.25"}},
			Ladder: &reports.LadderInfo{Says: "Players double until a metric leaves its range", Metrics: []string{"queue-quick"}, Clean: []string{"healthy", "fix-cache"}},
		},
		Verdict: replays.Verdict{Incident: "launch", Title: "A platform before its launch", Outcome: replays.Fail, Arms: []replays.ArmVerdict{clean, unfixed, blind, broken},
			Reasons: []string{"arm fix-cache fails in 1 of 1 plays: ladder should hold during step-125"}},
		Command: "relapse verify launch --repeat 1 --seed 1",
	}
}

// TestLadderIsTold holds what a reader must find in each format.
func TestLadderIsTold(t *testing.T) {
	const breach = "clean up to step-62, 62 players; step-125 breached 4.25 s in by queue-quick of matchmaking: 0.31, want <= 0.25"
	for name, wants := range map[string][]string{
		"markdown": {
			"## How far the load went", "Players double until a metric leaves its range",
			"`healthy` **✓ pass** stated: clean up to step-250: clean up to step-250, 250 players, the top",
			"| `step-250` | 250 | 25/s | ✓ clean | queue-quick of matchmaking | 0.22 ≤ 0.25 | 12 % to spare |",
			"`fix-cache` **✗ fail** stated: clean up to step-250: " + strings.ReplaceAll(breach, "<=", "&lt;="),
			"| `step-125` | 125 | 12.5/s | ✗ breached | queue-quick of matchmaking | 0.31 not ≤ 0.25 | 24 % short |",
			"| `step-250` | 250 | 25/s | – not reached | – | – | – |",
			"Not looked at: what was played after 12.25 s, with all of step-250.",
			"`unfixed` nothing stated: no step was clean; step-62 breached 2.50 s in by samples of store: missing: it gave none from 2.50 s to 7.50 s",
			"| `step-62` | 62 | 6.2/s | ✗ breached | samples of store | missing: it gave none from 2.50 s to 7.50 s | – |",
			"**✓ pass** Its configuration, stated: otherwise than it was tested",
			"| `node store mem_limit` | `67108864` | `–` |", "| `node store environment MODE` | `\"\"` | `–` |",
			"`without-cache` **? unknown** stated: clean up to step-250: clean up to step-62; then not known: step step-125: the play ended before it did",
			"| `step-125` | – | 0/s | ? unknown | – | – | – |",
			"The load rehearsal of the healthy arm: clean up to step-250, 250 players, the top.",
		},
		"html": {
			`<a href="#ladder">Ladder</a>`, `<h2 id="ladder-h">How far the load went</h2>`,
			`<th scope="row"><span class="id">step-125</span></th><td data-label="Players" class="num">125</td><td data-label="Load" class="num">12.5/s</td><td data-label="State">✗ breached</td><td data-label="Nearest metric">queue-quick of matchmaking</td>`,
			`<td data-label="Tested" class="id">67108864</td><td data-label="Here" class="id">–</td>`,
		},
		"junit": {
			`<property name="ladder" value="clean up to step-250, 250 players, the top"></property>`,
			`<testcase name="ladder ladder during step-250" classname="launch.fix-cache">`,
		},
		"json": {`"clean":"step-62","breach":{"step":"step-125","metric":"queue-quick","at":12.25,"into":4.25,"node":"matchmaking"`},
	} {
		f, err := reports.Lookup(name)
		if err != nil {
			t.Fatal(err)
		}
		files, err := f.Render(rehearsal())
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range wants {
			if !strings.Contains(string(files[0].Data), want) {
				t.Errorf("%s does not show %s", name, want)
			}
		}
		files, err = f.Render(sample())
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(files[0].Data), "How far the load went") {
			t.Errorf("%s tells of a ladder where there is none", name)
		}
	}
}

// TestLadderOnTheTerminal holds that each arm is told of, and step by step those
// that must be clean.
func TestLadderOnTheTerminal(t *testing.T) {
	var b strings.Builder
	if err := reports.Summary(&b, rehearsal().Verdict, false); err != nil {
		t.Fatal(err)
	}
	_, told, _ := strings.Cut(b.String(), "How far the load went\n")
	told, _, _ = strings.Cut(told, "\nWhy it is not a pass")
	want := `healthy  ✓ pass  clean up to step-250, 250 players, the top
STEP      PLAYERS  LOAD    STATE    NEAREST METRIC              GOT          ROOM
step-62        62  6.2/s   ✓ clean  queue-quick of party        0.05 ≤ 0.25  80 % to spare
step-125      125  12.5/s  ✓ clean  queue-quick of party        0.11 ≤ 0.25  56 % to spare
step-250      250  25/s    ✓ clean  queue-quick of matchmaking  0.22 ≤ 0.25  12 % to spare
un-fixed  nothing stated  no step was clean; step-62 breached 2.50 s in by samples of store: missing: it gave none from 2.50 s to 7.50 s
  not looked at: what was played after 2.50 s, with all of step-125, step-250
  configuration ✓ pass, stated: otherwise than it was tested
    node store mem_limit: tested 67108864, here –
    node store environment MODE: tested "", here –
without-cache  ? unknown  clean up to step-62; then not known: step step-125: the play ended before it did
STEP      PLAYERS  LOAD  STATE          NEAREST METRIC  GOT  ROOM
step-62         –  0/s   ✓ clean        –               –    –
step-125        –  0/s   ? unknown      –               –    –
step-250        –  0/s   – not reached  –               –    –
fix-cache  ✗ fail  clean up to step-62, 62 players; step-125 breached 4.25 s in by queue-quick of matchmaking: 0.31, want <= 0.25
STEP      PLAYERS  LOAD    STATE          NEAREST METRIC              GOT              ROOM
step-62        62  6.2/s   ✓ clean        queue-quick of party        0.05 ≤ 0.25      80 % to spare
step-125      125  12.5/s  ✗ breached     queue-quick of matchmaking  0.31 not ≤ 0.25  24 % short
step-250      250  25/s    – not reached  –                           –                –
  not looked at: what was played after 12.25 s, with all of step-250
`
	if d := cmp.Diff(want, told); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func TestLadderComesBackAsItWas(t *testing.T) {
	f, err := reports.Lookup("json")
	if err != nil {
		t.Fatal(err)
	}
	files, err := f.Render(rehearsal())
	if err != nil {
		t.Fatal(err)
	}
	var got reports.Report
	if err := json.Unmarshal(files[0].Data, &got); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(rehearsal(), got, cmpopts.EquateEmpty()); d != "" {
		t.Error(d)
	}
}
