package main

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var goodRecord = filepath.Join("replays", "testdata", "records", "unfixed")

// badRecordPlace is the file of a record that a message is about, with what to do.
var badRecordPlace = regexp.MustCompile(`(?s)^relapse: (read the incident of record BAD: )?BAD(/[\w./-]+(:[0-9]+)?)?: (the record is damaged: .*(restore it from a copy, or play it anew|go on with verify)|not a record of a play: )`)

// TestBadRecords holds that whatever a record holds, the tool refuses it as bad input,
// in time, and says which file of it is not as a play left it.
func TestBadRecords(t *testing.T) {
	refuse(t, badRecords(t), goodRecord, "records.txt", badRecordPlace, "judge", "BAD")
}

// TestBadRecordsReported is the same of what is read for a report alone.
func TestBadRecordsReported(t *testing.T) {
	cases := []badInput{
		{name: "no incident", file: "incident/incident.yaml", change: os.Remove},
		{name: "an incident that is a link to itself", file: "incident/incident.yaml", change: func(path string) error {
			return replaced(path, os.Symlink("incident.yaml", path+".link"), path+".link")
		}},
		{name: "an incident of another kind", file: "incident/incident.yaml", new: "incident: x\n", whole: true},
		{name: "a topology of another kind", file: "incident/line/compose.yaml", new: "services: []\n", whole: true},
		{name: "no topology", file: "incident/line/compose.yaml", change: os.Remove, whole: true},
	}
	refuse(t, cases, goodRecord, "reports.txt", badRecordPlace, "report", "BAD")
}

// TestBadTested is the same of a configuration that a play tested.
func TestBadTested(t *testing.T) {
	const tested, matrix = "tested.json", "matrix.json"
	link := func(to string) func(path string) error {
		return func(path string) error { return os.Symlink(to, path) }
	}
	cases := []badInput{
		{name: "none", file: tested, change: func(string) error { return nil }},
		{name: "empty", file: tested},
		{name: "cut short", file: tested, new: `{"schema":`},
		{name: "a list", file: tested, new: "[]"},
		{name: "nothing in it", file: tested, new: "{}"},
		{name: "null", file: tested, new: "null"},
		{name: "of another schema", file: tested, new: `{"schema":"relapse-tested/99"}`},
		{name: "of another digest", file: tested, new: `{"schema":"relapse-tested/1","digest":"sha256:0","configuration":{"node a cpus":"1"}}`},
		{name: "a key twice", file: tested, new: `{"schema":"relapse-tested/1","schema":"relapse-tested/1"}`},
		{name: "a byte order mark", file: tested, new: "\xef\xbb\xbf{}"},
		{name: "UTF-16", file: tested, new: "\xff\xfe{\x00}\x00"},
		{name: "Latin-1", file: tested, new: "{\"arm\":\"caf\xe9\"}"},
		{name: "numbers for settings", file: tested, new: `{"configuration":{"node a cpus":1}}`},
		{name: "lists in lists", file: tested, new: `{"arm":` + strings.Repeat("[", 100_000)},
		{name: "50 MB", file: tested, change: func(path string) error {
			return errors.Join(os.WriteFile(path, nil, 0o644), os.Truncate(path, 50<<20))
		}},
		{name: "a folder", file: tested, change: func(path string) error { return os.Mkdir(path, 0o755) }},
		{name: "a link to itself", file: tested, change: link(tested)},
		{name: "a link to a device", file: tested, change: link("/dev/zero")},
		{name: "a matrix that is cut short", file: matrix, new: "{"},
		{name: "a play beside the run", file: matrix, new: `{"plays":["../bad"]}`},
		{name: "a play of the machine", file: matrix, new: `{"plays":["/etc"]}`},
	}
	place := regexp.MustCompile(`^relapse: (no tested configuration: )?BAD[\w./-]*: (the record is damaged|no tested configuration): `)
	refuse(t, cases, goodRecord, "tested.txt", place, "drift", "BAD", "account-service")
	refuse(t, []badInput{
		{name: "no such folder", file: "nowhere", change: func(string) error { return nil }},
		{name: "a link to itself", file: "nowhere", change: link("nowhere")},
	}, goodRecord, "tested-folders.txt", place, "drift", "BAD/nowhere", "account-service")
}

