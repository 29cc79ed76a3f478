package topologies

import (
	"context"
	"net/http"
	"net/url"
)

// Agent drives the agent of a host: the node on it that takes the host's memory
// and CPU time when it is told to.
type Agent struct {
	instance *Instance
	control
}

// Leak is what an agent shall leak of its host's memory.
type Leak struct {
	PerSecond float64 `json:"per_second"` // bytes per second
	// PerConnection comes on top: bytes per second and open connection of the
	// edges, as the agent counts them.
	PerConnection float64 `json:"per_connection"`
	// Edges say where to count: address:port/path of metrics that hold the gauge
	// relapse_edge_connections.
	Edges []string `json:"edges"`
}

// LeakState is what an agent tells of a leak.
type LeakState struct {
	// Heard is how many of the leak's edges have told of their connections so far,
	// at the look that heard most of them.
	Heard int `json:"heard"`
}

// MostLeak is the most that an agent takes as either rate of a leak, in bytes per
// second: memory is not written that fast.
const MostLeak = 64 << 30

func newAgent(i *Instance) *Agent {
	return &Agent{instance: i, control: newControl("agent "+i.Name(), i.endpoint(i.node.Agent))}
}

// Instance is the node that the agent runs as.
func (a *Agent) Instance() *Instance { return a.instance }

// SetLeak begins a leak under a name, or changes the rates of the one that has
// it; what has leaked by then stays.
func (a *Agent) SetLeak(ctx context.Context, name string, l Leak) error {
	return a.do(ctx, http.MethodPut, "/leaks/"+url.PathEscape(name), l, nil)
}

// Leak asks for a leak; one that is not there is an error.
func (a *Agent) Leak(ctx context.Context, name string) (LeakState, error) {
	var state LeakState
	err := a.do(ctx, http.MethodGet, "/leaks/"+url.PathEscape(name), nil, &state)
	return state, err
}

// RemoveLeak ends a leak and gives its memory back. One that is not there is no
// error.
func (a *Agent) RemoveLeak(ctx context.Context, name string) error {
	return a.do(ctx, http.MethodDelete, "/leaks/"+url.PathEscape(name), nil, nil)
}

// SetHog has the agent use that many cores under a name, in place of those that
// the name stood for before.
func (a *Agent) SetHog(ctx context.Context, name string, cores float64) error {
	body := struct {
		Cores float64 `json:"cores"`
	}{cores}
	return a.do(ctx, http.MethodPut, "/hogs/"+url.PathEscape(name), body, nil)
}

// RemoveHog ends a hog. One that is not there is no error.
func (a *Agent) RemoveHog(ctx context.Context, name string) error {
	return a.do(ctx, http.MethodDelete, "/hogs/"+url.PathEscape(name), nil, nil)
}
