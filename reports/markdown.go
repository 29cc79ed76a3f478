package reports

import (
	"fmt"
	"regexp"
	"strings"

	"relapse/replays"
)

func init() {
	Register(Format{
		Name:    "markdown",
		Summary: "GitHub-flavoured text for a wiki or a pull request, charts beside it as SVG",
		Render:  renderMarkdown,
	})
}

// doc writes Markdown. Whatever is not written by this file goes through text,
// code or fence.
type doc struct{ strings.Builder }

func (d *doc) line(format string, args ...any) { fmt.Fprintf(d, format+"\n", args...) }

var (
	markup     = regexp.MustCompile("[\\\\`*_\\[\\]~|#$]")
	lineStart  = regexp.MustCompile(`^(\d*)([-+.)])(\s|$)`)
	underline  = regexp.MustCompile(`^[-=]+$`)
	backticks  = regexp.MustCompile("`+")
	whitespace = regexp.MustCompile(`\s+`)
)

// text shows free text as it is, on one line: no markup, no HTML, no mention of
// a user.
func text(s string) string {
	s = strings.TrimSpace(whitespace.ReplaceAllString(s, " "))
	s = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace(s)
	s = markup.ReplaceAllString(s, `\$0`)
	s = strings.ReplaceAll(s, "@", "@<!-- -->")
	s = underline.ReplaceAllString(s, `\$0`)
	return lineStart.ReplaceAllString(s, `$1\$2$3`)
}

// code shows a name, a query or a value. In a table a bar is escaped even there.
func code(s string) string {
	s = strings.TrimSpace(whitespace.ReplaceAllString(s, " "))
	if s == "" {
		return "–"
	}
	tick := "`"
	for _, run := range backticks.FindAllString(s, -1) {
		if len(run) >= len(tick) {
			tick = strings.Repeat("`", len(run)+1)
		}
	}
	if strings.HasPrefix(s, "`") || strings.HasSuffix(s, "`") {
		s = " " + s + " "
	}
	return tick + strings.ReplaceAll(s, "|", `\|`) + tick
}

func (d *doc) fence(lang string, lines ...string) {
	body := strings.TrimRight(strings.Join(lines, "\n"), "\n")
	tick := "```"
	for _, run := range backticks.FindAllString(body, -1) {
		if len(run) >= len(tick) {
			tick = strings.Repeat("`", len(run)+1)
		}
	}
	d.line("%s%s\n%s\n%s\n", tick, lang, body, tick)
}

// row writes a table's row; its cells are already Markdown.
func (d *doc) row(cells ...string) { d.line("| %s |", strings.Join(cells, " | ")) }

func (d *doc) head(cells ...string) {
	d.row(cells...)
	d.line("|%s", strings.Repeat(" --- |", len(cells)))
}

// none says that a section has nothing to tell, and no less.
func (d *doc) none(says string) { d.line("_%s_\n", says) }

func badge(o replays.Outcome) string { return "**" + outcomeText(o) + "**" }

func seenText(all []seen) string {
	var parts []string
	for _, s := range all {
		part := text(s.Phase) + " " + strings.TrimSpace("**"+text(orElse(s.Short, "nothing"))+"** "+text(s.Relation))
		if s.Held == nil {
			part = text(s.Phase) + " not seen: " + text(orElse(s.Reason, "no reason recorded"))
		} else if s.Expected != nil && *s.Expected != *s.Held {
			part += " ✗ unexpected"
		}
		parts = append(parts, strings.TrimSpace(part))
	}
	return orElse(strings.Join(parts, "<br>"), "not judged")
}

func renderMarkdown(r Report) ([]File, error) {
	p := present(r)
	var d doc
	d.line("# %s\n", text(orElse(r.Incident.Title, orElse(r.Verdict.Title, "Untitled incident"))))
	d.line("%s **%s**\n", badge(p.Outcome), text(p.Headline))
	for _, reason := range r.Verdict.Reasons {
		d.line("- Not a pass: %s", text(reason))
	}
	for _, line := range p.Because {
		d.line("- %s", text(line))
	}
	d.line("")
	if len(p.Figures) > 0 {
		var heads, cells []string
		for _, f := range p.Figures {
			heads, cells = append(heads, text(f.Says)), append(cells, "**"+text(f.Number)+"**")
		}
		d.head(heads...)
		d.row(cells...)
		d.line("")
	}
	d.story(r.Incident)
	d.facts(p)
	files := d.timelines(r)
	d.causes(p)
	d.sweeps(p)
	d.ladders(p)
	d.classes(p)
	d.fixes(p)
	d.alerts(p)
	d.again(r)
	d.validity(p)
	d.evidence(r)
	return append([]File{{"report.md", []byte(d.String())}}, files...), nil
}

