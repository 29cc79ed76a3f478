package faults_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"relapse/faults"
	"relapse/topologies"
)

// The tests of this file look at what generators say of themselves by other
// means than the faults' own looks, and at the ones that no fault is put on.

func players(t *testing.T, sys *topologies.System, node string) *topologies.Players {
	t.Helper()
	p, err := sys.Players(node)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func sessions(t *testing.T, p *topologies.Players) topologies.Sessions {
	t.Helper()
	s, err := p.Sessions(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// allConnected says whether no session of a generator is without a connection.
func allConnected(t *testing.T, p *topologies.Players) func() error {
	return func() error {
		if s := sessions(t, p); s.Connected != s.Count {
			return fmt.Errorf("%d of %d sessions are connected", s.Connected, s.Count)
		}
		return nil
	}
}

// near says whether a number that is asked for is as wanted, give or take.
func near(ask func() (float64, error), want, give float64) func() error {
	return func() error {
		got, err := ask()
		if err == nil && (got < want-give || got > want+give) {
			err = fmt.Errorf("have %g, want %g", got, want)
		}
		return err
	}
}

// Two shares add up, and leave the rate and the other operation alone.
func TestMalformedAddsUp(t *testing.T) {
	sys := system(t)
	p := players(t, sys, "players")
	spoiled := func(operation string) func() (float64, error) {
		return func() (float64, error) { return p.Spoiled(t.Context(), operation) }
	}
	rate := func() (float64, error) { return p.Arrivals(t.Context(), "get") }
	eventually(t, 3*time.Second, "none is malformed", near(spoiled("get"), 0, 0))
	first := armed(t, sys, "malformed", "{node: players, operation: get, percent: 25%}")
	second := armed(t, sys, "malformed", "{node: players, operation: get, percent: 50%}")
	for _, a := range []faults.Armed{first, second} {
		if err := a.Inject(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, 3*time.Second, "three quarters are malformed", near(spoiled("get"), 0.75, 0.05))
	eventually(t, 3*time.Second, "the rate is the plain one", near(rate, plainRate, 0.1*plainRate))
	always(t, 200*time.Millisecond, "the other operation is as it was", near(spoiled("other"), 0, 0))
	undo(t, second, "undo the second")
	eventually(t, 3*time.Second, "a quarter is malformed", near(spoiled("get"), 0.25, 0.05))
	undo(t, first, "undo the first")
	eventually(t, 3*time.Second, "none is malformed again", near(spoiled("get"), 0, 0))
}

func TestMalformedAndSurgeTogether(t *testing.T) {
	sys := system(t)
	p := players(t, sys, "players")
	injected(t, sys, "surge", "{node: players, operation: get, times: 2}")
	injected(t, sys, "malformed", "{node: players, operation: get, percent: 50%}")
	eventually(t, 3*time.Second, "twice the rate, half of it malformed", func() error {
		return errors.Join(
			near(func() (float64, error) { return p.Arrivals(t.Context(), "get") }, 2*plainRate, 0.2*plainRate)(),
			near(func() (float64, error) { return p.Spoiled(t.Context(), "get") }, 0.5, 0.05)())
	})
}

func TestReconnectWavesCutAllSessionsOfTheirGenerator(t *testing.T) {
	sys := system(t)
	p, others := players(t, sys, "players"), players(t, sys, "bystanders")
	eventually(t, 5*time.Second, "all sessions are connected", allConnected(t, p))
	before, othersBefore := sessions(t, p), sessions(t, others)
	a := armed(t, sys, "reconnect-wave", "{node: players, every: 700ms}")
	began := time.Now()
	if err := a.Inject(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, 5*time.Second, "three waves", func() error {
		if cut := sessions(t, p).Reconnects - before.Reconnects; cut < 3*before.Count {
			return fmt.Errorf("%d connections were opened again", cut)
		}
		return nil
	})
	if took := time.Since(began); took < 1300*time.Millisecond {
		t.Errorf("three waves took %s, want two periods of 700 ms", took)
	}
	undo(t, a, "undo")
	eventually(t, 5*time.Second, "all sessions are connected again", allConnected(t, p))
	after := sessions(t, p)
	always(t, time.Second, "no wave comes any more", func() error {
		if now := sessions(t, p).Reconnects; now != after.Reconnects {
			return fmt.Errorf("%d more connections were opened again", now-after.Reconnects)
		}
		return nil
	})
	if now := sessions(t, others).Reconnects; now != othersBefore.Reconnects {
		t.Errorf("%d connections of bystanders were opened again, want none", now-othersBefore.Reconnects)
	}
}

// A redirect moves the requests and the sessions of its generator alone. What has
// moved comes back with the next request, and with the next connection.
func TestRedirectMovesAllOfItsGenerator(t *testing.T) {
	sys := system(t)
	p, others := players(t, sys, "players"), players(t, sys, "bystanders")
	at := func(p *topologies.Players, host string) topologies.Target {
		t.Helper()
		target, err := p.Target(t.Context(), host)
		if err != nil {
			t.Fatal(err)
		}
		return target
	}
	eventually(t, 5*time.Second, "all sessions are connected", allConnected(t, p))
	before, othersBefore := sessions(t, p), sessions(t, others)
	// Those that a redirect before this one has left at the spare do not move.
	moving := at(p, "control").Sessions
	a := injected(t, sys, "redirect", "{node: players, from: control, to: spare}")
	eventually(t, 5*time.Second, "all is at the spare", func() error {
		from, to := at(p, "control"), at(p, "spare")
		if from.Sent > 0 || from.Sessions > 0 || to.Sent < plainRate || to.Sessions != before.Count {
			return fmt.Errorf("have %+v at control and %+v at the spare", from, to)
		}
		return nil
	})
	if moved := sessions(t, p).Reconnects - before.Reconnects; moved != moving {
		t.Errorf("%d connections were opened again, want the %d to control", moved, moving)
	}
	undo(t, a, "undo")
	eventually(t, 5*time.Second, "requests are back and sessions have stayed", func() error {
		from, to := at(p, "control"), at(p, "spare")
		if from.Sent < plainRate || from.Sessions > 0 || to.Sessions != before.Count {
			return fmt.Errorf("have %+v at control and %+v at the spare", from, to)
		}
		return nil
	})
	wave := armed(t, sys, "reconnect-wave", "{node: players, every: 10s}")
	if err := wave.Inject(t.Context()); err != nil {
		t.Fatal(err)
	}
	undo(t, wave, "undo the wave")
	eventually(t, 5*time.Second, "sessions are back", func() error {
		if from := at(p, "control"); from.Sessions != before.Count {
			return fmt.Errorf("have %+v at control", from)
		}
		return nil
	})
	if to := at(others, "spare"); to.Sent > 0 || to.Sessions > 0 || sessions(t, others).Reconnects != othersBefore.Reconnects {
		t.Errorf("bystanders: %+v at the spare and %d connections opened again, want none", to, sessions(t, others).Reconnects-othersBefore.Reconnects)
	}
}
