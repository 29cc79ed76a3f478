// Package retry decides whether and when a client sends a request again.
//
// A policy is put together of what each part decides:
//
//	count     how often at most          {count: 4}: the fixed policy, at once
//	backoff   when                       {count: 4, backoff: {base: 50ms, max: 1s}}
//	budget    whether, by the requests   {count: 4, budget: {share: 0.2, minimum: 1}}
//	tokens    whether, by the successes  {count: 4, tokens: {adds: 0.1, holds: 10}}
//	permanent whether, by the answer     {count: 4, permanent: retry}
//
// The source of the edge incident says that a request which could never succeed
// "was always retried a set number of times", and that the retry mechanism was
// changed so that it cannot cause large surges; it does not say how. The parts
// are the ways that are known:
//
//   - A fixed count at once multiplies what fails for good: 1 + count attempts
//     for each request.
//   - Backoff with jitter spreads retries over time, so that those of many
//     clients do not come together. It does not cut their number (Brooker,
//     "Exponential Backoff And Jitter", AWS Architecture Blog, 2015).
//   - A budget allows retries for a share of the requests: 20 % and 10 a second
//     as Finagle has it (https://finagle.github.io/blog/2016/02/08/retry-budgets).
//   - A token bucket allows retries for a share of the successes: each success
//     adds a tenth of a token and each retry costs one, so that there are none
//     left soon after nothing succeeds any more (Brooker, "Fixing retries with
//     token buckets and circuit breakers", 2022, as summarised at
//     https://jmason.ie/2022/03/04/235801a.html).
//
// A policy is one client's. Its budget is gone when the client dies: a new one
// starts with its minimum, or with a full bucket.
package retry

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/goccy/go-yaml"
)

// Config is a policy as a configuration file has it.
type Config struct {
	// Count is how often a request is sent again at most: it is attempted
	// 1 + Count times. 0 means that it is never sent again, 100 is the most.
	Count int `yaml:"count"`
	// Backoff puts retries off; without it they are made at once.
	Backoff *Backoff `yaml:"backoff"`
	// Budget allows retries for a share of the requests.
	Budget *Budget `yaml:"budget"`
	// Tokens allows retries for a share of the successes. A policy has a budget,
	// or tokens, or neither.
	Tokens *Tokens `yaml:"tokens"`
	// Permanent says what becomes of a request that was answered with a status
	// that says that it will fail again: give_up if left out.
	Permanent Permanent `yaml:"permanent"`
}

// Backoff puts off the n-th retry of a request by Base times 2 to the n-1, and
// by no more than Max.
type Backoff struct {
	Base   time.Duration `yaml:"base"`
	Max    time.Duration `yaml:"max"`
	Jitter Jitter        `yaml:"jitter"` // full if left out
}

// Jitter is how a wait is varied, so that clients that failed together do not
// come back together.
type Jitter string

const (
	// Full draws the wait evenly from zero to the backoff.
	Full Jitter = "full"
	// None waits as long as the backoff says.
	None Jitter = "none"
)

// Budget is Finagle's: each request earns Share of a retry, which can be spent
// for Lives; beside that, Minimum retries a second are free. Ages are known by a
// tenth of Lives: in any nine tenths of it there are no more retries than
// Share × requests + Minimum × Lives, of the requests of one whole Lives. The
// free ones of a whole Lives can be spent at once.
type Budget struct {
	Share   float64       `yaml:"share"`   // of the requests, 0 to 1; 0.2 is Finagle's default
	Minimum float64       `yaml:"minimum"` // free retries per second; 10 is Finagle's default
	Lives   time.Duration `yaml:"lives"`   // 10s if left out, as in Finagle
	Per     Per           `yaml:"per"`     // all if left out
}

// Tokens is a bucket of tokens: a success puts some in and a retry takes some
// out, if they are there. It starts full. There are never more retries than
// Holds/Costs + successes × Adds/Costs.
type Tokens struct {
	Adds  float64 `yaml:"adds"`  // per success; 0.1 is Brooker's
	Costs float64 `yaml:"costs"` // per retry; 1 if left out
	Holds float64 `yaml:"holds"` // at most
	Per   Per     `yaml:"per"`   // all if left out
}

// Per is who shares a budget or a bucket.
type Per string

const (
	// All classes share one: the failures of one can leave nothing for another.
	All Per = "all"
	// Class gives each class of requests its own.
	Class Per = "class"
)

