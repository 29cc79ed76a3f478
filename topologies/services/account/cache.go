package account

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/bradfitz/gomemcache/memcache"
	"github.com/prometheus/client_golang/prometheus"
)

const (
	cacheDeadline = 200 * time.Millisecond // for one write, connecting included
	cacheQueue    = 1024                   // writes that wait; more are dropped
	keyPrefix     = "token:"               // the proxy's lookups name keys the same way
	preloadPause  = 100 * time.Millisecond // between tries while the cache does not answer
)

// Cache writes tokens to memcached behind the request path: over a connection
// of its own, one write after the other, each within 200 ms. Writes that find
// the queue full are dropped and counted: what is missing costs a fall-through,
// what waits would cost memory without end.
type Cache struct {
	address string
	log     *slog.Logger
	client  *memcache.Client
	queue   chan write
	written *prometheus.CounterVec
}

type write struct {
	key   string
	value []byte // nil removes the key
}

// NewCache makes a cache client of the memcached at an address. Nothing is
// connected yet.
func NewCache(address string, log *slog.Logger) *Cache {
	return &Cache{
		address: address,
		log:     log,
		queue:   make(chan write, cacheQueue),
		written: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "relapse_cache_writes_total",
			Help: "Writes to the cache behind the request path, by outcome (ok, failed, dropped).",
		}, []string{"outcome"}),
	}
}

func (c *Cache) register(registry *prometheus.Registry) {
	registry.MustRegister(c.written)
	for _, outcome := range []string{"ok", "failed", "dropped"} {
		c.written.WithLabelValues(outcome)
	}
}

// Preload writes the tokens known from the start, and tries again until the
// cache has taken them all: a run whose cache was never filled would be another
// incident. The context bounds it.
func (c *Cache) Preload(ctx context.Context, a *Application, tokens int) error {
	for n := 0; n < tokens; {
		err := c.preloadOne(a, TokenName(n))
		if err == nil {
			n++
			continue
		}
		c.log.Warn("preload: the cache does not take a token; trying again", "token", TokenName(n), "error", err)
		select {
		case <-ctx.Done():
			return fmt.Errorf("preload: %d of %d tokens in the cache at %s: %w", n, tokens, c.address, errors.Join(ctx.Err(), err))
		case <-time.After(preloadPause):
		}
	}
	return nil
}

func (c *Cache) preloadOne(a *Application, token string) error {
	value, known := a.tokens.value(token)
	if !known {
		return nil // signed out meanwhile
	}
	return c.write(write{key: keyPrefix + token, value: value})
}

// Run writes what is queued until the context ends.
func (c *Cache) Run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case w := <-c.queue:
			if err := c.write(w); err != nil {
				c.written.WithLabelValues("failed").Inc()
				continue
			}
			c.written.WithLabelValues("ok").Inc()
		}
	}
}

// Put queues a token's value; it never waits.
func (c *Cache) Put(token string, value []byte) {
	c.enqueue(write{key: keyPrefix + token, value: value})
}

// Remove queues a token's removal; it never waits.
func (c *Cache) Remove(token string) { c.enqueue(write{key: keyPrefix + token}) }

func (c *Cache) enqueue(w write) {
	select {
	case c.queue <- w:
	default:
		c.written.WithLabelValues("dropped").Inc()
	}
}

// write does one write. It is called by one goroutine at a time: first by
// Preload, then by Run.
func (c *Cache) write(w write) error {
	if c.client == nil {
		// The name is looked up here and not in NewCache, so that a cache that
		// is not there yet is a write that failed.
		var servers memcache.ServerList
		if err := servers.SetServers(c.address); err != nil {
			return fmt.Errorf("cache at %s: %w", c.address, err)
		}
		c.client = memcache.NewFromSelector(&servers)
		c.client.Timeout = cacheDeadline
		c.client.MaxIdleConns = 1
	}
	if w.value == nil {
		if err := c.client.Delete(w.key); err != nil && !errors.Is(err, memcache.ErrCacheMiss) {
			return fmt.Errorf("cache at %s: remove %s: %w", c.address, w.key, err)
		}
		return nil
	}
	if err := c.client.Set(&memcache.Item{Key: w.key, Value: w.value}); err != nil {
		return fmt.Errorf("cache at %s: write %s: %w", c.address, w.key, err)
	}
	return nil
}
