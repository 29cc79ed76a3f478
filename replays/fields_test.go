package replays_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/google/go-cmp/cmp"

	"relapse/replays"
)

func TestParseRate(t *testing.T) {
	for _, tc := range []struct {
		have string
		want float64
		ok   bool
	}{
		{"750/s", 750, true}, {"90/m", 1.5, true}, {"0/s", 0, true}, {"0.5/s", 0.5, true}, {" 3 / s ", 3, true}, {"1e3/s", 1000, true},
		{"750", 0, false}, {"/s", 0, false}, {"x/s", 0, false}, {"5/h", 0, false}, {"5/", 0, false}, {"-1/s", 0, false},
		{"NaN/s", 0, false}, {"Inf/s", 0, false}, {"1e999/s", 0, false}, {"100000/s", 100000, true}, {"1e300/s", 0, false}, {"5/s/s", 0, false}, {"", 0, false},
	} {
		have, err := replays.ParseRate(tc.have)
		if have != tc.want || (err == nil) != tc.ok {
			t.Errorf("%q: %g, %v; want %g", tc.have, have, err, tc.want)
		}
	}
}

func TestFields(t *testing.T) {
	type fields struct {
		Order replays.Ordered[replays.Rate] `yaml:"order"`
		Names replays.Names                 `yaml:"names"`
		Holds replays.Holds                 `yaml:"holds"`
	}
	for _, tc := range []struct {
		name, have string
		want       fields
		ok         bool
	}{
		{"order is kept", "order: {z: 1/s, a: 60/m, m: 3/s}", fields{Order: replays.Ordered[replays.Rate]{{Name: "z", Value: 1}, {Name: "a", Value: 1}, {Name: "m", Value: 3}}}, true},
		{"one entry", "order:\n  z: 1/s", fields{Order: replays.Ordered[replays.Rate]{{Name: "z", Value: 1}}}, true},
		{"no entries", "order:", fields{}, true},
		{"a list for a mapping", "order: [z]", fields{}, false},
		{"one name", "names: stall", fields{Names: replays.Names{"stall"}}, true},
		{"names", "names: [a, b]", fields{Names: replays.Names{"a", "b"}}, true},
		{"a mapping for names", "names: {a: b}", fields{}, false},
		{"over", "holds: over", fields{Holds: replays.Holds{Mode: replays.HoldsOver}}, true},
		{"always", "holds: always", fields{Holds: replays.Holds{Mode: replays.HoldsAlways}}, true},
		{"eventually", "holds: eventually within 1500ms", fields{Holds: replays.Holds{Mode: replays.HoldsEventually, Within: 1500 * time.Millisecond}}, true},
		{"eventually, but when", "holds: eventually", fields{}, false},
		{"eventually within nothing", "holds: eventually within 0s", fields{}, false},
		{"eventually in the past", "holds: eventually within -1s", fields{}, false},
		{"always within", "holds: always within 5s", fields{}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var have fields
			err := yaml.UnmarshalWithOptions([]byte(tc.have), &have, yaml.Strict())
			if (err == nil) != tc.ok {
				t.Fatalf("error %v", err)
			}
			if diff := cmp.Diff(tc.want, have); tc.ok && diff != "" {
				t.Errorf("-want +have:\n%s", diff)
			}
		})
	}
	o := replays.Ordered[int]{{Name: "a", Value: 1}, {Name: "b", Value: 2}}
	if v, ok := o.Get("b"); v != 2 || !ok {
		t.Errorf("b is %d, %t", v, ok)
	}
	if v, ok := o.Get("c"); v != 0 || ok {
		t.Errorf("c is %d, %t", v, ok)
	}
	for _, tc := range []struct {
		have replays.Holds
		want string
	}{
		{replays.Holds{}, "over"}, {replays.Holds{Mode: replays.HoldsAlways}, "always"},
		{replays.Holds{Mode: replays.HoldsEventually, Within: time.Second}, "eventually within 1s"},
	} {
		if have := tc.have.String(); have != tc.want {
			t.Errorf("holds %q, want %q", have, tc.want)
		}
	}
}

