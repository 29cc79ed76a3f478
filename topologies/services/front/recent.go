package front

import "time"

// recent counts events over the last half second, in slots of 50 ms, as the load
// generators do whose traffic it is.
type recent struct {
	slots [recentSlots + 1]struct {
		number int64
		count  int
	}
}

const (
	recentSlots = 10
	recentSlot  = 50 * time.Millisecond
)

func (r *recent) add(now time.Duration) {
	number := int64(now / recentSlot)
	slot := &r.slots[number%int64(len(r.slots))]
	if slot.number != number {
		slot.number, slot.count = number, 0
	}
	slot.count++
}

// perSecond leaves the slot that is not over out.
func (r *recent) perSecond(now time.Duration) float64 {
	current, sum := int64(now/recentSlot), 0
	for _, slot := range r.slots {
		if slot.number >= current-recentSlots && slot.number < current {
			sum += slot.count
		}
	}
	return float64(sum) / (recentSlots * recentSlot).Seconds()
}
