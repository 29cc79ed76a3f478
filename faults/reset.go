package faults

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"time"

	"relapse/topologies"
	"relapse/topologies/relay"
)

func init() {
	Register(Kind{
		Name:    "reset",
		Group:   GroupLink,
		Summary: "Open connections are reset and new ones refused",
		Doc: `Every open connection of the link is reset at both ends, idle ones too, and until the
fault ends each packet of a client is answered with a reset, so that new connections are
refused: what a host does that was restarted, or a firewall that has lost its state.`,
		Seen: `a connection that was opened over the link just before is reset, and a new one is
refused.`,
		Example: `links: ["client -> server"]`,
	}, func() Fault { return &resets{} })
}

type resets struct {
	Links `yaml:",inline"`
}

func (f *resets) Validate() error { return f.validate() }

// armedReset keeps a connection open over each link from before the fault: its
// end is what tells a reset from a refusal.
type armedReset struct {
	*onLinks
	mu        sync.Mutex
	witnesses map[topologies.Link]net.Conn
	reset     map[topologies.Link]bool
}

func (f *resets) Arm(ctx context.Context, sys *topologies.System, rng *rand.Rand) (Armed, error) {
	a, name, err := f.arm(sys, "reset", rng)
	if err != nil {
		return nil, err
	}
	if err := a.needRule(ctx, relay.Reset); err != nil {
		return nil, err
	}
	a.change.rules = []relay.Rule{{Name: name, Action: relay.Reset}}
	armed := &armedReset{onLinks: a, witnesses: map[topologies.Link]net.Conn{}, reset: map[topologies.Link]bool{}}
	a.look = armed.resets
	return armed, nil
}

// Inject opens the witnesses and then resets.
func (a *armedReset) Inject(ctx context.Context) error {
	a.dismiss()
	err := a.each(func(p *probe) error {
		conn, err := p.over(ctx)
		if err != nil {
			return fmt.Errorf("open a connection to be reset: %w", err)
		}
		a.mu.Lock()
		a.witnesses[p.link] = conn
		a.mu.Unlock()
		if !p.answers() {
			return nil
		}
		// An answer shows that the connection has come all the way. A server too
		// busy to give one is no reason not to reset.
		if _, err := exchangeOn(ctx, conn, p.ask, straightWithin); err != nil && !unanswered(err) {
			return fmt.Errorf("use a connection to be reset: %w", err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return a.onLinks.Inject(ctx)
}

// Undo also closes the witnesses.
func (a *armedReset) Undo(ctx context.Context) error {
	a.dismiss()
	return a.onLinks.Undo(ctx)
}

func (a *armedReset) dismiss() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for link, conn := range a.witnesses {
		// Whether a connection that is not needed any more closes well tells
		// nobody anything.
		_ = conn.Close()
		delete(a.witnesses, link)
	}
	clear(a.reset)
}

func (a *armedReset) resets(ctx context.Context, p *probe) (bool, error) {
	refused, err := a.refuses(ctx, p)
	if err != nil || !refused {
		return false, err
	}
	a.mu.Lock()
	witness, done := a.witnesses[p.link], a.reset[p.link]
	a.mu.Unlock()
	if witness == nil || done {
		// Without a witness, the refusal is all there is to see: some other
		// fault's before Inject, a leftover of this one after Undo.
		return true, nil
	}
	if err := awaitReset(ctx, witness); err != nil {
		return false, fmt.Errorf("link %s: %w", p.link, err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.reset[p.link] = true
	return true, nil
}

// awaitReset waits for the end of an open connection. It sends a byte, since a
// connection that was waiting to be accepted when the fault came is reset only
// by the answer to a packet of its own.
func awaitReset(ctx context.Context, conn net.Conn) error {
	if err := conn.SetDeadline(time.Now().Add(straightWithin)); err != nil {
		return err
	}
	_, err := conn.Write([]byte{'\n'})
	if err == nil {
		err = firstEnd(ctx, conn, straightWithin)
	}
	switch {
	case reset(err):
		return nil
	case err == nil:
		return errors.New("an open connection was not reset: the server sent data nobody asked for")
	}
	return outer(ctx, fmt.Errorf("an open connection was not reset: %w", err))
}

// resetWithin is how long a reset may take to arrive.
const resetWithin = 50 * time.Millisecond

// firstEnd reads one byte of a connection and gives the error with which it
// ended: [reset] if it was.
func firstEnd(ctx context.Context, conn net.Conn, patience time.Duration) error {
	if err := conn.SetReadDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	_, err := conn.Read(make([]byte, 1))
	return err
}
