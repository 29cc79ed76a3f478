package players

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"
)

// ErrNeverMalformed says that an order names an operation for which no malformed
// request is configured.
var ErrNeverMalformed = errors.New("no malformed request is configured")

// share is a part of an operation's requests that shall be malformed.
type share struct {
	operation string
	of        float64
}

// Malformed is what a generator says of an operation's malformed requests.
type Malformed struct {
	Asked float64 `json:"asked"` // share of the requests, as set
	// Arrived is the share of what was handed to the network over the last half
	// second; 0 if nothing was.
	Arrived float64 `json:"arrived"`
}

// SetMalformed has a share of an operation's requests sent malformed, under a
// name, in place of what the name stood for before. Shares of several names add
// up, to all requests at most, and outlive [Generator.SetRates]. Which requests
// are malformed is decided by the share and a phase from the seed: they are
// spread evenly, so that half of them is every other one.
func (g *Generator) SetMalformed(name, operation string, of float64) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	o, err := g.settable(operation)
	if err != nil {
		return err
	}
	if o.malformed == nil {
		return fmt.Errorf("operation %s: %w", operation, ErrNeverMalformed)
	}
	if math.IsNaN(of) || of < 0 || of > 1 {
		return fmt.Errorf("malformed share %s of %s: %v is not between 0 and 1", name, operation, of)
	}
	g.dispatch(g.now()) // what was due by the old share
	g.shares[name] = share{operation, of}
	return nil
}

// DropMalformed takes a share away; one that is not there is no error.
func (g *Generator) DropMalformed(name string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.dispatch(g.now())
	delete(g.shares, name)
}

func (g *Generator) asked(o *operation) float64 {
	sum := 0.0
	// Sorted, since sums of floats depend on their order.
	for _, name := range slices.Sorted(maps.Keys(g.shares)) {
		if g.shares[name].operation == o.name {
			sum += g.shares[name].of
		}
	}
	return min(sum, 1)
}

// form gives what an arrival of an operation is sent as.
func (g *Generator) form(o *operation) *operation {
	if o.malformed == nil || len(g.shares) == 0 {
		return o
	}
	o.owed += g.asked(o)
	if o.owed < 1 {
		return o
	}
	o.owed--
	return o.malformed
}

// malformedOf says how much of an operation is malformed; nil for one that never
// is.
func (g *Generator) malformedOf(o *operation, now time.Duration) *Malformed {
	if o.malformed == nil {
		return nil
	}
	m := &Malformed{Asked: g.asked(o)}
	malformed := o.malformed.recent.PerSecond(now)
	if all := malformed + o.recent.PerSecond(now); all > 0 {
		m.Arrived = malformed / all
	}
	return m
}
