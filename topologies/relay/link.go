package relay

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	toxiproxy "github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"
)

// dialWithin bounds the dial of a server that answers nothing at all. The
// client has its own timeout and is connected already, so this only says when
// the relay stops holding sockets for it.
const dialWithin = 15 * time.Second

// link is one proxied link at work.
type link struct {
	Link
	log      *slog.Logger
	scope    string // put before the names of shared buckets
	listener *net.TCPListener

	up, down, upSent, downSent, accepted, unreached, excess atomic.Uint64

	active [2]atomic.Int32 // toxics by stream.Direction

	operating chan struct{} // holds one token: operations on toxics take turns

	mu            sync.Mutex
	engine        *engine
	toxics        []added
	connections   map[uint64]*connection
	caps          map[string]int // by name of the rule
	full          bool           // what the listening socket's mark says
	closed        bool
	lastUnreached string
}

// added is a toxic as it was asked for, and the one that toxiproxy runs.
type added struct {
	Toxic
	runs toxic
}

// engine is one set of toxiproxy chains. Each link has a server of its own,
// since a collection of toxics can be blocked by one connection.
type engine struct {
	server     *toxiproxy.ApiServer
	collection *toxiproxy.ToxicCollection
}

func newEngine(l Link) *engine {
	server := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())
	proxy := toxiproxy.NewProxy(server, l.Name, l.Listen.String(), l.Upstream.String())
	return &engine{server: server, collection: proxy.Toxics}
}

// openLink listens. The link serves nobody before accept is called.
func openLink(ctx context.Context, config Link, scope string, log *slog.Logger) (*link, error) {
	// Keep-alive probes would end connections during a long black hole that
	// the nodes themselves would have lived through.
	lc := net.ListenConfig{KeepAlive: -1}
	listener, err := lc.Listen(ctx, "tcp4", config.Listen.String())
	if err != nil {
		return nil, err
	}
	l := &link{
		Link: config, log: log.With("link", config.Name), scope: scope, listener: listener.(*net.TCPListener),
		operating: make(chan struct{}, 1), engine: newEngine(config),
		connections: map[uint64]*connection{}, caps: map[string]int{},
	}
	l.operating <- struct{}{}
	return l, nil
}

// accept serves clients until the link is closed. Dialling happens outside the
// loop: a server that swallows connection requests holds up its own clients
// only.
func (l *link) accept(ctx context.Context) {
	for {
		conn, err := l.listener.Accept()
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				return
			}
			// Out of files or memory: the clients wait in the backlog.
			l.log.Warn("accepting a client", "error", err)
			select {
			case <-ctx.Done():
				return
			case <-time.After(10 * time.Millisecond):
			}
			continue
		}
		client := conn.(*net.TCPConn) // a tcp4 listener accepts nothing else
		c := &connection{link: l, id: l.accepted.Add(1), client: client}
		c.ctx, c.cancel = context.WithCancel(ctx)
		l.mu.Lock()
		if l.closed {
			l.mu.Unlock()
			c.cancel()
			reset(client)
			return
		}
		if len(l.connections) >= l.most() {
			// It was in the backlog when the link became full.
			l.mu.Unlock()
			l.excess.Add(1)
			c.cancel()
			reset(client)
			continue
		}
		l.connections[c.id] = c
		l.markFull()
		e := l.engine
		l.mu.Unlock()
		go c.serve(e)
	}
}

