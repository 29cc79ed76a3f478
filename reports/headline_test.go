package reports_test

import (
	"slices"
	"strings"
	"testing"

	"relapse/replays"
	"relapse/reports"
)

// TestOnePlayIsToldAlike holds that terminal and report count the same things in
// the same words, and call one play no matrix.
func TestOnePlayIsToldAlike(t *testing.T) {
	r := sample()
	r.Incident.Checks[0].Documented = false
	r.Verdict.Arms = slices.DeleteFunc(r.Verdict.Arms, func(a replays.ArmVerdict) bool { return a.Arm != "unfixed" })
	for _, tc := range []struct {
		plays int
		took  string
	}{{1, "for this play"}, {3, "for these 3 plays"}} {
		r.Verdict.Arms[0].Plays, r.Verdict.Arms[0].Passed = tc.plays, tc.plays
		var summary strings.Builder
		if err := reports.Summary(&summary, r.Verdict, false); err != nil {
			t.Fatal(err)
		}
		format, err := reports.Lookup("markdown")
		if err != nil {
			t.Fatal(err)
		}
		files, err := format.Render(r)
		if err != nil {
			t.Fatal(err)
		}
		markdown := string(files[0].Data)
		for _, want := range []string{"4 of 4 symptoms were seen", "3 of 3 objectives were missed in one phase or more"} {
			if !strings.Contains(summary.String(), want) || !strings.Contains(markdown, want) {
				t.Errorf("%q is not in both of:\n%s\n%.1000s", want, summary.String(), markdown)
			}
		}
		for _, want := range []string{"3 of the 4 are documented", tc.took} {
			if !strings.Contains(markdown, want) {
				t.Errorf("%q is not in:\n%.1000s", want, markdown)
			}
		}
	}
}
