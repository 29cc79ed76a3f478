package faults

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"relapse/topologies"
)

func init() {
	Register(Kind{
		Name:    "reconnect-wave",
		Group:   GroupTraffic,
		Summary: "All players lose their connection at once, again and again",
		Doc: `The connections of all sessions of a load generator are reset at once, and again every
period while the fault is held: what players see when a balancer is restarted, when load
is moved to other nodes, or when a network changes over. Each session then opens its
connection again as the players' retries say. Sessions that are not connected at that
moment, and connections of the generator's other requests, are left alone.`,
		Seen: `sessions opened connections again that this fault had cut, by what the generator itself
measured over the last half second: at half the rate of one of each session in a period,
or more. It is gone when there are fewer.`,
		Example: `node: players
every: 1s`,
	}, func() Fault { return &reconnectWave{} })
}

type reconnectWave struct {
	Node  string        `yaml:"node" doc:"the load generator; it must have sessions"`
	Every time.Duration `yaml:"every" doc:"from one wave to the next, 500ms or more"`
}

// shortestWave is the time over which a generator measures.
const shortestWave = 500 * time.Millisecond

func (f *reconnectWave) Validate() error {
	const hint = "write every: 5s"
	switch {
	case f.Node == "":
		return &FieldError{"node", "is missing", "write node: players"}
	case f.Every == 0:
		return &FieldError{"every", "is missing or zero", hint}
	case f.Every < shortestWave:
		return &FieldError{"every", fmt.Sprintf("is %s: waves closer than %s could not be told apart", f.Every, shortestWave), hint}
	}
	return nil
}

// TrafficTarget gives the load generator; sessions are no operation that a rate
// is set for.
func (f *reconnectWave) TrafficTarget() (node, operation string) { return f.Node, "" }

// TrafficFactor is 1: no rate changes.
func (f *reconnectWave) TrafficFactor() float64 { return 1 }

type armedWave struct {
	reconnectWave
	generator
}

func (f *reconnectWave) Arm(ctx context.Context, sys *topologies.System, rng *rand.Rand) (Armed, error) {
	generator, err := findGenerator(sys, f.Node, "wave", rng)
	if err != nil {
		return nil, err
	}
	sessions, err := generator.players.Sessions(ctx)
	if err != nil {
		return nil, err
	}
	if sessions.Count == 0 {
		return nil, fmt.Errorf("node %s: it has no sessions whose connections could be cut; give its configuration populations: {sessions: …}", f.Node)
	}
	return &armedWave{*f, generator}, nil
}

// Inject cuts the connections and has them cut again.
func (a *armedWave) Inject(ctx context.Context) error {
	sessions, err := a.players.Sessions(ctx)
	if err != nil {
		return err
	}
	if sessions.Connected == 0 {
		return fmt.Errorf("node %s: none of its %d sessions is connected, so that there is nothing to cut", a.Node, sessions.Count)
	}
	ctx, cancel := settled(ctx)
	defer cancel()
	return a.players.StartWaves(ctx, a.name, a.Every)
}

// InEffect asks the generator what it measured of this fault's own cuts.
func (a *armedWave) InEffect(ctx context.Context) (bool, error) {
	sessions, err := a.players.Sessions(ctx)
	if err != nil {
		return false, err
	}
	reopened := sessions.Waves[a.name]
	return reopened > 0 && reopened >= float64(sessions.Count)/a.Every.Seconds()/2, nil
}

// SeenWithin leaves time for sessions whose retries put them off.
func (a *armedWave) SeenWithin() time.Duration { return a.Every + 2*time.Second }

// Undo cuts no more. A generator that died has ended with its sessions.
func (a *armedWave) Undo(ctx context.Context) error {
	return a.released(ctx, a.players.StopWaves(ctx, a.name), fmt.Sprintf("cut its sessions' connections every %s", a.Every))
}
