package topologies_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"relapse/topologies"
)

var update = flag.Bool("update", false, "write the golden files anew")

// golden compares with a file below testdata, or writes it with -update.
func golden(t *testing.T, file, have string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(have), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), have); diff != "" {
		t.Errorf("%s (-want +have):\n%s", file, diff)
	}
}

// TestLoadRefuses loads every case below testdata/bad: either one compose file,
// or a folder of which all overlays are applied.
func TestLoadRefuses(t *testing.T) {
	entries, err := os.ReadDir("testdata/bad")
	if err != nil {
		t.Fatal(err)
	}
	cases := 0
	for _, entry := range entries {
		name, isFile := strings.CutSuffix(entry.Name(), ".yaml")
		if !isFile && !entry.IsDir() {
			continue
		}
		cases++
		t.Run(name, func(t *testing.T) {
			var fsys fs.FS = os.DirFS("testdata/bad")
			if isFile {
				src, err := os.ReadFile(filepath.Join("testdata/bad", entry.Name()))
				if err != nil {
					t.Fatal(err)
				}
				fsys = fstest.MapFS{path.Join(name, topologies.ComposeFile): {Data: src}}
			}
			overlays, err := topologies.Overlays(fsys, name)
			if err != nil {
				t.Fatal(err)
			}
			_, err = topologies.Load(context.Background(), fsys, name, overlays...)
			if err == nil {
				t.Fatal("loaded without an error")
			}
			var at *topologies.FileError
			if !errors.As(err, &at) {
				t.Fatalf("the error has no place: %v", err)
			}
			golden(t, filepath.Join("testdata/bad", name+".want"), err.Error()+"\n")
		})
	}
	if cases < 50 {
		t.Errorf("only %d cases found", cases)
	}
}

func TestLoad(t *testing.T) {
	dirs, err := filepath.Glob("testdata/good/*/compose.yaml")
	if err != nil || len(dirs) == 0 {
		t.Fatalf("no cases found: %v", err)
	}
	for _, dir := range dirs {
		name := filepath.Base(filepath.Dir(dir))
		t.Run(name, func(t *testing.T) {
			fsys := os.DirFS("testdata/good")
			overlays, err := topologies.Overlays(fsys, name)
			if err != nil {
				t.Fatal(err)
			}
			have, err := topologies.Load(context.Background(), fsys, name, overlays...)
			if err != nil {
				t.Fatal(err)
			}
			golden(t, filepath.Join("testdata/good", name+".json"), dump(t, have))
		})
	}
}

// dump writes a topology for people: the content of files as text.
func dump(t *testing.T, top *topologies.Topology) string {
	t.Helper()
	type file struct {
		Path, Content string
		Mode          int64
	}
	type node struct {
		topologies.Node
		Files []file
	}
	nodes := make([]node, len(top.Nodes))
	for i, n := range top.Nodes {
		nodes[i].Node = n
		for _, f := range n.Files {
			nodes[i].Files = append(nodes[i].Files, file{f.Path, string(f.Content), f.Mode})
		}
	}
	links := make([]string, len(top.Links))
	for i, l := range top.Links {
		links[i] = l.String()
	}
	var out strings.Builder
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(map[string]any{
		"name": top.Name, "overlays": top.Overlays, "nodes": nodes, "links": links, "hosts": top.Hosts,
	}); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestLoadOverlays(t *testing.T) {
	fsys := os.DirFS("testdata/good")
	site := func(t *testing.T, overlays ...string) (content string, applied []string) {
		t.Helper()
		top, err := topologies.Load(context.Background(), fsys, "overlays", overlays...)
		if err != nil {
			t.Fatal(err)
		}
		web, ok := top.Node("web")
		if !ok {
			t.Fatal("no node web")
		}
		i := slices.IndexFunc(web.Files, func(f topologies.File) bool { return f.Path == "/etc/nginx/site.conf" })
		if i < 0 {
			t.Fatalf("no site.conf in %v", web.Files)
		}
		return string(web.Files[i].Content), top.Overlays
	}
	for _, test := range []struct {
		name     string
		overlays []string
		content  string
		applied  []string
	}{
		{"none", nil, "through the cache", nil},
		{"one", []string{"1-direct"}, "straight to the app", []string{"1-direct"}},
		{"one named twice", []string{"1-direct", "1-direct"}, "straight to the app", []string{"1-direct"}},
		{"order is kept", []string{"2-higher-limits", "1-direct"}, "straight to the app", []string{"2-higher-limits", "1-direct"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			content, applied := site(t, test.overlays...)
			if content != test.content {
				t.Errorf("have content %q, want %q", content, test.content)
			}
			if diff := cmp.Diff(test.applied, applied); diff != "" {
				t.Errorf("overlays (-want +have):\n%s", diff)
			}
		})
	}
}

func TestLoadUnknownOverlay(t *testing.T) {
	fsys := os.DirFS("testdata/good")
	for _, test := range []struct {
		name, dir, overlay, want string
	}{
		{"a slip", "overlays", "1-dirct", `overlays/overlays: no overlay "1-dirct": did you mean "1-direct"?`},
		{"unlike any", "overlays", "more-cache", `overlays/overlays: no overlay "more-cache": known: 1-direct, 2-higher-limits`},
		{"the base file", "overlays", "../compose", `overlays/overlays: no overlay "../compose": known: 1-direct, 2-higher-limits`},
		{"itself, by a path", "overlays", "../overlays/1-direct", `overlays/overlays: no overlay "../overlays/1-direct": known: 1-direct, 2-higher-limits`},
		{"outside the folder", "overlays", "../../x", `overlays/overlays: no overlay "../../x": known: 1-direct, 2-higher-limits`},
		{"there are none", "anchors", "any", `anchors/overlays: no overlay "any": the topology has no overlays`},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := topologies.Load(context.Background(), fsys, test.dir, test.overlay)
			var unknown *topologies.UnknownOverlayError
			if !errors.As(err, &unknown) {
				t.Fatalf("have %v, want an UnknownOverlayError", err)
			}
			if err.Error() != test.want {
				t.Errorf("have %s\nwant %s", err, test.want)
			}
		})
	}
}

