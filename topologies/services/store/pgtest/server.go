package pgtest

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

// Server is one server, which keeps its port and its data when it is killed.
type Server struct {
	Address string // HOST:PORT
	folder  string
	log     string
	process *os.Process
	ended   chan struct{}
}

func newServer() (*Server, error) {
	n := strconv.Itoa(next())
	s := &Server{folder: filepath.Join(shared.folder, n), log: filepath.Join(shared.folder, n+".log")}
	if said, err := exec.Command("cp", "-a", filepath.Join(shared.folder, "fresh"), s.folder).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("copy the data folder: %w: %s", err, said)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s.Address = listener.Addr().String()
	listener.Close()
	return s, s.Start()
}

// URL is how to connect to a database of the server.
func (s *Server) URL(name string) string {
	return "postgres://postgres@" + s.Address + "/" + name + "?sslmode=disable"
}

// Start starts a server that is not running, and waits until it answers.
func (s *Server) Start() error {
	postgres, err := program("postgres")
	if err != nil {
		return err
	}
	as, err := owner()
	if err != nil {
		return err
	}
	log, err := os.OpenFile(s.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	_, port, err := net.SplitHostPort(s.Address)
	if err != nil {
		return err
	}
	// Without fsync a server that is killed loses nothing: what it wrote is the
	// kernel's.
	command := exec.Command(postgres, "-D", s.folder, "-p", port, "-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories=",
		"-c", "fsync=off", "-c", "full_page_writes=off", "-c", "wal_level=minimal", "-c", "max_wal_senders=0",
		"-c", "max_connections=200", "-c", "shared_buffers=32MB", "-c", "max_wal_size=256MB", "-c", "autovacuum=off")
	command.Dir, command.Stdout, command.Stderr = shared.folder, log, log
	// A test that dies takes its servers with it.
	command.SysProcAttr = &syscall.SysProcAttr{Credential: as, Pdeathsig: syscall.SIGQUIT}
	if err := startHeld(command); err != nil {
		return err
	}
	s.process, s.ended = command.Process, make(chan struct{})
	go func() {
		_ = command.Wait() // it was killed, or the log says why
		close(s.ended)
	}()
	return s.await()
}

// startHeld starts a program by a thread that lasts as long as the process: the signal
// on the parent's death is one on its thread's death.
func startHeld(command *exec.Cmd) error {
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		started <- command.Start()
		select {}
	}()
	return <-started
}

func (s *Server) await() error {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	for {
		conn, err := pgx.Connect(ctx, s.URL("postgres"))
		if err == nil {
			return conn.Close(ctx)
		}
		select {
		case <-s.ended:
			said, _ := os.ReadFile(s.log)
			return fmt.Errorf("postgres has ended: %s", said)
		case <-ctx.Done():
			return fmt.Errorf("postgres does not answer: %w", err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// Kill has a server end at once, without writing anything down first. It does nothing to
// one that has ended.
func (s *Server) Kill() {
	if s.process == nil {
		return
	}
	_ = s.process.Signal(syscall.SIGQUIT) // it may have ended
	select {
	case <-s.ended:
	case <-time.After(within):
		_ = s.process.Kill()
		<-s.ended
	}
	s.process = nil
}
