package players

import (
	"fmt"
	"math"
)

// Elsewhere is what players do who are told that what they ask for is closed: a
// share of them asks for what another operation asks for, at once. Such requests
// are counted under a name of their own, with "-elsewhere" after that of the
// operation that was closed.
type Elsewhere struct {
	Status int     `yaml:"status"` // by which they are told, such as 403
	To     string  `yaml:"to"`     // the operation
	Share  float64 `yaml:"share"`  // from 0 to 1
}

// elsewhereName is what is counted that an operation's players ask for elsewhere.
func elsewhereName(operation string) string { return operation + "-elsewhere" }

func (c *Config) validateElsewhere(name string, e Elsewhere) error {
	where := "operation " + name + ": elsewhere"
	if _, taken := c.Operations[elsewhereName(name)]; taken {
		return fmt.Errorf("operation %s: the name is that of what players of %s ask for elsewhere", elsewhereName(name), name)
	}
	to, known := c.Operations[e.To]
	switch {
	case !known:
		return fmt.Errorf("%s: to %q: want another operation", where, e.To)
	case e.To == name:
		return fmt.Errorf("%s: to %q: want another operation", where, e.To)
	// One step: else players could be sent round for ever.
	case to.Elsewhere != nil:
		return fmt.Errorf("%s: to %q: players of that one go elsewhere too; name an operation whose players do not", where, e.To)
	case e.Status < 400 || e.Status > 599:
		return fmt.Errorf("%s: status %d: want an error, 400 to 599", where, e.Status)
	case math.IsNaN(e.Share) || e.Share <= 0 || e.Share > 1:
		return fmt.Errorf("%s: share %v: want more than 0, and 1 at most", where, e.Share)
	}
	return nil
}

// elsewhere is an operation's [Elsewhere] at work.
type elsewhere struct {
	Elsewhere
	operation *operation // what is asked for there
	owed      float64    // requests that are due, a part of one
}

func (g *Generator) newElsewhere(name string, e Elsewhere) *elsewhere {
	o := g.newOperation(elsewhereName(name), g.config.Operations[e.To].call())
	o.class = e.To
	return &elsewhere{Elsewhere: e, operation: o, owed: random(g.config.Seed, "players of "+name+" who go elsewhere").Float64()}
}

// goElsewhere has the player of a request that ended with a status ask elsewhere,
// if that player is one of the share: they are spread evenly, as malformed
// requests are.
func (g *Generator) goElsewhere(o *operation, status int) {
	e := o.elsewhere
	if e == nil || status != e.Status || !g.rest(0) {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if e.owed += e.Share; e.owed >= 1 {
		e.owed--
		g.send(e.operation, g.now(), nil)
	}
}