func TestLoadMissingFolder(t *testing.T) {
	_, err := topologies.Load(context.Background(), fstest.MapFS{}, "nowhere")
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("have %v, want fs.ErrNotExist", err)
	}
}

// TestLoadIsHermetic sets a variable that a file uses: it must change nothing.
func TestLoadIsHermetic(t *testing.T) {
	t.Setenv("IMAGE", "from-the-shell")
	t.Setenv("COMPOSE_PROFILES", "debug")
	t.Setenv("COMPOSE_PROJECT_NAME", "from-the-shell")
	load := func(src string) (*topologies.Topology, error) {
		return topologies.Load(context.Background(), fstest.MapFS{
			"shop/compose.yaml": {Data: []byte(src)},
			"shop/.env":         {Data: []byte("IMAGE=from-dotenv\n")},
		}, "shop")
	}
	top, err := load("services: {web: {image: '${IMAGE:-nginx}', expose: [80]}}")
	if err != nil {
		t.Fatal(err)
	}
	if top.Name != "shop" || top.Nodes[0].Image != "nginx" {
		t.Errorf("have name %q and image %q, want shop and nginx", top.Name, top.Nodes[0].Image)
	}
	if _, err := load("services: {web: {image: '${IMAGE}', expose: [80]}}"); err == nil {
		t.Error("a variable without a default was accepted")
	}
}

// TestResolverLint tells configs that bypass links from those that only look so.
func TestResolverLint(t *testing.T) {
	for _, test := range []struct {
		name, content string
		refused       bool
		line          int
	}{
		{"nginx, upstream by variable", "http {\n  resolver 10.0.0.1;\n  server { location / { proxy_pass http://$app; } }\n}\n", true, 2},
		{"nginx, server line with resolve", "http {\n  resolver 10.0.0.1;\n  upstream a { server app:80 resolve; }\n}\n", true, 2},
		{"nginx, fixed upstream", "http {\n  resolver 10.0.0.1;\n  server { location / { proxy_pass http://app; } }\n}\n", false, 0},
		{"nginx, variable without resolver", "server { location / { proxy_pass http://app$request_uri; } }\n", false, 0},
		{"nginx, in a comment", "http {\n  # resolver 10.0.0.1;\n  server { location / { proxy_pass http://$app; } }\n}\n", false, 0},
		{"haproxy, section", "defaults\n  mode http\nresolvers dns\n  nameserver a 10.0.0.1:53\n", true, 3},
		{"haproxy, in a comment", "# resolvers dns\ndefaults\n  mode http\n", false, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := topologies.Load(context.Background(), fstest.MapFS{
				"t/compose.yaml":  {Data: []byte("services: {web: {image: nginx, expose: [80], configs: [c]}}\nconfigs: {c: {file: conf/site.cfg}}\n")},
				"t/conf/site.cfg": {Data: []byte(test.content)},
			}, "t")
			var at *topologies.FileError
			if errors.As(err, &at) != test.refused {
				t.Fatalf("have error %v, want refused: %v", err, test.refused)
			}
			if test.refused && (at.File != "t/conf/site.cfg" || at.Line != test.line) {
				t.Errorf("have %s:%d, want t/conf/site.cfg:%d", at.File, at.Line, test.line)
			}
		})
	}
}
