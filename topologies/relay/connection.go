package relay

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/Shopify/toxiproxy/v2/stream"
)

// connection is one client's connection and the one made for it to the server.
type connection struct {
	link   *link
	id     uint64
	ctx    context.Context // ends with the connection; stops its dial
	cancel context.CancelFunc
	client *net.TCPConn

	mu      sync.Mutex
	server  *net.TCPConn // nil until dialled
	gone    bool
	closed  int        // directions that have ended
	outlets [2]*outlet // by stream.Direction
}

// serve dials the server and lets the bytes flow. It returns when the client's
// stream has been handed over.
func (c *connection) serve(e *engine) {
	server, err := c.link.dial(c.ctx)
	if err != nil {
		// A reset and no orderly close: the client is told that this is no
		// empty answer.
		c.abort()
		return
	}
	c.mu.Lock()
	if c.gone {
		c.mu.Unlock()
		reset(server)
		return
	}
	c.server = server
	c.outlets[stream.Upstream] = newOutlet(c, server, &c.link.upSent)
	c.outlets[stream.Downstream] = newOutlet(c, c.client, &c.link.downSent)
	c.mu.Unlock()
	for _, d := range []struct {
		direction stream.Direction
		from      *net.TCPConn
		count     *atomic.Uint64
	}{
		{stream.Upstream, c.client, &c.link.up},
		{stream.Downstream, server, &c.link.down},
	} {
		name := strconv.FormatUint(c.id, 10) + "-" + d.direction.String()
		out := c.outlets[d.direction]
		in := &inlet{
			conn: d.from, count: d.count, out: out, toxics: &c.link.active[d.direction],
			// Toxiproxy counts on a chain being whole while it is listed; one
			// whose stream has ended takes itself apart from the front.
			unlist: func() { e.collection.RemoveLink(name) },
		}
		e.collection.StartLink(e.server, name, in, out, d.direction)
	}
}

// abort resets both halves. It is idempotent.
func (c *connection) abort() {
	c.mu.Lock()
	if c.gone {
		c.mu.Unlock()
		return
	}
	c.gone = true
	server, outlets := c.server, c.outlets
	c.mu.Unlock()
	c.cancel()
	for _, o := range outlets {
		if o != nil {
			o.breakOff()
		}
	}
	reset(c.client)
	if server != nil {
		reset(server)
	}
	c.link.forget(c)
}

// halfClosed notes that one direction has ended, and closes the connection with
// the second.
func (c *connection) halfClosed() {
	c.mu.Lock()
	c.closed++
	last := c.closed == 2 && !c.gone
	if last {
		c.gone = true
	}
	c.mu.Unlock()
	if last {
		c.cancel()
		c.client.Close()
		c.server.Close()
		c.link.forget(c)
	}
}

// reset closes with a RST.
func reset(conn *net.TCPConn) {
	// Failing means that the connection is gone already.
	_ = conn.SetLinger(0)
	_ = conn.Close()
}

// chunk is what is read at once. A chunk is the unit that toxics work on.
const chunk = 32 << 10

var chunks = sync.Pool{New: func() any { b := make([]byte, chunk); return &b }}

// inlet is the source of one direction. Toxiproxy copies from it with io.Copy,
// which lets it do the copying itself: it bypasses the chain while that holds no
// toxic and no bytes, which saves two goroutine switches and an allocation for
// each chunk.
type inlet struct {
	conn   *net.TCPConn
	count  *atomic.Uint64
	out    *outlet
	toxics *atomic.Int32
	unlist func()
}

// Read is not used by io.Copy, but makes inlet a source.
func (in *inlet) Read(p []byte) (int, error) { return in.conn.Read(p) }

// WriteTo copies until the stream ends.
func (in *inlet) WriteTo(chain io.Writer) (total int64, err error) {
	held := chunks.Get().(*[]byte)
	defer chunks.Put(held)
	buffer := *held
	for {
		n, err := in.conn.Read(buffer)
		if n > 0 {
			total += int64(n)
			in.count.Add(uint64(n))
			if in.toxics.Load() == 0 && in.out.inChain.Load() == 0 {
				_, _ = in.out.Write(buffer[:n])
			} else {
				in.out.inChain.Add(int64(n))
				_, _ = chain.Write(buffer[:n])
			}
		}
		if err != nil {
			if !errors.Is(err, io.EOF) {
				in.out.resetAtEnd.Store(true)
			}
			in.unlist()
			return total, nil
		}
	}
}

