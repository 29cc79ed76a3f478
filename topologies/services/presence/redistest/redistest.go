// Package redistest starts real Redis servers for tests.
package redistest

import (
	"bytes"
	"context"
	"net"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	startWithin = 10 * time.Second
	attempts    = 5 // to find a port: one that is free now may be taken before the server has it
)

// Server is a Redis server of its own on a free port of 127.0.0.1. It keeps nothing
// when it is killed.
type Server struct {
	Address string // host:port
	tb      testing.TB
	program string
	dir     string
	command *exec.Cmd
	ended   chan struct{}
	output  bytes.Buffer
}

// Start starts a server, which is killed at the end of the test. Where the program
// redis-server is missing the test is skipped, or fails if CI=true, since a skipped
// test would read as a passed one there.
func Start(tb testing.TB) *Server {
	tb.Helper()
	program, err := exec.LookPath("redis-server")
	if err != nil {
		if os.Getenv("CI") == "true" {
			tb.Fatal("this test needs redis-server, and CI promises it: install Debian's package redis-server:", err)
		}
		tb.Skip("this test needs redis-server: install Debian's package redis-server:", err)
	}
	s := &Server{tb: tb, program: program, dir: tb.TempDir()}
	tb.Cleanup(s.Kill)
	for range attempts {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			tb.Fatal(err)
		}
		s.Address = listener.Addr().String()
		listener.Close()
		if s.run() {
			return s
		}
	}
	tb.Fatalf("redis-server did not start: %s", s.output.Bytes())
	return nil
}

// run starts the program and waits until it answers; it is false if the program has
// ended instead.
func (s *Server) run() bool {
	s.tb.Helper()
	_, port, err := net.SplitHostPort(s.Address)
	if err != nil {
		s.tb.Fatal(err)
	}
	s.output.Reset()
	s.command = exec.Command(s.program, "--port", port, "--bind", "127.0.0.1", "--dir", s.dir, "--save", "", "--appendonly", "no")
	s.command.Stdout, s.command.Stderr = &s.output, &s.output
	s.command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := s.command.Start(); err != nil {
		s.tb.Fatal(err)
	}
	command, ended := s.command, make(chan struct{})
	s.ended = ended
	go func() {
		command.Wait() // it is killed
		close(ended)
	}()
	client := s.Client()
	defer client.Close()
	deadline := time.Now().Add(startWithin)
	for {
		// Another server may have the port: it is this one that must answer.
		info, err := client.Info(context.Background(), "server").Result()
		if err == nil && bytes.Contains([]byte(info), []byte("process_id:"+strconv.Itoa(command.Process.Pid)+"\r\n")) {
			return true
		}
		select {
		case <-ended:
			return false
		case <-time.After(5 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			s.Kill()
			s.tb.Fatalf("redis-server does not answer within %v: %v: %s", startWithin, err, s.output.Bytes())
		}
	}
}

// Client makes a client, which is the caller's to close.
func (s *Server) Client() *redis.Client {
	return redis.NewClient(&redis.Options{Addr: s.Address, Protocol: 2, DisableIdentity: true, MaxRetries: -1, DialerRetries: 1})
}

// Kill kills the server, if it runs, and waits until it is gone.
func (s *Server) Kill() {
	if s.command == nil || s.command.Process == nil {
		return
	}
	s.command.Process.Kill() // it may have ended
	<-s.ended
}

// Restart kills the server and starts it again, with nothing in it.
func (s *Server) Restart() {
	s.tb.Helper()
	s.Kill()
	if !s.run() {
		s.tb.Fatalf("redis-server did not start again on %s: %s", s.Address, s.output.Bytes())
	}
}
