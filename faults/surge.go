package faults

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"

	"relapse/topologies"
)

func init() {
	Register(Kind{
		Name:    "surge",
		Group:   GroupTraffic,
		Summary: "Players ask for something many times as often",
		Doc: `The rate of one operation of a load generator is multiplied, on top of the rates of the
phase; surges on the same operation multiply. The load stays open: it does not wait for
answers, so that a slow system meets all of it.`,
		Seen: `the arrivals that the generator itself measured over the last half second are nearer to
the multiplied rate than to the plain one. It is gone when they are nearer to the plain
one, or when there is no plain rate.`,
		Example: `node: players
operation: get
times: 3`,
	}, func() Fault { return &surge{} })
}

type surge struct {
	Node      string  `yaml:"node" doc:"the load generator"`
	Operation string  `yaml:"operation" doc:"what it does more often"`
	Times     float64 `yaml:"times" doc:"factor on the rate, 1.2 or more"`
}

// leastSurge is the smallest factor that half a second of arrivals can tell
// from the plain rate.
const leastSurge = 1.2

func (f *surge) Validate() error {
	switch {
	case f.Node == "":
		return &FieldError{"node", "is missing", "write node: players"}
	case f.Operation == "":
		return &FieldError{"operation", "is missing", "write operation: login"}
	case f.Times == 0:
		return &FieldError{"times", "is missing or zero", "write times: 12.5"}
	case !(f.Times >= leastSurge) || math.IsInf(f.Times, 0):
		return &FieldError{"times", fmt.Sprintf("is %v: less than %v cannot be told from chance", f.Times, leastSurge), "write times: 12.5"}
	}
	return nil
}

// TrafficTarget gives the load generator and the operation.
func (f *surge) TrafficTarget() (node, operation string) { return f.Node, f.Operation }

// TrafficFactor gives the factor on the operation's rate.
func (f *surge) TrafficFactor() float64 { return f.Times }

type armedSurge struct {
	surge
	generator
}

func (f *surge) Arm(ctx context.Context, sys *topologies.System, rng *rand.Rand) (Armed, error) {
	generator, err := findGenerator(sys, f.Node, "surge", rng)
	if err != nil {
		return nil, err
	}
	if _, err := generator.players.Base(ctx, f.Operation); err != nil {
		return nil, err
	}
	return &armedSurge{*f, generator}, nil
}

// Inject multiplies the rate.
func (a *armedSurge) Inject(ctx context.Context) error {
	base, err := a.players.Base(ctx, a.Operation)
	if err != nil {
		return err
	}
	if base == 0 {
		return fmt.Errorf("node %s: operation %s has no rate that could be multiplied; give it one in traffic", a.Node, a.Operation)
	}
	ctx, cancel := settled(ctx)
	defer cancel()
	return a.players.Scale(ctx, a.name, a.Operation, a.Times)
}

// InEffect asks the generator what it measured.
func (a *armedSurge) InEffect(ctx context.Context) (bool, error) {
	base, err := a.players.Base(ctx, a.Operation)
	if err != nil {
		return false, err
	}
	if base == 0 {
		return false, nil
	}
	arrived, err := a.players.Arrivals(ctx, a.Operation)
	return arrived > base*(1+a.Times)/2, err
}

// Undo takes the factor away.
func (a *armedSurge) Undo(ctx context.Context) error {
	return a.released(ctx, a.players.Unscale(ctx, a.name), fmt.Sprintf("do %s %v times as often", a.Operation, a.Times))
}
