package reports

import (
	_ "embed"
	"encoding/xml"
	"fmt"
	"math"
	"slices"
	"strings"
)

//go:embed theme.css
var themeCSS string

// A panel is one small chart; its size is in the units of its own viewBox and
// is close to what it measures on a page, so that text keeps its size.
const (
	panelWidth  = 420.0
	panelHeight = 178.0
	plotLeft    = 46.0
	plotRight   = panelWidth - 10
	plotTop     = 42.0
	plotBottom  = 150.0
	laneHeight  = 27.0
	charWidth   = 6.7 // of the 11 px text, at its widest usual font
)

// panel is one small chart: the schedule of an arm, or one quantity of it over
// the same quantity of another arm.
type panel struct {
	Title, Unit string
	Desc        string
	svg         string // what stands within the <svg> element
	height      float64
}

// chartOf gives the panels of one arm; ref, if it has an arm of the same
// series, is drawn dashed behind it. prefix keeps the IDs of one page apart.
func chartOf(subject Timeline, ref *Timeline, prefix string) []panel {
	end := 0.0
	for _, s := range slices.Concat(subject.Phases, subject.Faults) {
		end = max(end, s.To)
	}
	for _, s := range subject.Series {
		for _, p := range s.Points {
			end = max(end, p.T)
		}
	}
	if end == 0 {
		return nil
	}
	panels := []panel{schedule(subject, end, prefix)}
	for i, s := range subject.Series {
		lines := []line{{s, subject.Arm, false}}
		if ref != nil {
			if j := slices.IndexFunc(ref.Series, func(r Series) bool { return r.Name == s.Name }); j >= 0 {
				lines = append(lines, line{ref.Series[j], ref.Arm, true})
			}
		}
		panels = append(panels, quantity(subject, lines, end, fmt.Sprintf("%s-%d", prefix, i+1)))
	}
	return panels
}

type line struct {
	Series
	arm string
	ref bool
}

// canvas writes SVG; every text that it is given is escaped here.
type canvas struct {
	strings.Builder
	end float64
}

func (c *canvas) x(t float64) float64 {
	return plotLeft + (plotRight-plotLeft)*min(max(t/c.end, 0), 1)
}

func escape(s string) string {
	var b strings.Builder
	if err := xml.EscapeText(&b, []byte(s)); err != nil {
		return "" // a strings.Builder does not fail
	}
	return b.String()
}

func (c *canvas) text(x, y float64, class, s string) {
	fmt.Fprintf(c, `<text x="%.1f" y="%.1f" class="%s">%s</text>`, x, y, class, escape(s))
}

// fit shortens a label to a width; the full text is in the table beside the chart.
func fit(s string, width float64) string {
	n := int(width / charWidth)
	if r := []rune(s); len(r) > n {
		if n < 3 {
			return ""
		}
		return string(r[:n-1]) + "…"
	}
	return s
}

// backdrop draws what all panels share: fault bands, phases, the time axis.
func (c *canvas) backdrop(t Timeline, bottom float64, prefix string) {
	fmt.Fprintf(c, `<defs><pattern id="%s-hatch" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><line class="hatch" x1="0" y1="0" x2="0" y2="6"/></pattern></defs>`, prefix)
	for _, f := range t.Faults {
		x, w := c.x(f.From), c.x(f.To)-c.x(f.From)
		fmt.Fprintf(c, `<g><title>%s: %s to %s</title>`, escape(f.Name), seconds(f.From), seconds(f.To))
		for _, style := range []string{`class="band"`, `fill="url(#` + prefix + `-hatch)"`} {
			fmt.Fprintf(c, `<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" %s/>`, x, plotTop, w, bottom-plotTop, style)
		}
		c.WriteString(`</g>`)
	}
	for _, p := range t.Phases {
		x := c.x(p.From)
		fmt.Fprintf(c, `<line class="phase" x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f"/>`, x, plotTop-14, x, bottom)
		c.text(x+4, plotTop-4, "small", fit(p.Name, c.x(p.To)-x-4))
	}
	fmt.Fprintf(c, `<line class="axis" x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f"/>`, plotLeft, bottom, plotRight, bottom)
	step := niceStep(c.end / 6)
	for v := 0.0; v <= c.end+step/1e6; v += step {
		fmt.Fprintf(c, `<line class="axis" x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f"/>`, c.x(v), bottom, c.x(v), bottom+4)
		label := short(v)
		if v == 0 {
			label = "0 s"
		}
		c.text(c.x(v), bottom+17, "small mid", label)
	}
}

// niceStep rounds up to 1, 2 or 5 times a power of ten.
func niceStep(raw float64) float64 {
	if raw <= 0 || math.IsNaN(raw) || math.IsInf(raw, 0) {
		return 1
	}
	power := math.Pow(10, math.Floor(math.Log10(raw)))
	for _, m := range []float64{1, 2, 5} {
		if raw <= m*power*(1+1e-9) {
			return m * power
		}
	}
	return 10 * power
}

