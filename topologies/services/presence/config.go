package presence

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/redis/go-redis/v9"
)

// Defaults of a [Config].
const (
	DefaultLease        = 1500 * time.Millisecond
	DefaultInterval     = 250 * time.Millisecond
	DefaultTick         = 250 * time.Millisecond
	DefaultOfflineAfter = 2 * time.Second
	DefaultSteals       = 32
)

// roundsInLease is how many rounds a lease lasts at least: one may fail, and then
// another one.
const roundsInLease = 3

// Config is what an instance is made of. Durations are whole milliseconds; 0 stands
// for the default, except for Late and Work.
type Config struct {
	Name   string // no other instance that is there has it
	Lists  *redis.Client
	Claims *redis.Client // may be the same

	Lease        time.Duration // that a claim lasts without renewal
	Interval     time.Duration // from one round to the next, at most; a third of the lease or less
	Tick         time.Duration // how often players are looked for who are due
	OfflineAfter time.Duration // from a player's last heartbeat to when it is due
	// Late is how long after it is due a player is marked: how late its heartbeats
	// may be written without its being taken for gone.
	Late time.Duration
	// Work is what handling a batch costs: up to 50 players of one partition, from
	// reading that they are due to marking them. It is modelled, and half of the
	// lease or less.
	Work   time.Duration
	Steals int // partitions that are taken from others in one round, at most

	// Unpartitioned has every instance handle every player, as it was before the
	// partitions: cause c4. There are no claims, nothing is checked, and nobody's
	// heartbeat is taken off its list. An instance goes by how far it has come
	// itself, so it handles what becomes due after its first tick.
	Unpartitioned bool
	// Unfenced has the lists write what they are told, as a store does that knows
	// nothing of claims: neither the claim's number nor the heartbeat nor the last
	// mark is looked at. A paused owner that wakes acts once more.
	Unfenced bool
	// Forgetful has claims numbered above what the claims' server knows, and not
	// above what the lists have seen. After a loss of claims the new owners are
	// refused, and nobody works.
	Forgetful bool
	// Unending has an instance take its own lease to last for ever: one that does not
	// reach the claims goes on with what others have claimed meanwhile.
	Unending bool
	// Greedy has an instance go by an old count of instances, which lacks one; take its
	// share of that all at once, from the moment that it is there; and not stop when
	// others have no more than it. All of them together want more than there is: a
	// tug of war without end.
	Greedy bool

	Seed uint64       // decides when in an interval rounds and ticks are
	Log  *slog.Logger // nil for none
}

// complete checks a configuration and gives it with its defaults.
func (c Config) complete() (Config, error) {
	for _, d := range []struct {
		value    *time.Duration
		standard time.Duration
	}{
		{&c.Lease, DefaultLease}, {&c.Interval, DefaultInterval},
		{&c.Tick, DefaultTick}, {&c.OfflineAfter, DefaultOfflineAfter},
	} {
		if *d.value == 0 {
			*d.value = d.standard
		}
	}
	if c.Steals == 0 {
		c.Steals = DefaultSteals
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	switch {
	case c.Name == "":
		return c, errors.New("presence: an instance has no name; claims are made under it")
	case c.Lists == nil || c.Claims == nil:
		return c, errors.New("presence: no lists or no claims: want a client of Redis for each, which may be the same")
	case c.Steals < 0:
		return c, fmt.Errorf("presence: %d partitions are taken in a round: want one or more", c.Steals)
	}
	for _, d := range []struct {
		what  string
		value time.Duration
		least time.Duration
	}{
		{"a lease", c.Lease, time.Millisecond}, {"an interval", c.Interval, time.Millisecond},
		{"a tick", c.Tick, time.Millisecond}, {"offline after", c.OfflineAfter, time.Millisecond},
		{"an allowance for late heartbeats", c.Late, 0}, {"work", c.Work, 0},
	} {
		if d.value < d.least || d.value%time.Millisecond != 0 {
			return c, fmt.Errorf("presence: %s of %v: want whole milliseconds, %v or more", d.what, d.value, d.least)
		}
	}
	switch {
	case c.Interval*roundsInLease > c.Lease:
		return c, fmt.Errorf("presence: an interval of %v in a lease of %v: want a third of the lease or less, since renewals fail", c.Interval, c.Lease)
	case c.Work*2 > c.Lease:
		return c, fmt.Errorf("presence: work of %v in a lease of %v: want half of the lease or less, since nothing is begun that outlasts it", c.Work, c.Lease)
	}
	return c, nil
}

// callWithin bounds a call to Redis: one that fails leaves time for another before
// the lease ends.
func (c Config) callWithin() time.Duration { return cmp.Or(c.Lease, DefaultLease) / roundsInLease }

// forEver is longer than anything that is played.
const forEver = 1000 * time.Hour

// ownLease is how long an owner takes its lease to last.
func (c Config) ownLease() time.Duration {
	if c.Unending {
		return forEver
	}
	return c.Lease - c.Lease/20
}

// places is what a pool of connections has. Few are used; but a client that has failed
// to connect as often as its pool has places, in all its life, asks only once a second
// from then on whether the server is back, and a lease lasts hardly longer.
const places = 1024

// NewClient makes a client of a Redis server whose calls fail, dialling included,
// within a time. It tries nothing again by itself: whoever calls knows what has
// changed meanwhile.
func NewClient(address string, within time.Duration) *redis.Client {
	return redis.NewClient(&redis.Options{
		Addr: address, Protocol: 2, DisableIdentity: true, PoolSize: places,
		DialTimeout: within, ReadTimeout: within, WriteTimeout: within, ContextTimeoutEnabled: true,
		MaxRetries: -1, DialerRetries: 1,
	})
}
