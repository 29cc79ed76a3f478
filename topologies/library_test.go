package topologies_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
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

// TestLibraryNamesItsFiles holds that an error in a file of the library leads to
// that file in the source tree.
func TestLibraryNamesItsFiles(t *testing.T) {
	name := topologies.Names()[0]
	_, err := topologies.Load(context.Background(), topologies.Library(), name, "no-such-overlay")
	var unknown *topologies.UnknownOverlayError
	if !errors.As(err, &unknown) || unknown.Dir != "topologies/"+name {
		t.Errorf("have %v, want an UnknownOverlayError of topologies/%s", err, name)
	}
	// This test runs in topologies, one below the root.
	if _, err := os.Stat(filepath.Join("..", topologies.DisplayPath(topologies.Library(), name+"/"+topologies.ComposeFile))); err != nil {
		t.Error(err)
	}
}

// TestLoadNamesFilesToOpen holds that every kind of mistake in a topology names
// its file below the root of its file system, and once.
func TestLoadNamesFilesToOpen(t *testing.T) {
	good := map[string]string{
		"shop/compose.yaml":            "services: {web: {image: nginx, expose: [80], configs: [site]}}\nconfigs: {site: {file: conf/site.conf}}\n",
		"shop/conf/site.conf":          "server {}\n",
		"shop/overlays/more.yaml":      "services: {web: {cpus: 1}}\n",
		"shop/overlays/unfitting.yaml": "services: {wbe: {cpus: 1}}\n",
	}
	for _, test := range []struct{ name, file, content, overlay string }{
		{"not yaml", "shop/compose.yaml", "services: {\n", ""},
		{"no text", "shop/compose.yaml", "services: \x00\n", ""},
		{"empty", "shop/compose.yaml", "", ""},
		{"a field that is not supported", "shop/compose.yaml", "services: {web: {image: nginx, ports: [80]}}\n", ""},
		{"a value that Compose refuses", "shop/compose.yaml", "services: {web: {image: nginx, expose: [80], depends_on: {db: {condition: sometimes}}}}\n", ""},
		{"a service without an image", "shop/compose.yaml", "services: {web: {expose: [80]}}\n", ""},
		{"a config that goes past its links", "shop/conf/site.conf", "http {\n  resolver 10.0.0.1;\n  server { location / { proxy_pass http://$app; } }\n}\n", ""},
		{"an overlay", "shop/overlays/more.yaml", "services: {web: {ports: [80]}}\n", "more"},
		{"an overlay that does not fit", "shop/overlays/unfitting.yaml", good["shop/overlays/unfitting.yaml"], "unfitting"},
	} {
		t.Run(test.name, func(t *testing.T) {
			fsys := fstest.MapFS{}
			for file, content := range good {
				fsys[file] = &fstest.MapFile{Data: []byte(content)}
			}
			fsys[test.file] = &fstest.MapFile{Data: []byte(test.content)}
			var overlays []string
			if test.overlay != "" {
				overlays = append(overlays, test.overlay)
			}
			_, err := topologies.Load(context.Background(), topologies.NamedFS{FS: fsys, Root: "mine"}, "shop", overlays...)
			var placed *topologies.FileError
			if !errors.As(err, &placed) || placed.File != "mine/"+test.file {
				t.Errorf("have %v, want a FileError in mine/%s", err, test.file)
			}
		})
	}
	named := topologies.NamedFS{FS: fstest.MapFS{"shop/compose.yaml": {Data: []byte(good["shop/compose.yaml"])}, "shop/conf/site.conf": {Data: []byte("server {}\n")}}, Root: "mine"}
	if _, err := topologies.Load(context.Background(), named, "shop"); err != nil {
		t.Errorf("without a mistake: %v", err)
	}
}
