package suites_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"relapse/replays"
)

// alwaysHolding judges plays from their records as if the incident's first check were
// one that holds whatever happens, and gives its id. That takes no play: what a check
// asks changes nothing of what is measured.
func alwaysHolding(dirs ...string) (id string, v replays.Verdict, err error) {
	var plays []replays.Judged
	for _, dir := range dirs {
		record, err := replays.ReadRecord(dir)
		if err != nil {
			return "", v, err
		}
		checks := record.Plan.Checks
		n := slices.IndexFunc(checks, func(c replays.PlannedCheck) bool { return c.Kind != replays.KindInvariant && len(c.During) > 0 })
		if n < 0 {
			return "", v, fmt.Errorf("%s: its plan has no check in any phase", dir)
		}
		id, checks[n].Query = checks[n].ID, "count(relapse_offered_total) > 0"
		plays = append(plays, replays.Judged{Plan: record.Plan, Verdict: replays.JudgePlay(record)})
	}
	return id, replays.JudgeIncident(plays, 1), nil
}

// isVacuous says whether a verdict fails for a check that proves nothing.
func isVacuous(v replays.Verdict, id string) bool {
	return v.Outcome == replays.Fail && slices.ContainsFunc(v.Vacuous, func(c replays.Vacuous) bool { return c.Check == id })
}

func TestAlwaysHolding(t *testing.T) {
	records := filepath.Join("..", "replays", "testdata", "records")
	dirs := []string{filepath.Join(records, "healthy"), filepath.Join(records, "unfixed")}
	var plays []replays.Judged
	for _, dir := range dirs {
		record, err := replays.ReadRecord(dir)
		if err != nil {
			t.Fatal(err)
		}
		plays = append(plays, replays.Judged{Plan: record.Plan, Verdict: replays.JudgePlay(record)})
	}
	id, v, err := alwaysHolding(dirs...)
	if err != nil {
		t.Fatal(err)
	}
	if as := replays.JudgeIncident(plays, 1); isVacuous(as, id) {
		t.Errorf("%s is vacuous as it is: %v", id, as.Reasons)
	}
	if !isVacuous(v, id) {
		t.Errorf("outcome %s and vacuous checks %v, want fail and %s", v.Outcome, v.Vacuous, id)
	}
	if _, _, err := alwaysHolding(t.TempDir()); err == nil {
		t.Error("a folder that is no record: no error")
	}
}
