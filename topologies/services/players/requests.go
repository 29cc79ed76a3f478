package players

import (
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"relapse/topologies/services"
	"relapse/topologies/services/http1"
)

// operation is one kind of request.
type operation struct {
	name      string
	call      Call
	class     string     // for retries; see [Config.Retries]
	schedule  *Schedule  // nil for one that a population makes
	malformed *operation // what is sent in its stead; nil if nothing is
	elsewhere *elsewhere // what its players do who are told that it is closed; nil if nothing
	base      float64
	owed      float64 // malformed requests that are due, a part of one
	turn      int     // number of the next target
	tokens    *rand.Rand
	metrics   opMetrics
	recent    services.Recent
	lateness  *hdrhistogram.Histogram // microseconds
	late      sync.Mutex
}

func (g *Generator) add(name string, call Call) *operation {
	o := g.newOperation(name, call)
	g.operations = append(g.operations, o)
	return o
}

func (g *Generator) newOperation(name string, call Call) *operation {
	return &operation{
		name: name, call: call, class: name,
		tokens:   random(g.config.Seed, "tokens of "+name),
		metrics:  g.metrics.op(name),
		lateness: hdrhistogram.New(1, int64(time.Minute/time.Microsecond), 2),
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
	o.recent.Add(g.now())
	if g.retries != nil {
		g.retries.Request(o.class)
	}
	path := g.path(o)
	turn := o.turn
	o.turn++
	target := g.take(turn)
	request := target.Request(o.call.Method, path)
	g.sent.Go(func() {
		late := g.now() - at
		g.metrics.lateness.Observe(late.Seconds())
		o.wasLate(late)
		status, err := target.Do(request, g.start.Add(at+g.config.Timeout), io.Discard)
		became := outcome(http1.OutcomeOf(status, err))
		o.metrics.attempt(became)
		if g.retries != nil {
			status, became = g.again(o, path, turn, status, became)
		}
		o.metrics.end(became, g.now()-at)
		g.flying.Add(-1)
		g.goElsewhere(o, status)
		if then != nil {
			g.mu.Lock()
			then(became)
			g.mu.Unlock()
			g.poke()
		}
	})
}

// again makes further attempts of a request whose first one ended, as long as
// the retries have it, and gives the status and the outcome of the last.
func (g *Generator) again(o *operation, path string, turn, status int, became outcome) (int, outcome) {
	for attempt := 1; became != succeeded; attempt++ {
		after, again := g.retries.Next(o.class, attempt, status)
		if !again || !g.rest(after) {
			return status, became
		}
		g.mu.Lock()
		target := g.take(turn + attempt)
		g.mu.Unlock()
		var err error
		status, err = target.Do(target.Request(o.call.Method, path), time.Now().Add(g.config.Timeout), io.Discard)
		became = outcome(http1.OutcomeOf(status, err))
		o.metrics.attempt(became)
	}
	g.retries.Success(o.class)
	return status, became
}

// path draws a token for a request.
func (g *Generator) path(o *operation) string {
	if !strings.Contains(o.call.Path, tokenPlace) {
		return o.call.Path
	}
	return strings.ReplaceAll(o.call.Path, tokenPlace, fmt.Sprintf(g.config.Token, o.tokens.IntN(g.config.Tokens)))
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
