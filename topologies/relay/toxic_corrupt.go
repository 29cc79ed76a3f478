package relay

import (
	"errors"
	"math"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/Shopify/toxiproxy/v2/toxics"
)

// corruptAttributes of a toxic of type "corrupt".
type corruptAttributes struct {
	// Share of bytes that are changed, above 0 and up to 1.
	Share float64 `json:"share"`
	// Seed of the draws; see the delay toxic for how connections use it.
	Seed uint64 `json:"seed"`
}

func (a corruptAttributes) validate() error {
	if !(a.Share > 0 && a.Share <= 1) {
		return errors.New("share must be above 0 and no more than 1")
	}
	return nil
}

// corrupt flips one bit in a share of the bytes, past TCP's checksum: what a
// bad memory module in a switch does.
type corrupt struct {
	atOnce
	settings[corruptAttributes]
	connections atomic.Uint64
}

func init() { register("corrupt", new(corrupt), func() toxic { return new(corrupt) }) }

func (c *corrupt) Pipe(stub *toxics.ToxicStub)    { runFlow(stub, c, c.released()) }
func (c *corrupt) Cleanup(stub *toxics.ToxicStub) { flush(stub) }

// spoiler draws the distance to the next byte to change.
type spoiler struct {
	rng  *rand.Rand
	left int
}

func (c *corrupt) NewState() any {
	a := c.get()
	s := &spoiler{rng: rand.New(rand.NewPCG(a.Seed, c.connections.Add(1)-1))}
	s.left = s.gap(a.Share)
	return &flow{state: s}
}

// gap is geometric: the same as a draw for each byte, at a draw for each change.
func (s *spoiler) gap(share float64) int {
	if share >= 1 {
		return 0
	}
	gap := math.Log(1-s.rng.Float64()) / math.Log1p(-share)
	return int(min(gap, math.MaxInt32))
}

func (c *corrupt) take(f *flow, data []byte, arrived time.Time) {
	if s, ok := f.state.(*spoiler); ok {
		at := s.left
		for at < len(data) {
			data[at] ^= 1 << s.rng.IntN(8)
			at += 1 + s.gap(c.get().Share)
		}
		s.left = at - len(data)
	}
	f.push(data, arrived)
}
