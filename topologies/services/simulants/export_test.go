package simulants

import "unsafe"

// What only tests see of the inside of this package.

// PlayerBytes is what one player takes, its token and its party apart.
const PlayerBytes = int(unsafe.Sizeof(player{})) + int(activities)*int(unsafe.Sizeof(tick(0))+unsafe.Sizeof(int32(0)))

// WheelSize is how many ticks a wheel takes to go round.
const WheelSize = wheelSize

// ForgetLateness has [Harness.LatenessP99] be of the requests from now on.
func (h *Harness) ForgetLateness() {
	for _, s := range h.shards {
		s.mu.Lock()
		s.lateness.Reset()
		s.mu.Unlock()
	}
}

// Due is an entry with its time.
type Due struct {
	Entry int32
	At    uint32
}

func NewWheel(entries int) *wheel {
	w := &wheel{}
	w.grow(entries)
	return w
}

func (w *wheel) Set(entry int32, at uint32)    { w.set(entry, tick(at)) }
func (w *wheel) Drop(entry int32)              { w.drop(entry) }
func (w *wheel) At(entry int32) uint32         { return uint32(w.at(entry)) }
func (w *wheel) Waiting() int                  { return w.waiting }
func (w *wheel) Upcoming(within uint32) uint32 { return uint32(w.upcoming(tick(within))) }

func (w *wheel) Advance(now uint32) (out []Due) {
	for _, d := range w.advance(tick(now), nil) {
		out = append(out, Due{d.entry, uint32(d.at)})
	}
	return out
}
