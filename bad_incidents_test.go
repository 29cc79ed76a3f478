package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// In the folder of a small incident that is good.
const (
	goodIncident = "incident.yaml"
	goodRules    = "alerts.yaml"
	goodCompose  = "line/compose.yaml"
	goodOverlay  = "line/overlays/patient.yaml"
)

var smallIncident = filepath.Join("replays", "testdata", "small")

// badPlace is where a message about a file of an incident says what is wrong.
var badPlace = regexp.MustCompile(`(?m)(^relapse: |: )BAD/[\w./-]+:[0-9]+:[0-9]+: `)

// TestBadIncidents holds that whatever an incident's folder holds, the tool refuses
// it as bad input, in time, and says where and what to do.
func TestBadIncidents(t *testing.T) {
	refuse(t, badIncidents(t), smallIncident, "incidents.txt", badPlace, "show", "BAD")
}

// TestBadRules is the same of alert rules.
func TestBadRules(t *testing.T) {
	text := content(t, smallIncident, goodRules)
	cases := slices.Concat(otherBytes(goodRules, text), otherYAML(goodRules, text), badValues(goodRules, []value{
		{"groups of a text", "groups:\n", "groups: x\nmore:\n"},
		{"a group without a name", "  - name: small\n    rules:", "  - rules:"},
		{"a wait below zero", "for: 500ms", "for: -1s"},
		{"a wait without a unit", "for: 500ms", "for: 500"},
		{"a wait beyond all time", "for: 500ms", "for: 9999999999y"},
		{"a wait that is a list", "for: 500ms", "for: [1s]"},
		{"a wait in parts of a unit", "for: 500ms", "for: 1.5s"},
		{"an alert and a record", "alert: StoreIsSlow", "alert: StoreIsSlow\n        record: store:slow"},
		{"neither alert nor record", "alert: StoreIsSlow", "labels: {a: b}"},
		{"no expression", "        expr: app_wait_seconds > 0.5\n", ""},
		{"an expression that is not closed", "app_wait_seconds > 0.5", "sum(app_wait_seconds"},
		{"an expression of a mapping", "app_wait_seconds > 0.5", "{a: b}"},
		{"a range beyond all time", "app_wait_seconds > 0.5", "rate(app_wait_seconds[9999999999y]) > 1"},
		{"a label that is no name", "for: 500ms", "labels: {\"\": c}"},
		{"a template that is not closed", "for: 500ms", "annotations: {summary: \"{{ $labels.node\"}"},
		{"an unknown field of a rule", "for: 500ms", "fro: 500ms"},
		{"a number of rules", "for: 500ms", "for: 500ms\n    limit: many"},
	}))
	refuse(t, cases, smallIncident, "rules.txt", badPlace, "show", "BAD")
}

// value is one text of a file and what it is replaced by.
type value struct{ name, old, new string }

func badValues(file string, values []value) []badInput {
	var out []badInput
	for _, v := range values {
		out = append(out, badInput{name: file + ": " + v.name, file: file, old: v.old, new: v.new})
	}
	return out
}

