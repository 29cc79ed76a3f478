package presence

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"relapse/topologies/services"
)

// rounds is what is kept from one round to the next.
type rounds struct {
	*Instance
	above   int64 // the highest claim number that the lists are known to know
	anew    []int // partitions whose claims the lists refused
	failing bool
}

// rounds makes rounds until the context ends. The time to the next one is between
// half an interval and an interval, so that instances that are started together,
// or that a slow server had wait together, drift apart.
func (i *Instance) rounds(ctx context.Context) {
	r := rounds{Instance: i}
	rng := i.random(streamRounds)
	interval := float64(i.config.Interval)
	for wait := rng.Float64() * interval; services.Wait(ctx, time.Duration(wait)); wait = (0.5 + 0.5*rng.Float64()) * interval {
		err := r.once(ctx)
		switch {
		case ctx.Err() != nil: // it was told to end
		case err == nil:
			i.metrics.renewed.Inc()
			r.failing = false
		default:
			i.metrics.unrenewed.Inc()
			if !r.failing {
				i.config.Log.Warn("a round failed; tried again every interval, and nothing is begun once the lease is over", "error", err)
			}
			r.failing = true
		}
	}
}

// once makes one round.
func (r *rounds) once(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, r.config.callWithin())
	defer cancel()
	// The lists are asked even where what they say is not used: an instance that does
	// not reach them should not renew.
	top, err := r.config.Lists.Get(ctx, TopKey).Int64()
	if err != nil && !errors.Is(err, redis.Nil) {
		return fmt.Errorf("ask the lists for the highest claim number: %w", err)
	}
	r.learn(top)
	sent := time.Now() // the lease that is asked for begins later than this
	s, err := r.claimRound(ctx, r.above, r.anew)
	if err != nil {
		return err
	}
	r.anew = nil
	r.metrics.count(s)
	fresh := r.keep(s, sent.Add(r.config.ownLease()))
	if len(fresh) > 0 && !r.config.Unfenced {
		if fresh, err = r.show(ctx, fresh); err != nil {
			return err // they are shown in the next round
		}
	}
	r.add(fresh)
	return nil
}

// show shows new claims to the lists and gives those that are not refused. The
// others are numbered anew in the next round.
func (r *rounds) show(ctx context.Context, fresh map[int]int64) (map[int]int64, error) {
	top, refused, err := r.raise(ctx, fresh)
	if err != nil {
		return nil, err
	}
	if r.config.Forgetful {
		return fresh, nil
	}
	r.learn(top)
	for _, k := range refused {
		delete(fresh, k)
	}
	r.anew = refused
	return fresh, nil
}

func (r *rounds) learn(top int64) {
	if !r.config.Forgetful {
		r.above = max(r.above, top)
	}
}

// keep goes by what a round says: what was lost is worked on no more, and what is
// left has a new lease. It gives the claims that are new.
func (i *Instance) keep(s standing, until time.Time) (fresh map[int]int64) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for k, number := range i.held {
		if s.own[k] != number {
			delete(i.held, k)
		}
	}
	fresh = map[int]int64{}
	for k, number := range s.own {
		if _, known := i.held[k]; !known {
			fresh[k] = number
		}
	}
	i.until, i.known = until, s.instances
	return fresh
}

// add has new claims worked on.
func (i *Instance) add(fresh map[int]int64) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for k, number := range fresh {
		i.held[k] = number
	}
}
