package relay

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// server is a relay at work.
type server struct {
	log          *slog.Logger
	links        map[string]*link
	names        []string // sorted
	rules        *rules
	capabilities Capabilities
}

// serial numbers the servers of this process, for the names of their buckets.
var serial atomic.Uint64

// Serve runs a relay until the context ends. It adds the links' addresses,
// listens on all links before the control API answers, and takes back all that
// it has changed when it ends. There can be one relay in a network namespace:
// the table of rules is its own, and what one before it left there is removed.
func Serve(ctx context.Context, c Config, log *slog.Logger) (err error) {
	if err := c.Validate(); err != nil {
		return fmt.Errorf("relay: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s := &server{log: log, links: map[string]*link{}, rules: newRules(tableName), capabilities: probe()}
	if len(s.capabilities.Missing) < len(Actions) {
		if err := s.rules.create(); err != nil {
			return fmt.Errorf("relay: nftables table %s: %w", tableName, err)
		}
		defer func() { err = errors.Join(err, s.rules.remove()) }()
	}
	var added addresses
	defer func() { err = errors.Join(err, added.remove()) }()
	scope := fmt.Sprintf("%d/", serial.Add(1))
	var accepting sync.WaitGroup
	defer accepting.Wait()
	defer func() {
		for _, l := range s.links {
			l.close()
		}
	}()
	for _, config := range c.Links {
		if err := added.add(config.Listen.Addr()); err != nil {
			return fmt.Errorf("relay: link %s: %w", config.Name, err)
		}
		l, err := openLink(ctx, config, scope, log)
		if err != nil {
			return fmt.Errorf("relay: link %s: %w", config.Name, err)
		}
		s.links[config.Name] = l
		s.names = append(s.names, config.Name)
	}
	slices.Sort(s.names)
	for _, l := range s.links {
		accepting.Go(func() { l.accept(ctx) })
	}
	return s.control(ctx, c.Control)
}

// control serves the control API until the context ends.
func (s *server) control(ctx context.Context, address string) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("relay: control API: %w", err)
	}
	api := &http.Server{Handler: s.handler(), ReadHeaderTimeout: 5 * time.Second}
	stopped := context.AfterFunc(ctx, func() { _ = api.Close() })
	defer stopped()
	s.log.Info("relay serves", "control", listener.Addr().String(), "links", len(s.names))
	if err := api.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("relay: control API: %w", err)
	}
	return nil
}

func (s *server) link(name string) (*link, error) {
	l, ok := s.links[name]
	if !ok {
		return nil, &UnknownLinkError{Link: name, Known: s.names}
	}
	return l, nil
}

func (s *server) addRule(l *link, r Rule) error {
	operation := fmt.Sprintf("add rule %q", r.Name)
	if err := r.Validate(); err != nil {
		return &RequestError{Link: l.Name, Operation: operation, Problem: err.Error()}
	}
	if err := s.capabilities.Check(r.Action); err != nil {
		return err
	}
	if err := s.rules.add(l.Link, r); err != nil {
		return &RequestError{Link: l.Name, Operation: operation, Problem: err.Error()}
	}
	switch r.Action {
	case Cap:
		l.cap(r.Name, r.Limit)
	default:
		l.cap(r.Name, 0) // the rule may stand in place of a cap
	}
	if r.Action == Reset {
		// The rule answers packets only, and idle connections send none.
		l.abortAll()
	}
	return nil
}

func (s *server) removeRule(l *link, name string) error {
	if len(s.capabilities.Missing) == len(Actions) {
		return nil // there can be none
	}
	state, err := s.rules.read(l.Name)
	if err != nil {
		return err
	}
	for _, r := range state {
		if r.Name == name && r.Action == Reset {
			// Connections that were waiting to be accepted when the rule came
			// are reset for their clients, who cannot tell the relay so.
			l.abortAll()
		}
	}
	l.cap(name, 0)
	return s.rules.removeRule(l.Name, name)
}

func (s *server) state(l *link) (State, error) {
	state := l.state()
	if len(s.capabilities.Missing) == len(Actions) {
		return state, nil
	}
	var err error
	state.Rules, err = s.rules.read(l.Name)
	for i, r := range state.Rules {
		if r.Action == Cap {
			state.Rules[i].Limit = l.capOf(r.Name)
		}
	}
	return state, err
}

// reset takes away all toxics and rules.
func (s *server) reset(ctx context.Context) error {
	var errs []error
	for _, name := range s.names {
		l := s.links[name]
		state, err := s.state(l)
		errs = append(errs, err)
		for _, r := range state.Rules {
			errs = append(errs, s.removeRule(l, r.Name))
		}
		for _, t := range state.Toxics {
			errs = append(errs, l.removeToxic(ctx, t.Name))
		}
	}
	return errors.Join(errs...)
}
