package gamehosts

import (
	"sync"
	"time"
)

// Clock is documented time. It stands at zero until it is started, so that the
// services of a topology, each of which starts its own with the first thing that it is
// asked for, agree to within a message, however long each took to come up.
type Clock struct {
	speed float64 // documented seconds in a real one
	mu    sync.Mutex
	began time.Time // zero before the start
}

// NewClock makes a clock that stands.
func NewClock(speed float64) *Clock { return &Clock{speed: speed} }

// Start starts the clock unless it runs already.
func (c *Clock) Start() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.began.IsZero() {
		c.began = time.Now()
	}
}

// Now is the documented time since the start.
func (c *Clock) Now() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.began.IsZero() {
		return 0
	}
	return time.Duration(float64(time.Since(c.began)) * c.speed)
}

// Real is how long a documented time takes.
func (c *Clock) Real(documented time.Duration) time.Duration {
	return time.Duration(float64(documented) / c.speed)
}
