package http1

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// readerSize is enough for the head of a reply of our own services.
const readerSize = 2048

// Conn is one connection to a server. One goroutine at a time may use it;
// [Conn.Close] and [Conn.Reset] may be called by any.
type Conn struct {
	tcp    *net.TCPConn
	raw    syscall.RawConn
	reader *bufio.Reader
	since  time.Time // idle since
}

func newConn(tcp *net.TCPConn) (*Conn, error) {
	raw, err := tcp.SyscallConn()
	if err != nil {
		tcp.Close()
		return nil, err
	}
	return &Conn{tcp: tcp, raw: raw, reader: bufio.NewReaderSize(tcp, readerSize)}, nil
}

// Do makes one request and copies the whole body of the reply. Keep says
// whether the connection can be used again.
func (c *Conn) Do(request Request, deadline time.Time, body io.Writer) (status int, keep bool, err error) {
	if err := c.tcp.SetDeadline(deadline); err != nil {
		return 0, false, err
	}
	if _, err := c.tcp.Write(request.bytes); err != nil {
		return 0, false, err
	}
	response, err := http.ReadResponse(c.reader, &http.Request{Method: request.method})
	if err != nil {
		return 0, false, err
	}
	defer response.Body.Close()
	if _, err := io.Copy(body, response.Body); err != nil {
		return 0, false, err
	}
	return response.StatusCode, !response.Close, nil
}

// ErrUnasked says that a server sent something that nobody asked for.
var ErrUnasked = errors.New("the server sent what nobody asked for")

// Idle waits until a time, or until the connection ends before it; the error
// then says how.
func (c *Conn) Idle(until time.Time) error {
	if err := c.tcp.SetReadDeadline(until); err != nil {
		return err
	}
	_, err := c.reader.Peek(1)
	switch {
	case err == nil:
		return ErrUnasked
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil
	}
	return err
}

// Close closes the connection.
func (c *Conn) Close() { _ = c.tcp.Close() }

// Reset closes the connection with a reset, so that the server knows at once
// and neither side keeps anything of it.
func (c *Conn) Reset() {
	_ = c.tcp.SetLinger(0)
	_ = c.tcp.Close()
}

// quiet says whether a connection has nothing to read: one that has was closed
// by the other side while it was idle, or is out of step.
func (c *Conn) quiet() bool {
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
