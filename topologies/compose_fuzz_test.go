package topologies_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"testing/fstest"

	"relapse/topologies"
)

// FuzzLoad holds two promises for any bytes at all: loading does not panic, and
// a refusal has a place in the file that was given.
func FuzzLoad(f *testing.F) {
	for _, pattern := range []string{"testdata/bad/*.yaml", "testdata/good/*/compose.yaml", "*/compose.yaml"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			f.Fatal(err)
		}
		for _, file := range files {
			src, err := os.ReadFile(file)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(src)
		}
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		_, err := topologies.Load(context.Background(), fstest.MapFS{"t/compose.yaml": {Data: src}}, "t")
		if err == nil {
			return
		}
		var at *topologies.FileError
		if !errors.As(err, &at) {
			t.Fatalf("the error has no place: %v", err)
		}
		if at.File != "t/compose.yaml" || at.Problem == "" {
			t.Fatalf("have file %q and problem %q", at.File, at.Problem)
		}
		_ = at.Error()
	})
}
