package faults

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"

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
		defer a.mu.Unlock()
		a.witnesses[p.link] = conn
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

func awaitReset(ctx context.Context, conn net.Conn) error {
	deadline, cancel := context.WithTimeout(ctx, straightWithin)
	defer cancel()
	at, _ := deadline.Deadline()
	if err := conn.SetReadDeadline(at); err != nil {
		return err
	}
	_, err := conn.Read(make([]byte, 1))
	switch {
	case reset(err):
		return nil
	case err == nil:
		return errors.New("an open connection was not reset: the server sent data nobody asked for")
	}
	return fmt.Errorf("an open connection was not reset: %w", err)
}
