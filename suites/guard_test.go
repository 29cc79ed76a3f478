package suites_test

import (
	"go/build"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// layers are the folders in the order in which they may import each other: each
// only those before it.
var layers = []string{"topologies", "faults", "replays", "reports", "suites"}

func TestImportsPointOneWay(t *testing.T) {
	checked := 0
	for n, layer := range layers {
		allowed := layers[:n+1]
		for _, dir := range packageFolders(t, filepath.Join("..", layer)) {
			pkg, err := build.ImportDir(dir, 0)
			if err != nil {
				t.Fatalf("%s: %v", dir, err)
			}
			checked++
			imports := slices.Concat(pkg.Imports, pkg.TestImports, pkg.XTestImports)
			for _, path := range imports {
				inside, ok := strings.CutPrefix(path, "relapse/")
				if !ok {
					continue
				}
				top, _, _ := strings.Cut(inside, "/")
				if !slices.Contains(allowed, top) {
					t.Errorf("%s imports %s: %s may import %s only", dir, path, layer, strings.Join(allowed, ", "))
				}
			}
		}
	}
	if checked < len(layers) {
		t.Errorf("checked %d packages, want one in each of %v at least", checked, layers)
	}
}

func packageFolders(t *testing.T, root string) []string {
	t.Helper()
	var out []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		if d.Name() == "testdata" {
			return filepath.SkipDir
		}
		if files, _ := filepath.Glob(filepath.Join(path, "*.go")); len(files) > 0 {
			out = append(out, path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestNoCatchAllFolders(t *testing.T) {
	for _, name := range []string{"internal", "pkg", "util", "utils", "common", "helpers"} {
		for _, layer := range append([]string{"."}, layers...) {
			if _, err := os.Stat(filepath.Join("..", layer, name)); err == nil {
				t.Errorf("%s/%s: a folder is named for what it holds", layer, name)
			}
		}
	}
}
