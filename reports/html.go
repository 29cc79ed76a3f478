package reports

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"math"
	"net/url"
	"strings"
	"time"

	"relapse/replays"
)

var (
	//go:embed html.tmpl
	htmlTemplate string
	//go:embed html.css
	htmlCSS string
)

func init() {
	Register(Format{
		Name:    "html",
		Summary: "one self-contained page, to read, print or attach to a postmortem",
		Render:  renderHTML,
	})
}

// htmlFile is the page's name in its folder; an index links to it.
const htmlFile = "report.html"

// contentPolicy lets a page load nothing and run nothing, whatever a log line
// or an incident's file may hold.
const contentPolicy = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"

var htmlFuncs = template.FuncMap{
	"symbol":   symbol,
	"worst":    func(o any) replays.Outcome { return replays.Worst(replays.Outcome(fmt.Sprint(o))) },
	"seconds":  seconds,
	"bytes":    bytesText,
	"number":   number,
	"arm":      armName,
	"date":     dateText,
	"yes":      func(b *bool) bool { return b != nil && *b },
	"kofn":     kOfN,
	"plays":    func(n int) string { return plural(n, "play", "plays") },
	"paras":    paragraphs,
	"join":     func(s []string) string { return strings.Join(s, ", ") },
	"policy":   func() string { return contentPolicy },
	"css":      func() template.CSS { return template.CSS(themeCSS + htmlCSS) }, // embedded files of this package
	"web":      isWeb,
	"deciding": deciding,
	"at":       atText,
	"speed":    speedText,
	"owed":     owed,
	"on":       onText,
	"table":    func(caption string, rows []checkRow) checkTable { return checkTable{caption, rows} },
}

type checkTable struct {
	Caption string
	Rows    []checkRow
}

// owed says what an alert's finding asks for.
func owed(f replays.Finding) string {
	switch {
	case f.Expected == nil:
		return "nothing promised"
	case !*f.Expected:
		return "must be silent"
	}
	return orElse(f.Want, "must fire")
}

func speedText(speed float64) string {
	if speed == 1 {
		return "real time: a documented second is a second here"
	}
	return short(speed) + " documented seconds in each second here"
}

// atText writes a moment that may never have come.
func atText(s *float64) string {
	if s == nil {
		return "never"
	}
	return fmt.Sprintf("%.2f", *s)
}

// htmlPage adds to a page what only HTML shows of it.
type htmlPage struct {
	page
	Chart  figureView
	Others []figureView
}

// figureView is the charts of an arm with the same figures as a table.
type figureView struct {
	ID, Arm, Ref string
	Panels       []template.HTML
	Class        string // of its line
	RefClass     string
	Table        []statRow
	Events       []Event
}

// statRow is one series in one phase.
type statRow struct {
	Series, Phase string
	Subject, Ref  string
}

func renderHTML(r Report) ([]File, error) {
	t, err := template.New("report").Funcs(htmlFuncs).Parse(htmlTemplate)
	if err != nil {
		return nil, fmt.Errorf("parse the page's template: %w", err)
	}
	p := htmlPage{page: present(r)}
	if subject, ref, ok := mainTimelines(r.Timelines); ok {
		p.Chart = newFigureView("timeline", subject, ref)
		for i, other := range otherTimelines(r.Timelines) {
			p.Others = append(p.Others, newFigureView(fmt.Sprintf("arm%d", i+1), other.Timeline, other.ref))
		}
	}
	var b bytes.Buffer
	if err := t.Execute(&b, p); err != nil {
		return nil, fmt.Errorf("fill the page's template: %w", err)
	}
	return []File{{htmlFile, b.Bytes()}}, nil
}

// mainTimelines gives the arm that tells the incident, un-fixed where it was
// played, and the healthy arm to hold it against.
func mainTimelines(all []Timeline) (subject Timeline, ref *Timeline, ok bool) {
	if len(all) == 0 {
		return Timeline{}, nil, false
	}
	subject, ok = timeline(all, armUnfixed)
	if !ok {
		subject = all[0]
	}
	if h, has := timeline(all, armHealthy); has && subject.Arm != armHealthy {
		ref = &h
	}
	return subject, ref, true
}

// heldAgainst is an arm's timeline and the one to draw behind it.
type heldAgainst struct {
	Timeline
	ref *Timeline
}

// otherTimelines gives what mainTimelines does not: an un-fixed arm on another
// trigger is held against the healthy one, a fix against the un-fixed one.
func otherTimelines(all []Timeline) []heldAgainst {
	subject, healthy, _ := mainTimelines(all)
	var out []heldAgainst
	for _, t := range all {
		switch {
		case t.Arm == subject.Arm || t.Arm == armHealthy:
		case isUnfixed(t.Arm) && healthy != nil:
			out = append(out, heldAgainst{t, healthy})
		default:
			out = append(out, heldAgainst{t, &subject})
		}
	}
	return out
}

func newFigureView(id string, subject Timeline, ref *Timeline) figureView {
	v := figureView{ID: id, Arm: subject.Arm, Class: lineClass(subject.Arm, false), Events: subject.Events, Table: statTable(subject, ref)}
	if ref != nil {
		v.Ref, v.RefClass = ref.Arm, lineClass(ref.Arm, true)
	}
	for i, p := range chartOf(subject, ref, id) {
		// The panel's writer escapes every text that it is given.
		v.Panels = append(v.Panels, template.HTML(p.inline(fmt.Sprintf("%s-p%d", id, i))))
	}
	return v
}

// statTable says in words what the panels draw: each series in each phase.
func statTable(subject Timeline, ref *Timeline) []statRow {
	var rows []statRow
	for _, s := range subject.Series {
		for _, phase := range subject.Phases {
			row := statRow{Series: s.Name, Phase: phase.Name, Subject: statText(s, phase)}
			if ref != nil {
				for _, rs := range ref.Series {
					if rs.Name == s.Name {
						row.Ref = statText(rs, samePhase(ref.Phases, phase))
					}
				}
			}
			rows = append(rows, row)
		}
	}
	return rows
}

// samePhase finds a phase by its name; arms may time theirs differently.
func samePhase(phases []Span, want Span) Span {
	for _, p := range phases {
		if p.Name == want.Name {
			return p
		}
	}
	return Span{From: math.Inf(1)}
}

func statText(s Series, phase Span) string {
	st := stats(s, phase.From, phase.To)
	if st.n == 0 {
		return "no sample"
	}
	mean, low, high := inUnit(st.mean, s.Unit), inUnit(st.low, s.Unit), inUnit(st.high, s.Unit)
	if low == high {
		return mean
	}
	return fmt.Sprintf("%s (%s to %s)", mean, low, high)
}

func dateText(t time.Time) string {
	if t.IsZero() {
		return "not recorded"
	}
	return t.UTC().Format("2006-01-02 15:04:05 UTC")
}

// paragraphs parts a story where an empty line does.
func paragraphs(s string) []string {
	var out []string
	for p := range strings.SplitSeq(strings.ReplaceAll(s, "\r\n", "\n"), "\n\n") {
		if p = strings.TrimSpace(p); p != "" {
			out = append(out, p)
		}
	}
	return out
}

// isWeb says whether an address may become a link: nothing but http and https.
func isWeb(s string) bool {
	u, err := url.Parse(s)
	return err == nil && u.Host != "" && (u.Scheme == "http" || u.Scheme == "https")
}
