// Package presence is one instance of the workers that mark players offline when
// their heartbeats stop: background work that was documented to be divided into
// 256 partitions by hash, with lists in Redis, claimed by instances at their
// start, shared with newcomers until even, and to handle each player exactly once
// (VALORANT, 2020; facts val-12 to val-14 of the incident valorant-launch).
//
// # What is in Redis
//
// There are two roles, which may be one server or two. The lists hold what is
// worked on and what came of it: heartbeats, marks, the log of actions, fences. The
// claims hold who works on what. The file keys.go says what each key holds.
// Every time is that of the server that holds it, taken with TIME in the script
// that needs it; times of the two roles are never compared.
//
// # A partition
//
//	         claimed                    renewed every interval
//	free ─────────────▶ owner, number n ──────┐
//	  ▲                    │    │     ▲       │
//	  │ lease is over,     │    │     └───────┘
//	  │ or the owner left  │    │ a newcomer's share
//	  └────────────────────┘    └─────────────▶ newcomer, number > n
//
// Each interval or sooner, at times that the seed makes uneven so that instances
// that were started together do not all come at once, an instance makes a round:
// one script (scripts/round.lua) that renews what it has and claims what it should
// have, by counts that are those of this very moment. No count is ever old, so
// nobody takes what another one has just taken: what is taken makes the counts more
// even each time, and when no instance has two more than another nobody takes
// anything, whether or not 256 is a multiple of their number.
//
//   - A share is 256 / instances, rounded up.
//   - What is free is claimed by whoever comes and has less than its share; what
//     has been free for an interval, by whoever comes.
//   - What others have is taken from the one with the most, as long as that one
//     has two more at least, and so many in a round at most. One that joins moves
//     256 / instances partitions, and so does one that leaves: the bound is
//     2 x 256.
//   - An instance counts, and claims, only once it has been registered for a lease.
//     One that comes and goes faster moves nothing. Where nobody has been there
//     for that long, all count.
//
// # Who may act
//
// Every claim has a number that is higher than all before it. An owner shows its
// number to the lists as soon as it has it (scripts/raise.lua), and again with
// each action, in the script that carries the action out (scripts/mark.lua). The
// lists keep the highest number of each partition and whose it is, beside the
// marks: the fence. Who shows a lower one is refused. So an owner that was paused,
// and wakes with players in hand when its lease is long over, does nothing, and so
// does one from whom a partition was taken and who does not know yet.
//
// An owner also stops by itself. Its lease counts, on its own monotonic clock, from
// before the renewal was sent, so it ends before the claims say so, and a twentieth
// sooner for clocks that run apart. It begins nothing that it could not finish by
// then. An owner that reaches the lists and not the claims therefore stops while
// the partition is still its own. One that reaches the claims and not the lists
// renews nothing: who cannot work should not hold work.
//
// # Exactly once
//
// A player whose last heartbeat was at s is due at the first tick at or after
// s + offline-after. The script that marks it does so in one step with the check of
// the fence, the check that there was no later heartbeat, the entry in the log,
// the note of the due tick beside the mark, and taking the heartbeat off its list.
// A reply that is lost is therefore no matter, and a heartbeat that is written
// twice is known by its tick. What is left undone stays on the list for the
// partition's next owner: within lease + interval + tick of when it was due.
// Nothing of this protects from wrong input: a heartbeat that is written late is a
// player marked offline who was there, once. The allowance for late heartbeats
// ([Config.Late]) is what helps.
//
// # When claims are lost
//
// The claims' server may come back with nothing or with an old state, so its own
// counter of claim numbers may go back. Two owners who both take themselves for
// the one must not both act, and the one whom the claims name must not be refused
// for ever. Both follow from where the numbers are kept:
//
//   - The lists know the highest number that was ever shown to them. An instance
//     reads it before each round, and the round numbers claims above it. So a new
//     claim is above every claim that has acted.
//   - Between reading and claiming, another one may have shown a higher number, by
//     a claim that was lost right afterwards. Then the new claim's number is not above
//     the fence. It may even be the same, which is why the fence has the owner's
//     name, and the name its life. The lists refuse it before it has acted, and
//     the next round numbers that claim anew, above the fence that refused it.
//   - Whoever held the partition before the loss goes on until somebody's higher
//     number is shown, and is refused from then on. Both may have the same player
//     in hand; the mark is made once.
//
// The lists must not lose what they acknowledged (appendfsync always): a mark that
// is lost along with its log leaves the heartbeat on its list, and the player is
// marked again. Within Redis that is once. Whoever read the log before has seen two.
// Where one server has both roles, claims, fences and marks come back as of one
// moment: an owner from after it shows a number above the fences, goes on for the
// lease that it was given, and is outdone like any other.
//
// # The costs
//
// What handling a batch of players costs is modelled ([Config.Work]): time that
// passes between reading that they are due and marking them.
package presence

