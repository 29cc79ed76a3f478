// Package players is an open-loop load generator: the players of a topology.
//
// Arrivals follow a schedule that is decided by a seed and the rates alone and
// never wait for replies, so a system that stalls meets the load that it would
// meet in production. A request's latency counts from the time that it was
// meant to be sent, so that neither a stalled system nor a late generator hides
// waiting time (coordinated omission). What the generator itself fails to do is
// counted and shown: lateness, and requests that were never sent.
//
// A request is attempted once, or as often as its retries say; see
// [Config.Retries]. Attempts are counted beside requests, so that what retries
// add to the load can be seen.
//
// Beside operations whose rates are set from outside there are populations:
// players in a match, launchers and sessions, whose calls follow from what the
// system answered before. See [Match], [Launchers] and [Sessions].
package players

import (
	"container/heap"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"relapse/topologies/services/retry"
)

const (
	tokenPlace = "{token}"
	pruneEvery = time.Second
	// maxWait bounds how long the dispatcher rests without an arrival due.
	maxWait = time.Second
)

// Generator makes load. All its times are offsets from one start on the
// monotonic clock.
type Generator struct {
	config   Config
	targets  []*target
	spares   []*target
	retries  *retry.Policy // nil where a request is attempted once
	metrics  *metrics
	start    time.Time
	flying   atomic.Int64
	sent     sync.WaitGroup
	wake     chan struct{}
	stopping chan struct{} // closed once no more is to be begun

	mu         sync.Mutex
	operations []*operation // sorted by name; the populations' ones as well
	scales     map[string]scale
	shares     map[string]share
	redirects  map[string]*redirect
	events     events
	populated  bool // the populations have begun
	match      *match
	launchers  *launchers
	sessions   *sessions
}

// scale multiplies an operation's base rate.
type scale struct {
	operation string
	factor    float64
}

// New makes a generator. It refuses a target outside the machine's own
// networks with [http1.ErrForeignTarget]. No load is made before [Generator.Run].
func New(ctx context.Context, c Config) (*Generator, error) {
	if err := c.validate(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	g := &Generator{
		config:    c,
		metrics:   newMetrics(),
		start:     time.Now(),
		wake:      make(chan struct{}, 1),
		stopping:  make(chan struct{}),
		scales:    map[string]scale{},
		shares:    map[string]share{},
		redirects: map[string]*redirect{},
	}
	for _, url := range c.targets() {
		t, err := newTarget(ctx, url, false)
		if err != nil {
			return nil, err
		}
		g.targets = append(g.targets, t)
	}
	for _, url := range c.Spares {
		t, err := newTarget(ctx, url, true)
		if err != nil {
			return nil, err
		}
		g.spares = append(g.spares, t)
	}
	if c.Retries != nil && c.Retries.Count > 0 {
		policy, err := retry.New(*c.Retries, g.now, random(c.Seed, "retries"))
		if err != nil {
			return nil, err
		}
		g.retries = policy
	}
	for name, configured := range c.Operations {
		o := g.add(name, configured.call())
		o.schedule = NewSchedule(c.Arrivals, random(c.Seed, "arrivals of "+name))
		if configured.Malformed != nil {
			o.malformed = g.newOperation(malformedName(name), *configured.Malformed)
			o.malformed.class = name
			o.owed = random(c.Seed, "malformed requests of "+name).Float64()
		}
		if configured.Elsewhere != nil {
			o.elsewhere = g.newElsewhere(name, *configured.Elsewhere)
		}
	}
	if m := c.Populations.Match; m != nil {
		g.match = newMatch(g, *m)
	}
	if l := c.Populations.Launchers; l != nil {
		g.launchers = newLaunchers(g, *l)
	}
	if s := c.Populations.Sessions; s != nil {
		g.sessions = newSessions(g, *s)
	}
	slices.SortFunc(g.operations, func(a, b *operation) int { return strings.Compare(a.name, b.name) })
	return g, nil
}

// now is the time since the start.
func (g *Generator) now() time.Duration { return time.Since(g.start) }

// random gives a source of its own to each purpose, so that what one of them
// draws does not shift the others.
func random(seed uint64, purpose string) *rand.Rand {
	// FNV-1a: any stable hash would do.
	hash := uint64(14695981039346656037)
	for _, b := range []byte(purpose) {
		hash = (hash ^ uint64(b)) * 1099511628211
	}
	return rand.New(rand.NewPCG(seed, hash))
}

// Registry holds the generator's metrics.
func (g *Generator) Registry() *prometheus.Registry { return g.metrics.registry }

// Run makes load until the context ends, then waits for the attempts in flight,
// which end within the timeout. It can be called once.
func (g *Generator) Run(ctx context.Context) error {
	defer func() {
		for _, t := range g.all() {
			t.Close()
		}
	}()
	defer g.sent.Wait()
	defer g.stop()
	timer := time.NewTimer(0)
	defer timer.Stop()
	pruned := time.Now()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		case <-g.wake:
		}
		g.mu.Lock()
		g.dispatch(g.now())
		next := g.next()
		g.mu.Unlock()
		if now := time.Now(); now.Sub(pruned) > pruneEvery {
			g.prune(now)
			pruned = now
		}
		wait := maxWait
		if next >= 0 {
			wait = min(wait, next-g.now())
		}
		timer.Reset(wait)
	}
}

// stop begins nothing any more: no further attempts, and no sessions.
func (g *Generator) stop() {
	close(g.stopping)
	if g.sessions != nil {
		g.sessions.stop()
	}
}

// rest waits for a time; false if the generator stops before it is over.
func (g *Generator) rest(wait time.Duration) bool {
	if wait <= 0 {
		select {
		case <-g.stopping:
			return false
		default:
			return true
		}
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-g.stopping:
		return false
	}
}

// poke makes the dispatcher look at what is due again.
func (g *Generator) poke() {
	select {
	case g.wake <- struct{}{}:
	default:
	}
}

// next gives when something is due next, -1 if nothing is.
func (g *Generator) next() time.Duration {
	next := time.Duration(-1)
	if len(g.events) > 0 {
		next = g.events[0].at
	}
	for _, o := range g.operations {
		if o.schedule == nil {
			continue
		}
		if at, ok := o.schedule.Next(); ok && (next < 0 || at < next) {
			next = at
		}
	}
	return next
}

// dispatch sends what is due.
func (g *Generator) dispatch(now time.Duration) {
	for len(g.events) > 0 && g.events[0].at <= now {
		e := heap.Pop(&g.events).(event)
		e.fire(e.at)
	}
	for _, o := range g.operations {
		if o.schedule == nil {
			continue
		}
		for {
			at, ok := o.schedule.Next()
			if !ok || at > now {
				break
			}
			o.schedule.Take()
			g.send(g.form(o), at, nil)
		}
	}
}
