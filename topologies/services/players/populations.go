package players

import (
	"math/rand/v2"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// The populations of this file live by the generator's lock: their methods are
// called from the dispatcher and from ended requests, which hold it.

// begin starts the populations once; later calls do nothing.
func (g *Generator) begin(now time.Duration) {
	if g.populated {
		return
	}
	g.populated = true
	if g.match != nil {
		g.match.begin(now)
	}
	if g.launchers != nil {
		g.launchers.begin(now)
	}
	if g.sessions != nil {
		g.sessions.begin(now)
	}
}

// spread gives the first time of the n-th of a population's members, evenly
// over one period.
func spread(now, period time.Duration, n, of int, phase float64) time.Duration {
	return now + time.Duration(float64(period)*(float64(n)+phase)/float64(of))
}

// match plays [Match].
//
//	in match --refresh fails--> in match, tries again --fails again--> dropped
//	   ^                              |
//	   '--------- succeeds -----------'
type match struct {
	Match
	g       *Generator
	refresh *operation
	phase   float64
	states  *prometheus.GaugeVec
}

func newMatch(g *Generator, c Match) *match {
	m := &match{
		Match: c, g: g,
		refresh: g.add(opRefresh, c.Refresh),
		phase:   random(g.config.Seed, "players in a match").Float64(),
		states: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "relapse_players",
			Help: "Players who began the run in a match, by state (in_match, dropped).",
		}, []string{"state"}),
	}
	m.states.WithLabelValues("in_match").Set(float64(c.Players))
	m.states.WithLabelValues("dropped").Set(0)
	g.metrics.registry.MustRegister(m.states)
	return m
}

func (m *match) begin(now time.Duration) {
	for n := range m.Players {
		m.due(spread(now, m.Every, n, m.Players, m.phase))
	}
}

// due has a player refresh at a time, and then every period from that time on,
// however long a reply took.
func (m *match) due(regular time.Duration) {
	m.g.at(regular, func(at time.Duration) { m.try(at, regular, 1) })
}

func (m *match) try(at, regular time.Duration, attempt int) {
	m.g.send(m.refresh, at, func(became outcome) {
		switch {
		case became == succeeded:
			m.due(regular + m.Every)
		case attempt >= m.DroppedAfter:
			m.states.WithLabelValues("in_match").Dec()
			m.states.WithLabelValues("dropped").Inc()
		default:
			again := m.g.now() + m.RetryAfter
			m.g.at(again, func(at time.Duration) { m.try(at, regular, attempt+1) })
		}
	})
}

// launchers plays [Launchers].
//
//	signed in --check fails--> signed out --waits, signs in--> signed in
//	                               ^  |
//	                               '--' sign-in fails
type launchers struct {
	Launchers
	g        *Generator
	check    *operation
	relogin  *operation
	phase    float64
	waits    []*rand.Rand // by launcher: no launcher's draw depends on another's replies
	states   *prometheus.GaugeVec
	signouts prometheus.Counter
}

func newLaunchers(g *Generator, c Launchers) *launchers {
	l := &launchers{
		Launchers: c, g: g,
		check:   g.add(opCheck, c.Check),
		relogin: g.add(opRelogin, c.Login),
		states: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "relapse_launchers",
			Help: "Launchers by state (signed_in, signed_out).",
		}, []string{"state"}),
		signouts: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "relapse_forced_signouts_total",
			Help: "Players whom their launcher signed out because a check of their token failed.",
		}),
	}
	rng := random(g.config.Seed, "launchers")
	l.phase = rng.Float64()
	for range c.Count {
		l.waits = append(l.waits, rand.New(rand.NewPCG(rng.Uint64(), rng.Uint64())))
	}
	l.states.WithLabelValues("signed_in").Set(float64(c.Count))
	l.states.WithLabelValues("signed_out").Set(0)
	g.metrics.registry.MustRegister(l.states, l.signouts)
	return l
}

func (l *launchers) begin(now time.Duration) {
	for n := range l.Count {
		l.due(n, spread(now, l.Every, n, l.Count, l.phase))
	}
}

func (l *launchers) due(n int, when time.Duration) {
	l.g.at(when, func(at time.Duration) {
		l.g.send(l.check, at, func(became outcome) {
			if became == succeeded || !l.SignOutOnError {
				l.due(n, at+l.Every)
				return
			}
			l.signouts.Inc()
			l.states.WithLabelValues("signed_in").Dec()
			l.states.WithLabelValues("signed_out").Inc()
			l.comeBack(n)
		})
	})
}

// comeBack has a player try to sign in after a wait, until it succeeds.
func (l *launchers) comeBack(n int) {
	wait := l.BackAfterMin
	if spread := l.BackAfterMax - l.BackAfterMin; spread > 0 {
		wait += time.Duration(l.waits[n].Int64N(int64(spread)))
	}
	l.g.at(l.g.now()+wait, func(at time.Duration) {
		l.g.send(l.relogin, at, func(became outcome) {
			if became != succeeded {
				l.comeBack(n)
				return
			}
			l.states.WithLabelValues("signed_out").Dec()
			l.states.WithLabelValues("signed_in").Inc()
			l.due(n, l.g.now()+l.Every)
		})
	})
}
