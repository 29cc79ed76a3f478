package topologies

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/moby/moby/client"
)

// debianImage is one image that holds the Debian packages of all nodes of a
// topology. It is made where no registry answers, by this machine's apt from
// this machine's sources, in folders of our own: neither root nor anything of
// the machine's own state is needed or touched.
type debianImage struct {
	docker   *client.Client
	packages []string // sorted
	progress func(string)

	once sync.Once
	err  error
}

// debianLayout changes when images are put together otherwise, so that those
// made before are not used again.
const debianLayout = "1"

// labelVersions holds the versions of every package in the image, as JSON.
const labelVersions = "relapse.debian"

func (d *debianImage) name() string {
	hash := sha256.Sum256([]byte(debianLayout + "\n" + runtime.GOARCH + "\n" + strings.Join(d.packages, "\n")))
	return "relapse-debian:" + hex.EncodeToString(hash[:])[:16]
}

// find gives the image's use for one image of the compose file.
func (d *debianImage) find(ctx context.Context, ref string, packages []string) (ImageUse, string, error) {
	found, err := d.docker.ImageInspect(ctx, d.name())
	if err != nil {
		return ImageUse{}, "", fmt.Errorf("image %s: %w", d.name(), err)
	}
	versions := map[string]string{}
	if found.Config != nil {
		if err := json.Unmarshal([]byte(found.Config.Labels[labelVersions]), &versions); err != nil {
			return ImageUse{}, "", fmt.Errorf("image %s: label %s: %w", d.name(), labelVersions, err)
		}
	}
	use := ImageUse{Ref: ref, Digest: found.ID, Source: ImageDebian, Versions: map[string]string{}}
	for _, name := range packages {
		version, known := versions[name]
		if !known {
			return ImageUse{}, "", fmt.Errorf("image %s: no package %s in it", d.name(), name)
		}
		use.Versions[name] = version
	}
	return use, d.name(), nil
}

// build makes the image, once for all nodes that ask.
func (d *debianImage) build(ctx context.Context) error {
	d.once.Do(func() { d.err = d.buildLocked(ctx) })
	return d.err
}

// buildLocked makes sure that of two tools that want the image one makes it and
// the other one waits.
func (d *debianImage) buildLocked(ctx context.Context) error {
	folder := filepath.Join(cacheFolder(), "debian")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	unlock, err := lockFile(ctx, filepath.Join(folder, "lock"))
	if err != nil {
		return err
	}
	defer unlock()
	if _, err := d.docker.ImageInspect(ctx, d.name()); err == nil {
		return nil
	}
	d.progress("image " + d.name() + ": no registry answers; making it from the Debian packages " + strings.Join(d.packages, ", "))
	began := time.Now()
	archives, err := downloadPackages(ctx, folder, d.packages)
	if err != nil {
		return err
	}
	versions := map[string]string{}
	for _, archive := range archives {
		name, version := packageVersion(archive)
		versions[name] = version
	}
	encoded, err := json.Marshal(versions)
	if err != nil {
		return err
	}
	config := imageConfig{
		Env:        []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"},
		WorkingDir: "/",
		Labels:     map[string]string{labelImage: "debian", labelVersions: string(encoded)},
	}
	if err := loadImage(ctx, d.docker, d.name(), config, func(w io.Writer) error {
		return writeDebianLayer(ctx, w, archives)
	}); err != nil {
		return fmt.Errorf("put the image together: %w", err)
	}
	d.progress(fmt.Sprintf("image %s: from %d Debian packages (%s)", d.name(), len(archives), time.Since(began).Round(100*time.Millisecond)))
	return nil
}