import (
	"context"
	"fmt"
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"relapse/topologies/services"
	"relapse/topologies/services/platform/api"
)

// Streams of the seed, of one instance: what one of them draws does not depend on
// the other.
const (
	streamRounds = iota
	streamTicks
)

// Instance is one instance of the workers.
type Instance struct {
	config  Config
	metrics *metrics
	self    string // name and life, once it has one; see [Instance.begin]

	mu    sync.Mutex
	held  map[int]int64 // number of the claim of each partition that it may work on
	until time.Time     // its lease, on its own clock
	known int           // instances, in its last round
}

// New makes an instance; its metrics go to the registry.
func New(c Config, registry *prometheus.Registry) (*Instance, error) {
	c, err := c.complete()
	if err != nil {
		return nil, err
	}
	i := &Instance{config: c, held: map[int]int64{}}
	i.metrics = newMetrics(registry, i)
	return i, nil
}

// Run works until the context ends, then gives back what it has claimed.
func (i *Instance) Run(ctx context.Context) error {
	if !i.begin(ctx) {
		return nil
	}
	var loops sync.WaitGroup
	if !i.config.Unpartitioned {
		loops.Go(func() { i.rounds(ctx) })
	}
	loops.Go(func() { i.ticks(ctx) })
	loops.Wait()
	if !i.config.Unpartitioned {
		i.leave(ctx)
	}
	return nil
}

// begin gives the instance its life, a number that no instance before it had: one
// that comes back under its old name must not pass for the one that it was. It is
// false if the context ended before the lists answered.
func (i *Instance) begin(ctx context.Context) bool {
	for said := false; ; said = true {
		life, err := i.config.Lists.Incr(ctx, LivesKey).Result()
		if err == nil {
			i.self = fmt.Sprintf("%s/%d", i.config.Name, life)
			return true
		}
		if !said {
			i.config.Log.Warn("the lists do not answer; asked again until they do", "error", err)
		}
		if !services.Wait(ctx, i.config.Interval) {
			return false
		}
	}
}

// random gives a stream of the seed that no other instance has.
func (i *Instance) random(stream uint64) *rand.Rand {
	name := fnv.New64a()
	name.Write([]byte(i.config.Name)) // never fails
	return rand.New(rand.NewPCG(i.config.Seed, name.Sum64()+stream))
}

// owned gives the claims that the instance may work on now.
func (i *Instance) owned() map[int]int64 {
	if i.config.Unpartitioned {
		all := make(map[int]int64, api.Partitions)
		for k := range api.Partitions {
			all[k] = 0 // a claim of no number
		}
		return all
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if !time.Now().Before(i.until) {
		return nil
	}
	return maps.Clone(i.held)
}

// mayBegin says whether an owner may begin a piece of work on a partition: the
// claim is still what it was, and the lease lasts until the work is done.
func (i *Instance) mayBegin(partition int, number int64, lasts time.Duration) bool {
	if i.config.Unpartitioned {
		return true
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	have, held := i.held[partition]
	return held && have == number && time.Until(i.until) > lasts
}
