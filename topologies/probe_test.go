package topologies_test

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"relapse/topologies"
)

// scripted serves one connection: it reads as much as each request has and
// writes each reply.
func scripted(t *testing.T, conversation ...string) net.Conn {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		for i := 0; i+1 < len(conversation); i += 2 {
			request := make([]byte, len(conversation[i]))
			if _, err := io.ReadFull(conn, request); err != nil {
				return
			}
			if _, err := io.WriteString(conn, conversation[i+1]); err != nil {
				return
			}
		}
		_, _ = io.Copy(io.Discard, conn)
	}()
	conn, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func TestExchange(t *testing.T) {
	postgres := string([]byte{0, 0, 0, 8, 4, 0xd2, 0x16, 0x2f})
	tests := []struct {
		name           string
		probe          topologies.Probe
		request, reply string
		bytes          int // 0 for an error
	}{
		{"memcached", topologies.Probe{Protocol: "memcached"}, "version\r\n", "VERSION 1.6.18\r\n", 16},
		{"memcached, no memcached", topologies.Probe{Protocol: "memcached"}, "version\r\n", "ERROR\r\n", 0},
		{"redis", topologies.Probe{Protocol: "redis"}, "PING\r\n", "+PONG\r\n", 7},
		{"redis with a password", topologies.Probe{Protocol: "redis"}, "PING\r\n", "-NOAUTH Authentication required.\r\n", 34},
		{"redis while it loads", topologies.Probe{Protocol: "redis"}, "PING\r\n", "-LOADING Redis is loading\r\n", 0},
		{"postgres", topologies.Probe{Protocol: "postgres"}, postgres, "N", 1},
		{"postgres, no postgres", topologies.Probe{Protocol: "postgres"}, postgres, "H", 0},
		{"http", topologies.Probe{Protocol: "http", Path: "/x"}, "GET /x HTTP/1.1\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", 40},
		{"http that refuses answers too", topologies.Probe{Protocol: "http"}, "GET / HTTP/1.1\r\n", "HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n", 38},
		{"http, no http", topologies.Probe{Protocol: "http"}, "GET / HTTP/1.1\r\n", "SSH-2.0\r\n\r\n", 0},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			n, err := topologies.Exchange(ctx, scripted(t, test.request, test.reply), test.probe)
			if (err != nil) != (test.bytes == 0) {
				t.Fatalf("error %v", err)
			}
			if err == nil && n != test.bytes {
				t.Errorf("%d bytes, want %d", n, test.bytes)
			}
		})
	}
}

func TestExchangeAgainOnOneConnection(t *testing.T) {
	conn := scripted(t, "version\r\n", "VERSION 1\r\n", "version\r\n", "VERSION 1\r\n")
	for range 2 {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		_, err := topologies.Exchange(ctx, conn, topologies.Probe{Protocol: "memcached"})
		cancel()
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestExchangeEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := topologies.Exchange(ctx, scripted(t), topologies.Probe{Protocol: "memcached"})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}

func TestExchangeOfNoKnownProtocol(t *testing.T) {
	_, err := topologies.Exchange(t.Context(), scripted(t), topologies.Probe{Protocol: "gopher"})
	if err == nil || !strings.Contains(err.Error(), "gopher") {
		t.Errorf("got %v", err)
	}
}
