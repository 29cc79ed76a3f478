// Package players is an open-loop load generator: the players of a topology.
//
// Arrivals follow a schedule that is decided by a seed and the rates alone and
// never wait for replies, so a system that stalls meets the load that it would
// meet in production. A request's latency counts from the time that it was
// meant to be sent, so that neither a stalled system nor a late generator hides
// waiting time (coordinated omission). What the generator itself fails to do is
// counted and shown: lateness, and requests that were never sent.
//
// Beside operations whose rates are set from outside there are populations:
// players in a match and launchers, whose calls follow from what the system
// answered before. See [Match] and [Launchers].
package players

import (
	"container/heap"
	"context"
	"fmt"
	"math/rand/v2"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/prometheus/client_golang/prometheus"
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
	config  Config
	host    string
	client  *client
	metrics *metrics
	start   time.Time
	flying  atomic.Int64
	sent    sync.WaitGroup
	wake    chan struct{}

	mu         sync.Mutex
	operations []*operation // sorted by name; the populations' ones as well
	scales     map[string]scale
	events     events
	populated  bool // the populations have begun
	match      *match
	launchers  *launchers
}

// operation is one kind of request.
type operation struct {
	name     string
	call     Call
	schedule *Schedule // nil for one that a population makes
	base     float64
	tokens   *rand.Rand
	metrics  opMetrics
	recent   recent
	lateness *hdrhistogram.Histogram // microseconds
	late     sync.Mutex
}

// scale multiplies an operation's base rate.
type scale struct {
	operation string
	factor    float64
}

// New makes a generator. It refuses a target outside the machine's own
// networks with [ErrForeignTarget]. No load is made before [Generator.Run].
func New(ctx context.Context, c Config) (*Generator, error) {
	if err := c.validate(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	address, err := resolve(ctx, c.Target)
	if err != nil {
		return nil, err
	}
	u, err := url.Parse(c.Target)
	if err != nil {
		return nil, fmt.Errorf("target: %w", err)
	}
	g := &Generator{
		config:  c,
		host:    u.Host,
		client:  &client{address: address},
		metrics: newMetrics(),
		start:   time.Now(),
		wake:    make(chan struct{}, 1),
		scales:  map[string]scale{},
	}
	for name, call := range c.Operations {
		o := g.add(name, call)
		o.schedule = NewSchedule(c.Arrivals, random(c.Seed, "arrivals of "+name))
	}
	if m := c.Populations.Match; m != nil {
		g.match = newMatch(g, *m)
	}
	if l := c.Populations.Launchers; l != nil {
		g.launchers = newLaunchers(g, *l)
	}
	slices.SortFunc(g.operations, func(a, b *operation) int { return strings.Compare(a.name, b.name) })
	return g, nil
}

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

func (g *Generator) add(name string, call Call) *operation {
	o := &operation{
		name: name, call: call,
		tokens:   random(g.config.Seed, "tokens of "+name),
		metrics:  g.metrics.op(name),
		lateness: hdrhistogram.New(1, int64(time.Minute/time.Microsecond), 2),
	}
	g.operations = append(g.operations, o)
	return o
}

// Registry holds the generator's metrics.
func (g *Generator) Registry() *prometheus.Registry { return g.metrics.registry }

// Run makes load until the context ends, then waits for the requests in
// flight, which end within the timeout.
func (g *Generator) Run(ctx context.Context) error {
	defer g.client.prune(time.Time{})
	defer g.sent.Wait()
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
		g.dispatch(time.Since(g.start))
		next := g.next()
		g.mu.Unlock()
		if now := time.Now(); now.Sub(pruned) > pruneEvery {
			g.client.prune(now)
			pruned = now
		}
		wait := maxWait
		if next >= 0 {
			wait = min(wait, next-time.Since(g.start))
		}
		timer.Reset(wait)
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
			g.send(o, at, nil)
		}
	}
}

// send makes one request that was due at a time. Its outcome goes to then, if
// there is one, with the generator locked.
func (g *Generator) send(o *operation, at time.Duration, then func(outcome)) {
	o.metrics.offered.Inc()
	if g.flying.Add(1) > int64(g.config.InFlight) {
		g.flying.Add(-1)
		o.metrics.end(unsent, 0)
		if then != nil {
			then(unsent)
		}
		return
	}
	o.recent.add(time.Since(g.start))
	path := o.call.Path
	if strings.Contains(path, tokenPlace) {
		path = strings.ReplaceAll(path, tokenPlace, fmt.Sprintf(g.config.Token, o.tokens.IntN(g.config.Tokens)))
	}
	request := newRequest(o.call.Method, path, g.host)
	g.sent.Go(func() {
		late := time.Since(g.start) - at
		g.metrics.lateness.Observe(late.Seconds())
		o.wasLate(late)
		status, err := g.client.do(o.call.Method, request, g.start.Add(at+g.config.Timeout))
		became := outcomeOf(status, err)
		o.metrics.end(became, time.Since(g.start)-at)
		g.flying.Add(-1)
		if then != nil {
			g.mu.Lock()
			then(became)
			g.mu.Unlock()
			g.poke()
		}
	})
}

func (o *operation) wasLate(by time.Duration) {
	o.late.Lock()
	defer o.late.Unlock()
	// An error would say that the value is over a minute: it is recorded as one.
	_ = o.lateness.RecordValue(min(max(by.Microseconds(), 1), int64(time.Minute/time.Microsecond)))
}

// latenessP99 is over all requests since the start.
func (o *operation) latenessP99() time.Duration {
	o.late.Lock()
	defer o.late.Unlock()
	return time.Duration(o.lateness.ValueAtQuantile(99)) * time.Microsecond
}

// event is something that a population does at a time.
type event struct {
	at   time.Duration
	fire func(at time.Duration)
}

// events is a heap, the soonest first.
type events []event

func (e events) Len() int           { return len(e) }
func (e events) Less(i, j int) bool { return e[i].at < e[j].at }
func (e events) Swap(i, j int)      { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)        { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	last := len(*e) - 1
	x := (*e)[last]
	(*e)[last] = event{}
	*e = (*e)[:last]
	return x
}

// at has something done at a time; the generator is locked then as now.
func (g *Generator) at(when time.Duration, fire func(at time.Duration)) {
	heap.Push(&g.events, event{at: when, fire: fire})
}