// schedule draws when faults were in effect and alerts fired.
func schedule(t Timeline, end float64, prefix string) panel {
	c := &canvas{end: end}
	type lane struct {
		name, class string
		spans       []Span
	}
	var lanes []lane
	add := func(spans []Span, kind string) {
		for _, s := range spans {
			name := kind + " " + s.Name
			i := slices.IndexFunc(lanes, func(l lane) bool { return l.name == name })
			if i < 0 {
				i = len(lanes)
				lanes = append(lanes, lane{name: name, class: kind})
			}
			lanes[i].spans = append(lanes[i].spans, s)
		}
	}
	add(t.Faults, "fault")
	add(t.Alerts, "alert")
	bottom := max(plotTop+float64(len(lanes))*laneHeight+6, plotBottom)
	c.backdrop(t, bottom, prefix)
	desc := []string{"Timeline of the " + armName(t.Arm) + " arm, " + seconds(end) + " long."}
	for i, l := range lanes {
		y := plotTop + float64(i)*laneHeight
		c.text(plotLeft+4, y+13, "label", fit(l.name, plotRight-plotLeft-4))
		for _, s := range l.spans {
			fmt.Fprintf(c, `<rect class="bar %s" x="%.1f" y="%.1f" width="%.1f" height="7" rx="1.5"><title>%s: %s to %s</title></rect>`,
				l.class, c.x(s.From), y+18, max(c.x(s.To)-c.x(s.From), 2), escape(l.name), seconds(s.From), seconds(s.To))
			desc = append(desc, fmt.Sprintf("%s from %s to %s.", l.name, seconds(s.From), seconds(s.To)))
		}
	}
	if len(lanes) == 0 {
		c.text((plotLeft+plotRight)/2, (plotTop+bottom)/2, "label mid", "no fault, no alert")
		desc = append(desc, "No fault and no alert.")
	}
	for _, e := range t.Events {
		fmt.Fprintf(c, `<path class="event" d="M%.1f %.1fl-3.5 7h7z"><title>%s: %s</title></path>`, c.x(e.At), bottom-7, seconds(e.At), escape(e.Says))
	}
	return panel{Title: "Faults and alerts", Desc: strings.Join(desc, " "), svg: c.String(), height: bottom + panelHeight - plotBottom}
}

// quantity draws one series of an arm over that of another.
func quantity(t Timeline, lines []line, end float64, prefix string) panel {
	c := &canvas{end: end}
	c.backdrop(t, plotBottom, prefix)
	low, high := 0.0, 0.0
	for _, l := range lines {
		for _, p := range l.Points {
			if !math.IsNaN(p.V) && !math.IsInf(p.V, 0) {
				low, high = min(low, p.V), max(high, p.V)
			}
		}
	}
	unit := lines[0].Unit
	if unit == "ratio" {
		high = max(high, 1)
	}
	step := niceStep((high - low) / 4)
	if (unit == "" || lines[0].Step) && step < 1 {
		step = 1 // of a count there is no half
	}
	low, high = math.Floor(low/step)*step, math.Ceil(high/step-1e-9)*step
	if high <= low {
		high = low + step
	}
	y := func(v float64) float64 { return plotBottom - (plotBottom-plotTop-4)*(v-low)/(high-low) }
	for v := low; v <= high+step/1e6; v += step {
		fmt.Fprintf(c, `<line class="grid" x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f"/>`, plotLeft, y(v), plotRight, y(v))
		label := short(v)
		if unit == "ratio" {
			label = short(v*100) + " %"
		}
		c.text(plotLeft-6, y(v)+4, "small end", label)
	}
	var desc []string
	for _, l := range slices.Backward(lines) { // the arm itself lies on top
		if path := pathOf(l.Series, c.x, y); path != "" {
			fmt.Fprintf(c, `<path class="%s" d="%s"/>`, lineClass(l.arm, l.ref), path)
		}
		desc = append(desc, describe(l))
	}
	slices.Reverse(desc)
	shown := unit
	if unit == "ratio" {
		shown = ""
	}
	return panel{Title: lines[0].Name, Unit: shown, Desc: strings.Join(desc, " "), svg: c.String(), height: panelHeight}
}

func lineClass(arm string, ref bool) string {
	class := "line other"
	switch {
	case arm == armHealthy:
		class = "line healthy"
	case isUnfixed(arm):
		class = "line unfixed"
	}
	if ref {
		class += " ref"
	}
	return class
}

// pathOf draws a series and breaks it where samples are missing: a gap is
// evidence, and no line may cross it. A sample between two gaps is a dash.
func pathOf(s Series, x, y func(float64) float64) string {
	var b strings.Builder
	for _, run := range unbroken(s) {
		fmt.Fprintf(&b, "M%.1f %.1f", x(run[0].T), y(run[0].V))
		if len(run) == 1 {
			b.WriteString("m-2 0h4")
		}
		for _, p := range run[1:] {
			if s.Step {
				fmt.Fprintf(&b, "H%.1fV%.1f", x(p.T), y(p.V))
			} else {
				fmt.Fprintf(&b, "L%.1f %.1f", x(p.T), y(p.V))
			}
		}
	}
	return b.String()
}

// unbroken parts a series where a value is missing, or where samples are much
// further apart than they usually are.
func unbroken(s Series) [][]Point {
	var gaps []float64
	for i := 1; i < len(s.Points); i++ {
		gaps = append(gaps, s.Points[i].T-s.Points[i-1].T)
	}
	limit := math.Inf(1)
	if len(gaps) > 0 {
		slices.Sort(gaps)
		limit = max(4*gaps[len(gaps)/2], 1)
	}
	var runs [][]Point
	open := false
	for i, p := range s.Points {
		if math.IsNaN(p.V) || math.IsInf(p.V, 0) {
			open = false
			continue
		}
		if !open || p.T-s.Points[i-1].T > limit {
			runs = append(runs, nil)
		}
		open = true
		runs[len(runs)-1] = append(runs[len(runs)-1], p)
	}
	return runs
}