func (d *doc) story(i IncidentInfo) {
	d.line("## What happened\n")
	for _, p := range paragraphs(i.Story) {
		d.line("%s\n", text(p))
	}
	source := text(orElse(i.Source.Publisher, "not recorded"))
	for _, s := range []string{i.Source.Date, i.Source.Document} {
		if s != "" {
			source += ", " + text(s)
		}
	}
	if i.Source.URL != "" {
		source += ", " + code(i.Source.URL)
		if isWeb(i.Source.URL) && !strings.ContainsAny(i.Source.URL, "<> \t\r\n\\`|") {
			source = strings.TrimSuffix(source, code(i.Source.URL)) + "<" + i.Source.URL + ">"
		}
	}
	d.line("- Source: %s", source)
	if i.Scale.Documented != "" || i.Scale.Here != "" {
		d.line("- Scale: documented %s; here %s", text(orElse(i.Scale.Documented, "not stated")), text(orElse(i.Scale.Here, "not stated")))
	}
	if i.Speed != 0 {
		d.line("- Speed: %s", speedText(i.Speed))
	}
	d.line("")
}

func (d *doc) facts(p page) {
	d.line("## What was documented, and what was seen\n")
	table := func(title string, rows []checkRow) {
		if len(rows) == 0 {
			d.none("No " + title + " is stated.")
			return
		}
		d.line("%ss:\n", strings.ToUpper(title[:1])+title[1:])
		d.head("Statement", "Query", "Un-fixed", "Healthy", "Tightest margin", "Outcome")
		for _, c := range rows {
			says := code(c.ID) + " " + text(c.Says)
			if c.Fact != "" {
				says += "<br>Documented: " + text(c.Fact)
			}
			d.row(says, code(c.Query), seenText(c.Unfixed), seenText(c.Healthy), text(orElse(c.Margin, "–")), badge(c.Outcome))
		}
		d.line("")
	}
	table("symptom", p.Facts)
	table("further check", p.Objectives)
	if len(p.Facts)+len(p.Objectives) > 0 {
		d.line("%s.\n", text(marksText))
	}
	for _, v := range p.Verdict.Vacuous {
		d.line("- %s %s came out the same in every arm: it proves nothing", text(v.Kind), code(v.Check))
	}
}

// timelines shows the charts and gives the files that hold them.
func (d *doc) timelines(r Report) []File {
	d.line("## How it went\n")
	subject, ref, ok := mainTimelines(r.Timelines)
	if !ok {
		d.none("No timeline was recorded.")
		return nil
	}
	var files []File
	show := func(name string, subject Timeline, ref *Timeline) {
		note := "solid: " + armName(subject.Arm)
		if ref != nil {
			note += ", dashed: " + armName(ref.Arm)
		}
		note += ", hatched: a fault in effect, a broken line: samples missing"
		title := "Timeline of the " + armName(subject.Arm) + " arm"
		panels := chartOf(subject, ref, name)
		if len(panels) == 0 {
			d.none(title + ": nothing was measured.")
			return
		}
		files = append(files, File{"report-" + name + ".svg", figureSVG(title, note, panels)})
		d.line("![%s; %s](report-%s.svg)\n", text(title), text(note), name)
		d.line("<details><summary>The same as a table</summary>\n")
		d.head("Measured", "Phase", text(armName(subject.Arm)), text(refName(ref)))
		for _, row := range statTable(subject, ref) {
			d.row(text(row.Series), text(row.Phase), text(row.Subject), text(orElse(row.Ref, "–")))
		}
		d.line("\nMean in each phase, least and most in brackets.\n\n</details>\n")
	}
	show("timeline", subject, ref)
	for i, other := range otherTimelines(r.Timelines) {
		show(fmt.Sprintf("timeline-%d", i+1), other.Timeline, other.ref)
	}
	return files
}

func refName(ref *Timeline) string {
	if ref == nil {
		return "–"
	}
	return armName(ref.Arm)
}

