package topologies_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/moby/moby/client"

	"relapse/topologies"
)

func digest(content []byte) string { return fmt.Sprintf("sha256:%x", sha256.Sum256(content)) }

// registry serves one image of one small layer, under any name and tag.
func registry(t *testing.T) (address, manifestDigest string) {
	t.Helper()
	var layer, packed bytes.Buffer
	archive := tar.NewWriter(&layer)
	content := t.Name() + time.Now().String() // no other test has pulled it
	if err := archive.WriteHeader(&tar.Header{Name: "hello", Mode: 0o644, Size: int64(len(content))}); err != nil {
		t.Fatal(err)
	}
	_, _ = archive.Write([]byte(content))
	_ = archive.Close()
	compressed := gzip.NewWriter(&packed)
	_, _ = compressed.Write(layer.Bytes())
	_ = compressed.Close()
	encode := func(v any) []byte {
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	config := encode(map[string]any{
		"architecture": runtime.GOARCH, "os": "linux", "config": map[string]any{},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{digest(layer.Bytes())}},
	})
	const manifestType = "application/vnd.docker.distribution.manifest.v2+json"
	manifest := encode(map[string]any{
		"schemaVersion": 2, "mediaType": manifestType,
		"config": map[string]any{"mediaType": "application/vnd.docker.container.image.v1+json", "size": len(config), "digest": digest(config)},
		"layers": []any{map[string]any{"mediaType": "application/vnd.docker.image.rootfs.diff.tar.gzip", "size": packed.Len(), "digest": digest(packed.Bytes())}},
	})
	blobs := map[string][]byte{digest(config): config, digest(packed.Bytes()): packed.Bytes()}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Docker-Distribution-Api-Version", "registry/2.0")
		switch {
		case r.URL.Path == "/v2/":
		case strings.Contains(r.URL.Path, "/manifests/"):
			w.Header().Set("Content-Type", manifestType)
			w.Header().Set("Docker-Content-Digest", digest(manifest))
			_, _ = w.Write(manifest)
		default:
			blob, known := blobs[r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]]
			if !known {
				http.NotFound(w, r)
				return
			}
			_, _ = w.Write(blob)
		}
	}))
	t.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "http://"), digest(manifest)
}

func removeImage(t *testing.T, ref string) {
	t.Helper()
	docker, err := client.New(client.FromEnv)
	if err != nil {
		t.Fatal(err)
	}
	defer docker.Close()
	if _, err := docker.ImageRemove(context.Background(), ref, client.ImageRemoveOptions{}); err != nil {
		t.Error(err)
	}
}

func withImage(ref string, packages ...string) *topologies.Topology {
	topology := pair()
	topology.Nodes[0].Image, topology.Nodes[0].Debian = ref, packages
	return topology
}

func TestImageIsPulledAndThenPresent(t *testing.T) {
	binary := rig(t)
	address, want := registry(t)
	ref := address + "/some/program:1.2"
	var steps []string
	options := topologies.Options{Binary: binary, Progress: func(step string) { steps = append(steps, step) }}
	for _, source := range []string{topologies.ImagePulled, topologies.ImagePresent} {
		uses, err := topologies.EnsureImages(t.Context(), withImage(ref), options)
		if err != nil {
			t.Fatal(err)
		}
		use := uses[0]
		if use.Ref != ref || use.Source != source || use.Digest != want {
			t.Errorf("got %+v, want source %s and digest %s", use, source, want)
		}
		if own := uses[1]; own.Ref != topologies.OwnImage || own.Source != topologies.ImageOwn {
			t.Errorf("own image: %+v", own)
		}
	}
	removeImage(t, ref)
	pulled := func(step string) bool { return strings.Contains(step, ref+": pulled") }
	if !slices.ContainsFunc(steps, pulled) {
		t.Errorf("progress does not mention the pull: %q", steps)
	}
}

func TestNoImageOfASilentRegistry(t *testing.T) {
	binary := rig(t)
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	began := time.Now()
	_, err = topologies.EnsureImages(t.Context(), withImage(silent.Addr().String()+"/x:1"), topologies.Options{Binary: binary})
	if !errors.Is(err, topologies.ErrNoImage) {
		t.Errorf("got %v", err)
	}
	if took := time.Since(began); took > 8*time.Second {
		t.Errorf("it took %s to give up", took)
	}
}

func TestNoImage(t *testing.T) {
	binary := rig(t)
	tests := []struct {
		name     string
		packages []string
		want     []string
	}{
		{"without packages", nil, []string{"relapse.invalid/no/such:1", "pull", "x-debian", "docker load"}},
		{"with packages that nobody has", []string{"relapse-no-such-package"},
			[]string{"relapse.invalid/no/such:1", "pull", "relapse-no-such-package", "apt-get", "docker load"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := topologies.EnsureImages(t.Context(), withImage("relapse.invalid/no/such:1", test.packages...), topologies.Options{Binary: binary})
			if !errors.Is(err, topologies.ErrNoImage) {
				t.Fatalf("got %v", err)
			}
			for _, want := range test.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("the error does not say %q: %v", want, err)
				}
			}
		})
	}
}