// outlet is the destination of one direction. It never reports an error to the
// chain, which would stop reading and be stuck for ever: what cannot be
// delivered is swallowed, and the connection reset.
//
// While an operation on the link's chains is stuck behind a receiver that does
// not read, the outlet absorbs what the chain hands out, so that the operation
// ends and nothing is lost.
type outlet struct {
	c    *connection
	conn *net.TCPConn
	sent *atomic.Uint64
	// inChain is the bytes that the inlet handed to the chain and that have not
	// come out.
	inChain    atomic.Int64
	resetAtEnd atomic.Bool

	mu        sync.Mutex
	changed   *sync.Cond
	writing   bool
	absorbing bool
	flushing  bool
	broken    bool
	ending    bool // close once the spill is flushed
	spill     []byte
}

func newOutlet(c *connection, conn *net.TCPConn, sent *atomic.Uint64) *outlet {
	o := &outlet{c: c, conn: conn, sent: sent}
	o.changed = sync.NewCond(&o.mu)
	return o
}

// mostAbsorbed bounds the bytes that one outlet takes during one operation; then
// it waits for the receiver again. A chain holds less than this.
const mostAbsorbed = 4 * wideWindow

// Write hands data to the receiver, or keeps it while absorbing. It is called by
// one goroutine at a time: by the inlet while the chain is empty, else by the
// chain.
func (o *outlet) Write(p []byte) (int, error) {
	o.mu.Lock()
	for !o.broken && (o.flushing && !o.absorbing || o.absorbing && len(o.spill) > mostAbsorbed) {
		o.changed.Wait()
	}
	switch {
	case o.broken:
	case o.absorbing && (o.flushing || len(o.spill) > 0):
		o.spill = append(o.spill, p...)
	default:
		o.writing = true
		o.mu.Unlock()
		n, err := o.conn.Write(p)
		o.sent.Add(uint64(n))
		o.mu.Lock()
		o.writing = false
		switch {
		case err == nil:
		case errors.Is(err, os.ErrDeadlineExceeded) && !o.broken:
			o.spill = append(o.spill, p[n:]...)
			if !o.absorbing && len(o.spill) > 0 {
				o.startFlush()
			}
		default:
			o.mu.Unlock()
			o.c.abort()
			o.mu.Lock()
		}
	}
	o.mu.Unlock()
	// Only what came out of the chain is counted back.
	if o.inChain.Load() > 0 {
		o.inChain.Add(-int64(len(p)))
	}
	return len(p), nil
}

// absorb makes a blocked write return. It does nothing to a receiver that reads.
func (o *outlet) absorb() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if (o.writing || o.flushing) && !o.absorbing && !o.broken {
		o.absorbing = true
		_ = o.conn.SetWriteDeadline(time.Unix(1, 0))
		o.changed.Broadcast()
	}
}

// release ends absorbing: the receiver gets what was kept before anything else.
func (o *outlet) release() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.absorbing {
		return
	}
	o.absorbing = false
	_ = o.conn.SetWriteDeadline(time.Time{})
	o.changed.Broadcast()
	if len(o.spill) > 0 && !o.flushing && !o.broken {
		o.startFlush()
	}
}

// startFlush is called with the lock held.
func (o *outlet) startFlush() {
	o.flushing = true
	go o.flushSpill()
}

func (o *outlet) flushSpill() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for len(o.spill) > 0 && !o.broken {
		if o.absorbing {
			o.changed.Wait()
			continue
		}
		data := o.spill
		o.spill = nil
		o.mu.Unlock()
		n, err := o.conn.Write(data)
		o.sent.Add(uint64(n))
		if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			o.c.abort()
		}
		o.mu.Lock()
		if err != nil {
			o.spill = append(data[n:], o.spill...)
		}
	}
	o.flushing = false
	o.changed.Broadcast()
	if o.ending && !o.broken {
		_ = o.conn.CloseWrite()
		o.mu.Unlock()
		o.c.halfClosed()
		o.mu.Lock()
	}
}

// Close ends the direction: the receiver is told that no more will come, and
// may go on sending.
func (o *outlet) Close() error {
	if o.resetAtEnd.Load() {
		o.c.abort()
		return nil
	}
	o.mu.Lock()
	if o.broken {
		o.mu.Unlock()
		return nil
	}
	if o.flushing || len(o.spill) > 0 {
		o.ending = true
		o.mu.Unlock()
		return nil
	}
	o.mu.Unlock()
	_ = o.conn.CloseWrite()
	o.c.halfClosed()
	return nil
}

func (o *outlet) breakOff() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.broken = true
	o.spill = nil
	o.changed.Broadcast()
}