// dial connects to the server from the link's own address, so that the server
// tells its clients apart and each link has its own ports.
func (l *link) dial(ctx context.Context) (*net.TCPConn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialWithin)
	defer cancel()
	d := net.Dialer{
		KeepAlive: -1,
		LocalAddr: net.TCPAddrFromAddrPort(addrOnly(l.Listen)),
		Control: func(_, _ string, raw syscall.RawConn) error {
			// The port is chosen at connect, which lets one port serve
			// several servers.
			var err error
			if e := raw.Control(func(fd uintptr) {
				err = unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_BIND_ADDRESS_NO_PORT, 1)
			}); e != nil {
				return e
			}
			return err
		},
	}
	conn, err := d.DialContext(ctx, "tcp4", l.Upstream.String())
	if err != nil {
		if !errors.Is(err, context.Canceled) {
			l.unreached.Add(1)
			l.mu.Lock()
			l.lastUnreached = err.Error()
			l.mu.Unlock()
		}
		return nil, err
	}
	return conn.(*net.TCPConn), nil
}

func (l *link) forget(c *connection) {
	l.mu.Lock()
	delete(l.connections, c.id)
	l.markFull()
	l.mu.Unlock()
}

// cap sets the limit of a cap rule; zero takes it away.
func (l *link) cap(rule string, limit int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if limit > 0 {
		l.caps[rule] = limit
	} else {
		delete(l.caps, rule)
	}
	l.markFull()
}

func (l *link) capOf(rule string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.caps[rule]
}

// most is the number of connections that may be open. The lock is held.
func (l *link) most() int {
	most := math.MaxInt
	for _, limit := range l.caps {
		most = min(most, limit)
	}
	return most
}

// markFull tells the kernel whether there is room for a connection. The lock is
// held.
func (l *link) markFull() {
	full := len(l.connections) >= l.most()
	if full == l.full {
		return
	}
	raw, err := l.listener.SyscallConn()
	if err == nil {
		mark := 0
		if full {
			mark = markFull
		}
		if e := raw.Control(func(fd uintptr) {
			err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_MARK, mark)
		}); e != nil {
			err = e
		}
	}
	if err != nil {
		// A closed link needs no mark. Otherwise the accept loop still keeps
		// the cap, with resets instead of refusals.
		if !l.closed {
			l.log.Warn("marking the listening socket", "error", err)
		}
		return
	}
	l.full = full
}

// open gives the connections of now.
func (l *link) open() []*connection {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := make([]*connection, 0, len(l.connections))
	for _, c := range l.connections {
		out = append(out, c)
	}
	return out
}

// abortAll resets every open connection and says how many there were.
func (l *link) abortAll() int {
	open := l.open()
	for _, c := range open {
		c.abort()
	}
	return len(open)
}

func (l *link) close() {
	l.mu.Lock()
	l.closed = true
	toxics := l.toxics
	l.toxics = nil
	l.mu.Unlock()
	_ = l.listener.Close()
	for _, t := range toxics {
		retire(t.runs)
	}
	l.abortAll()
}

// retire releases what a toxic holds and what it shares.
func retire(t toxic) {
	if t == nil {
		return
	}
	t.release()
	if s, ok := t.(*shaped); ok {
		s.drop()
	}
}

func (l *link) state() State {
	s := State{
		Link: l.Name, Accepted: l.accepted.Load(), Unreached: l.unreached.Load(), Excess: l.excess.Load(),
		BytesUp: l.up.Load(), BytesDown: l.down.Load(),
		BytesUpSent: l.upSent.Load(), BytesDownSent: l.downSent.Load(),
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	s.Open, s.LastUnreached = len(l.connections), l.lastUnreached
	seen := map[*bucket]bool{}
	for _, t := range l.toxics {
		s.Toxics = append(s.Toxics, t.Toxic)
		if shaped, ok := t.runs.(*shaped); ok {
			if b := shaped.shared(); b != nil && !seen[b] {
				seen[b] = true
				state := b.state()
				state.Bucket = strings.TrimPrefix(state.Bucket, l.scope)
				s.Buckets = append(s.Buckets, state)
			}
		}
	}
	slices.SortFunc(s.Toxics, func(a, b Toxic) int { return strings.Compare(a.Name, b.Name) })
	return s
}

// describe names an operation for errors.
func describe(verb, toxic string) string { return verb + " toxic " + strconv.Quote(toxic) }