// downloadPackages has apt fetch the packages and all that they depend on, and
// gives the archives' paths in a fixed order. What an earlier call fetched is
// not fetched again.
func downloadPackages(ctx context.Context, folder string, packages []string) ([]string, error) {
	for _, sub := range []string{"lists/partial", "archives/partial"} {
		if err := os.MkdirAll(filepath.Join(folder, sub), 0o755); err != nil {
			return nil, err
		}
	}
	// With no package installed, as this says, all dependencies are wanted.
	status := filepath.Join(folder, "status")
	if err := os.WriteFile(status, nil, 0o644); err != nil {
		return nil, err
	}
	options := []string{
		"-q", "-y",
		"-o", "Dir::State=" + folder,
		"-o", "Dir::State::lists=" + filepath.Join(folder, "lists"),
		"-o", "Dir::State::status=" + status,
		"-o", "Dir::Cache=" + folder,
		"-o", "Dir::Cache::archives=" + filepath.Join(folder, "archives"),
		"-o", "Dir::Cache::pkgcache=", "-o", "Dir::Cache::srcpkgcache=",
		"-o", "APT::Sandbox::User=", // ours can read the folder, _apt cannot
		"-o", "APT::Install-Recommends=false",
		"-o", "Acquire::Languages=none",
		"-o", "Acquire::Retries=2",
		"-o", "Acquire::http::Timeout=10", "-o", "Acquire::https::Timeout=10",
		"-o", "Debug::NoLocking=true", // a lock of our own is held
	}
	// The root of a machine is merged by a script with a language of its own, or
	// stated to be merged by a package without content. The image is merged, so
	// the latter is true, and 25 MB smaller.
	packages = append([]string{"usr-is-merged"}, packages...)
	fetch := append([]string{"install", "--download-only"}, packages...)
	if _, err := apt(ctx, options, fetch...); err != nil {
		// There are no lists yet, or they name archives that are gone by now.
		if _, err := apt(ctx, options, "update"); err != nil {
			return nil, err
		}
		if _, err := apt(ctx, options, fetch...); err != nil {
			return nil, err
		}
	}
	return wantedArchives(ctx, folder, options, packages)
}

// wantedArchives asks apt, as if nothing were fetched, what it would unpack: the
// folder may hold what other topologies had fetched.
func wantedArchives(ctx context.Context, folder string, options, packages []string) ([]string, error) {
	printed, err := apt(ctx, append(options, "-o", "Dir::Cache::archives="+os.DevNull), append([]string{"install", "--print-uris"}, packages...)...)
	if err != nil {
		return nil, err
	}
	var archives []string
	for line := range strings.Lines(printed) {
		// 'http://…/x.deb' x_1%3a2_amd64.deb 12345 SHA256:…
		fields := strings.Fields(line)
		if len(fields) < 3 || !strings.HasSuffix(fields[1], ".deb") {
			continue
		}
		path := filepath.Join(folder, "archives", fields[1])
		if _, err := os.Stat(path); err != nil {
			return nil, fmt.Errorf("apt did not fetch %s: %w", fields[1], err)
		}
		archives = append(archives, path)
	}
	if len(archives) == 0 {
		return nil, fmt.Errorf("apt names no archive for %s", strings.Join(packages, ", "))
	}
	return archives, nil
}

func apt(ctx context.Context, options []string, args ...string) (string, error) {
	command := exec.CommandContext(ctx, "apt-get", append(append([]string{}, options...), args...)...)
	command.Env = append(os.Environ(), "LC_ALL=C", "DEBIAN_FRONTEND=noninteractive")
	command.WaitDelay = 2 * time.Second // for what it started itself, once it is killed
	var out, failure strings.Builder
	command.Stdout, command.Stderr = &out, &failure
	if err := command.Run(); err != nil {
		return "", fmt.Errorf("apt-get %s: %w: %s", strings.Join(args, " "), err, lastLines(failure.String(), 3))
	}
	return out.String(), nil
}

func lastLines(s string, n int) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "; ")
}

// packageVersion reads name_version_architecture.deb; apt writes the colon of an
// epoch as %3a.
func packageVersion(path string) (name, version string) {
	fields := strings.Split(strings.TrimSuffix(filepath.Base(path), ".deb"), "_")
	if len(fields) < 2 {
		return fields[0], ""
	}
	if plain, err := url.PathUnescape(fields[1]); err == nil {
		return fields[0], plain
	}
	return fields[0], fields[1]
}

// lockFile waits for an advisory lock, which the kernel frees if we die.
func lockFile(ctx context.Context, path string) (unlock func(), err error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for {
		err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { _ = file.Close() }, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			_ = file.Close()
			return nil, &fs.PathError{Op: "lock", Path: path, Err: err}
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			_ = file.Close()
			return nil, fmt.Errorf("lock %s: %w", path, ctx.Err())
		}
	}
}
