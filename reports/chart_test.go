package reports_test

import (
	"math"
	"strings"
	"testing"

	"relapse/reports"
)

// chartOf gives the chart of one series, as Markdown's file shows it.
func chartOf(t *testing.T, series ...reports.Series) string {
	t.Helper()
	f, err := reports.Lookup("markdown")
	if err != nil {
		t.Fatal(err)
	}
	files, err := f.Render(reports.Report{Timelines: []reports.Timeline{{Arm: "unfixed",
		Phases: []reports.Span{{Name: "stall", From: 0, To: 10}}, Series: series}}})
	if err != nil {
		t.Fatal(err)
	}
	if len(files) < 2 {
		t.Fatal("no chart was made")
	}
	return string(files[1].Data)
}

func TestLinesOfAChart(t *testing.T) {
	nan := math.NaN()
	for _, test := range []struct {
		name string
		have reports.Series
		want string // the line's path; x runs from 46 to 410, y from 150 to 46
	}{
		{"a line", reports.Series{Name: "s", Unit: "ratio", Points: []reports.Point{{0, 0}, {10, 1}}}, `d="M46.0 150.0L410.0 46.0"`},
		{"a count holds until it changes", reports.Series{Name: "s", Step: true, Points: []reports.Point{{0, 1}, {10, 0}}}, `d="M46.0 46.0H410.0V150.0"`},
		{"no line crosses a missing sample", reports.Series{Name: "s", Unit: "ratio", Points: []reports.Point{{0, 1}, {1, 1}, {2, nan}, {3, 1}, {4, 1}}}, `d="M46.0 46.0L82.4 46.0M155.2 46.0L191.6 46.0"`},
		{"nor a long gap", reports.Series{Name: "s", Unit: "ratio", Points: []reports.Point{{0, 1}, {1, 1}, {9, 1}, {10, 1}}}, `d="M46.0 46.0L82.4 46.0M373.6 46.0L410.0 46.0"`},
		{"a lone sample is seen", reports.Series{Name: "s", Unit: "ratio", Points: []reports.Point{{0, nan}, {5, 1}, {6, nan}}}, `d="M228.0 46.0m-2 0h4"`},
		{"a value below zero", reports.Series{Name: "s", Unit: "ms", Points: []reports.Point{{0, -4}, {10, 4}}}, `d="M46.0 150.0L410.0 46.0"`},
		{"nothing but zero", reports.Series{Name: "s", Points: []reports.Point{{0, 0}, {10, 0}}}, `d="M46.0 150.0L410.0 150.0"`},
		{"no sample at all", reports.Series{Name: "s", Points: []reports.Point{{0, nan}, {10, math.Inf(1)}}}, "un-fixed: no samples."},
	} {
		svg := chartOf(t, test.have)
		if !strings.Contains(svg, test.want) {
			_, path, _ := strings.Cut(svg, `class="line unfixed" d=`)
			t.Errorf("%s: want %s, got %.80s", test.name, test.want, path)
		}
		if strings.Contains(svg, "NaN") || strings.Contains(svg, "Inf") {
			t.Errorf("%s: the chart holds a coordinate that is no number", test.name)
		}
	}
}
