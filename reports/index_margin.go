package reports

import (
	"fmt"
	"html/template"
	"math"
	"strings"

	"relapse/replays"
)

// A nightly run passes or it does not; how near it came to the other outcome
// tells weeks earlier that something drifts. The index shows, run by run, the
// thinnest margin of all promises.

// thinnest gives the promise of a run that had the least room, over all plays of
// all arms in the phases in which symptoms are looked for. Margins of limits at
// zero are distances, which cannot be held against shares: they are left out.
func (r indexRun) thinnest() (arm string, found replays.Finding, ok bool) {
	least := math.Inf(1)
	for _, a := range r.Verdict.Arms {
		plays := a.Runs
		if len(plays) == 0 {
			plays = []replays.PlayVerdict{{Findings: a.Findings}}
		}
		for _, p := range plays {
			if len(p.Validity) > 0 {
				continue
			}
			if f, has := armTightest(replays.ArmVerdict{Findings: p.Findings}); has && !zeroLimit(f.Want) {
				if m, _ := promise(f); m < least {
					least, arm, found, ok = m, a.Arm, f, true
				}
			}
		}
	}
	return arm, found, ok
}

// Margin says the thinnest margin of the last run in words.
func (r indexRun) Margin() string {
	arm, f, ok := r.thinnest()
	if !ok {
		return "none that is a share"
	}
	return fmt.Sprintf("%s: %s (%s), %s", marginText(f), f.Check, f.Phase, armName(arm))
}

// Size of a trend in the units of its viewBox, and the margins at its edges:
// beyond them it only matters that there is room, or that there is none.
const (
	trendWidth, trendHeight = 120.0, 28.0
	trendLeast, trendMost   = -0.25, 0.5
)

// Trend draws the thinnest margins of the newest runs, oldest first, over a
// line at zero. It is empty where there are not two of them.
func (i indexIncident) Trend() template.HTML {
	var points []string
	runs := i.History()
	worst := math.Inf(1)
	for n, r := range runs {
		_, f, ok := r.thinnest()
		if !ok {
			continue
		}
		m, _ := promise(f)
		worst = min(worst, m)
		x := 2 + (trendWidth-4)*float64(n)/float64(max(1, len(runs)-1))
		points = append(points, fmt.Sprintf("%.1f,%.1f", x, trendY(m)))
	}
	if len(points) < 2 {
		return ""
	}
	// Figures only: nothing that came out of a record is written into it.
	return template.HTML(fmt.Sprintf(
		`<svg class="trend" role="img" viewBox="0 0 %g %g" width="%g" height="%g" aria-label="thinnest margin over %d runs, at worst %.0f %%"><line x1="0" x2="%g" y1="%.1f" y2="%.1f"/><polyline points="%s"/></svg>`,
		trendWidth, trendHeight, trendWidth, trendHeight, len(points), worst*100,
		trendWidth, trendY(0), trendY(0), strings.Join(points, " ")))
}

func trendY(margin float64) float64 {
	share := (min(max(margin, trendLeast), trendMost) - trendLeast) / (trendMost - trendLeast)
	return 2 + (trendHeight-4)*(1-share)
}
