package players

import (
	"io"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"relapse/topologies/services/http1"
)

const (
	// reopenEvery is how close together a session opens connections, also where
	// it opens them at once: modelled. What a player's client does before (its
	// handshakes, its sign-in) takes a tenth of a second at least, while a
	// refusal over a bridge takes none, so that a session would spin.
	reopenEvery = 100 * time.Millisecond
	// settledAfter is how long a connection must live to count as one that was
	// accepted, if no call over it is answered sooner.
	settledAfter = time.Second
	// openedWithin is the time over which all sessions begin, or their period if
	// that is shorter.
	openedWithin = time.Second
)

// sessions plays [Sessions]. Each session is a goroutine of its own, which waits
// in the read of its connection, so that it notices at once when that breaks.
type sessions struct {
	Sessions
	g          *Generator
	op         *operation
	all        []*session
	states     *prometheus.GaugeVec
	reconnects prometheus.Counter
	waves      map[string]*wave // by the generator's lock
	opened     int              // connections opened again, by the generator's lock
}

// session is one player who stays connected.
//
//	connected --breaks--> opens again --accepted--> connected
//	                        |      ^
//	                        '------' refused: as the retries say
type session struct {
	of     *sessions
	turn   int           // number of its target
	due    time.Duration // when its next call is
	opens  time.Duration // when it opens its first connection
	failed int           // connections in a row that came to nothing

	mu      sync.Mutex
	conn    *http1.Conn // nil while there is none
	at      *target     // whom the connection is to
	through *redirect   // what had it opened there; nil for the session's turn
	cut     bool        // a wave or a redirect cut the connection
	cutBy   *wave       // the wave that did; nil for anything else
	moved   *redirect   // the redirect that did, until the connection is opened again
	ended   bool
}

func newSessions(g *Generator, c Sessions) *sessions {
	s := &sessions{
		Sessions: c, g: g,
		op: g.add(opSession, c.Call),
		states: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "relapse_sessions",
			Help: "Sessions by state (connected, disconnected).",
		}, []string{"state"}),
		reconnects: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "relapse_reconnects_total",
			Help: "Attempts of sessions to open their connection again, whatever became of them.",
		}),
		waves: map[string]*wave{},
	}
	for n := range c.Count {
		s.all = append(s.all, &session{of: s, turn: n})
	}
	s.states.WithLabelValues("connected").Set(0)
	s.states.WithLabelValues("disconnected").Set(float64(c.Count))
	g.metrics.registry.MustRegister(s.states, s.reconnects)
	return s
}

func (s *sessions) begin(now time.Duration) {
	phase := random(s.g.config.Seed, "sessions").Float64()
	for n, one := range s.all {
		one.opens = spread(now, min(s.Every, openedWithin), n, s.Count, phase)
		one.due = spread(now, s.Every, n, s.Count, phase)
		s.g.sent.Go(one.live)
	}
}

// stop closes all connections, which ends the sessions that wait in them.
func (s *sessions) stop() {
	for _, one := range s.all {
		one.mu.Lock()
		one.ended = true
		if one.conn != nil {
			one.conn.Close()
		}
		one.mu.Unlock()
	}
}

// live is the life of a session.
func (s *session) live() {
	g := s.of.g
	if !g.rest(s.opens - g.now()) {
		return
	}
	for again := false; ; again = true {
		began := g.now()
		if s.connect(again) || s.wasCut() {
			s.failed = 0 // what broke now is the first failure
		} else {
			s.turn++ // a target that refuses is passed over
		}
		s.failed++
		if !s.pause(began) {
			return
		}
	}
}

// connect opens a connection and keeps it until it breaks. It says whether the
// target accepted the session, for however long.
func (s *session) connect(again bool) (accepted bool) {
	g := s.of.g
	if again {
		s.reconnects()
	}
	to, through := s.next()
	conn, err := to.Open(time.Now().Add(g.config.Timeout))
	if err != nil || !s.keep(conn, to, through) {
		return false
	}
	defer s.drop()
	return s.hold(conn, to)
}