// TestLock takes the lock in another folder than the machine's own, which a
// play may hold.
func TestLock(t *testing.T) {
	if folder := os.Getenv("RELAPSE_TEST_LOCK"); folder != "" {
		replays.SetLockFolder(folder)
		if _, err := replays.Lock(); err != nil {
			t.Fatal(err)
		}
		return
	}
	folder := t.TempDir()
	t.Cleanup(replays.SetLockFolder(folder))
	unlock, err := replays.Lock()
	if err != nil {
		t.Fatal(err)
	}
	var busy *replays.BusyError
	if _, err := replays.Lock(); !errors.As(err, &busy) || !strings.HasPrefix(busy.Holder, "process ") {
		t.Errorf("a second lock: %v, want a BusyError that names the process", err)
	}
	other := func() error {
		c := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestLock$")
		// TMPDIR of its own: the lock does not move with it.
		c.Env = append(os.Environ(), "RELAPSE_TEST_LOCK="+folder, "TMPDIR="+t.TempDir())
		return c.Run()
	}
	var exit *exec.ExitError
	if err := other(); !errors.As(err, &exit) {
		t.Errorf("another process took the lock: %v", err)
	}
	unlock()
	if err := other(); err != nil {
		t.Errorf("another process could not take the lock once it was free: %v", err)
	}
	// That process is gone, and its lock with it.
	again, err := replays.Lock()
	if err != nil {
		t.Fatal(err)
	}
	again()
	// Where there is no such folder it is in the one for temporary files.
	replays.SetLockFolder(filepath.Join(folder, "none"))
	t.Setenv("TMPDIR", t.TempDir())
	fallback, err := replays.Lock()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := replays.Lock(); !errors.As(err, &busy) || filepath.Dir(busy.Path) != os.Getenv("TMPDIR") {
		t.Errorf("a second lock: %v, want a BusyError of %s", err, os.Getenv("TMPDIR"))
	}
	fallback()
	t.Setenv("TMPDIR", filepath.Join(t.TempDir(), "none"))
	if _, err := replays.Lock(); err == nil || errors.As(err, &busy) {
		t.Errorf("a lock in no folder: %v, want an error that is no BusyError", err)
	}
}

func TestDescribeTool(t *testing.T) {
	for _, tc := range []struct {
		version, commit string
		want            replays.Tool
	}{
		{"v1.2.3", "abc", replays.Tool{Version: "v1.2.3", Commit: "abc", Go: runtime.Version()}},
		{"v1.2.3", "abc-dirty", replays.Tool{Version: "v1.2.3", Commit: "abc", Dirty: true, Go: runtime.Version()}},
	} {
		if have := replays.DescribeTool(tc.version, tc.commit); have != tc.want {
			t.Errorf("tool %+v, want %+v", have, tc.want)
		}
	}
}

func TestFind(t *testing.T) {
	dir := t.TempDir()
	if err := os.CopyFS(filepath.Join(dir, "mine"), os.DirFS(filepath.Join("testdata", "small"))); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	for _, name := range []string{"./mine", "mine", filepath.Join(dir, "mine")} {
		inc, err := replays.Find(name)
		if err != nil || inc.Name != "small" {
			t.Errorf("%s: %v", name, err)
		}
	}
	var unknown *replays.UnknownIncidentError
	for _, tc := range []struct{ name, want string }{
		{"acount-service", "did you mean account-service?"}, {"./nothing", "the library has: "}, {"", "the library has: "},
	} {
		if _, err := replays.Find(tc.name); !errors.As(err, &unknown) || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%q: %v, want an UnknownIncidentError with %q", tc.name, err, tc.want)
		}
	}
	if err := os.WriteFile(filepath.Join("mine", replays.FileName), []byte("incident: mine\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	want := filepath.Join("mine", replays.FileName) + ":1:1: title is missing"
	if _, err := replays.Find("./mine"); err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("error %v, want one that names the file as it was given: %s", err, want)
	}
}
