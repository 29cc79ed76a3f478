// Package http1 makes HTTP/1.1 requests over connections that are kept alive.
//
// It exists because net/http's Transport runs two goroutines more for every
// connection and sends some requests again by itself, where the services that
// make requests must spare the cores that they share with what is measured, and
// count every attempt. Nothing here tries a request again, nor follows a
// redirect.
package http1

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"
)

// idleFor is how long a connection is kept unused: less than the 10 s after
// which a balancer closes its side, so that few requests meet a closed one.
const idleFor = 5 * time.Second

// Client makes requests to one server. The zero value with its fields set is
// ready; it can be used by many goroutines.
type Client struct {
	Address netip.AddrPort // looked up once, by whoever makes the client
	Host    string         // as the Host header names it
	Agent   string         // as the User-Agent header names it

	mu   sync.Mutex
	idle []*Conn // the most recently used one last
}

// Request is one request, ready to be sent any number of times.
type Request struct {
	method string
	bytes  []byte
}

// Request makes a request for a path of the server, without a body.
func (c *Client) Request(method, path string) Request {
	length := ""
	if method == http.MethodPost {
		length = "Content-Length: 0\r\n"
	}
	return Request{method, fmt.Appendf(nil, "%s %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: %s\r\n%s\r\n", method, path, c.Host, c.Agent, length)}
}

// RequestWithBody makes a request for a path of the server that carries a body.
func (c *Client) RequestWithBody(method, path, contentType string, body []byte) Request {
	head := fmt.Appendf(nil, "%s %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: %s\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n",
		method, path, c.Host, c.Agent, contentType, len(body))
	return Request{method, append(head, body...)}
}

// Do makes one request over a connection that is kept, or a new one, and copies
// the whole body of the reply. All of it must be done by the deadline.
func (c *Client) Do(request Request, deadline time.Time, body io.Writer) (status int, err error) {
	conn, err := c.connect(deadline)
	if err != nil {
		return 0, err
	}
	status, keep, err := conn.Do(request, deadline, body)
	if keep {
		c.release(conn)
	} else {
		conn.Close()
	}
	return status, err
}

// Open opens a connection of the caller's own, who must close it.
func (c *Client) Open(deadline time.Time) (*Conn, error) {
	// Probing a connection that is used or closed within seconds is of no use, and
	// setting it up takes four system calls.
	dialer := net.Dialer{Deadline: deadline, KeepAlive: -1}
	opened, err := dialer.Dial("tcp", c.Address.String())
	if err != nil {
		return nil, err
	}
	return newConn(opened.(*net.TCPConn))
}

func (c *Client) connect(deadline time.Time) (*Conn, error) {
	for {
		conn := c.pop()
		if conn == nil {
			return c.Open(deadline)
		}
		if conn.quiet() {
			return conn, nil
		}
		conn.Close()
	}
}

func (c *Client) pop() *Conn {
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

func (c *Client) release(conn *Conn) {
	conn.since = time.Now()
	if conn.tcp.SetDeadline(time.Time{}) != nil {
		conn.Close()
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.idle = append(c.idle, conn)
}

// Prune closes the connections that were idle for too long. Whoever uses a
// client calls it every second or so.
func (c *Client) Prune(now time.Time) {
	c.prune(func(conn *Conn) bool { return now.Sub(conn.since) > idleFor })
}

// Close closes the connections that are kept.
func (c *Client) Close() { c.prune(func(*Conn) bool { return true }) }

func (c *Client) prune(old func(*Conn) bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := 0
	for n < len(c.idle) && old(c.idle[n]) {
		c.idle[n].Close()
		n++
	}
	c.idle = append(c.idle[:0:0], c.idle[n:]...)
}
