package faults

import (
	"context"
	"fmt"
	"math/rand/v2"

	"relapse/topologies"
)

func init() {
	Register(Kind{
		Name:    "malformed",
		Group:   GroupTraffic,
		Summary: "Players build a share of their requests wrongly",
		Doc: `A share of the requests of one operation is sent as the operation's malformed request, which
the generator's configuration gives; shares of several faults on the same operation add
up, to all of them at most. Which ones is spread evenly: a quarter is every fourth. The
rate stays as it is, and malformed requests are retried as the players' retries say. They
are counted as an operation of their own, with -malformed behind its name, so that the
operation itself counts the good ones alone.`,
		Seen: `the share of malformed requests among the operation's arrivals, which the generator itself
measured over the last half second, is nearer to the given one than to none. It is gone
when it is nearer to none.`,
		Example: `node: players
operation: get
percent: 50%`,
	}, func() Fault { return &malformed{} })
}

type malformed struct {
	Node      string  `yaml:"node" doc:"the load generator"`
	Operation string  `yaml:"operation" doc:"whose requests are malformed"`
	Percent   Percent `yaml:"percent" doc:"of the operation's requests, from 5% to 100%"`
}

// leastMalformed is the smallest share that half a second of arrivals can tell
// from none.
const leastMalformed = 5

func (f *malformed) Validate() error {
	const hint = "write percent: 25%"
	switch {
	case f.Node == "":
		return &FieldError{"node", "is missing", "write node: players"}
	case f.Operation == "":
		return &FieldError{"operation", "is missing", "write operation: login"}
	case f.Percent == 0:
		return &FieldError{"percent", "is missing or zero", hint}
	case f.Percent < leastMalformed:
		return &FieldError{"percent", fmt.Sprintf("is %s: less than %d%% cannot be told from none within half a second", f.Percent, leastMalformed), hint}
	case f.Percent > 100:
		return &FieldError{"percent", fmt.Sprintf("is %s: it cannot be more than all of them", f.Percent), "write percent: 100% or less"}
	}
	return nil
}

// TrafficTarget gives the load generator and the operation.
func (f *malformed) TrafficTarget() (node, operation string) { return f.Node, f.Operation }

// TrafficFactor is the share of good requests: those that the operation still
// counts.
func (f *malformed) TrafficFactor() float64 { return 1 - f.share() }

func (f *malformed) share() float64 { return float64(f.Percent) / 100 }

type armedMalformed struct {
	malformed
	generator
}

func (f *malformed) Arm(ctx context.Context, sys *topologies.System, rng *rand.Rand) (Armed, error) {
	generator, err := findGenerator(sys, f.Node, "malformed", rng)
	if err != nil {
		return nil, err
	}
	if _, err := generator.players.Spoiled(ctx, f.Operation); err != nil {
		return nil, err
	}
	return &armedMalformed{*f, generator}, nil
}

// Inject has the share malformed.
func (a *armedMalformed) Inject(ctx context.Context) error {
	base, err := a.players.Base(ctx, a.Operation)
	if err != nil {
		return err
	}
	// A look covers half a second, and there are two seconds to look.
	if spoilt := base * a.share(); spoilt < 1 {
		return fmt.Errorf("node %s: %s of operation %s at %g/s is less than one request a second, too few to be seen; give it a higher rate in traffic",
			a.Node, a.Percent, a.Operation, base)
	}
	ctx, cancel := settled(ctx)
	defer cancel()
	return a.players.Spoil(ctx, a.name, a.Operation, a.share())
}

// InEffect asks the generator what it measured.
func (a *armedMalformed) InEffect(ctx context.Context) (bool, error) {
	spoiled, err := a.players.Spoiled(ctx, a.Operation)
	return spoiled > a.share()/2, err
}

// Undo takes the share away.
func (a *armedMalformed) Undo(ctx context.Context) error {
	return a.released(ctx, a.players.Unspoil(ctx, a.name), fmt.Sprintf("send %s of %s malformed", a.Percent, a.Operation))
}
