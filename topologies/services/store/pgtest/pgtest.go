// Package pgtest starts real PostgreSQL servers for tests, out of the programs that are
// installed. Only tests use it.
//
// A package's tests share one server, on which each test gets databases of its own, and
// may have servers to kill besides:
//
//	func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }
package pgtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// within bounds how long a server may take to start or end, on a machine that is busy.
const within = 30 * time.Second

var shared struct {
	once   sync.Once
	folder string // of all servers, with a fresh data folder to copy
	server *Server
	err    error

	mu   sync.Mutex
	made int // databases, and servers
}

// Main runs a package's tests and ends the server that they shared.
func Main(m *testing.M) int {
	code := m.Run()
	if shared.server != nil {
		shared.server.Kill()
	}
	if shared.folder != "" {
		_ = os.RemoveAll(shared.folder)
	}
	return code
}

// Databases makes empty databases for one test, on one server, and gives their names as
// HOST:PORT/NAME. Where there is no PostgreSQL the test is skipped; with CI=true it
// fails.
func Databases(t testing.TB, n int) []string {
	t.Helper()
	server := sharedServer(t)
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	conn, err := pgx.Connect(ctx, server.URL("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	var names []string
	for range n {
		name := fmt.Sprintf("test_%d", next())
		if _, err := conn.Exec(ctx, "create database "+name); err != nil {
			t.Fatal(err)
		}
		names = append(names, server.Address+"/"+name)
	}
	return names
}

// Servers starts servers for one test, which it may kill.
func Servers(t testing.TB, n int) []*Server {
	t.Helper()
	sharedServer(t)
	var servers []*Server
	for range n {
		s, err := newServer()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.Kill)
		servers = append(servers, s)
	}
	return servers
}

func sharedServer(t testing.TB) *Server {
	t.Helper()
	shared.once.Do(func() { shared.err = prepare() })
	var missing *missingError
	switch {
	case shared.err == nil:
	case errors.As(shared.err, &missing) && os.Getenv("CI") != "true":
		t.Skip("this test needs PostgreSQL: ", shared.err)
	default:
		t.Fatal("this test needs PostgreSQL: ", shared.err)
	}
	return shared.server
}

func next() int {
	shared.mu.Lock()
	defer shared.mu.Unlock()
	shared.made++
	return shared.made
}

// missingError says that a program is not installed.
type missingError struct{ program string }

func (e *missingError) Error() string {
	return e.program + " is not installed; apt-get install postgresql"
}

// program finds a program of PostgreSQL, which Debian does not put on the path.
func program(name string) (string, error) {
	if path, err := exec.LookPath(name); err == nil {
		return path, nil
	}
	found, err := filepath.Glob(filepath.Join("/usr/lib/postgresql/*/bin", name))
	if err != nil || len(found) == 0 {
		return "", &missingError{name}
	}
	return slices.Max(found), nil
}

// prepare makes the data folder that all servers begin with, and starts the first one.
func prepare() error {
	initdb, err := program("initdb")
	if err != nil {
		return err
	}
	if _, err := program("postgres"); err != nil {
		return err
	}
	if shared.folder, err = os.MkdirTemp("", "relapse-postgres-"); err != nil {
		return err
	}
	as, err := owner()
	if err != nil {
		return err
	}
	if as != nil {
		if err := os.Chown(shared.folder, int(as.Uid), int(as.Gid)); err != nil {
			return err
		}
	}
	command := exec.Command(initdb, "-D", filepath.Join(shared.folder, "fresh"), "-U", "postgres", "--auth=trust", "--no-sync", "--no-locale", "-E", "UTF8")
	command.Dir = shared.folder
	command.SysProcAttr = &syscall.SysProcAttr{Credential: as}
	if said, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w: %s", err, said)
	}
	shared.server, err = newServer()
	return err
}

// owner is whom servers run as: PostgreSQL refuses to be run by root.
func owner() (*syscall.Credential, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		found, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err := strconv.ParseUint(found.Uid, 10, 32)
		if err != nil {
			return nil, err
		}
		gid, err := strconv.ParseUint(found.Gid, 10, 32)
		if err != nil {
			return nil, err
		}
		return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
	}
	return nil, errors.New("no user postgres or nobody to run it as")
}