func content(t *testing.T, dir, file string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(file)))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func badIncidents(t *testing.T) []badInput {
	text := content(t, smallIncident, goodIncident)
	long := strings.Repeat("n", 300)
	cases := slices.Concat(otherBytes(goodIncident, text), otherYAML(goodIncident, text), badValues(goodIncident, []value{
		// Wrong types.
		{"a title that is a list", "title: A small", "title: [x]\nstory: A small"},
		{"a source that is a text", "source: {publisher: Us, date: 2018-02-04, document: postmortem.txt}", "source: x"},
		{"phases that are a mapping", "phases:\n", "phases: {a: b}\nmodelled:\n"},
		{"a phase that is a text", "{name: before, lasts: 4s, settle: 1s}", "before"},
		{"faults of a phase that are a text", "faults: [slow, more]}", "faults: slow}"},
		{"traffic that is a list", "players: {ask: 100/s}", "[100/s]"},
		{"symptoms that are a mapping", "symptoms:\n", "symptoms: {a: b}\ncharts:\n"},
		{"a query that is a list", "query: app_open >= 10", "query: [app_open >= 10]"},
		{"a fault that is null", "slow: {kind: latency, links: [\"server -> store\"], latency: 1s}", "slow:"},
		{"a kind that is a list", "slow: {kind: latency", "slow: {kind: [latency]"},
		{"links that are a text", "links: [\"server -> store\"], latency", "links: server -> store, latency"},
		{"documented that is a number", "documented: true", "documented: 1"},
		{"necessary that is a text", "necessary: true", "necessary: \"yes\""},
		{"overlays that are a mapping", "{overlays: [patient]}", "{overlays: {patient: true}}"},
		// Units and numbers.
		{"a length without a unit", "{name: before, lasts: 4s", "{name: before, lasts: 4"},
		{"a length below zero", "{name: before, lasts: 4s", "{name: before, lasts: -4s"},
		{"a length of nothing", "{name: before, lasts: 4s", "{name: before, lasts: 0s"},
		{"a length in an unknown unit", "{name: before, lasts: 4s", "{name: before, lasts: 4parsecs"},
		{"a length beyond all time", "{name: before, lasts: 4s", "{name: before, lasts: 99999999999h"},
		{"the longest length there is", "{name: before, lasts: 4s", "{name: before, lasts: 2562047h"},
		{"a length that is no number", "{name: before, lasts: 4s", "{name: before, lasts: .nan"},
		{"an endless length", "{name: before, lasts: 4s", "{name: before, lasts: .inf"},
		{"a settling time below zero", "{name: before, lasts: 4s, settle: 1s}", "{name: before, lasts: 4s, settle: -1s}"},
		{"a settling time beyond the phase", "{name: before, lasts: 4s, settle: 1s}", "{name: before, lasts: 4s, settle: 1h}"},
		{"a rate without a unit", "ask: 100/s}", "ask: 100}"},
		{"a rate below zero", "ask: 100/s}", "ask: -100/s}"},
		{"a rate that is no number", "ask: 100/s}", "ask: NaN/s}"},
		{"an endless rate", "ask: 100/s}", "ask: Inf/s}"},
		{"a rate beyond all numbers", "ask: 100/s}", "ask: 1e999/s}"},
		{"a rate in an unknown unit", "ask: 100/s}", "ask: 100/fortnight}"},
		{"a rate of nothing", "ask: 100/s}", "ask: }"},
		{"a speed that is no number", "topology: line\n", "topology: line\nspeed: .nan\n"},
		{"an endless speed", "topology: line\n", "topology: line\nspeed: .inf\n"},
		{"a speed beyond all numbers", "topology: line\n", "topology: line\nspeed: 1e999\n"},
		{"a speed that nobody means", "topology: line\n", "topology: line\nspeed: 10000000\n"},
		{"a speed of a text", "topology: line\n", "topology: line\nspeed: fast\n"},
		{"a latency below zero", "latency: 1s}", "latency: -1s}"},
		{"a latency without a unit", "latency: 1s}", "latency: 1}"},
		{"a latency that is no number", "latency: 1s}", "latency: .nan}"},
		{"a latency beyond all time", "latency: 1s}", "latency: 99999999999h}"},
		{"a bandwidth below zero", "rate: 10Mbit", "rate: -10Mbit"},
		{"a bandwidth that is no number", "rate: 10Mbit", "rate: NaNMbit"},
		{"a bandwidth without a unit", "rate: 10Mbit", "rate: 10"},
		{"a bandwidth beyond all numbers", "rate: 10Mbit", "rate: 1e400Gbit"},
		{"a surge below zero", "times: 2", "times: -2"},
		{"a surge that is no number", "times: 2", "times: .nan"},
		{"an endless surge", "times: 2", "times: .inf"},
		{"a surge that nobody makes", "times: 2", "times: 1000000"},
		{"a load that is no number", "{traffic: {players: {ask: 150/s}}}", "{load: .nan}"},
		{"an endless load", "{traffic: {players: {ask: 150/s}}}", "{load: .inf}"},
		{"a way to hold below zero", "eventually within 2s", "eventually within -2s"},
		{"a way to hold beyond the phase", "eventually within 2s", "eventually within 99h"},
		{"an alert before its phase", "within: 2s}", "within: -2s}"},
		// Unknown names.
		{"an unknown fault in a phase", "faults: [slow, more]}", "faults: [slwo, more]}"},
		{"an unknown kind", "kind: latency", "kind: ltency"},
		{"an unknown link", "latency, links: [\"server -> store\"]", "latency, links: [\"server -> stroe\"]"},
		{"an unknown node", "nodes: [store]", "nodes: [stroe]"},
		{"an unknown phase of a check", "during: broken\n    query: min", "during: borken\n    query: min"},
		{"an unknown check that is restored", "restores: [works]\n", "restores: [wroks]\n"},
		{"an unknown trigger of a fix", "      death: {restores", "      daeth: {restores"},
		{"an unknown alert", "{alert: StoreIsSlow", "{alert: StoreIsSlwo"},
		{"an unknown overlay", "{overlays: [patient]}", "{overlays: [pateint]}"},
		{"an unknown topology", "topology: line", "topology: lien"},
		// Keys that are there twice.
		{"a phase's field twice", "{name: before, lasts: 4s", "{name: before, lasts: 4s, lasts: 5s"},
		{"a fault twice", "  dead: {kind: kill", "  slow: {kind: kill"},
		{"a rate twice", "players: {ask: 100/s}", "players: {ask: 100/s, ask: 50/s}"},
		{"a key twice, once in quotes", "title: A small", "\"title\": x\ntitle: A small"},
		// Names that lead elsewhere.
		{"an incident named by a path", "incident: small", "incident: ../small"},
		{"an incident named by two dots", "incident: small", "incident: .."},
		{"an incident with a name of 300 letters", "incident: small", "incident: " + long},
		{"a phase named by a path", "{name: before, lasts", "{name: ../before, lasts"},
		{"a fault named by a path", "  dead: {kind: kill", "  ../dead: {kind: kill"},
		{"a fix named by a path", "  patience:\n", "  ../../patience:\n"},
		{"a fix with a name of 300 letters", "  patience:\n", "  " + long + ":\n"},
		{"an arm with a name of 201 letters", "fixes:\n", "sweeps:\n  " + long[:100] + ":\n    says: x\n    steps:\n" +
			"      - {name: " + long[:100] + ", says: x, change: {load: 0.5}, outage: false}\n      - {name: b, says: y, outage: true}\nfixes:\n"},
		{"a challenge named by a path", "      crowd:\n", "      a/b:\n"},
		{"a trigger named by a path", "triggers:\n  death:\n", "triggers:\n  /etc/death:\n"},
		{"a check named by a path", "id: waits", "id: ../waits"},
		{"a topology beside the folder", "topology: line", "topology: ../line"},
		{"a topology by an absolute path", "topology: line", "topology: /line"},
		{"a topology that is the folder itself", "topology: line", "topology: ."},
		{"a topology with a slash behind", "topology: line", "topology: line/"},
		{"an overlay that is the base file", "{overlays: [patient]}", "{overlays: [../compose]}"},
		{"an overlay that is the incident", "{overlays: [patient]}", "{overlays: [../../incident]}"},
		{"an overlay by an absolute path", "{overlays: [patient]}", "{overlays: [/etc/passwd]}"},
		{"an overlay by a path to itself", "{overlays: [patient]}", "{overlays: [../overlays/patient]}"},
		{"rules beside the folder", "rules: alerts.yaml", "rules: ../alerts.yaml"},
		{"rules by an absolute path", "rules: alerts.yaml", "rules: /alerts.yaml"},
		{"rules of the machine", "rules: alerts.yaml", "rules: /etc/passwd"},
		{"rules that are the folder", "rules: alerts.yaml", "rules: ."},
		{"rules that are the incident", "rules: alerts.yaml", "rules: incident.yaml"},
		{"rules that are not there", "rules: alerts.yaml", "rules: nowhere.yaml"},
		// Queries.
		{"a query of 20 kB", "query: app_open >= 10", "query: app_open + " + strings.Repeat("1 + ", 5_000) + "1 >= 10"},
		{"a query with a thousand brackets", "query: app_open >= 10", "query: " + strings.Repeat("(", 1000) + "app_open" + strings.Repeat(")", 1000) + " >= 10"},
		{"a query that is not closed", "query: app_open >= 10", "query: sum(app_open >= 10"},
		{"a query over a range beyond all time", "app_errors_total[1s]", "app_errors_total[9999999999y]"},
		{"a query over a range of nothing", "app_errors_total[1s]", "app_errors_total[0s]"},
		{"a query over a range below zero", "app_errors_total[1s]", "app_errors_total[-1s]"},
		{"a query with an expression that does not end", "query: app_open >= 10", "query: 'app_open{node=~\"(((((a{1000}){1000}){1000}){1000})\"} >= 10'"},
	}))
	// What is missing altogether is told with the folder's name.
	missing := badInput{name: goodIncident + ": not there", file: goodIncident, change: os.Remove, whole: true}
	cases = append(cases, missing)
	return cases
}
