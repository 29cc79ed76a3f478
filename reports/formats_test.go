package reports_test

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"relapse/replays"
	"relapse/reports"
)

var update = flag.Bool("update", false, "write the golden files anew")

// hostile is a line that would run, were it not shown as text.
const hostile = `"'><script>alert(1)</script><img src=x onerror=alert(2)> [x](javascript:alert(3)) ${7*7} {{.}} | & ]]>`

// reportsByName are the reports that every format is held to.
func reportsByName() map[string]reports.Report {
	unknown := sample()
	unknown.Timelines, unknown.Logs, unknown.Incident.Causes = nil, nil, nil
	unknown.Incident.Fixes = unknown.Incident.Fixes[:1]
	a := unknown.Verdict.Arms[1]
	a.Outcome, a.Passed, a.Unknown = replays.Unknown, 0, 3
	a.Validity = []replays.Gate{{Gate: "fault-in-effect", Reason: "cache-saturation was never seen in effect"}}
	a.Findings = []replays.Finding{{Check: "acct-06", Kind: replays.KindSymptom, Phase: "stall", Outcome: replays.Unknown, Expected: ptr(true), Query: qActive + " == 0", Want: "== 0", Reason: "no samples match haproxy_backend_active_servers"}}
	for i := range a.Runs {
		a.Runs[i].Outcome, a.Runs[i].Validity = replays.Unknown, a.Validity
	}
	unknown.Verdict.Arms = []replays.ArmVerdict{unknown.Verdict.Arms[0], a}
	unknown.Verdict.Outcome, unknown.Verdict.Reproduced = replays.Unknown, false
	unknown.Verdict.Reasons = []string{"arm unfixed is unknown in 3 of 3 plays: cache-saturation was never seen in effect"}
	return map[string]reports.Report{"sample": sample(), "unknown": resumed(unknown), "empty": {}, "together": together()}
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v; make it with -update", err)
	}
	if d := cmp.Diff(string(want), string(got)); d != "" {
		t.Errorf("%s differs (-want +got); if this is meant, -update:\n%s", path, d)
	}
}

func TestGoldens(t *testing.T) {
	for name, r := range reportsByName() {
		for _, f := range reports.Formats() {
			if f.Name == "json" && (name == "sample" || name == "together") {
				continue // long; tests read them back
			}
			t.Run(name+"/"+f.Name, func(t *testing.T) {
				files, err := f.Render(r)
				if err != nil {
					t.Fatal(err)
				}
				for _, file := range files {
					golden(t, name+"-"+file.Name, file.Data)
				}
			})
		}
	}
}

func TestFormatsAreThere(t *testing.T) {
	var names []string
	for _, f := range reports.Formats() {
		names = append(names, f.Name)
		if f.Summary == "" {
			t.Errorf("format %s has no summary", f.Name)
		}
	}
	if d := cmp.Diff([]string{"html", "json", "junit", "markdown"}, names); d != "" {
		t.Error(d)
	}
	if _, err := reports.Write(t.TempDir(), sample(), "html", "pdf"); !errors.Is(err, reports.ErrUnknownFormat) {
		t.Errorf("pdf: got %v, want ErrUnknownFormat", err)
	}
	if _, err := reports.Write(t.TempDir(), sample()); !errors.Is(err, reports.ErrUnknownFormat) {
		t.Errorf("no format: got %v, want ErrUnknownFormat", err)
	}
}

func TestNothingIsWrittenOfAHalfReport(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "out")
	if _, err := reports.Write(dir, sample(), "html", "pdf"); err == nil {
		t.Fatal("an unknown format passed")
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s was made before all formats were known: %v", dir, err)
	}
}

func TestRenderingIsPure(t *testing.T) {
	for _, f := range reports.Formats() {
		r := sample()
		first, err := f.Render(r)
		if err != nil {
			t.Fatal(err)
		}
		again, err := f.Render(r)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(first, again) {
			t.Errorf("%s: two renderings of one report differ", f.Name)
		}
		if d := cmp.Diff(sample(), r, cmpopts.EquateNaNs()); d != "" {
			t.Errorf("%s changes the report:\n%s", f.Name, d)
		}
	}
}

