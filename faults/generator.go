package faults

import (
	"context"
	"fmt"
	"math/rand/v2"

	"relapse/topologies"
)

// generator is the load generator that a fault of traffic gives orders to.
type generator struct {
	node     string
	name     string // of the fault's own, by which the order is taken back
	instance *topologies.Instance
	players  *topologies.Players
}

// findGenerator finds a node that generates load.
func findGenerator(sys *topologies.System, node, kind string, rng *rand.Rand) (generator, error) {
	instance, err := sys.Instance(node)
	if err != nil {
		return generator{}, err
	}
	players, err := sys.Players(node)
	if err != nil {
		return generator{}, err
	}
	return generator{node, fmt.Sprintf("%s-%08x", kind, rng.Uint32()), instance, players}, nil
}

// released says what became of taking an order back; still is what the players
// may go on with if it failed. A generator that died has taken the order along.
func (g generator) released(ctx context.Context, err error, still string) error {
	if err == nil {
		return nil
	}
	if state, asked := g.instance.State(ctx); asked == nil && !state.Running {
		return nil
	}
	return fmt.Errorf("node %s may still %s: %w", g.node, still, err)
}
