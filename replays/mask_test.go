package replays_test

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"relapse/replays"
)

// TestARecordHoldsNoSecret plays what cannot start, for want of an engine, and looks for
// the secrets in all that it left.
func TestARecordHoldsNoSecret(t *testing.T) {
	t.Setenv("DOCKER_HOST", "unix://"+filepath.Join(t.TempDir(), "nobody.sock"))
	fsys, ok := small(smallText(t)).(fstest.MapFS)
	if !ok {
		t.Fatal("the small incident is in another file system")
	}
	edit := func(name, old, with string) {
		have := string(fsys[name].Data)
		if strings.Count(have, old) != 1 {
			t.Fatalf("%s holds %q %d times, want once", name, old, strings.Count(have, old))
		}
		fsys[name] = &fstest.MapFile{Data: []byte(strings.Replace(have, old, with, 1))}
	}
	const first, second = "hunter2-of-old", "overlay-key-123"
	edit("line/compose.yaml", "    image: memcached:1.6.18\n", "    image: memcached:1.6.18\n    environment: {STORE_PASSWORD: \""+first+"\", SIZE: small}\n")
	edit("line/overlays/patient.yaml", "    command:", "    environment: [API_KEY="+second+"]\n    command:")
	inc, err := replays.Load(fsys, ".")
	if err != nil {
		t.Fatal(err)
	}
	plan := plan7(t, inc, "fix-patience")
	dir := filepath.Join(t.TempDir(), "play")
	if _, err := replays.Play(t.Context(), inc, plan, dir, replays.PlayOptions{Run: "test"}); err == nil {
		t.Fatal("it was played, want an error, as there is no engine")
	}
	files := 0
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		files++
		content, err := os.ReadFile(path)
		if bytes.Contains(content, []byte(first)) || bytes.Contains(content, []byte(second)) {
			t.Errorf("%s holds a secret:\n%s", path, content)
		}
		return err
	})
	if err != nil || files < 6 {
		t.Errorf("%d files, %v; want the plan, the journal, the environment and the incident", files, err)
	}
	kept, err := os.ReadFile(filepath.Join(dir, "incident", "line", "compose.yaml"))
	if want := `{STORE_PASSWORD: "masked", SIZE: small}`; err != nil || !bytes.Contains(kept, []byte(want)) {
		t.Errorf("the record keeps\n%s, %v; want %s", kept, err, want)
	}
	// It is as good as any other: whoever reads it takes it for what was played.
	if run, err := replays.ReadRun(dir); err != nil || run.Verdict.Outcome != replays.Unknown {
		t.Errorf("the run %+v, %v; want that it is read, as unknown", run, err)
	}
	configuration := plan.Configuration(nil)
	for place, want := range map[string]string{
		"node store environment STORE_PASSWORD": "masked", "node store environment SIZE": "small", "node server environment API_KEY": "masked",
	} {
		if configuration[place] != want {
			t.Errorf("%s: have %q, want %q", place, configuration[place], want)
		}
	}
}

func TestEventsHoldNoSecret(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events.ndjson")
	var seen []string
	journal, err := replays.OpenJournal(path, func(e replays.Event) { seen = append(seen, e.Detail) })
	if err != nil {
		t.Fatal(err)
	}
	journal.Mask([]string{"hunter2-of-old"})
	journal.Write(replays.Event{Event: replays.EventTrouble, Detail: "node store said: password hunter2-of-old is wrong"})
	events, err := journal.Close()
	if err != nil {
		t.Fatal(err)
	}
	const want = "node store said: password masked is wrong"
	if events[0].Detail != want || seen[0] != want || !strings.Contains(readLines(t, path)[0], want) {
		t.Errorf("have %q, told %q, on disk %q; want %q", events[0].Detail, seen[0], readLines(t, path)[0], want)
	}
}

// TestLogsHoldNoSecret writes a log in pieces of every length.
func TestLogsHoldNoSecret(t *testing.T) {
	const log = "2026-01-02 starting\n2026-01-02 password=hunter2-of-old, again hunter2-of-old\n\n2026-01-02 the end hunter2-of-old"
	for _, tc := range []struct {
		name    string
		secrets []string
		want    string
	}{
		{"none", nil, log},
		{"one", []string{"hunter2-of-old"}, strings.ReplaceAll(log, "hunter2-of-old", "masked")},
		{"one that begins another", []string{"hunter2-of-old", "hunter2"}, strings.ReplaceAll(log, "hunter2-of-old", "masked")},
		{"of others", []string{"hunter3-of-old"}, log},
	} {
		for piece := 1; piece <= len(log); piece++ {
			var b bytes.Buffer
			w, end := replays.Masking(&b, tc.secrets)
			for rest := log; rest != ""; {
				n := min(piece, len(rest))
				if have, err := w.Write([]byte(rest[:n])); have != n || err != nil {
					t.Fatalf("%s: wrote %d of %d, %v", tc.name, have, n, err)
				}
				rest = rest[n:]
			}
			if err := end(); err != nil {
				t.Fatal(err)
			}
			if b.String() != tc.want {
				t.Fatalf("%s, in pieces of %d: have %q, want %q", tc.name, piece, &b, tc.want)
			}
		}
	}
}
