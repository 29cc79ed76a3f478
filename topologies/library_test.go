package topologies_test

import (
	"context"
	"errors"
	"io/fs"
	"testing"
	"testing/fstest"

	"relapse/topologies"
)

// TestLibrary loads every topology of the library, plain and with each overlay.
func TestLibrary(t *testing.T) {
	names := topologies.Names()
	if len(names) == 0 {
		t.Fatal("the library is empty")
	}
	for _, name := range names {
		overlays, err := topologies.Overlays(topologies.Library(), name)
		if err != nil {
			t.Fatal(err)
		}
		for _, overlay := range append([]string{""}, overlays...) {
			t.Run(name+"/"+overlay, func(t *testing.T) {
				var with []string
				if overlay != "" {
					with = append(with, overlay)
				}
				top, err := topologies.Load(context.Background(), topologies.Library(), name, with...)
				if err != nil {
					t.Fatal(err)
				}
				if top.Name != name {
					t.Errorf("the topology calls itself %q, its folder %q", top.Name, name)
				}
				if len(top.Links) == 0 {
					t.Error("no links: no fault between nodes can be thrown")
				}
			})
		}
	}
}

func TestFind(t *testing.T) {
	name := topologies.Names()[0]
	own := fstest.MapFS{
		name + "/compose.yaml": {Data: []byte("services: {}")},
		"mine/compose.yaml":    {Data: []byte("services: {}")},
	}
	for _, test := range []struct {
		name, find string
		beside     fs.FS
		own        bool
		missing    bool
	}{
		{"beside the incident", "mine", own, true, false},
		{"beside goes before the library", name, own, true, false},
		{"in the library", name, fstest.MapFS{}, false, false},
		{"nothing beside", name, nil, false, false},
		{"nowhere", "nowhere", own, false, true},
		{"outside", "../" + name, own, false, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			fsys, dir, err := topologies.Find(test.find, test.beside)
			if test.missing {
				if !errors.Is(err, fs.ErrNotExist) {
					t.Errorf("have %v, want fs.ErrNotExist", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			src, err := fs.ReadFile(fsys, dir+"/compose.yaml")
			if err != nil {
				t.Fatal(err)
			}
			if isOwn := string(src) == "services: {}"; isOwn != test.own {
				t.Errorf("found in its own folder: %v, want %v", isOwn, test.own)
			}
		})
	}
}
