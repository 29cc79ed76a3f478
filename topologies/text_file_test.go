package topologies_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"relapse/topologies"
)

func TestReadTextRefuses(t *testing.T) {
	dir := t.TempDir()
	write := func(name, content string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("large", strings.Repeat("a", 256<<10+1))
	write("latin1", "title: ok\nnote: caf\xe9\n")
	write("utf16", "\xff\xfet\x00")
	write("bom", "\xef\xbb\xbftitle: x\n")
	write("escape", "title: \x1b[31m\n")
	write("nul", "title: \x00\n")
	write("deep", "overlays: "+strings.Repeat("[", 100_000))
	write("lists", "overlays:\n  "+strings.Repeat("- ", 100_000))
	if err := os.Mkdir(filepath.Join(dir, "folder"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mkfifo(filepath.Join(dir, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	for from, to := range map[string]string{"device": "/dev/zero", "dangling": "nowhere"} {
		if err := os.Symlink(to, filepath.Join(dir, from)); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct{ name, want string }{
		{"large", "x.yaml: this file has more than 256 KiB"},
		{"latin1", "x.yaml:2:10: this is not UTF-8 text"},
		{"utf16", "x.yaml:1:1: this is not UTF-8 text"},
		{"bom", "x.yaml:1:1: the file begins with a byte order mark"},
		{"escape", "x.yaml:1:8: a control character (U+001B) is no text"},
		{"nul", "x.yaml:1:8: a control character (U+0000) is no text"},
		{"deep", "x.yaml:1:511: more than 500 brackets are open here"},
		{"lists", "x.yaml:2:1003: more than 500 lists begin on this line"},
		{"folder", "x.yaml: this is no regular file"},
		{"pipe", "x.yaml: this is no regular file"},
		{"device", "x.yaml: this is no regular file"},
	} {
		_, err := topologies.ReadText(os.DirFS(dir), c.name, "x.yaml")
		if placed := (*topologies.FileError)(nil); !errors.As(err, &placed) || !strings.HasPrefix(err.Error(), c.want) || placed.Hint == "" {
			t.Errorf("%s: error %v, want %s and a hint", c.name, err, c.want)
		}
	}
	if _, err := topologies.ReadText(os.DirFS(dir), "dangling", "x.yaml"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a link to nowhere: error %v", err)
	}
}

func TestReadText(t *testing.T) {
	dir := t.TempDir()
	text := "title: caf\u00e9 [a, {b: (c)}]\r\n\tx\n" + strings.Repeat("- a - b\n", 600)
	if err := os.WriteFile(filepath.Join(dir, "file"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("file", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"file", "link"} {
		if got, err := topologies.ReadText(os.DirFS(dir), name, name); err != nil || string(got) != text {
			t.Errorf("%s: read %q, %v", name, got, err)
		}
	}
}

func TestDisplayPath(t *testing.T) {
	plain := os.DirFS(t.TempDir())
	for _, c := range []struct {
		name string
		fsys fs.FS
		file string
		want string
	}{
		{"a place that nobody knows", plain, "shop/compose.yaml", "shop/compose.yaml"},
		{"a folder", topologies.NamedFS{FS: plain, Root: "mine"}, "shop/compose.yaml", "mine/shop/compose.yaml"},
		{"a folder as it was typed", topologies.NamedFS{FS: plain, Root: "./mine/"}, "compose.yaml", "mine/compose.yaml"},
		{"an absolute folder", topologies.NamedFS{FS: plain, Root: "/srv/mine"}, "compose.yaml", "/srv/mine/compose.yaml"},
		{"the folder itself", topologies.NamedFS{FS: plain, Root: "mine"}, ".", "mine"},
		{"the library", topologies.Library(), "shop/compose.yaml", "topologies/shop/compose.yaml"},
	} {
		if have := topologies.DisplayPath(c.fsys, c.file); have != c.want {
			t.Errorf("%s: have %s, want %s", c.name, have, c.want)
		}
	}
}
