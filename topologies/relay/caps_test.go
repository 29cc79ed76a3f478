package relay_test

import (
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"relapse/topologies/relay"
)

func TestCapRefusesAboveItsLimit(t *testing.T) {
	r := startRuled(t, startServer(t, echo))
	before := r.dial(t, 0)
	mustExchange(t, before)
	r.rule(t, 0, relay.Rule{Name: "pool", Action: relay.Cap, Limit: 3})
	mustExchange(t, before)
	open := []net.Conn{before}
	var err error
	for range 10 {
		var c net.Conn
		if c, err = r.tryDial(0, time.Second); err != nil {
			break
		}
		mustExchange(t, c)
		open = append(open, c)
	}
	if !errors.Is(err, syscall.ECONNREFUSED) || len(open) != 3 {
		t.Errorf("with a cap of 3, %d connections could be open, then %v", len(open), err)
	}
	for _, c := range open {
		mustExchange(t, c)
	}
	open[len(open)-1].Close()
	eventually(t, "a place is free again", 3*time.Second, func() bool {
		c, err := r.tryDial(0, time.Second)
		if err == nil {
			t.Cleanup(func() { c.Close() })
		}
		return err == nil
	})
	rules := r.state(t, 0).Rules
	if len(rules) != 1 || rules[0].Limit != 3 || rules[0].Packets == 0 {
		t.Errorf("the kernel holds %+v", rules)
	}
	r.unrule(t, 0, "pool")
	for range 5 {
		mustExchange(t, r.dial(t, 0))
	}
}

// Connections that were open before the cap count as well, also when an earlier
// cap has had the kernel track them.
func TestCapCountsWhatIsOpen(t *testing.T) {
	r := startRuled(t, startServer(t, echo))
	first := []*net.TCPConn{r.dial(t, 0), r.dial(t, 0)}
	eventually(t, "both connections are open", 2*time.Second, func() bool { return r.state(t, 0).Open == 2 })
	for round := range 3 {
		r.rule(t, 0, relay.Rule{Name: "pool", Action: relay.Cap, Limit: 2})
		if c, err := r.tryDial(0, time.Second); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("round %d: a third connection with a cap of 2: got %v, want ECONNREFUSED", round, err)
			if err == nil {
				c.Close()
			}
		}
		for _, c := range first {
			mustExchange(t, c)
		}
		r.unrule(t, 0, "pool")
	}
	r.rule(t, 0, relay.Rule{Name: "pool", Action: relay.Cap, Limit: 1})
	first[0].Close()
	eventually(t, "one connection is open", 2*time.Second, func() bool { return r.state(t, 0).Open == 1 })
	if _, err := r.tryDial(0, time.Second); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("with a cap below what is open: got %v, want ECONNREFUSED", err)
	}
}

// Many requests at once may be in flight when the limit is reached, but no more
// than the limit are served.
func TestCapHoldsUnderAStorm(t *testing.T) {
	r := startRuled(t, startServer(t, echo))
	r.rule(t, 0, relay.Rule{Name: "pool", Action: relay.Cap, Limit: 10})
	var served atomic.Int32
	var all sync.WaitGroup
	hold := make(chan struct{})
	for range 100 {
		all.Go(func() {
			c, err := r.tryDial(0, 2*time.Second)
			if err != nil {
				return
			}
			defer c.Close()
			if _, err := exchange(c, "hello", 2*time.Second); err == nil {
				served.Add(1)
			}
			<-hold
		})
	}
	eventually(t, "every request was answered", 5*time.Second, func() bool {
		s := r.state(t, 0)
		return int(s.Excess)+int(s.Rules[0].Packets)+int(served.Load()) >= 100
	})
	if n := r.state(t, 0).Open; n != 10 || served.Load() != 10 {
		t.Errorf("with a cap of 10, %d are open and %d were served", n, served.Load())
	}
	close(hold)
	all.Wait()
}
