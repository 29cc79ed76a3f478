package players

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// idleFor is how long a connection is kept unused: less than the 10 s after
// which the balancer closes its side, so that few requests meet a closed one.
const idleFor = 5 * time.Second

// client makes HTTP/1.1 requests over connections that are kept alive. It
// exists because net/http's Transport runs two goroutines more for every
// connection and sends some requests again by itself, where the generator must
// spare the cores that it shares with what it measures, and count every failure.
// It never tries a request again, nor follows a redirect.
type client struct {
	address netip.AddrPort
	dialer  net.Dialer

	mu   sync.Mutex
	idle []*connection // the most recently used one last
}

type connection struct {
	net.Conn
	raw    syscall.RawConn
	reader *bufio.Reader
	since  time.Time // idle since
}

// newRequest gives a request's bytes.
func newRequest(method, path, host string) []byte {
	length := ""
	if method == http.MethodPost {
		length = "Content-Length: 0\r\n"
	}
	return fmt.Appendf(nil, "%s %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: relapse-players\r\n%s\r\n", method, path, host, length)
}

// do makes one request and reads the whole reply.
func (c *client) do(method string, request []byte, deadline time.Time) (status int, err error) {
	conn, err := c.connect(deadline)
	if err != nil {
		return 0, err
	}
	keep := false
	defer func() {
		if keep {
			c.release(conn)
		} else {
			conn.Close()
		}
	}()
	if err := conn.SetDeadline(deadline); err != nil {
		return 0, err
	}
	if _, err := conn.Write(request); err != nil {
		return 0, err
	}
	response, err := http.ReadResponse(conn.reader, &http.Request{Method: method})
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		return 0, err
	}
	keep = !response.Close
	return response.StatusCode, nil
}

func (c *client) connect(deadline time.Time) (*connection, error) {
	for {
		conn := c.pop()
		if conn == nil {
			break
		}
		if conn.quiet() {
			return conn, nil
		}
		conn.Close()
	}
	dialer := c.dialer
	dialer.Deadline = deadline
	opened, err := dialer.Dial("tcp", c.address.String())
	if err != nil {
		return nil, err
	}
	raw, err := opened.(*net.TCPConn).SyscallConn()
	if err != nil {
		opened.Close()
		return nil, err
	}
	return &connection{Conn: opened, raw: raw, reader: bufio.NewReaderSize(opened, 2048)}, nil
}

// quiet says whether a connection has nothing to read: one that has was closed
// by the other side while it was idle, or is out of step.
func (c *connection) quiet() bool {
	if c.reader.Buffered() > 0 {
		return false
	}
	var peeked error
	err := c.raw.Read(func(fd uintptr) bool {
		var one [1]byte
		_, _, peeked = unix.Recvfrom(int(fd), one[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
		return true
	})
	return err == nil && errors.Is(peeked, unix.EAGAIN)
}

func (c *client) pop() *connection {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.idle) == 0 {
		return nil
	}
	last := len(c.idle) - 1
	conn := c.idle[last]
	c.idle[last] = nil
	c.idle = c.idle[:last]
	return conn
}

func (c *client) release(conn *connection) {
	conn.since = time.Now()
	if conn.SetDeadline(time.Time{}) != nil {
		conn.Close()
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.idle = append(c.idle, conn)
}

// prune closes the connections that were idle for too long, and all of them if
// the zero time is given.
func (c *client) prune(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := 0
	for n < len(c.idle) && (now.IsZero() || now.Sub(c.idle[n].since) > idleFor) {
		c.idle[n].Close()
		n++
	}
	c.idle = append(c.idle[:0:0], c.idle[n:]...)
}

// outcomeOf sorts a reply into what the player makes of it.
func outcomeOf(status int, err error) outcome {
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return refused
	case errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, syscall.ETIMEDOUT):
		return timedOut
	case err != nil:
		return failed
	case status/100 == 2:
		return succeeded
	case status == http.StatusServiceUnavailable || status == http.StatusTooManyRequests:
		return refused
	default:
		return failed
	}
}
