package topologies

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
)

// Exchange sends one request on an open connection and reads the reply to its
// end, as the probe says; it gives the reply's length in bytes. What matters
// is that something answers: an HTTP status of 503 is an answer. Probes of
// protocol tcp have no request, so that an open connection is all they show.
//
// The connection can be used again after an exchange without error. One that
// ended by the context cannot.
func Exchange(ctx context.Context, conn net.Conn, p Probe) (int, error) {
	exchange, known := exchanges[p.Protocol]
	if !known {
		return 0, fmt.Errorf("probe: unknown protocol %q", p.Protocol)
	}
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	if err := conn.SetDeadline(time.Time{}); err != nil {
		return 0, fmt.Errorf("probe %s: %w", p.Protocol, err)
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	n, err := exchange(conn, p)
	if !stop() && err != nil {
		err = errors.Join(ctx.Err(), err)
	}
	if err != nil {
		return n, fmt.Errorf("probe %s: %w", p.Protocol, err)
	}
	return n, nil
}

var exchanges = map[string]func(net.Conn, Probe) (int, error){
	"":          func(net.Conn, Probe) (int, error) { return 0, nil },
	"tcp":       func(net.Conn, Probe) (int, error) { return 0, nil },
	"memcached": exchangeMemcached,
	"redis":     exchangeRedis,
	"http":      exchangeHTTP,
	"postgres":  exchangePostgres,
}

func exchangeMemcached(conn net.Conn, _ Probe) (int, error) {
	return exchangeLine(conn, "version\r\n", "VERSION ")
}

func exchangeRedis(conn net.Conn, _ Probe) (int, error) {
	// A server with a password answers -NOAUTH: it answers.
	return exchangeLine(conn, "PING\r\n", "+PONG", "-NOAUTH")
}

func exchangeLine(conn net.Conn, request string, want ...string) (int, error) {
	if _, err := io.WriteString(conn, request); err != nil {
		return 0, err
	}
	line, err := bufio.NewReader(conn).ReadBytes('\n')
	if err != nil {
		return len(line), err
	}
	for _, w := range want {
		if bytes.HasPrefix(line, []byte(w)) {
			return len(line), nil
		}
	}
	return len(line), fmt.Errorf("reply %q, want %q", bytes.TrimSpace(line), want[0])
}

func exchangeHTTP(conn net.Conn, p Probe) (int, error) {
	path := p.Path
	if path == "" {
		path = "/"
	}
	request, err := http.NewRequest(http.MethodGet, "http://"+conn.RemoteAddr().String()+path, nil)
	if err != nil {
		return 0, err
	}
	request.Header.Set("User-Agent", "relapse-probe")
	if err := request.Write(conn); err != nil {
		return 0, err
	}
	counted := &countingReader{from: conn}
	response, err := http.ReadResponse(bufio.NewReader(counted), request)
	if err != nil {
		return counted.n, err
	}
	defer response.Body.Close()
	_, err = io.Copy(io.Discard, response.Body)
	return counted.n, err
}

// exchangePostgres asks for TLS, the one question that a PostgreSQL server
// answers without a login: S for yes, N for no.
func exchangePostgres(conn net.Conn, _ Probe) (int, error) {
	if _, err := conn.Write([]byte{0, 0, 0, 8, 0x04, 0xd2, 0x16, 0x2f}); err != nil {
		return 0, err
	}
	var reply [1]byte
	if _, err := io.ReadFull(conn, reply[:]); err != nil {
		return 0, err
	}
	if reply[0] != 'S' && reply[0] != 'N' {
		return 1, fmt.Errorf("reply %q, want S or N", reply[0])
	}
	return 1, nil
}

type countingReader struct {
	from io.Reader
	n    int
}

func (c *countingReader) Read(p []byte) (int, error) {
	n, err := c.from.Read(p)
	c.n += n
	return n, err
}
