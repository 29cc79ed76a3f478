package topologies

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// debianLinks are the top folders that Debian has merged into /usr. Packages
// still ship files under the old names, so both must lead to one place.
var debianLinks = map[string]string{"bin": "usr/bin", "sbin": "usr/sbin", "lib": "usr/lib", "lib64": "usr/lib64"}

// debianSkipped is what no program needs to run.
var debianSkipped = []string{
	"usr/share/doc", "usr/share/man", "usr/share/locale", "usr/share/info", "usr/share/lintian",
	"usr/share/bash-completion", "usr/share/bug", "usr/share/common-licenses", "usr/share/zoneinfo",
	"usr/share/i18n", "usr/share/gdb", "usr/lib/x86_64-linux-gnu/gconv", "usr/lib/aarch64-linux-gnu/gconv",
}

// debianUsers has the users that the packages' own scripts would have made, as
// those do not run here, under the numbers that the official images use.
const debianUsers = `root:x:0:0:root:/root:/bin/sh
daemon:x:1:1:daemon:/usr/sbin:/usr/sbin/nologin
www-data:x:33:33:www-data:/var/www:/usr/sbin/nologin
haproxy:x:99:99:haproxy:/var/lib/haproxy:/usr/sbin/nologin
nginx:x:101:101:nginx:/nonexistent:/usr/sbin/nologin
redis:x:999:999:redis:/var/lib/redis:/usr/sbin/nologin
postgres:x:998:998:postgres:/var/lib/postgresql:/bin/sh
memcache:x:11211:11211:memcache:/nonexistent:/usr/sbin/nologin
nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin
`

// debianFolders has the folders that the packages' scripts would have made.
var debianFolders = []tar.Header{
	{Name: "tmp/", Mode: 0o1777},
	{Name: "var/tmp/", Mode: 0o1777},
	{Name: "run/", Mode: 0o755},
	{Name: "root/", Mode: 0o700},
	{Name: "var/cache/nginx/", Mode: 0o755, Uid: 101, Gid: 101},
	{Name: "var/log/nginx/", Mode: 0o755},
	{Name: "var/lib/nginx/", Mode: 0o755},
	{Name: "var/lib/haproxy/", Mode: 0o755, Uid: 99, Gid: 99},
	{Name: "var/lib/redis/", Mode: 0o755, Uid: 999, Gid: 999},
	{Name: "var/lib/postgresql/", Mode: 0o755, Uid: 998, Gid: 998},
	{Name: "run/postgresql/", Mode: 0o3775, Uid: 998, Gid: 998},
}

// writeDebianLayer merges the packages' files into one layer. Of a path that
// several packages have, the first one stays.
func writeDebianLayer(ctx context.Context, w io.Writer, archives []string) error {
	layer := &debianLayer{tar: tar.NewWriter(w), seen: map[string]bool{}}
	for _, name := range slices.Sorted(maps.Keys(debianLinks)) {
		target := debianLinks[name]
		if err := layer.add(&tar.Header{Name: target, Typeflag: tar.TypeDir, Mode: 0o755}, nil); err != nil {
			return err
		}
		if err := layer.link(name, target); err != nil {
			return err
		}
	}
	if err := layer.file("etc/passwd", debianUsers); err != nil {
		return err
	}
	if err := layer.file("etc/group", debianGroups()); err != nil {
		return err
	}
	if err := layer.file("etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files dns\n"); err != nil {
		return err
	}
	for _, folder := range debianFolders {
		folder.Typeflag = tar.TypeDir
		if err := layer.add(&folder, nil); err != nil {
			return err
		}
	}
	for _, archive := range archives {
		if err := layer.unpack(ctx, archive); err != nil {
			return fmt.Errorf("%s: %w", filepath.Base(archive), err)
		}
	}
	return layer.tar.Close()
}

func debianGroups() string {
	var groups strings.Builder
	for user := range strings.Lines(debianUsers) {
		fields := strings.Split(user, ":")
		name := fields[0]
		if name == "nobody" {
			name = "nogroup"
		}
		fmt.Fprintf(&groups, "%s:x:%s:\n", name, fields[3])
	}
	return groups.String()
}

type debianLayer struct {
	tar  *tar.Writer
	seen map[string]bool
}

// link writes one of the links that add follows, which add itself would drop.
func (l *debianLayer) link(name, target string) error {
	return l.tar.WriteHeader(&tar.Header{Name: name, Typeflag: tar.TypeSymlink, Linkname: target, Mode: 0o777})
}

func (l *debianLayer) file(name, content string) error {
	return l.add(&tar.Header{Name: name, Typeflag: tar.TypeReg, Size: int64(len(content)), Mode: 0o644}, strings.NewReader(content))
}

// unpack copies the files of one package.
func (l *debianLayer) unpack(ctx context.Context, archive string) error {
	command := exec.CommandContext(ctx, "dpkg-deb", "--fsys-tarfile", archive)
	var failure bytes.Buffer
	command.Stderr = &failure
	out, err := command.StdoutPipe()
	if err != nil {
		return err
	}
	if err := command.Start(); err != nil {
		return err
	}
	err = l.copy(tar.NewReader(out))
	if err == nil {
		// What follows the archive's end, or the program waits for a reader.
		_, err = io.Copy(io.Discard, out)
	}
	if err != nil {
		_ = command.Process.Kill()
	}
	if ended := command.Wait(); ended != nil {
		err = errors.Join(err, fmt.Errorf("dpkg-deb: %w: %s", ended, bytes.TrimSpace(failure.Bytes())))
	}
	return err
}

func (l *debianLayer) copy(from *tar.Reader) error {
	for {
		header, err := from.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if err := l.add(header, from); err != nil {
			return fmt.Errorf("%s: %w", header.Name, err)
		}
	}
}

// add writes one entry at its place in the merged tree.
func (l *debianLayer) add(header *tar.Header, content io.Reader) error {
	name := mergedPath(header.Name)
	if name == "" || l.seen[name] || skippedPath(name) {
		return nil
	}
	l.seen[name] = true
	merged := tar.Header{
		Typeflag: header.Typeflag, Name: name, Linkname: header.Linkname,
		Size: header.Size, Mode: header.Mode, Uid: header.Uid, Gid: header.Gid, ModTime: header.ModTime,
	}
	switch header.Typeflag {
	case tar.TypeDir:
		merged.Name += "/"
	case tar.TypeLink:
		merged.Linkname = mergedPath(header.Linkname)
	}
	if err := l.tar.WriteHeader(&merged); err != nil {
		return err
	}
	if header.Typeflag != tar.TypeReg {
		return nil
	}
	_, err := io.Copy(l.tar, content)
	return err
}

// mergedPath gives a path relative to the root, with the top folders that are
// links followed. The links themselves and the root give "".
func mergedPath(name string) string {
	name = strings.TrimPrefix(path.Clean("/"+name), "/")
	top, rest, below := strings.Cut(name, "/")
	target, isLink := debianLinks[top]
	switch {
	case isLink && below:
		return target + "/" + rest
	case isLink:
		return ""
	}
	return name
}

func skippedPath(name string) bool {
	return slices.ContainsFunc(debianSkipped, func(skipped string) bool {
		return name == skipped || strings.HasPrefix(name, skipped+"/")
	})
}