func (d *doc) causes(p page) {
	d.line("## Which causes were needed\n")
	if len(p.Causes) == 0 {
		d.none(text(orElse(p.Left.Causes, "No cause is stated.")))
		return
	}
	d.head("Cause", "Needed, as stated", "Without it", "Plays as expected", "Outcome")
	for _, c := range p.Causes {
		needed, without := "no", c.Without
		if c.Necessary {
			needed = "yes"
		}
		if !c.Played {
			without = c.Deciding
		}
		d.row(code(c.Name)+" "+text(c.Says), needed, text(without), c.Plays, badge(c.Outcome))
	}
	d.line("")
	d.combinations(p)
}

// combinations shows a column for each cause, and what it takes of them.
func (d *doc) combinations(p page) {
	t := p.Combinations
	if t == nil {
		return
	}
	d.line("### Which of them it takes together\n")
	heads := []string{"Arm"}
	for _, cause := range t.Causes {
		heads = append(heads, code(cause))
	}
	d.head(append(heads, "Outage", "Decided by", "Got", "Room", "Outcome")...)
	for _, r := range t.Rows {
		cells := []string{code(r.Arm)}
		for _, on := range r.On {
			cells = append(cells, onText(on))
		}
		d.row(append(cells, r.Outage, text(r.Check), text(r.Got), text(r.Room), badge(r.Outcome))...)
	}
	d.line("\nOnly with all of them should it be an outage. Room is how far what decided it is from turning over.\n")
}

func (d *doc) sweeps(p page) {
	if len(p.Sweeps) == 0 && p.Left.Sweeps == "" {
		return
	}
	d.line("## How much it takes\n")
	if p.Left.Sweeps != "" {
		d.none(text(p.Left.Sweeps))
	}
	for _, t := range p.Sweeps {
		d.line("%s %s\n", code(t.Name), text(t.Says))
		d.head("Step", "Stated", "Seen", "Decided by", "Got", "Room", "Outcome")
		for _, r := range t.Rows {
			d.row(strings.TrimSpace(code(r.Step)+" "+text(r.Says)), r.Stated, r.Outage, text(r.Check), text(r.Got), text(r.Room), badge(r.Outcome))
		}
		d.line("")
	}
}

func (d *doc) classes(p page) {
	if len(p.Classes) == 0 {
		return
	}
	d.line("## What kind of outage it is\n")
	if c := p.Incident.Class; c != nil && c.WaitReason != "" {
		d.line("The wait, %s, may be as short as %s: %s\n", code(c.Wait), seconds(c.WaitFor), text(c.WaitReason))
	}
	d.head("Arm", "Class", "Stated", "Back after", "Attempts a request", "A cut in load", "Outcome")
	for _, c := range p.Classes {
		outcome := "–"
		if c.Stated != "" {
			outcome = badge(c.Outcome)
		}
		d.row(code(c.Arm), text(c.Is), text(orElse(c.Stated, "–")), c.Back, c.Attempts, c.Pushed, outcome)
	}
	d.line("")
	for _, c := range p.Classes {
		d.line("<details><summary>%s: why %s</summary>\n", text(armName(c.Arm)), text(c.Is))
		for _, e := range c.Evidence {
			d.line("- %s", text(e))
		}
		d.line("\n</details>\n")
	}
}

func (d *doc) fixes(p page) {
	d.line("## Which fixes hold\n")
	if len(p.Fixes) == 0 {
		d.none(text(orElse(p.Left.Fixes, "No fix is stated.")))
		return
	}
	d.head("Fix", "Against", "Outcome", "Plays as promised", "Tightest margin", "What decided it")
	for _, f := range p.Fixes {
		kind := "suggested by the lesson"
		if f.Documented {
			kind = "documented"
		}
		d.row(code(f.FixInfo.Name)+" ("+kind+"): "+text(f.Says), "the trigger", badge(f.Alone.Outcome), f.Alone.Plays, text(orElse(f.Alone.Margin, "–")), text(f.Alone.Deciding))
		for _, c := range f.Under {
			against := code(c.ChallengeInfo.Name)
			if c.Trigger {
				against = "on " + against
			}
			says := text(c.Says)
			if len(c.Breaks) > 0 {
				says += " " + text("(must not hold: "+strings.Join(c.Breaks, ", ")+")")
			}
			d.row(code(f.FixInfo.Name), against+" "+says, badge(c.Outcome), c.Plays, text(orElse(c.Margin, "–")), text(c.Deciding))
		}
	}
	d.line("")
	for _, f := range p.Fixes {
		d.line("<details><summary>%s: what it promises</summary>\n", text(f.FixInfo.Name+" "+outcomeText(f.Outcome)))
		if f.Alone.Played && len(f.Promises) > 0 {
			d.head("It", "Check", "Seen", "Tightest margin", "Outcome")
			for _, pr := range f.Promises {
				d.row(pr.Promise, code(pr.Check.ID)+" "+text(pr.Check.Says), seenText(pr.Seen), text(orElse(pr.Margin, "–")), badge(pr.Outcome))
			}
			d.line("")
		}
		if f.Diff != "" {
			d.fence("yaml", f.Diff)
		}
		d.line("</details>\n")
	}
}