// poison puts a hostile line into every free text of a report: what logs said, names
// of nodes and arms, facts, queries and values.
func poison(v reflect.Value, line string) {
	switch v.Kind() {
	case reflect.Struct:
		if v.Type().PkgPath() == "time" {
			return
		}
		for i := range v.NumField() {
			switch v.Type().Field(i).Name {
			case "Kind", "Arm": // words of ours, by which a report is put in order
			default:
				poison(v.Field(i), line)
			}
		}
	case reflect.Slice:
		for i := range v.Len() {
			poison(v.Index(i), line)
		}
	case reflect.Pointer:
		if !v.IsNil() {
			poison(v.Elem(), line)
		}
	case reflect.String:
		if v.Type() == reflect.TypeFor[string]() {
			v.SetString(v.String() + line)
		}
	}
}

func poisoned(r reports.Report) reports.Report { return poisonedWith(r, hostile) }

func poisonedWith(r reports.Report, line string) reports.Report {
	poison(reflect.ValueOf(&r).Elem(), line)
	return r
}

func TestHostileTextIsShownAsText(t *testing.T) {
	fences := regexp.MustCompile("(?s)```.*?```")
	spans := regexp.MustCompile("`[^`]*`")
	for _, f := range reports.Formats() {
		files, err := f.Render(poisoned(resumed(sample())))
		more, moreErr := f.Render(poisoned(together()))
		ladder, ladderErr := f.Render(poisoned(rehearsal()))
		if err := errors.Join(err, moreErr, ladderErr); err != nil {
			t.Fatalf("%s: %v", f.Name, err)
		}
		for _, file := range slices.Concat(files, more, ladder) {
			body := string(file.Data)
			if strings.HasSuffix(file.Name, ".md") {
				body = spans.ReplaceAllString(fences.ReplaceAllString(body, ""), "")
				if strings.Contains(body, "[x](") {
					t.Errorf("%s: a link came through", file.Name)
				}
			}
			if f.Name != "json" && (strings.Contains(body, "<script") || strings.Contains(body, "<img")) {
				t.Errorf("%s: an element came through", file.Name)
			}
			if strings.HasSuffix(file.Name, ".svg") || strings.HasSuffix(file.Name, ".xml") {
				wellFormed(t, file)
			}
		}
	}
}

// breakingOut is several lines that would end what they are quoted in, and controls of
// a terminal.
const breakingOut = "\x1b]0;mine\x07\u202e x`` ``` ````\n```\n<script>alert(4)</script>\n[x](javascript:alert(5))\r\n# heading\n</pre></text>]]>-->"

// TestHostileLinesDoNotBreakOut holds that a text of several lines ends neither the
// block of code that it is quoted in nor an element, whichever text of a report it is.
func TestHostileLinesDoNotBreakOut(t *testing.T) {
	for _, f := range reports.Formats() {
		for _, r := range []reports.Report{resumed(sample()), together(), rehearsal()} {
			files, err := f.Render(poisonedWith(r, breakingOut))
			if err != nil {
				t.Fatalf("%s: %v", f.Name, err)
			}
			for _, file := range files {
				body := string(file.Data)
				switch filepath.Ext(file.Name) {
				case ".md":
					body = withoutCode(body)
					if strings.Contains(body, "[x](") || strings.Contains(body, "\n# heading") {
						t.Errorf("%s: markup came through", file.Name)
					}
				case ".svg", ".xml":
					wellFormed(t, file)
				case ".json":
					if !json.Valid(file.Data) {
						t.Errorf("%s is no JSON", file.Name)
					}
					continue
				}
				if strings.Contains(body, "<script") {
					t.Errorf("%s: an element came through", file.Name)
				}
			}
		}
	}
}

// withoutCode takes blocks and spans of code out of Markdown, each by as many backticks
// as it begins with.
func withoutCode(body string) string {
	var kept strings.Builder
	fence := "" // that the block began with
	for line := range strings.Lines(body) {
		ticks := line[:len(line)-len(strings.TrimLeft(line, "`"))]
		switch {
		case fence != "":
			if len(ticks) >= len(fence) && strings.TrimSpace(line) == ticks {
				fence = ""
			}
		case len(ticks) >= 3 && !strings.Contains(line[len(ticks):], "`"):
			fence = ticks
		default:
			kept.WriteString(withoutSpans(line))
		}
	}
	return kept.String()
}

