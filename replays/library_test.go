package replays_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"relapse/replays"
	"relapse/topologies"
)

// TestErrorsNameFilesToOpen holds that an error in any file of an incident, its
// topology included, names the file by a path that leads there from where the
// user is.
func TestErrorsNameFilesToOpen(t *testing.T) {
	for _, tc := range []struct{ name, file, content string }{
		{"incident", replays.FileName, "incident: mine\n"},
		{"alert rules", "alerts.yaml", "groups: []\n"},
		{"compose file", "line/compose.yaml", "services: {web: {image: nginx, ports: [80]}}\n"},
		{"compose file that is no text", "line/compose.yaml", "services: \x00\n"},
		{"overlay", "line/overlays/patient.yaml", "services: {server: {ports: [80]}}\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			root := t.TempDir()
			dir := filepath.Join(root, "mine")
			if err := os.CopyFS(dir, os.DirFS(filepath.Join("testdata", "small"))); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, filepath.FromSlash(tc.file)), []byte(tc.content), 0o644); err != nil {
				t.Fatal(err)
			}
			t.Chdir(root)
			for _, name := range []string{"./mine", "mine", dir} {
				_, err := replays.Find(name)
				var placed *topologies.FileError
				if !errors.As(err, &placed) {
					t.Fatalf("%s: error %v, want one with a place", name, err)
				}
				content, err := os.ReadFile(placed.File)
				if err != nil || string(content) != tc.content {
					t.Errorf("%s: the error names %s, which holds %q (%v), want %s of the incident", name, placed.File, content, err, tc.file)
				}
			}
		})
	}
}

// TestErrorsOfRecordsNameFilesToOpen holds the same of the incident that a
// record keeps.
func TestErrorsOfRecordsNameFilesToOpen(t *testing.T) {
	r := newWorld(t, loadSmall(t), "healthy").record()
	r.Dir = filepath.Join(t.TempDir(), "healthy-1")
	save(t, r, r.Dir)
	want := filepath.Join(r.Dir, "incident", "line", "compose.yaml")
	if err := os.WriteFile(want, []byte("services: {web: {image: nginx, ports: [80]}}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	_, err := r.Incident()
	var placed *topologies.FileError
	if !errors.As(err, &placed) || placed.File != want {
		t.Errorf("error %v, want one in %s", err, want)
	}
}
