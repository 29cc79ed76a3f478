package relay

import (
	"errors"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/Shopify/toxiproxy/v2/toxics"
)

// delayAttributes of a toxic of type "delay".
type delayAttributes struct {
	// Latency in milliseconds, counted from a chunk's arrival at the relay:
	// chunks travel behind each other, so throughput is kept.
	Latency float64 `json:"latency_ms"`
	// Jitter in milliseconds: each chunk is delayed by Latency plus a draw from
	// [-Jitter, +Jitter), evenly, but no less than zero. A byte stream keeps its
	// order, so a chunk that drew less than the one before it waits for that.
	Jitter float64 `json:"jitter_ms"`
	// Seed of the draws. The n-th connection to meet the toxic has a generator
	// of its own, so no connection shifts the draws of another. (Connections
	// that are open already when the toxic comes are numbered in no set order.)
	Seed uint64 `json:"seed"`
}

func (a delayAttributes) validate() error {
	switch {
	case a.Latency < 0 || a.Jitter < 0:
		return errors.New("latency_ms and jitter_ms must not be below zero")
	case a.Latency == 0 && a.Jitter == 0:
		return errors.New("latency_ms or jitter_ms must be above zero")
	case a.Latency+a.Jitter > 3600e3:
		return errors.New("latency_ms and jitter_ms must be under an hour")
	}
	return nil
}

// delay holds every chunk back for a time. Connection requests are not delayed:
// the relay answers them itself.
type delay struct {
	atOnce
	settings[delayAttributes]
	connections atomic.Uint64
}

func init() { register("delay", new(delay), func() toxic { return new(delay) }) }

func (d *delay) Pipe(stub *toxics.ToxicStub)    { runFlow(stub, d, d.released()) }
func (d *delay) Cleanup(stub *toxics.ToxicStub) { flush(stub) }

func (d *delay) NewState() any {
	n := d.connections.Add(1) - 1
	return &flow{state: rand.New(rand.NewPCG(d.get().Seed, n))}
}

func (d *delay) take(f *flow, data []byte, arrived time.Time) {
	a := d.get()
	ms := a.Latency
	if rng, ok := f.state.(*rand.Rand); ok && a.Jitter > 0 {
		ms = max(0, ms+(2*rng.Float64()-1)*a.Jitter)
	}
	f.push(data, arrived.Add(time.Duration(ms*float64(time.Millisecond))))
}

// end delays the close as well, so that it does not overtake what it follows.
func (d *delay) end(_ *flow, at time.Time) time.Time {
	return at.Add(time.Duration(d.get().Latency * float64(time.Millisecond)))
}
