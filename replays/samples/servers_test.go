package samples_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"relapse/replays/samples"
)

// nobody is whom servers run as that refuse to run as root.
const nobody = 65534

// program finds a server on this machine, in the path or where Debian keeps those
// of several versions. Where CI is promised it must be there.
func program(t *testing.T, name, pkg string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if kept, _ := filepath.Glob(filepath.Join("/usr/lib", pkg, "*", "bin", name)); err != nil && len(kept) > 0 {
		return kept[len(kept)-1]
	}
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("%s: %v: install Debian's package %s", name, err, pkg)
		}
		t.Skipf("%s: %v: install Debian's package %s", name, err, pkg)
	}
	return path
}

// serverFolder is a folder that a server of another user can get into, which
// those of t.TempDir are not.
func serverFolder(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "relapse-server-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if os.Geteuid() == 0 {
		if err := os.Chown(dir, nobody, nobody); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// server is a command that runs as nobody where the test runs as root, and dies
// with the test however that ends.
func server(path string, args ...string) *exec.Cmd {
	c := exec.Command(path, args...)
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if os.Geteuid() == 0 {
		c.SysProcAttr.Credential = &syscall.Credential{Uid: nobody, Gid: nobody}
	}
	return c
}

// freePort is a port at which nobody listens just now.
func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// run starts a server and ends it with the test; its output is shown where the
// test fails.
func run(t *testing.T, c *exec.Cmd) {
	t.Helper()
	var out strings.Builder
	c.Stdout, c.Stderr = &out, &out
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Process.Kill()
		_ = c.Wait()
		if t.Failed() {
			t.Logf("%s said:\n%s", c.Path, out.String())
		}
	})
}

// startRedis gives the address of a Redis of its own.
func startRedis(t *testing.T) string {
	t.Helper()
	path := program(t, "redis-server", "redis-server")
	port := strconv.Itoa(freePort(t))
	run(t, server(path, "--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", serverFolder(t)))
	return net.JoinHostPort("127.0.0.1", port)
}

// startPostgres gives the address of a PostgreSQL of its own, whose user postgres
// needs no password.
func startPostgres(t *testing.T) string {
	t.Helper()
	path, err := filepath.EvalSymlinks(program(t, "postgres", "postgresql"))
	if err != nil {
		t.Fatal(err)
	}
	data := filepath.Join(serverFolder(t), "data")
	initdb := server(filepath.Join(filepath.Dir(path), "initdb"), "-D", data, "-U", "postgres", "-A", "trust", "--no-sync", "--no-locale", "-E", "UTF8")
	initdb.Dir = os.TempDir()
	if out, err := initdb.CombinedOutput(); err != nil {
		t.Fatalf("initdb: %v\n%s", err, out)
	}
	port := strconv.Itoa(freePort(t))
	c := server(path, "-D", data, "-p", port, "-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories=", "-c", "fsync=off")
	c.Dir = os.TempDir()
	run(t, c)
	return net.JoinHostPort("127.0.0.1", port)
}

// scraped scrapes until a condition holds of what was stored, and gives the last
// scrape as lines.
func scraped(t *testing.T, target *samples.Target, what string, holds func(lines []string) bool) []string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	var last error
	for {
		s := samples.NewStore()
		last = target.Scrape(ctx, s, start)
		if lines := stored(s, start); last == nil && holds(lines) {
			return lines
		}
		select {
		case <-ctx.Done():
			t.Fatalf("within 20 s it was not seen that %s: %v", what, last)
		case <-tick.C:
		}
	}
}

// value finds a series among lines by how it is written up to its value.
func value(lines []string, series string) (float64, bool) {
	for _, line := range lines {
		if text, ok := strings.CutPrefix(line, series+" "); ok {
			v, err := strconv.ParseFloat(text, 64)
			return v, err == nil
		}
	}
	return 0, false
}

// has says whether all of some series are there, and names the first that is not.
func has(lines []string, series ...string) error {
	for _, s := range series {
		if _, ok := value(lines, s); !ok {
			return fmt.Errorf("there is no %s in:\n%s", s, strings.Join(lines, "\n"))
		}
	}
	return nil
}
