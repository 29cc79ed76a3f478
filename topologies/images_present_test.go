package topologies_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"relapse/topologies"
)

// TestPresentImages holds that our own build is known also where no engine answers,
// and that nothing else is made up for it.
func TestPresentImages(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "relapse")
	if err := os.WriteFile(binary, []byte("a build"), 0o755); err != nil {
		t.Fatal(err)
	}
	topology := &topologies.Topology{Nodes: []topologies.Node{
		{Name: "a", Image: topologies.OwnImage}, {Name: "b", Image: topologies.OwnImage}, {Name: "c", Image: "redis:7"},
	}}
	own := func(uses []topologies.ImageUse) string {
		for _, u := range uses {
			if u.Ref == topologies.OwnImage {
				return u.Versions["relapse"]
			}
		}
		return ""
	}
	t.Setenv("DOCKER_HOST", "unix://"+filepath.Join(t.TempDir(), "none.sock"))
	uses, err := topologies.PresentImages(t.Context(), topology, binary)
	if !errors.Is(err, topologies.ErrNoEngine) || len(uses) != 1 || own(uses) == "" {
		t.Errorf("without an engine: %+v, %v; want our own alone, and ErrNoEngine", uses, err)
	}
	if err := os.WriteFile(binary, []byte("another build"), 0o755); err != nil {
		t.Fatal(err)
	}
	other, _ := topologies.PresentImages(t.Context(), topology, binary)
	if own(other) == own(uses) {
		t.Errorf("two builds have one digest, %s", own(uses))
	}
	if _, err := topologies.PresentImages(t.Context(), topology, filepath.Join(t.TempDir(), "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without a binary: %v, want that it is not there", err)
	}
}