func badRecords(t *testing.T) []badInput {
	const plan, events, environment, samples, rules, matrix = "plan.json", "events.ndjson", "environment.json", "samples.om.gz", "incident/alerts.yaml", "matrix.json"
	journal := content(t, goodRecord, events)
	lines := strings.SplitAfter(journal, "\n")
	measured := unpacked(t, content(t, goodRecord, samples))
	packed := func(text string) string { return pack(t, text) }
	put := func(n int, line string) string {
		return strings.Join(slices.Concat(lines[:n], []string{line + "\n"}, lines[n:]), "")
	}
	type file struct{ name, content string }
	var cases []badInput
	whole := func(name string, files []file) {
		for _, f := range files {
			cases = append(cases, badInput{name: name + ": " + f.name, file: name, new: f.content})
		}
	}
	// Files of any kind.
	for _, name := range []string{plan, events, environment, samples, rules, matrix} {
		for _, c := range []struct {
			name   string
			change func(path string) error
		}{
			{"a folder", func(path string) error { return replaced(path, os.Mkdir(path+".made", 0o755), path+".made") }},
			{"a link to itself", func(path string) error {
				return replaced(path, os.Symlink(filepath.Base(path), path+".made"), path+".made")
			}},
			{"a link to a device", func(path string) error { return replaced(path, os.Symlink("/dev/zero", path+".made"), path+".made") }},
			{"300 MB", func(path string) error { return os.Truncate(path, 300<<20) }},
		} {
			cases = append(cases, badInput{name: name + ": " + c.name, file: name, change: func(path string) error {
				if name == matrix { // a record of one play has none
					if err := os.WriteFile(path, nil, 0o644); err != nil {
						return err
					}
				}
				return c.change(path)
			}})
		}
	}
	for _, name := range []string{plan, environment, matrix} {
		whole(name, []file{
			{"empty", ""},
			{"cut short", `{"incident":`},
			{"a list", "[]"},
			{"a text", `"small"`},
			{"a number beyond all numbers", `{"seconds":1e999}`},
			{"a number that is none", `{"seconds":NaN}`},
			{"a byte order mark", "\xef\xbb\xbf{}"},
			{"UTF-16", "\xff\xfe{\x00}\x00"},
			{"Latin-1", "{\"incident\":\"caf\xe9\"}"},
			{"a NUL byte", "{\x00}"},
			{"something behind it", "{}\n{}"},
			{"lists in lists", `{"incident":` + strings.Repeat("[", 100_000)},
		})
	}
	whole(plan, []file{{"null", "null"}, {"nothing in it", "{}"}})
	cases = append(cases, badValues(plan, []value{
		{"phases that are a mapping", `"phases": [`, `"phases": {}, "other": [`},
		{"a seed below zero", `"seed": 7`, `"seed": -7`},
		{"a seed beyond all numbers", `"seed": 7`, `"seed": 1e99`},
		{"a speed of a text", `"speed": 1`, `"speed": "fast"`},
		{"no incident", `"incident": "small"`, `"incident": ""`},
		{"an incident named by a path", `"incident": "small"`, `"incident": "../small"`},
		{"an arm named by a path", `"arm": "unfixed"`, `"arm": "../../unfixed"`},
		{"an arm with a name of 300 letters", `"arm": "unfixed"`, `"arm": "` + strings.Repeat("n", 300) + `"`},
		{"rules beside the record", `"rules": "alerts.yaml"`, `"rules": "../../alerts.yaml"`},
		{"rules of the machine", `"rules": "alerts.yaml"`, `"rules": "/etc/passwd"`},
		{"a key twice", `"seed": 7`, `"seed": 7, "seed": 8`},
		{"a key twice, further in", `"kind": "latency"`, `"kind": "latency", "kind": "loss"`},
		{"a phase without a name", `"name": "before"`, `"name": ""`},
		{"a phase twice", `"name": "after"`, `"name": "before"`},
		{"a phase that ends before it begins", `"end": 8`, `"end": 3`},
		{"a phase that begins below zero", `"start": 0`, `"start": -1`},
		{"a phase that begins in another", `"start": 8`, `"start": 6`},
		{"time between phases", `"start": 8`, `"start": 9`},
		{"a phase without an end", `"end": 12`, `"end": 1e300`},
		{"a phase of weeks", `"end": 12`, `"end": 1e7`},
		{"a settling time below zero", `"settle": 1`, `"settle": -1`},
		{"a settling time beyond the phase", `"settle": 1`, `"settle": 100`},
		{"a rate below zero", `"ask": 100`, `"ask": -100`},
		{"a fault below zero", `"condition": true,
      "start": 0`, `"condition": true,
      "start": -5`},
		{"a fault that ends after all", `"condition": true,
      "start": 0,
      "end": 12`, `"condition": true,
      "start": 0,
      "end": 1e12`},
		{"a fault twice", `"name": "slow"`, `"name": "narrow"`},
		{"a check of an unknown kind", `"kind": "symptom"`, `"kind": "smyptom"`},
		{"a check without an id", `"id": "waits"`, `"id": ""`},
		{"a check that holds in an unknown way", `"holds": "over"`, `"holds": "sometimes"`},
		{"a check that holds below zero", `"within": 2`, `"within": -2`},
		{"a check that holds beyond all time", `"within": 2`, `"within": 1e300`},
		{"a check that settles below zero", `"broken": 1`, `"broken": -1e9`},
		{"a surge below zero", `"times": 2`, `"times": -2`},
	})...)
	whole(events, []file{
		{"a line that is no JSON", put(3, "x")},
		{"an empty line", put(3, "")},
		{"null", put(3, "null")},
		{"a list", put(3, "[]")},
		{"an event without a name", put(3, `{"t":3}`)},
		{"a time that is a text", put(3, `{"t":"3","event":"started"}`)},
		{"a time that is no number", put(3, `{"t":NaN,"event":"started"}`)},
		{"a time beyond all numbers", put(3, `{"t":1e999,"event":"started"}`)},
		{"a key twice", put(3, `{"t":2.26,"t":9,"event":"started"}`)},
		{"a date of another age", put(len(lines)-1, `{"t":15,"at":"9999-12-31T23:59:59Z","event":"kept"}`)},
		{"no date", put(len(lines)-1, `{"t":15,"event":"kept"}`)},
		{"a date that is none", put(3, `{"t":3,"at":"yesterday","event":"started"}`)},
		{"a time below zero", `{"t":-1,"event":"starting"}` + "\n" + journal},
		{"a time that goes back", put(len(lines)-1, `{"t":0.5,"event":"stopped"}`)},
		{"a byte order mark", "\xef\xbb\xbf" + journal},
		{"UTF-16", "\xff\xfe" + strings.Join(strings.Split(journal, ""), "\x00")},
		{"Latin-1", put(3, "{\"t\":3,\"event\":\"caf\xe9\"}")},
		{"a NUL byte", put(3, "\x00")},
		{"a line of 17 MB", put(3, strings.Repeat("x", 17<<20))},
		{"lists in lists", put(3, strings.Repeat("[", 100_000))},
	})
	cases = append(cases, badInput{name: events + ": not there", file: events, change: os.Remove})
	cases = append(cases, badValues(environment, []value{
		{"a play that took less than nothing", `"seconds": 15.25`, `"seconds": -15.25`},
		{"seconds of a text", `"seconds": 15.25`, `"seconds": "15"`},
		{"a date that is none", `"started": "2026`, `"started": "someday`},
		{"rounds below zero", `"rounds": 48`, `"rounds": -48`},
		{"rounds that are no whole number", `"rounds": 48`, `"rounds": 4.8`},
		{"failures below zero", `"failed": 0`, `"failed": -1`},
		{"a gap below zero", `"worst_gap": 0.26`, `"worst_gap": -1`},
		{"a target without a name", `"node": "players"`, `"node": ""`},
		{"memory below zero", `"memory": 0`, `"memory": -1`},
	})...)
	sample := func(line string) string { return packed("a 1 1.000\n" + line + "\n# EOF\n") }
	archive := content(t, goodRecord, samples)
	whole(samples, []file{
		{"empty", ""},
		{"not packed", measured},
		{"cut short", archive[:len(archive)/2]},
		{"without its last bytes", archive[:len(archive)-4]},
		{"something behind it", archive + "x"},
		{"packed twice", packed(archive)},
		{"no samples", packed("")},
		{"a text that was cut short", packed(measured[:len(measured)/2])},
		{"a text without its end", packed(strings.TrimSuffix(measured, "# EOF\n"))},
		{"more behind the end", packed(measured + "a 1 1.000\n# EOF\n")},
		{"16 MB of nothing", packed(strings.Repeat("\x00", 16<<20))},
		{"a series with a name of 2 MB", packed(strings.Repeat("a", 2<<20) + " 1 1.000\n# EOF\n")},
		{"a sample without a time", sample("b 1")},
		{"a time that is no number", sample("b 1 NaN")},
		{"an endless time", sample("b 1 +Inf")},
		{"a time beyond all time", sample("b 1 1e300")},
		{"a time below zero", sample("b 1 -1.000")},
		{"a time that goes back", sample("a 1 0.500")},
		{"a time twice", sample("a 2 1.000")},
		{"a value that is no number", sample("b x 1.000")},
		{"a name in quotes", sample(`{"b c"} 1 1.000`)},
		{"a series without a name", sample(`{node="x"} 1 1.000`)},
		{"a series of brackets alone", sample(`{} 1 1.000`)},
		{"a label twice", sample(`b{node="x",node="y"} 1 1.000`)},
		{"a label that is not closed", sample(`b{node="x} 1 1.000`)},
		{"a label in Latin-1", sample("b{node=\"caf\xe9\"} 1 1.000")},
		{"an empty line", sample("")},
		{"UTF-16", packed("\xff\xfea\x00")},
		{"lines that end as on Windows", packed(strings.ReplaceAll(measured, "\n", "\r\n"))},
	})
	whole(rules, []file{
		{"empty", ""},
		{"a number", "7\n"},
		{"cut short", "groups:\n  - name: small\n    rules:\n      - alert: \"\n"},
		{"UTF-16", "\xff\xfeg\x00"},
		{"a wait below zero", "groups: [{name: a, rules: [{alert: b, expr: c > 1, for: -1s}]}]\n"},
	})
	cases = append(cases, badInput{name: rules + ": not there", file: rules, change: os.Remove})
	whole(matrix, []file{
		{"null", "null"},
		{"nothing in it", "{}"},
		{"no incident", `{"repeat":1}`},
		{"repeated below zero", `{"incident":"small","repeat":-1}`},
		{"repeated in parts", `{"incident":"small","repeat":1.5}`},
		{"repeated beyond all numbers", `{"incident":"small","repeat":1e99}`},
		{"a run that took less than nothing", `{"incident":"small","repeat":1,"seconds":-1}`},
		{"a play beside the run", `{"incident":"small","repeat":1,"plays":["../bad"]}`},
		{"a play of the machine", `{"incident":"small","repeat":1,"plays":["/etc"]}`},
		{"a play that is the run", `{"incident":"small","repeat":1,"plays":["."]}`},
		{"a play without a name", `{"incident":"small","repeat":1,"plays":[""]}`},
		{"a play that is not there", `{"incident":"small","repeat":1,"plays":["unfixed-1"]}`},
		{"a play that is a number", `{"incident":"small","repeat":1,"plays":[1]}`},
		{"a play that is a file", `{"incident":"small","repeat":1,"plays":["plan.json"]}`},
		{"a play that holds none", `{"incident":"small","repeat":1,"arms":["unfixed"],"plays":["incident"]}`},
		{"a play twice", `{"incident":"small","repeat":1,"plays":["incident","incident"]}`},
	})
	return cases
}

func pack(t *testing.T, text string) string {
	t.Helper()
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestSpeed)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(z, text); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func unpacked(t *testing.T, packed string) string {
	t.Helper()
	z, err := gzip.NewReader(strings.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(z)
	if err := errors.Join(err, z.Close()); err != nil {
		t.Fatal(err)
	}
	return string(text)
}
