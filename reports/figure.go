package reports

import (
	"fmt"
	"math"
	"strings"
)

func describe(l line) string {
	st := stats(l.Series, 0, math.Inf(1))
	if st.n == 0 {
		return armName(l.arm) + ": no samples."
	}
	return fmt.Sprintf("%s: from %s to %s, mean %s.", armName(l.arm), inUnit(st.low, l.Unit), inUnit(st.high, l.Unit), inUnit(st.mean, l.Unit))
}

type stat struct {
	n               int
	low, mean, high float64
}

// stats is over the samples in [from, to).
func stats(s Series, from, to float64) stat {
	st := stat{low: math.Inf(1), high: math.Inf(-1)}
	for _, p := range s.Points {
		if p.T < from || p.T >= to || math.IsNaN(p.V) || math.IsInf(p.V, 0) {
			continue
		}
		st.n++
		st.low, st.high = min(st.low, p.V), max(st.high, p.V)
		st.mean += (p.V - st.mean) / float64(st.n)
	}
	return st
}

// inline gives the panel as an element of an HTML page, which holds the theme.
func (p panel) inline(id string) string {
	return fmt.Sprintf(`<svg class="chart" viewBox="0 0 %.0f %.0f" role="img" aria-labelledby="%s-t %s-d"><title id="%s-t">%s</title><desc id="%s-d">%s</desc>%s%s</svg>`,
		panelWidth, p.height, id, id, id, escape(p.Title), id, escape(p.Desc), p.heading(), p.svg)
}

func (p panel) heading() string {
	var c canvas
	c.text(0, 14, "title", p.Title)
	if p.Unit != "" {
		c.text(plotRight, 14, "small end", p.Unit)
	}
	return c.String()
}

// figureSVG gives panels as one SVG file of its own, two beside each other.
func figureSVG(title, note string, panels []panel) []byte {
	const gap, top = 28.0, 46.0
	var b strings.Builder
	y := top
	for i := 0; i < len(panels); i += 2 {
		row := panels[i:min(i+2, len(panels))]
		tallest := 0.0
		for j, p := range row {
			fmt.Fprintf(&b, `<g transform="translate(%.0f %.0f)"><title>%s</title><desc>%s</desc>%s%s</g>`,
				gap/2+float64(j)*(panelWidth+gap), y, escape(p.Title), escape(p.Desc), p.heading(), p.svg)
			tallest = max(tallest, p.height)
		}
		y += tallest + 12
	}
	width := 2*panelWidth + 2*gap
	return fmt.Appendf(nil, `<svg xmlns="http://www.w3.org/2000/svg" class="chart" viewBox="0 0 %.0f %.0f" width="%.0f" height="%.0f" role="img"><title>%s</title><style>%s</style><rect class="paper" width="100%%" height="100%%"/><text x="%.0f" y="20" class="title">%s</text><text x="%.0f" y="36" class="small">%s</text>%s</svg>`+"\n",
		width, y, width, y, escape(title), themeCSS, gap/2, escape(title), gap/2, escape(note), b.String())
}
