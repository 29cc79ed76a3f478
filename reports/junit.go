package reports

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"slices"
	"strings"

	"relapse/replays"
)

func init() {
	Register(Format{
		Name:    "junit",
		Summary: "JUnit XML for CI: a suite for each arm, a case for each finding",
		Render:  renderJUnit,
	})
}

type junitSuites struct {
	XMLName  xml.Name     `xml:"testsuites"`
	Name     string       `xml:"name,attr"`
	Tests    int          `xml:"tests,attr"`
	Failures int          `xml:"failures,attr"`
	Errors   int          `xml:"errors,attr"`
	Skipped  int          `xml:"skipped,attr"`
	Time     string       `xml:"time,attr"`
	Suites   []junitSuite `xml:"testsuite"`
}

type junitSuite struct {
	Name       string          `xml:"name,attr"`
	Tests      int             `xml:"tests,attr"`
	Failures   int             `xml:"failures,attr"`
	Errors     int             `xml:"errors,attr"`
	Skipped    int             `xml:"skipped,attr"`
	Time       string          `xml:"time,attr"`
	Timestamp  string          `xml:"timestamp,attr,omitempty"`
	Properties []junitProperty `xml:"properties>property"`
	Cases      []junitCase     `xml:"testcase"`
}

type junitProperty struct {
	Name  string `xml:"name,attr"`
	Value string `xml:"value,attr"`
}

type junitCase struct {
	Name    string     `xml:"name,attr"`
	Class   string     `xml:"classname,attr"`
	Failure *junitText `xml:"failure"`
	Error   *junitText `xml:"error"`
	Skipped *junitText `xml:"skipped"`
}

type junitText struct {
	Message string `xml:"message,attr"`
	Type    string `xml:"type,attr,omitempty"`
	Text    string `xml:",chardata"`
}

// renderJUnit maps the three outcomes to what JUnit has: a failure is that the
// system did not do as it should, an error that nothing can be said. Whatever
// makes the verdict anything but a pass fails a case of its own, so that a file
// without a red case is a pass.
func renderJUnit(r Report) ([]File, error) {
	v := r.Verdict
	name := orElse(v.Incident, orElse(r.Incident.Name, "unnamed"))
	all := junitSuites{Name: "relapse " + name, Time: fmt.Sprintf("%.3f", v.Timing.Total)}

	incident := junitSuite{Name: name, Properties: []junitProperty{
		{"title", v.Title}, {"reproduced", fmt.Sprint(v.Reproduced)}, {"record", v.Record}, {"again", r.Command},
		{"tool", r.Environment.Tool}, {"commit", r.Environment.Commit}, {"dirty", fmt.Sprint(r.Environment.Dirty)}, {"seed", fmt.Sprint(r.Environment.Seed)},
	}}
	incident.Cases = append(incident.Cases, verdictCase("verdict", name, v.Outcome, headline(v, verdictFixes(v)), strings.Join(v.Reasons, "\n")))
	for _, c := range v.Vacuous {
		incident.Cases = append(incident.Cases, verdictCase("not vacuous: "+c.Check, name, replays.Fail,
			fmt.Sprintf("%s %s came out the same in every arm: it proves nothing", c.Kind, c.Check), ""))
	}
	incident.Cases = append(incident.Cases, combinationCases(name, v)...)
	all.Suites = append(all.Suites, incident)
	for _, a := range v.Arms {
		all.Suites = append(all.Suites, armSuite(name, a))
	}
	for i := range all.Suites {
		s := &all.Suites[i]
		if !r.Environment.Date.IsZero() {
			s.Timestamp = r.Environment.Date.UTC().Format("2006-01-02T15:04:05")
		}
		s.Time = orElse(s.Time, "0.000")
		s.count()
		all.Tests, all.Failures = all.Tests+s.Tests, all.Failures+s.Failures
		all.Errors, all.Skipped = all.Errors+s.Errors, all.Skipped+s.Skipped
	}
	var b bytes.Buffer
	b.WriteString(xml.Header)
	enc := xml.NewEncoder(&b)
	enc.Indent("", "  ")
	if err := enc.Encode(all); err != nil {
		return nil, err
	}
	b.WriteByte('\n')
	return []File{{"report.junit.xml", b.Bytes()}}, nil
}

func (s *junitSuite) count() {
	for _, c := range s.Cases {
		s.Tests++
		switch {
		case c.Failure != nil:
			s.Failures++
		case c.Error != nil:
			s.Errors++
		case c.Skipped != nil:
			s.Skipped++
		}
	}
}