func withoutSpans(line string) string {
	var kept strings.Builder
	run := func(from int) int { return len(line[from:]) - len(strings.TrimLeft(line[from:], "`")) }
next:
	for i := 0; i < len(line); {
		n := run(i)
		switch {
		case line[i] == '\\' && i+1 < len(line):
			kept.WriteString(line[i : i+2])
			i += 2
			continue
		case n == 0:
			kept.WriteByte(line[i])
			i++
			continue
		}
		for end := i + n; end < len(line); {
			closes := run(end)
			if closes == n {
				i = end + n
				continue next
			}
			end += max(closes, 1)
		}
		kept.WriteString(line[i : i+n])
		i += n
	}
	return kept.String()
}

func TestWithoutCode(t *testing.T) {
	for have, want := range map[string]string{
		"a `b` c ``d ` e`` f\n":           "a  c  f\n",
		"a \\`b \\` c\n":                  "a \\`b \\` c\n",
		"a `b\n":                          "a `b\n",
		"```text\na\n```\nb\n":            "b\n",
		"````text\na\n```\nb\n````\nc\n":  "c\n",
		"```text\na\n```x\nb\n`````\nc\n": "c\n",
	} {
		if got := withoutCode(have); got != want {
			t.Errorf("%q: have %q, want %q", have, got, want)
		}
	}
}

func wellFormed(t *testing.T, file reports.File) {
	t.Helper()
	d := xml.NewDecoder(bytes.NewReader(file.Data))
	for {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Errorf("%s is not well-formed: %v", file.Name, err)
			return
		}
	}
}

func TestControlCharactersDoNotBreakXML(t *testing.T) {
	r := sample()
	r.Verdict.Arms[0].Findings[0].Got = "\x00\x1b[31m\xff"
	r.Timelines[0].Series[0].Name = "\x00\x1b[31m\xff"
	for _, name := range []string{"junit", "markdown"} {
		f, err := reports.Lookup(name)
		if err != nil {
			t.Fatal(err)
		}
		files, err := f.Render(r)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			if !strings.HasSuffix(file.Name, ".md") {
				wellFormed(t, file)
			}
		}
	}
}

func TestJSONComesBackAsItWas(t *testing.T) {
	f, err := reports.Lookup("json")
	if err != nil {
		t.Fatal(err)
	}
	files, err := f.Render(sample())
	if err != nil {
		t.Fatal(err)
	}
	var got reports.Report
	if err := json.Unmarshal(files[0].Data, &got); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(sample(), got, cmpopts.EquateNaNs(), cmpopts.EquateEmpty()); d != "" {
		t.Error(d)
	}
}

// TestJUnitIsNeverGreenByOmission: a verdict that is no pass must show a red
// case, whatever its findings say.
func TestJUnitIsNeverGreenByOmission(t *testing.T) {
	f, err := reports.Lookup("junit")
	if err != nil {
		t.Fatal(err)
	}
	pass := replays.Finding{Check: "c", Outcome: replays.Pass, Expected: ptr(true), Held: ptr(true)}
	for _, test := range []struct {
		name             string
		have             replays.Verdict
		failures, errors string
	}{
		{"nothing", replays.Verdict{}, "0", "1"},
		{"failed by reasons alone", replays.Verdict{Outcome: replays.Fail, Arms: []replays.ArmVerdict{{Arm: "healthy", Outcome: replays.Pass, Findings: []replays.Finding{pass}}}}, "1", "0"},
		{"a passing arm without a finding", replays.Verdict{Outcome: replays.Pass, Arms: []replays.ArmVerdict{{Arm: "healthy", Outcome: replays.Pass}}}, "0", "1"},
		{"an arm that failed without a failing finding", replays.Verdict{Outcome: replays.Fail, Arms: []replays.ArmVerdict{{Arm: "healthy", Outcome: replays.Fail, Findings: []replays.Finding{pass}}}}, "2", "0"},
		{"an invalid arm", replays.Verdict{Outcome: replays.Unknown, Arms: []replays.ArmVerdict{{Arm: "healthy", Outcome: replays.Unknown, Validity: []replays.Gate{{Gate: "machine-quiet", Reason: "noise"}}}}}, "0", "2"},
		{"a vacuous check", replays.Verdict{Outcome: replays.Fail, Vacuous: []replays.Vacuous{{Check: "c"}}}, "2", "0"},
		{"a pass", replays.Verdict{Outcome: replays.Pass, Arms: []replays.ArmVerdict{{Arm: "healthy", Outcome: replays.Pass, Findings: []replays.Finding{pass}}}}, "0", "0"},
	} {
		files, err := f.Render(reports.Report{Verdict: test.have})
		if err != nil {
			t.Fatalf("%s: %v", test.name, err)
		}
		var got struct {
			Failures string `xml:"failures,attr"`
			Errors   string `xml:"errors,attr"`
		}
		if err := xml.Unmarshal(files[0].Data, &got); err != nil {
			t.Fatalf("%s: %v", test.name, err)
		}
		if got.Failures != test.failures || got.Errors != test.errors {
			t.Errorf("%s: got %s failures and %s errors, want %s and %s", test.name, got.Failures, got.Errors, test.failures, test.errors)
		}
	}
}