// TestDebianImage makes an image where no registry answers, and runs a program
// in it as an unprivileged user. The first time on a machine it fetches a few
// megabytes.
func TestDebianImage(t *testing.T) {
	binary := rig(t)
	if _, err := exec.LookPath("apt-get"); err != nil {
		t.Skip("this machine has no apt:", err)
	}
	topology := pair()
	cache := &topology.Nodes[1]
	cache.Image, cache.Debian = "relapse.invalid/memcached:1", []string{"memcached"}
	cache.Entrypoint, cache.Command = []string{"memcached"}, []string{"-l", "0.0.0.0", "-m", "16"}
	cache.Expose, cache.Probe = []uint16{11211}, topologies.Probe{Protocol: "memcached", Port: 11211}
	topology.Links[0].Port = 11211

	system := start(t, topology, topologies.Options{})
	uses := system.Images()
	if uses[1].Source != topologies.ImageDebian || uses[1].Digest == "" || uses[1].Versions["memcached"] == "" {
		t.Errorf("got %+v", uses[1])
	}
	if _, err := instance(t, system, "store").Probe(t.Context()); err != nil {
		t.Error(err)
	}
	// Now that it is there, nothing is asked of anybody.
	began := time.Now()
	if _, err := topologies.EnsureImages(t.Context(), topology, topologies.Options{Binary: binary}); err != nil {
		t.Error(err)
	}
	if took := time.Since(began); took > time.Second {
		t.Errorf("finding the image again took %s", took)
	}
}

func TestOwnImageNeedsAStaticProgram(t *testing.T) {
	topologies.RequireEngine(t)
	for _, binary := range []string{"/bin/sh", "system_test.go", "/no/such/file"} {
		_, err := topologies.EnsureImages(t.Context(), pair(), topologies.Options{Binary: binary})
		if err == nil {
			t.Errorf("%s was taken", binary)
		} else if !strings.Contains(err.Error(), binary) {
			t.Errorf("the error does not name %s: %v", binary, err)
		}
	}
}

func TestDebianLayer(t *testing.T) {
	if _, err := exec.LookPath("dpkg-deb"); err != nil {
		t.Skip("this machine has no dpkg:", err)
	}
	folder := t.TempDir()
	write := func(path, content string) {
		path = folder + "/" + path
		if err := os.MkdirAll(path[:strings.LastIndex(path, "/")], 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	var archives []string
	pack := func(name string) {
		write(name+"/DEBIAN/control", "Package: "+name+"\nVersion: 1\nArchitecture: all\nMaintainer: Nobody <nobody@example.org>\nDescription: test\n")
		archive := folder + "/" + name + "_1_all.deb"
		if out, err := exec.Command("dpkg-deb", "--build", folder+"/"+name, archive).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		archives = append(archives, archive)
	}
	write("one/bin/tool", "first")
	write("one/usr/share/doc/one/README", "long")
	write("one/etc/one.conf", "one")
	pack("one")
	write("two/usr/bin/tool", "second")
	write("two/lib64/loader", "ld")
	pack("two")

	var layer bytes.Buffer
	if err := topologies.WriteDebianLayer(t.Context(), &layer, archives); err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	reader := tar.NewReader(&layer)
	for {
		header, err := reader.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, twice := got[header.Name]; twice {
			t.Errorf("%s is there twice", header.Name)
		}
		content, err := io.ReadAll(reader)
		if err != nil {
			t.Fatal(err)
		}
		got[header.Name] = string(content) + header.Linkname
	}
	want := map[string]string{
		"usr/bin/tool": "first", "usr/lib64/loader": "ld", "etc/one.conf": "one",
		"bin": "usr/bin", "lib64": "usr/lib64", "tmp/": "",
	}
	for name, content := range want {
		if found, there := got[name]; !there || found != content {
			t.Errorf("%s: %q (there: %v), want %q", name, found, there, content)
		}
	}
	for name := range got {
		if strings.HasPrefix(name, "usr/share/doc") {
			t.Errorf("%s was not left out", name)
		}
	}
	if !strings.Contains(got["etc/passwd"], "www-data:x:33:33:") || !strings.Contains(got["etc/group"], "nogroup:x:65534:") {
		t.Errorf("users: %q, groups: %q", got["etc/passwd"], got["etc/group"])
	}
}

func TestPackageVersion(t *testing.T) {
	tests := []struct{ path, name, version string }{
		{"/x/nginx_1.22.1-9+deb12u11_amd64.deb", "nginx", "1.22.1-9+deb12u11"},
		{"libcap2_1%3a2.66-4_amd64.deb", "libcap2", "1:2.66-4"},
		{"odd.deb", "odd", ""},
	}
	for _, test := range tests {
		if name, version := topologies.PackageVersion(test.path); name != test.name || version != test.version {
			t.Errorf("%s: %s %s", test.path, name, version)
		}
	}
}

func TestMergedPath(t *testing.T) {
	for have, want := range map[string]string{
		"./bin/sh": "usr/bin/sh", "./lib/x/y": "usr/lib/x/y", "./lib64/ld": "usr/lib64/ld", "./sbin": "",
		"./": "", "./etc/x": "etc/x", "./library/x": "library/x", "../../etc/x": "etc/x", "./usr/bin/x": "usr/bin/x",
	} {
		if got := topologies.MergedPath(have); got != want {
			t.Errorf("%s: %q, want %q", have, got, want)
		}
	}
}
