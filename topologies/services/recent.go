package services

import "time"

// Recent counts events over the last half second, in slots of 50 ms: what a fault
// is seen by from outside must be of now, and still hold enough events to tell a
// rate. The zero value is ready; its user locks it.
type Recent struct {
	slots [recentSlots + 1]struct {
		number int64
		count  int
	}
}

const (
	recentSlots = 10
	recentSlot  = 50 * time.Millisecond
)

// RecentGone is how long after an event it counts for nothing any more.
const RecentGone = (recentSlots + 1) * recentSlot

// Add counts an event that happens now, as a time since some start.
func (r *Recent) Add(now time.Duration) {
	number := int64(now / recentSlot)
	slot := &r.slots[number%int64(len(r.slots))]
	if slot.number != number {
		slot.number, slot.count = number, 0
	}
	slot.count++
}

// PerSecond is the rate of events. It leaves the slot that is not over out.
func (r *Recent) PerSecond(now time.Duration) float64 {
	current, sum := int64(now/recentSlot), 0
	for _, slot := range r.slots {
		if slot.number >= current-recentSlots && slot.number < current {
			sum += slot.count
		}
	}
	return float64(sum) / (recentSlots * recentSlot).Seconds()
}
