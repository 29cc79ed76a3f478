package replays_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"relapse/replays"
)

// FuzzReadRecord holds that whatever stands in a record's plan, journal and
// environment, it is read or refused as damaged, and that what is read can be judged.
func FuzzReadRecord(f *testing.F) {
	files := []string{"plan.json", "events.ndjson", "environment.json"}
	for _, name := range []string{"healthy", "unfixed", "events-cut-short", "interrupted"} {
		var seed [3]string
		for n, file := range files {
			b, err := os.ReadFile(filepath.Join("testdata", "records", name, file))
			if err != nil {
				f.Fatal(err)
			}
			seed[n] = string(b)
		}
		f.Add(seed[0], seed[1], seed[2])
	}
	f.Add("{}", "", "{}")
	f.Add(`{"incident":"a","arm":"b","phases":[{"name":"c","end":1}]}`, `{"event":"phase","phase":"c"}`, `null`)
	f.Add(`{"incident":"a","arm":"b","phases":[{"name":"c","end":1}],"class":{},"ladder":{"steps":[{}]},"step":{},"combination":{}}`,
		`{"t":1,"at":"9999-12-31T23:59:59Z","event":"phase","phase":"c"}`, `{"targets":[{"node":"a","rounds":9223372036854775807}]}`)
	kept := os.DirFS(filepath.Join("testdata", "records", "unfixed"))
	f.Fuzz(func(t *testing.T, plan, events, environment string) {
		dir := filepath.Join(t.TempDir(), "record")
		if err := os.CopyFS(dir, kept); err != nil {
			t.Fatal(err)
		}
		for n, content := range []string{plan, events, environment} {
			if err := os.WriteFile(filepath.Join(dir, files[n]), []byte(content), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		r, err := replays.ReadRecord(dir)
		if err != nil {
			if !errors.Is(err, replays.ErrDamaged) && !errors.Is(err, replays.ErrNoRecord) {
				t.Errorf("not refused as damaged: %v", err)
			}
			return
		}
		replays.JudgePlay(r)
	})
}
