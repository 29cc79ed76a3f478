package platform

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"relapse/topologies/services/platform/api"
)

const (
	redisTimeout = time.Second // for the writes of one time, connecting included
	// clockEvery is how often Redis is asked for its time. Clocks of two machines
	// drift apart by less than a millisecond in that.
	clockEvery = 5 * time.Second
	// clockWithin is how long that may take for the answer to be of use: it is wrong
	// by half of it at most.
	clockWithin = 50 * time.Millisecond
)

// heartbeats keeps when players were heard of last and writes it to Redis a few times a
// second: a sorted set for each partition of background work (see [api.SeenKey]), one
// command for each of them, all in one go. The times are those at which the heartbeats
// came, on Redis' own clock, whatever the writes are late by; a later time is never
// replaced by an earlier one.
//
// What cannot be written is kept and written with what comes next. That is one entry a
// player, so that a Redis which is away costs no more memory the longer it is.
type heartbeats struct {
	every, hold time.Duration
	client      *redis.Client
	log         *slog.Logger
	written     prometheus.Counter
	failures    prometheus.Counter

	// Of the one goroutine that writes.
	offset   time.Duration // of Redis' clock from this one
	measured time.Time
	held     []batch

	mu      sync.Mutex
	current map[api.Player]time.Time
	waiting int // in the batches
}

// batch is what came until some time.
type batch struct {
	closed time.Time
	seen   map[api.Player]time.Time
}

// redisPlaces is far more connections than are made. After as many failed dials in its
// life as its pool has places, the client only asks once a second whether the server is
// back.
const redisPlaces = 1024

func newHeartbeats(p *Platform, c SessionConfig) (*heartbeats, error) {
	switch {
	case c.Redis == "":
		return nil, errors.New("no Redis for heartbeats: give its address")
	case c.BeatEvery <= 0:
		return nil, fmt.Errorf("heartbeats are written every %v: want more than zero", c.BeatEvery)
	case c.HoldBeats < 0:
		return nil, fmt.Errorf("heartbeats are held back for %v: want zero or more", c.HoldBeats)
	}
	h := &heartbeats{
		every: c.BeatEvery, hold: c.HoldBeats, log: p.log(Session), current: map[api.Player]time.Time{},
		client: redis.NewClient(&redis.Options{
			Addr: c.Redis, Protocol: 2, DisableIdentity: true, PoolSize: redisPlaces, ContextTimeoutEnabled: true,
			DialTimeout: redisTimeout, ReadTimeout: redisTimeout, WriteTimeout: redisTimeout,
			// What fails is written again with what comes next.
			MaxRetries: -1, DialerRetries: 1,
		}),
		written:  p.counter("relapse_heartbeats_written_total", "Times of players that Redis has taken; of several heartbeats between two writes the last one."),
		failures: p.counter("relapse_heartbeat_failures_total", "Writes to Redis that failed; what they had is written again."),
	}
	p.gauge("relapse_heartbeats_waiting", "Players whose last heartbeat is not written yet, each counted once for every write it waits for.", func() float64 {
		h.mu.Lock()
		defer h.mu.Unlock()
		return float64(len(h.current) + h.waiting)
	})
	return h, nil
}

// beat notes that a player was heard of.
func (h *heartbeats) beat(p api.Player, now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.current[p] = now
}

// run writes until the context ends.
func (h *heartbeats) run(ctx context.Context) error {
	err := every(ctx, h.every, func() { h.flush(ctx, time.Now()) })
	return errors.Join(err, h.client.Close())
}

// flush writes what has been held back for long enough.
func (h *heartbeats) flush(ctx context.Context, now time.Time) {
	h.mu.Lock()
	if len(h.current) > 0 {
		h.held = append(h.held, batch{now, h.current})
		h.waiting += len(h.current)
		h.current = map[api.Player]time.Time{}
	}
	h.mu.Unlock()
	due := 0
	for due < len(h.held) && now.Sub(h.held[due].closed) >= h.hold {
		due++
	}
	if due == 0 {
		return
	}
	merged := h.held[0]
	for _, b := range h.held[1:due] {
		maps.Copy(merged.seen, b.seen) // later times over earlier ones
	}
	rest := h.held[due:]
	if err := h.write(ctx, merged.seen); err != nil {
		if ctx.Err() == nil {
			h.failures.Inc()
			h.log.Warn("heartbeats are not written; trying again", "players", len(merged.seen), "error", err)
		}
		h.held = append([]batch{merged}, rest...)
	} else {
		h.written.Add(float64(len(merged.seen)))
		h.held = rest
	}
	waiting := 0
	for _, b := range h.held {
		waiting += len(b.seen)
	}
	h.mu.Lock()
	h.waiting = waiting
	h.mu.Unlock()
}

func (h *heartbeats) write(ctx context.Context, seen map[api.Player]time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, redisTimeout)
	defer cancel()
	if err := h.setClock(ctx); err != nil {
		return err
	}
	var partitions [api.Partitions][]redis.Z
	for p, at := range seen {
		k := p.Partition()
		partitions[k] = append(partitions[k], redis.Z{Score: float64(at.Add(h.offset).UnixMilli()), Member: p.String()})
	}
	pipeline := h.client.Pipeline()
	for k, members := range partitions {
		if len(members) > 0 {
			pipeline.ZAddArgs(ctx, api.SeenKey(k), redis.ZAddArgs{GT: true, Members: members})
		}
	}
	if _, err := pipeline.Exec(ctx); err != nil {
		return fmt.Errorf("write to Redis: %w", err)
	}
	return nil
}

// setClock finds out how far Redis' clock is from this one. The first measurement is
// taken as it is, later ones only if they are exact.
func (h *heartbeats) setClock(ctx context.Context) error {
	began := time.Now()
	if !h.measured.IsZero() && began.Sub(h.measured) < clockEvery {
		return nil
	}
	theirs, err := h.client.Time(ctx).Result()
	if err != nil {
		return fmt.Errorf("ask Redis for its time: %w", err)
	}
	took := time.Since(began)
	if h.measured.IsZero() || took <= clockWithin {
		h.offset = theirs.Sub(began.Add(took / 2))
		h.measured = began
	}
	return nil
}
