package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestResumeRefusesBeforeTheLock holds that a run that cannot be gone on with is
// bad input, whoever holds the machine's lock, and that the lock is not taken for
// it: whoever takes it writes its process there.
func TestResumeRefusesBeforeTheLock(t *testing.T) {
	for _, tc := range []struct {
		name, matrix string
	}{
		{"no run", ""},
		{"matrix cut short", "{"},
		{"matrix {}", "{}"},
		{"no repeats", `{"incident":"account-service","arms":["healthy"],"repeat":0,"plays":["healthy-1"]}`},
		{"a play elsewhere", `{"incident":"account-service","arms":["healthy"],"repeat":1,"plays":["../healthy-1"]}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := t.TempDir()
			if tc.matrix != "" {
				if err := os.WriteFile(filepath.Join(dir, "matrix.json"), []byte(tc.matrix), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if have, _ := printed(t, "verify", "account-service", "--resume", dir); have != exitBadInput {
				t.Errorf("exit code %d, want %d", have, exitBadInput)
			}
			holder, err := os.ReadFile("/tmp/relapse.lock")
			if own := fmt.Sprintf("process %d", os.Getpid()); err == nil && strings.TrimSpace(string(holder)) == own {
				t.Errorf("the lock is of %s, want that it was not taken", own)
			}
		})
	}
}