func armSuite(incident string, a replays.ArmVerdict) junitSuite {
	class := incident + "." + a.Arm
	s := junitSuite{Name: class, Time: fmt.Sprintf("%.3f", a.Seconds), Properties: []junitProperty{
		{"expected", a.Expected}, {"says", a.Says}, {"plays", kOfN(a)},
		{"passed", fmt.Sprint(a.Passed)}, {"failed", fmt.Sprint(a.Failed)}, {"unknown", fmt.Sprint(a.Unknown)},
	}}
	for i, p := range a.Runs {
		s.Properties = append(s.Properties, junitProperty{fmt.Sprintf("play-%d", i+1), fmt.Sprintf("%s, seed %d, %.1f s, %s", replays.Worst(p.Outcome), p.Seed, p.Seconds, p.Record)})
		for _, g := range p.Validity {
			s.Properties = append(s.Properties, junitProperty{fmt.Sprintf("play-%d-validity", i+1), g.Gate + ": " + g.Reason})
		}
	}
	if c := a.Class; c != nil {
		s.Properties = append(s.Properties, junitProperty{"class", string(c.Is)})
		for i, e := range c.Evidence {
			s.Properties = append(s.Properties, junitProperty{fmt.Sprintf("class-evidence-%d", i+1), e})
		}
	}
	if l := a.Ladder; l != nil {
		s.Properties = append(s.Properties, junitProperty{"ladder", ladderResult(l)})
	}
	red := false
	for _, f := range a.Findings {
		c := findingCase(class, f)
		red = red || c.Failure != nil || c.Error != nil
		s.Cases = append(s.Cases, c)
	}
	if len(a.Validity) > 0 {
		var lines []string
		for _, g := range a.Validity {
			lines = append(lines, g.Gate+": "+g.Reason)
		}
		s.Cases = append(s.Cases, verdictCase("validity", class, replays.Unknown, lines[0], strings.Join(lines, "\n")))
		red = true
	}
	if !red && (replays.Worst(a.Outcome) != replays.Pass || len(a.Findings) == 0) {
		o := replays.Worst(a.Outcome)
		if o == replays.Pass { // nothing was checked
			o = replays.Unknown
		}
		s.Cases = append(s.Cases, verdictCase("arm", class, o, kOfN(a)+" plays: "+deciding(a), ""))
	}
	return s
}

// combinationCases are the cells of the table of combined causes: only with all of
// them should it be an outage.
func combinationCases(class string, v replays.Verdict) []junitCase {
	t := newCombinationTable(v)
	if t == nil {
		return nil
	}
	var cases []junitCase
	for n, row := range t.Rows {
		var on []string
		for i, there := range row.On {
			on = append(on, t.Causes[i]+" "+onText(there))
		}
		message := fmt.Sprintf("%s: %s: %s", strings.Join(on, ", "), row.Outage, strings.TrimPrefix(row.Check+" "+row.Got, unjudged+" "))
		c := verdictCase("combination "+row.Arm, class, row.Outcome, message, "")
		if played := slices.ContainsFunc(v.Arms, func(a replays.ArmVerdict) bool { return a.Arm == row.Arm }); !played {
			c = junitCase{Name: c.Name, Class: class, Skipped: &junitText{Message: v.Combinations[n].Reason}}
		}
		cases = append(cases, c)
	}
	return cases
}

func verdictCase(name, class string, o replays.Outcome, message, text string) junitCase {
	c := junitCase{Name: name, Class: class}
	switch replays.Worst(o) {
	case replays.Fail:
		c.Failure = &junitText{Message: message, Type: "fail", Text: text}
	case replays.Unknown:
		c.Error = &junitText{Message: message, Type: "unknown", Text: text}
	}
	return c
}

func findingCase(class string, f replays.Finding) junitCase {
	name := f.Kind + " " + f.Check
	if f.Phase != "" {
		name += " during " + f.Phase
	}
	text := fmt.Sprintf("%s\ngot:   %s\nwant:  %s\nquery: %s", f.Says, f.Got, f.Want, f.Query)
	if f.Reason != "" {
		text += "\nreason: " + f.Reason
	}
	c := verdictCase(name, class, f.Outcome, findingText(f), text)
	if f.Expected == nil && c.Failure == nil && c.Error == nil {
		c.Skipped = &junitText{Message: "this arm promises nothing about it; " + findingText(f)}
	}
	return c
}
