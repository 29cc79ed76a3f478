package faults

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"syscall"
	"time"

	"relapse/topologies"
)

// straightWithin bounds an exchange straight with a node, which has nothing but
// the node itself in its way.
const straightWithin = 200 * time.Millisecond

// probe looks at one link from outside: over the link, as its client does, and
// straight to the server for comparison. What the two ways have in common is
// the server's doing; only a difference is the link's.
type probe struct {
	link     topologies.Link
	ask      topologies.Probe
	over     dialer
	straight dialer
}

type dialer func(ctx context.Context) (net.Conn, error)

func newProbe(sys *topologies.System, l topologies.Link) (*probe, error) {
	server, err := sys.Instance(l.Server)
	if err != nil {
		return nil, fmt.Errorf("link %s: %w", l, err)
	}
	return &probe{
		link:     l,
		ask:      server.Node().Probe,
		over:     func(ctx context.Context) (net.Conn, error) { return sys.Dial(ctx, l) },
		straight: straightTo(server, l.Port),
	}, nil
}

func straightTo(i *topologies.Instance, port uint16) dialer {
	return func(ctx context.Context) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "tcp", net.JoinHostPort(i.Address().String(), strconv.Itoa(int(port))))
	}
}

// answers says whether the server's protocol has a question that a probe may
// ask. Without one, nothing but connections can be looked at.
func (p *probe) answers() bool { return p.ask.Protocol != "" && p.ask.Protocol != "tcp" }

func (p *probe) errNoAnswers() error {
	return fmt.Errorf("link %s: it cannot be seen, as %s is probed without a question; give the node a label relapse.probe with memcached, redis, postgres or http", p.link, p.link.Server)
}

// unanswered says that an operation of a probe ended by its own patience.
func unanswered(err error) bool {
	return errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, context.DeadlineExceeded)
}

// reset says that the peer answered with a reset: to a new connection
// (refused), or to an open one.
func reset(err error) bool {
	return errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

func refused(err error) bool { return errors.Is(err, syscall.ECONNREFUSED) }

// connect opens a connection and closes it again. The error tells how it
// failed; see [unanswered], [refused] and [reset].
func connect(ctx context.Context, dial dialer, patience time.Duration) error {
	within, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	conn, err := dial(within)
	if err != nil {
		return outer(ctx, err)
	}
	return conn.Close()
}

// exchange makes one exchange on a connection of its own and gives the time
// from the question to the end of the answer; opening the connection does not
// count, since no proxy can delay it.
func exchange(ctx context.Context, dial dialer, ask topologies.Probe, patience time.Duration) (time.Duration, error) {
	within, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	conn, err := dial(within)
	if err != nil {
		return 0, outer(ctx, err)
	}
	defer conn.Close()
	return exchangeOn(ctx, conn, ask, patience)
}

func exchangeOn(ctx context.Context, conn net.Conn, ask topologies.Probe, patience time.Duration) (time.Duration, error) {
	within, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	began := time.Now()
	_, err := topologies.Exchange(within, conn, ask)
	return time.Since(began), outer(ctx, err)
}

// outer tells the end of the caller's context, which says nothing about the
// system, from an operation that ran out of its own patience.
func outer(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("the look was cut short: %w", cutShort{ctx.Err()})
	}
	return err
}

// cutShort keeps an ended context from being taken for an unanswered probe: it
// does not unwrap.
type cutShort struct{ cause error }

func (c cutShort) Error() string { return c.cause.Error() }

// slower compares an exchange over the link with one straight to the server:
// it says whether the link makes exchanges at least by longer. It asks straight
// only if need be, and gives known = false where the server itself is so slow
// that nobody outside can tell.
func (p *probe) slower(ctx context.Context, by time.Duration) (slow, known bool, err error) {
	// An exchange faster than that has not met the delay; a longer wait would
	// teach nothing more.
	took, err := exchange(ctx, p.over, p.ask, by)
	switch {
	case err == nil && took < by:
		return false, true, nil
	case err != nil && !unanswered(err):
		return false, false, fmt.Errorf("link %s: %w", p.link, err)
	}
	took, err = exchange(ctx, p.straight, p.ask, straightWithin)
	if err != nil {
		// The server is silent on either way, unless the look was cut short.
		if ctx.Err() != nil {
			return false, false, outer(ctx, err)
		}
		return false, false, nil
	}
	return took < by/2, took < by/2, nil
}
