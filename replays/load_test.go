package replays_test

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"relapse/replays"
	"relapse/topologies"
)

var update = flag.Bool("update", false, "rewrite the golden files under testdata")

// TestLoadRefuses loads every folder under testdata/bad. Each holds one mistake
// and, in want.txt, the whole error: its place, the line with a caret, and what
// would be right.
func TestLoadRefuses(t *testing.T) {
	dirs, err := filepath.Glob(filepath.Join("testdata", "bad", "*"))
	if err != nil || len(dirs) == 0 {
		t.Fatalf("no cases under testdata/bad: %v", err)
	}
	for _, dir := range dirs {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			_, err := replays.Load(os.DirFS(dir), ".")
			if err == nil {
				t.Fatal("accepted, want an error")
			}
			var placed *topologies.FileError
			switch {
			case !errors.As(err, &placed):
				t.Errorf("the error has no place: %v", err)
			case placed.Hint == "":
				t.Errorf("the error does not say what would be right: %v", err)
			}
			golden(t, filepath.Join(dir, "want.txt"), []byte(err.Error()+"\n"))
		})
	}
}

// golden compares with a file, or rewrites it under -update.
func golden(t *testing.T, path string, have []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, have, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v: run the test with -update and read what it writes", err)
	}
	if string(want) != string(have) {
		t.Errorf("%s\nwant:\n%s\nhave:\n%s", path, want, have)
	}
}

// TestLoadAnchors holds that an anchor and a merge mean what they stand for.
func TestLoadAnchors(t *testing.T) {
	base := smallText(t)
	plain := loadText(t, base)
	replace := func(pairs ...string) string { return strings.NewReplacer(pairs...).Replace(base) }
	for _, tc := range []struct{ name, have string }{
		{"alias of a list", replace("conditions: [narrow]", "conditions: &held [narrow]", "remove: [narrow]", "remove: *held")},
		{"merge", replace(
			"{name: before, lasts: 4s, settle: 1s}", "&phase {name: before, lasts: 4s, settle: 1s}",
			"{name: after, lasts: 4s, settle: 1s}", "{<<: *phase, name: after}")},
		{"merge of several", replace(
			"{name: before, lasts: 4s, settle: 1s}", "&phase {name: before, lasts: 4s, settle: 1s}",
			"{name: after, lasts: 4s, settle: 1s}", "{name: after, <<: [*phase, *phase]}")},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if tc.have == base {
				t.Fatal("the test changed nothing")
			}
			have := loadText(t, tc.have)
			for _, arm := range plain.Arms() {
				a, errA := plain.Plan(arm, 1)
				b, errB := have.Plan(arm, 1)
				if errA != nil || errB != nil {
					t.Fatal(errA, errB)
				}
				if diff := cmp.Diff(toJSON(t, a), toJSON(t, b)); diff != "" {
					t.Errorf("arm %s (-want +have):\n%s", arm, diff)
				}
			}
		})
	}
	t.Run("aliases of aliases", func(t *testing.T) {
		var b strings.Builder
		b.WriteString("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n")
		for n := 1; n < 30; n++ {
			fmt.Fprintf(&b, "a%d: &a%d [%s*a%d]\n", n, n, strings.Repeat(fmt.Sprintf("*a%d, ", n-1), 9), n-1)
		}
		var placed *topologies.FileError
		if _, err := replays.Load(small(b.String()), "."); !errors.As(err, &placed) || placed.Line != 5 {
			t.Errorf("error %v, want one that refuses line 5", err)
		}
	})
}

func smallText(t testing.TB) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", "small", replays.FileName))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// small is the incident under testdata/small with another text in its file.
func small(text string) fs.FS {
	fsys := fstest.MapFS{replays.FileName: {Data: []byte(text)}}
	for _, name := range []string{"alerts.yaml", "line/compose.yaml", "line/overlays/patient.yaml"} {
		content, err := os.ReadFile(filepath.Join("testdata", "small", name))
		if err != nil {
			panic(err) // of this package's own files
		}
		fsys[name] = &fstest.MapFile{Data: content}
	}
	return fsys
}

func loadText(t *testing.T, text string) *replays.Incident {
	t.Helper()
	inc, err := replays.Load(small(text), ".")
	if err != nil {
		t.Fatal(err)
	}
	return inc
}

func loadSmall(t testing.TB) *replays.Incident {
	t.Helper()
	inc, err := replays.Load(os.DirFS(filepath.Join("testdata", "small")), ".")
	if err != nil {
		t.Fatal(err)
	}
	return inc
}

func toJSON(t *testing.T, v any) string {
	t.Helper()
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return string(b) + "\n"
}

// FuzzLoad holds that any bytes give an incident or an error, and that an
// incident that is accepted can be planned in every arm.
func FuzzLoad(f *testing.F) {
	base := smallText(f)
	f.Add(base)
	f.Add(togetherText(f))
	f.Add(classText(f))
	f.Add(ladderText(f))
	for _, text := range []string{
		"", "<<: *a", "&a", "? x", ": x", "- &a [*a]", "a: &a {<<: *a}", "incident: !!binary x", "faults: {<<: {}}", "? {a: b}\n: c",
		"%YAML 1.2\n---\nincident: x", "incident: \"\\", "phases: [{lasts: }]", "symptoms: [{during: ~}]", "traffic: {players: {login: }}",
		strings.Replace(base, "slow:", "<<:", 1), strings.Replace(base, "slow:", "&slow:", 1), strings.Replace(base, "slow:", "*slow :", 1),
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		inc, err := replays.Load(small(text), ".")
		if err != nil {
			_ = err.Error()
			return
		}
		for _, arm := range inc.Arms() {
			if _, err := inc.Plan(arm, 1); err != nil {
				t.Errorf("accepted, but arm %s cannot be planned: %v", arm, err)
			}
		}
	})
}
