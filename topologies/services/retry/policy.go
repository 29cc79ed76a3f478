package retry

import (
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"time"
)

// Policy is one client's policy with what it has spent. Many goroutines can use
// it.
type Policy struct {
	config Config
	now    func() time.Duration

	mu     sync.Mutex
	rng    *rand.Rand
	purses map[string]purse // by class, or one for all under ""
}

// purse is what retries are paid from.
type purse interface {
	requested(now time.Duration)
	succeeded()
	// spend pays for a retry, if there is enough.
	spend(now time.Duration) bool
}

// New makes a policy. The clock gives the time since any start, and never goes
// back; the source decides jitter alone, and is the policy's own from here on.
func New(c Config, now func() time.Duration, rng *rand.Rand) (*Policy, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	return &Policy{config: c, now: now, rng: rng, purses: map[string]purse{}}, nil
}

// Request tells of a request of a class, once, however often it is attempted.
func (p *Policy) Request(class string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if purse := p.purse(class); purse != nil {
		purse.requested(p.now())
	}
}

// Success tells of an attempt that succeeded.
func (p *Policy) Success(class string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if purse := p.purse(class); purse != nil {
		purse.succeeded()
	}
}

// Next is asked after the attempt of that number (the first one is 1) has
// failed with a status, or with 0 for an attempt that got no answer. It says
// whether the request shall be sent again, and after what time. A retry that it
// grants is paid for.
func (p *Policy) Next(class string, attempt, status int) (after time.Duration, again bool) {
	if attempt > p.config.Count || p.config.Permanent != Retry && permanent(status) {
		return 0, false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if purse := p.purse(class); purse != nil && !purse.spend(p.now()) {
		return 0, false
	}
	return p.wait(attempt), true
}

// laterStatuses are 4xx that ask the client to come back.
var laterStatuses = []int{http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests}

func permanent(status int) bool {
	return status/100 == 4 && !slices.Contains(laterStatuses, status)
}

func (p *Policy) wait(retry int) time.Duration {
	b := p.config.Backoff
	if b == nil {
		return 0
	}
	wait := b.Base
	for n := 1; n < retry && wait < b.Max; n++ {
		wait *= 2
	}
	wait = min(wait, b.Max)
	if b.Jitter == None {
		return wait
	}
	return time.Duration(p.rng.Int64N(int64(wait) + 1))
}

// purse finds what a class pays from; nil if retries are free.
func (p *Policy) purse(class string) purse {
	budget, tokens := p.config.Budget, p.config.Tokens
	if budget == nil && tokens == nil {
		return nil
	}
	if budget != nil && budget.Per != Class || tokens != nil && tokens.Per != Class {
		class = ""
	}
	found, ok := p.purses[class]
	if !ok {
		if budget != nil {
			found = newCredits(budget)
		} else {
			found = &bucket{adds: tokens.Adds, costs: tokens.costs(), holds: tokens.Holds, has: tokens.Holds}
		}
		p.purses[class] = found
	}
	return found
}

// bucket is a [Tokens] bucket.
type bucket struct{ adds, costs, holds, has float64 }

func (b *bucket) requested(time.Duration) {}

func (b *bucket) succeeded() { b.has = min(b.holds, b.has+b.adds) }

func (b *bucket) spend(time.Duration) bool {
	// Sums of tenths fall short of whole numbers by rounding.
	const rounding = 1e-9
	if b.has+rounding < b.costs {
		return false
	}
	b.has = max(0, b.has-b.costs)
	return true
}

// creditSlots is how finely the age of credits is known, as in Finagle.
const creditSlots = 10

// credits is a [Budget]: a sum over the last ten tenths of its time, of what was
// earned less what was spent in each. What was spent comes back as what was
// earned expires, which is how the free retries are so many a second.
type credits struct {
	share, free float64
	slot        time.Duration
	current     int64 // number of the slot that was used last
	earned      [creditSlots]int
	spent       [creditSlots]int
}

func newCredits(b *Budget) *credits {
	lives := b.Lives
	if lives == 0 {
		lives = defaultLives
	}
	return &credits{share: b.Share, free: b.Minimum * lives.Seconds(), slot: max(1, lives/creditSlots)}
}

// at gives the place of the present slot, once what is too old is forgotten.
func (c *credits) at(now time.Duration) int {
	number := int64(now / c.slot)
	for n := max(c.current+1, number-creditSlots+1); n <= number; n++ {
		c.earned[n%creditSlots], c.spent[n%creditSlots] = 0, 0
	}
	c.current = max(c.current, number)
	return int(c.current % creditSlots)
}

func (c *credits) requested(now time.Duration) { c.earned[c.at(now)]++ }

func (c *credits) succeeded() {}

func (c *credits) spend(now time.Duration) bool {
	at := c.at(now)
	requests, retries := 0, 0
	for n := range creditSlots {
		requests += c.earned[n]
		retries += c.spent[n]
	}
	// Counts and not sums of shares: no rounding.
	if float64(retries+1) > c.share*float64(requests)+c.free+1e-9 {
		return false
	}
	c.spent[at]++
	return true
}
