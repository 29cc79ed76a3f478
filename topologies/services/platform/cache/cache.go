// Package cache keeps what answers are made of in the process that gives them, as the
// documented services did: a handler's cache, by key.
//
// It is made so that it does not harm what it protects. Of many who miss the same key
// at once, one loads and the others wait for it. Times are drawn apart, so that what
// was loaded together does not run out together. Errors are not kept. Each of these
// can be left out, to show what it is for.
package cache

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"
)

// Event is what became of a lookup. Each counts as one of the first five.
type Event int

// The events.
const (
	Hit      Event = iota // what is kept was given
	Miss                  // it was loaded
	Joined                // somebody else was loading it and was waited for
	Stale                 // the load failed, and what had run out was given
	Failed                // the load failed, or an error is kept, or the caller left
	Stampede              // beside a miss: others were loading the same key already
)

// Events lists all of them.
var Events = [...]Event{Hit, Miss, Joined, Stale, Failed, Stampede}

var eventNames = [...]string{Hit: "hit", Miss: "miss", Joined: "joined", Stale: "stale", Failed: "failed", Stampede: "stampede"}

// String gives the event as metrics label it.
func (e Event) String() string { return eventNames[e] }

// Config is what a cache is made of.
type Config struct {
	// Keep is how long a value is kept at most; at zero every lookup loads by
	// itself.
	Keep time.Duration
	// Jitter is the percentage by which a value's time is shortened at most, 0 to
	// 100. It is never lengthened: Keep bounds how old an answer can be.
	Jitter float64
	// AtOnce has all values run out together, at the multiples of Keep on the clock,
	// whenever they were loaded: what jitter prevents.
	AtOnce bool
	// StaleFor is how long after its time a value is still given where a load fails.
	StaleFor time.Duration
	// Unshared has everybody who misses load.
	Unshared bool
	// KeepErrors keeps errors as long as values.
	KeepErrors bool

	Rand  *rand.Rand       // draws the jitter, for this cache alone
	Now   func() time.Time // nil for the present time
	Count func(Event)      // told of every event, by many goroutines; nil for nobody
}

// ErrBroken says that what loads a value broke off without an answer.
var ErrBroken = errors.New("the load broke off")

// Cache keeps a value for each key. Many goroutines can use it. It forgets no key: it
// is for keys that are few.
type Cache[K comparable, V any] struct {
	config Config

	mu    sync.Mutex
	slots map[K]*slot[V]
}

// slot is what is known of one key.
type slot[V any] struct {
	value  V
	loaded bool  // there is a value
	err    error // that is kept in its place
	until  time.Time
	on     *load[V] // the latest load that is on
	loads  int      // that are on
}

// load is one load, and what became of it once done is closed.
type load[V any] struct {
	done  chan struct{}
	value V
	stale bool
	err   error
}

// New makes an empty cache.
func New[K comparable, V any](c Config) (*Cache[K, V], error) {
	switch {
	case c.Keep < 0:
		return nil, fmt.Errorf("cache: values are kept for %v: want more than zero, or zero for none", c.Keep)
	case !(c.Jitter >= 0 && c.Jitter <= 100):
		return nil, fmt.Errorf("cache: a jitter of %v percent: want 0 to 100", c.Jitter)
	case c.AtOnce && c.Jitter > 0:
		return nil, fmt.Errorf("cache: values run out at once, and with a jitter of %v percent apart: want one of the two", c.Jitter)
	case c.Jitter > 0 && c.Rand == nil:
		return nil, errors.New("cache: jitter without a source to draw it from")
	case c.StaleFor < 0:
		return nil, fmt.Errorf("cache: values are given for %v after their time: want zero or more", c.StaleFor)
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Count == nil {
		c.Count = func(Event) {}
	}
	return &Cache[K, V]{config: c, slots: map[K]*slot[V]{}}, nil
}

// Get gives the value of a key: what is kept, or else what the load gives. The load is
// run on behalf of everybody who waits for it, and must not end because one caller
// left. The value belongs to all who get it and must not be changed.
func (c *Cache[K, V]) Get(ctx context.Context, key K, from func() (V, error)) (V, error) {
	if c.config.Keep == 0 {
		value, err := from()
		return c.give(&load[V]{value: value, err: err}, Miss)
	}
	c.mu.Lock()
	s := c.slots[key]
	if s == nil {
		s = &slot[V]{}
		c.slots[key] = s
	}
	if c.config.Now().Before(s.until) {
		kept := &load[V]{value: s.value, err: s.err}
		c.mu.Unlock()
		return c.give(kept, Hit)
	}
	if on := s.on; on != nil && !c.config.Unshared {
		c.mu.Unlock()
		select {
		case <-on.done:
			return c.give(on, Joined)
		case <-ctx.Done():
			return c.give(&load[V]{err: ctx.Err()}, Failed)
		}
	}
	mine := &load[V]{done: make(chan struct{}), err: ErrBroken}
	s.on = mine
	s.loads++
	stampede := s.loads > 1
	c.mu.Unlock()
	if stampede {
		c.config.Count(Stampede)
	}
	c.run(s, mine, from)
	return c.give(mine, Miss)
}

// give counts a lookup and gives what it found.
func (c *Cache[K, V]) give(l *load[V], as Event) (V, error) {
	switch {
	case l.err != nil:
		as = Failed
	case l.stale:
		as = Stale
	}
	c.config.Count(as)
	if l.err != nil {
		var none V
		return none, l.err
	}
	return l.value, nil
}

// run loads a value. Those who wait are told even if the load panics.
func (c *Cache[K, V]) run(s *slot[V], l *load[V], from func() (V, error)) {
	defer func() {
		c.mu.Lock()
		c.settle(s, l)
		c.mu.Unlock()
		close(l.done)
	}()
	l.value, l.err = from()
}

// settle keeps what a load gave. The lock is held.
func (c *Cache[K, V]) settle(s *slot[V], l *load[V]) {
	s.loads--
	if s.on == l {
		s.on = nil
	}
	now := c.config.Now()
	switch {
	case l.err == nil:
		s.value, s.loaded, s.err = l.value, true, nil
		s.until = c.until(now)
	case c.config.KeepErrors:
		s.err = l.err
		s.until = c.until(now)
	case s.loaded && now.Before(s.until.Add(c.config.StaleFor)):
		l.value, l.stale, l.err = s.value, true, nil
	}
}

// until draws when a value runs out that is kept from now on.
func (c *Cache[K, V]) until(now time.Time) time.Time {
	switch {
	case c.config.AtOnce:
		return now.Truncate(c.config.Keep).Add(c.config.Keep)
	case c.config.Jitter == 0:
		return now.Add(c.config.Keep)
	}
	shorter := c.config.Jitter / 100 * c.config.Rand.Float64()
	return now.Add(time.Duration(float64(c.config.Keep) * (1 - shorter)))
}