// next gives whom the session connects to, and the redirect that leads there.
func (s *session) next() (*target, *redirect) {
	g := s.of.g
	g.mu.Lock()
	defer g.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.moved
	s.moved = nil // should that target refuse, it is passed over
	if r != nil && !r.ended {
		// Not always what its turn says: an earlier redirect may have left the
		// session where this one found it.
		return r.to, r
	}
	return g.route(s.turn)
}

// reconnects counts, also for the wave that is the reason.
func (s *session) reconnects() {
	s.of.reconnects.Inc()
	s.mu.Lock()
	because := s.cutBy
	s.cut, s.cutBy = false, nil
	s.mu.Unlock()
	g := s.of.g
	g.mu.Lock()
	defer g.mu.Unlock()
	s.of.opened++
	if because != nil {
		because.recent.Add(g.now())
	}
}

// wasCut says whether a wave or a redirect has cut the connection, which is no
// refusal.
func (s *session) wasCut() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cut
}

// keep has the session connected; false once it has ended, or where its target
// has been redirected while the connection was on its way.
func (s *session) keep(conn *http1.Conn, to *target, through *redirect) bool {
	g := s.of.g
	g.mu.Lock()
	defer g.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.ended:
		conn.Close()
		return false
	case to.redirect != nil:
		s.cut, s.moved = true, to.redirect
		conn.Reset()
		return false
	}
	s.conn, s.at, s.through = conn, to, through
	s.of.states.WithLabelValues("connected").Inc()
	s.of.states.WithLabelValues("disconnected").Dec()
	return true
}

func (s *session) drop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.conn.Close()
	s.conn, s.at, s.through = nil, nil, nil
	s.of.states.WithLabelValues("connected").Dec()
	s.of.states.WithLabelValues("disconnected").Inc()
}

// hold makes the session's calls over a connection until that breaks.
func (s *session) hold(conn *http1.Conn, to *target) (accepted bool) {
	g := s.of.g
	opened := g.now()
	for {
		early := s.due - g.now()
		if err := conn.Idle(g.start.Add(s.due)); err != nil {
			return accepted || g.now()-opened > settledAfter
		}
		if early > 0 {
			// One that was due while there was no connection is late for another
			// reason than the generator.
			late := g.now() - s.due
			g.metrics.lateness.Observe(late.Seconds())
			s.of.op.wasLate(late)
		}
		became, keep := s.call(conn, to)
		accepted = accepted || became == succeeded
		if !keep {
			return accepted || g.now()-opened > settledAfter
		}
	}
}

// call makes the call that is due.
func (s *session) call(conn *http1.Conn, to *target) (became outcome, keep bool) {
	g, o := s.of.g, s.of.op
	at := s.due
	s.due += s.of.Every
	o.metrics.offered.Inc()
	if g.retries != nil {
		g.retries.Request(o.class)
	}
	g.mu.Lock()
	now := g.now()
	o.recent.Add(now)
	to.sent.Add(now)
	path := g.path(o)
	request := to.Request(o.call.Method, path)
	g.mu.Unlock()
	status, keep, err := conn.Do(request, g.start.Add(at+g.config.Timeout), io.Discard)
	became = outcome(http1.OutcomeOf(status, err))
	if became == succeeded && g.retries != nil {
		g.retries.Success(o.class)
	}
	o.metrics.attempt(became)
	o.metrics.end(became, g.now()-at)
	return became, keep
}

// pause waits until the connection is to be opened again; false if the
// generator stops meanwhile. Where the retries give up, the player does nothing
// until the next call is due.
func (s *session) pause(began time.Duration) bool {
	g := s.of.g
	at := g.now()
	if g.retries != nil {
		after, again := g.retries.Next(s.of.op.class, s.failed, 0)
		if again {
			at += after
		} else {
			s.failed = 0
			for at = s.due; at < g.now(); at += s.of.Every {
			}
		}
	}
	at = max(at, began+reopenEvery)
	for {
		next := min(at, s.due+g.config.Timeout)
		if !g.rest(next - g.now()) {
			return false
		}
		s.miss()
		if next == at {
			return true
		}
	}
}

// miss ends the calls whose time is over without a connection.
func (s *session) miss() {
	g, o := s.of.g, s.of.op
	for s.due+g.config.Timeout <= g.now() {
		o.metrics.offered.Inc()
		o.metrics.end(timedOut, g.now()-s.due)
		s.due += s.of.Every
	}
}
