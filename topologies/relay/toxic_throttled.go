package relay

import (
	"errors"
	"time"

	"github.com/Shopify/toxiproxy/v2/toxics"
)

// throttledAttributes of a toxic of type "throttled".
type throttledAttributes struct {
	// Rate in bytes a second, for each connection.
	Rate float64 `json:"rate"`
	// Burst in bytes: what passes at once after a pause.
	Burst float64 `json:"burst"`
}

func (a throttledAttributes) validate() error {
	if !(a.Rate >= 1 && a.Rate <= 1e11) {
		return errors.New("rate must be from 1 to 1e11 bytes a second")
	}
	if !(a.Burst >= 0) {
		return errors.New("burst must not be below zero bytes")
	}
	return nil
}

// throttled limits the bandwidth of each connection on its own: a limit that a
// server sets for its clients, where shaped is a wire that they share.
type throttled struct {
	settings[throttledAttributes]
}

func init() { register("throttled", new(throttled), func() toxic { return new(throttled) }) }

func (t *throttled) Pipe(stub *toxics.ToxicStub)    { runFlow(stub, t, t.released()) }
func (t *throttled) Cleanup(stub *toxics.ToxicStub) { flush(stub) }
func (t *throttled) NewState() any                  { return &flow{state: newOwnBucket()} }

func (t *throttled) window() int                         { return readAhead(t.get().Rate) }
func (t *throttled) end(_ *flow, at time.Time) time.Time { return at }

// newOwnBucket is a shaper that nobody else takes part in.
func newOwnBucket() *shaped { return &shaped{bucket: &bucket{}} }

func (t *throttled) take(f *flow, data []byte, arrived time.Time) {
	own, ok := f.state.(*shaped)
	if !ok {
		own = newOwnBucket()
		f.state = own
	}
	a := t.get()
	own.bucket.set(a.Rate, a.Burst)
	own.take(f, data, arrived)
}
