package main

import (
	"slices"
	"strings"
	"testing"

	"relapse/faults"
	"relapse/replays"
)

// TestCompletion asks as a shell does.
func TestCompletion(t *testing.T) {
	incident, kind := replays.LibraryNames()[0], faults.Kinds()[0].Name
	small := "./replays/testdata/records/unfixed/incident" // is loaded at once
	for _, tc := range []struct {
		args       []string
		want, none string // "" for nothing to ask of
	}{
		{[]string{"replay", ""}, incident, ""},
		{[]string{"replay", incident, ""}, "", incident},
		{[]string{"show", ""}, incident, ""},
		{[]string{"verify", "other", ""}, incident, ""},
		{[]string{"replay", small, "--arm", "un"}, "unfixed", ""},
		{[]string{"replay", "--arm", ""}, "", "unfixed"},
		{[]string{"replay", "no-such-incident", "--arm", ""}, "", "unfixed"},
		{[]string{"show", small, "--plan", ""}, "unfixed", ""},
		{[]string{"verify", small, "--arms", "healthy,un"}, "healthy,unfixed", "unfixed"},
		{[]string{"replay", incident, "--driver", ""}, "process", ""},
		{[]string{"faults", ""}, kind, ""},
		{[]string{"faults", kind, ""}, "", kind},
		{[]string{"report", "dir", "--format", ""}, "markdown", ""},
		{[]string{"report", "dir", "--format", "html,mark"}, "html,markdown", "markdown"},
	} {
		code, out := printed(t, append([]string{"__complete"}, tc.args...)...)
		var have []string
		for line := range strings.Lines(string(out)) {
			name, _, _ := strings.Cut(strings.TrimSpace(line), "\t")
			have = append(have, name)
		}
		if code != exitAsExpected || tc.want != "" && !slices.Contains(have, tc.want) || tc.none != "" && slices.Contains(have, tc.none) {
			t.Errorf("%q: have %q, exit code %d; want %q and no %q", tc.args, have, code, tc.want, tc.none)
		}
	}
}