func TestHeadline(t *testing.T) {
	arms := func(os ...any) []replays.ArmVerdict {
		var out []replays.ArmVerdict
		for i := 0; i < len(os); i += 2 {
			out = append(out, replays.ArmVerdict{Arm: os[i].(string), Outcome: os[i+1].(replays.Outcome)})
		}
		return out
	}
	const pass, fail, unknown = replays.Pass, replays.Fail, replays.Unknown
	for _, test := range []struct {
		want string
		have replays.Verdict
	}{
		{"Nothing was played.", replays.Verdict{}},
		{"The un-fixed arm alone: as expected.", replays.Verdict{Outcome: pass, Arms: arms("unfixed", pass)}},
		{"1 of 2 arms as expected, 1 unknown; not asked whether it reproduces.", replays.Verdict{Arms: arms("unfixed", pass, "fix-a", unknown)}},
		{"Reproduced.", replays.Verdict{Reproduced: true, Arms: arms("healthy", pass, "unfixed", pass)}},
		{"Not reproduced.", replays.Verdict{Arms: arms("healthy", pass, "unfixed", fail)}},
		{"Not reproduced.", replays.Verdict{Arms: arms("healthy", pass, "unfixed", pass, "unfixed-on-b", fail)}},
		{"Unknown whether it reproduces.", replays.Verdict{Arms: arms("healthy", unknown, "unfixed", pass)}},
		{"Reproduced. The one fix holds.", replays.Verdict{Reproduced: true, Arms: arms("healthy", pass, "unfixed", pass, "fix-a", pass, "fix-a-under-b", pass, "fix-a-on-c", pass)}},
		{"Reproduced. 0 of 1 fix holds.", replays.Verdict{Reproduced: true, Arms: arms("healthy", pass, "unfixed", pass, "fix-a", pass, "fix-a-on-c", fail)}},
		{"Reproduced. All 2 fixes hold.", replays.Verdict{Reproduced: true, Arms: arms("healthy", pass, "unfixed", pass, "fix-a", pass, "fix-b-on-wheels", pass)}},
		{"Reproduced. 1 of 3 fixes holds, 1 unknown. 1 check proves nothing.", replays.Verdict{Reproduced: true, Arms: arms("healthy", pass, "unfixed", pass, "fix-a", pass, "fix-b", unknown, "fix-c-under-d", fail), Vacuous: make([]replays.Vacuous, 1)}},
	} {
		var b strings.Builder
		if err := reports.Summary(&b, test.have, false); err != nil {
			t.Fatal(err)
		}
		second := strings.Split(b.String(), "\n")[1]
		if _, got, _ := strings.Cut(second, "  "); got != test.want {
			t.Errorf("got  %s\nwant %s", got, test.want)
		}
	}
}

func TestSummary(t *testing.T) {
	for name, r := range reportsByName() {
		var plain, coloured bytes.Buffer
		if err := errors.Join(reports.Summary(&plain, r.Verdict, false), reports.Summary(&coloured, r.Verdict, true)); err != nil {
			t.Fatal(err)
		}
		golden(t, name+"-summary.txt", plain.Bytes())
		stripped := regexp.MustCompile("\x1b\\[[0-9;]*m").ReplaceAllString(coloured.String(), "")
		if d := cmp.Diff(plain.String(), stripped); d != "" {
			t.Errorf("%s: colour changes the text:\n%s", name, d)
		}
	}
	v := sample().Verdict
	v.Reasons = []string{"a log said \x1b[2J\x07\nand more"}
	var b strings.Builder
	if err := reports.Summary(&b, v, false); err != nil {
		t.Fatal(err)
	}
	if strings.ContainsAny(b.String(), "\x1b\x07") {
		t.Error("a control character reached the terminal")
	}
}
