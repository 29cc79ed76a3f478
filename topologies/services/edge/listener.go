package edge

import (
	"io"
	"net"
	"sync"
	"time"
)

// refusalWithin bounds the answer to a connection over the limit.
const refusalWithin = 500 * time.Millisecond

// full is what a connection over the limit is told.
const full = "HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"

// Listen has the connections of a listener hold memory and counts them. Those
// over the limit are answered and closed here, and never accepted.
func (e *Edge) Listen(inner net.Listener) net.Listener { return &listener{inner, e} }

type listener struct {
	net.Listener
	edge *Edge
}

// Accept gives the next connection that there is room for.
func (l *listener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		m := l.edge.metrics
		if most := int64(l.edge.MaxConnections); most > 0 && m.open.Load() >= most {
			m.refused.Inc()
			go refuse(conn)
			continue
		}
		held, err := l.edge.Memory.take()
		if err != nil {
			// The process has used up its address space, or its limit: a
			// connection that cannot be held is one that is refused.
			m.refused.Inc()
			go refuse(conn)
			continue
		}
		m.open.Add(1)
		m.opened.Inc()
		return &connection{Conn: conn, edge: l.edge, held: held}, nil
	}
}

// refuse answers before anything is asked. What the player sends all the same is
// read until it hangs up: closing on unread bytes would be a reset, which can
// overtake the answer.
func refuse(conn net.Conn) {
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(refusalWithin))
	if _, err := io.WriteString(conn, full); err != nil {
		return
	}
	if half, ok := conn.(*net.TCPConn); ok && half.CloseWrite() != nil {
		return
	}
	_, _ = io.Copy(io.Discard, conn)
}

// connection gives its memory back when it is closed, once.
type connection struct {
	net.Conn
	edge *Edge
	once sync.Once
	held pages
}

// Close closes the connection and gives back what it held.
func (c *connection) Close() error {
	err := c.Conn.Close()
	c.once.Do(func() {
		c.held.giveBack()
		c.edge.metrics.open.Add(-1)
	})
	return err
}