func (d *doc) alerts(p page) {
	d.line("## Would the alerts have fired?\n")
	if len(p.Alerts) == 0 {
		d.none("No alert is stated and none fired.")
		return
	}
	d.head("Alert", "Arm", "Fired", "Time to detect", "Promised")
	for _, a := range p.Alerts {
		var fired, promised []string
		for _, s := range a.Fired {
			fired = append(fired, seconds(s.From)+" to "+seconds(s.To))
		}
		for _, s := range a.Seen {
			promised = append(promised, badge(s.Outcome)+" "+text(s.Phase+" "+owed(s.Finding)))
		}
		d.row(code(a.Alert), text(armName(a.Arm)), orElse(strings.Join(fired, "<br>"), "silent"), a.Detect, orElse(strings.Join(promised, "<br>"), "nothing"))
	}
	d.line("\nTime to detect runs from the first fault in effect.\n")
}

func (d *doc) again(r Report) {
	d.line("## See it again\n")
	if r.Command == "" {
		d.none("No command was recorded.")
		return
	}
	d.fence("sh", r.Command)
}

func (d *doc) validity(p page) {
	d.line("## Can it be trusted?\n")
	for _, g := range p.Invalid {
		d.line("- %s, play %d: gate %s did not hold: %s", code(g.Arm), g.Play, text(g.Gate.Gate), text(g.Reason))
	}
	if len(p.Invalid) == 0 && len(p.Verdict.Arms) > 0 {
		d.line("Every validity gate held in every play.")
	}
	d.line("")
	if len(p.Verdict.Arms) == 0 {
		d.none("No arm was played.")
	} else {
		d.head("Arm", "Outcome", "Plays as expected", "Seconds", "What decided it")
		for _, a := range p.Verdict.Arms {
			d.row(code(a.Arm), badge(a.Outcome), kOfN(a), fmt.Sprintf("%.1f", a.Seconds), text(deciding(a)))
		}
		d.line("")
	}
	e := p.Environment
	d.line("- Run: %s, %s", code(e.Run), dateText(e.Date))
	d.line("- Tool: %s", buildText(e.Tool, e.Commit, e.Dirty))
	for _, r := range e.Resumed {
		d.line("- Resumed: %s, after %s, by %s", dateText(r.At), plural(r.After, "play", "plays"), buildText(r.Tool, r.Commit, r.Dirty))
	}
	d.line("- Command line: %s; seed %d", code(e.Command), e.Seed)
	d.line("- Machine: %s, kernel %s, %d CPUs, %s, %s, cgroup %s", text(orElse(e.Machine.OS, "not recorded")), text(orElse(e.Machine.Kernel, "not recorded")),
		e.Machine.CPUs, bytesText(e.Machine.MemoryBytes), text(orElse(e.Machine.Engine, "engine not recorded")), text(orElse(e.Machine.Cgroup, "not recorded")))
	for _, m := range p.Modelled {
		d.line("- Modelled: %s", text(m))
	}
	d.line("")
	if len(e.Images) > 0 {
		d.head("Image", "From", "Programs", "Digest")
		for _, i := range e.Images {
			d.row(code(i.Ref), text(i.Source), text(strings.Join(i.Versions, ", ")), code(i.Digest))
		}
		d.line("")
	}
}

// buildText names a build of the tool, as Markdown.
func buildText(version, commit string, dirty bool) string {
	build := fmt.Sprintf("relapse %s, commit %s", text(orElse(version, "(version not recorded)")), text(orElse(commit, "not recorded")))
	if dirty {
		build += " with uncommitted changes"
	}
	return build
}

func (d *doc) evidence(r Report) {
	d.line("## Evidence\n")
	if len(r.Logs) == 0 {
		d.none("No log line was kept.")
	}
	for _, l := range r.Logs {
		says := code(l.Node)
		if l.Arm != "" {
			says += " in the " + text(armName(l.Arm)) + " arm"
		}
		if l.Says != "" {
			says += ": " + text(l.Says)
		}
		d.line("%s\n", says)
		d.fence("text", l.Lines...)
	}
}