// Permanent is what becomes of a request that was answered with a permanent
// error, which is a status of 4xx other than those that ask to come back later
// (408, 425, 429; RFC 9110 and RFC 6585, RFC 8470). A server that answers 5xx to
// a request that it can never serve has its clients take that for transient.
type Permanent string

const (
	// GiveUp sends it again in no case.
	GiveUp Permanent = "give_up"
	// Retry treats it like any other error.
	Retry Permanent = "retry"
)

const (
	defaultLives = 10 * time.Second
	defaultCosts = 1
	mostBackoff  = time.Hour
	// mostCount keeps a slip from turning one request into a flood that never ends.
	mostCount = 100
)

// ErrConfig says that a policy makes no sense.
var ErrConfig = errors.New("retries")

// Parse reads a policy from a file of its own, strictly.
func Parse(document []byte) (Config, error) {
	var c Config
	if err := yaml.UnmarshalWithOptions(document, &c, yaml.Strict()); err != nil {
		return Config{}, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	return c, c.Validate()
}

// Validate says what is wrong with a policy; the error wraps [ErrConfig].
func (c *Config) Validate() error {
	if err := c.validate(); err != nil {
		return fmt.Errorf("%w: %w", ErrConfig, err)
	}
	return nil
}

func (c *Config) validate() error {
	switch {
	case c.Count < 0 || c.Count > mostCount:
		return fmt.Errorf("count %d: want 0 to %d, how often a request is sent again at most", c.Count, mostCount)
	case c.Count == 0 && (c.Backoff != nil || c.Budget != nil || c.Tokens != nil):
		return errors.New("count is missing or 0, so that nothing else is of use: write count: 4, how often a request is sent again at most")
	case c.Permanent != "" && c.Permanent != GiveUp && c.Permanent != Retry:
		return fmt.Errorf("permanent %q: want %s or %s", c.Permanent, GiveUp, Retry)
	case c.Budget != nil && c.Tokens != nil:
		return errors.New("budget and tokens: a policy has one of them")
	}
	if b := c.Backoff; b != nil {
		switch {
		case b.Base <= 0 || b.Max < b.Base || b.Max > mostBackoff:
			return fmt.Errorf("backoff: base %v, max %v: want more than zero, in order, and no more than %v", b.Base, b.Max, mostBackoff)
		case b.Jitter != "" && b.Jitter != Full && b.Jitter != None:
			return fmt.Errorf("backoff: jitter %q: want %s or %s", b.Jitter, Full, None)
		}
	}
	if b := c.Budget; b != nil {
		switch {
		case !(b.Share >= 0 && b.Share <= 1):
			return fmt.Errorf("budget: share %v: want 0 to 1, such as 0.2 for a retry every five requests", b.Share)
		case !amount(b.Minimum):
			return fmt.Errorf("budget: minimum %v: want retries per second, 0 or more", b.Minimum)
		case b.Share == 0 && b.Minimum == 0:
			return errors.New("budget: neither share nor minimum, so that there would be no retry at all: write share: 0.2")
		case b.Lives < 0:
			return fmt.Errorf("budget: lives %v: want more than zero, or leave it out for %v", b.Lives, defaultLives)
		}
		if err := b.Per.validate(); err != nil {
			return fmt.Errorf("budget: %w", err)
		}
	}
	if t := c.Tokens; t != nil {
		costs := t.costs()
		switch {
		case !amount(t.Adds) || t.Adds == 0:
			return fmt.Errorf("tokens: adds %v: want more than zero, such as 0.1 for a retry every ten successes", t.Adds)
		case !amount(costs):
			return fmt.Errorf("tokens: costs %v: want more than zero, or leave it out for %v", t.Costs, defaultCosts)
		case !amount(t.Holds) || t.Holds < costs:
			return fmt.Errorf("tokens: holds %v: want at least the %v that a retry costs", t.Holds, costs)
		}
		if err := t.Per.validate(); err != nil {
			return fmt.Errorf("tokens: %w", err)
		}
	}
	return nil
}

func (p Per) validate() error {
	if p != "" && p != All && p != Class {
		return fmt.Errorf("per %q: want %s or %s", p, All, Class)
	}
	return nil
}

func (t *Tokens) costs() float64 {
	if t.Costs == 0 {
		return defaultCosts
	}
	return t.Costs
}

// amount says whether a number can be counted with.
func amount(v float64) bool { return v >= 0 && !math.IsInf(v, 0) }
