// Package platform is the platform of VALORANT in miniature: what stands between the
// players' clients, the game servers and the store. Of the documented system, of more
// than thirty services in Go, seven are here; what they do follows what is published
// of them (player sessions, parties, matchmaking, agent select, provisioning by ping,
// results), and how they do it is ours.
//
//	players ─▶ session ─▶ config        tokens, polled settings, heartbeats (to Redis)
//	players ─▶ party
//	players ─▶ queue ─▶ agents ─▶ provisioning
//	players ─▶ agents     │ └───▶ games ─▶ results ─▶ store
//	                      │         ├────▶ provisioning
//	                      ◀─────────┘
//
// One action of a player thus makes a chain of calls: the last of those that a place
// in the queue leads to is the sixth.
//
// # Roles
//
// Each service is a role of one program. As documented, each runs by itself:
//
//	relapse service platform --roles=party
//
// The monolith is all of them in one process. They call each other over HTTP there as
// well; what the process has in common is its pool of workers: see [Config.Limits]. A
// request holds a worker from its beginning to its end, while it waits for others too,
// so that one role which is stuck soon leaves no worker for the others. Of a role that
// is tested by itself nothing of that can be seen.
//
// # State
//
// All state is in memory and gone when a process ends, except for what the store and
// Redis have. What is carried out is told from what may have been by its operation id
// (see package api): a request is sent again until it is acknowledged.
//
// # Time
//
// Lengths that players know (a match, a selection, the life of a token) are documented
// time, and pass faster by [Config.Speed]. Timeouts, leases and pauses between retries
// are between machines, and in real time.
//
// # Cost
//
// What a request costs beyond its few microseconds here can be modelled: see
// [Config.Costs]. It burns no CPU.
package platform

import (
	"context"
	"fmt"
	"hash/fnv"
	"io"
	"log/slog"
	"math"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"relapse/topologies/services/limits"
	"relapse/topologies/services/platform/api"
	"relapse/topologies/services/retry"
)

const pruneEvery = time.Second

// Retries go on until they succeed: what they are of is somebody's match or money.
// Full jitter keeps those that failed together from coming together.
const (
	retryBase = 200 * time.Millisecond
	retryMost = 2 * time.Second
	// retryDoubles is when the pauses have long stopped growing.
	retryDoubles = 20
)

// Platform is a running process of the platform.
type Platform struct {
	config   Config
	registry *prometheus.Registry
	metrics  *metrics
	limits   *limits.Limiter
	retries  *retry.Policy
	roles    []running
	// life tells the names that this process gives from those of one before it.
	life string
	last atomic.Int64
}

type running struct {
	name string
	role
}

// New makes a process of some roles; its metrics go to the registry.
func New(c Config, registry *prometheus.Registry) (*Platform, error) {
	c, err := c.complete()
	if err != nil {
		return nil, fmt.Errorf("platform: %w", err)
	}
	start := time.Now()
	p := &Platform{
		config: c, registry: registry, metrics: newMetrics(c.Roles, registry),
		life: strconv.FormatInt(start.UnixMicro(), 36),
	}
	if p.limits, err = limits.New(c.Limits, c.Roles); err != nil {
		return nil, fmt.Errorf("platform: workers: %w", err)
	}
	p.limits.Register(registry)
	p.retries, err = retry.New(
		retry.Config{Count: retryDoubles, Backoff: &retry.Backoff{Base: retryBase, Max: retryMost}, Permanent: retry.Retry},
		func() time.Duration { return time.Since(start) }, p.random("retries"))
	if err != nil {
		return nil, fmt.Errorf("platform: %w", err)
	}
	for _, k := range kinds {
		if !slices.Contains(c.Roles, k.name) {
			continue
		}
		made, err := k.make(p)
		if err != nil {
			return nil, fmt.Errorf("platform: %s: %w", k.name, err)
		}
		p.roles = append(p.roles, running{k.name, made})
	}
	return p, nil
}

// Handler answers for all roles of the process; GET /health holds no worker.
func (p *Platform) Handler() http.Handler {
	mux := http.NewServeMux()
	for _, r := range p.roles {
		for _, route := range r.routes() {
			mux.Handle(route.pattern, p.handle(r.name, route))
		}
	}
	mux.HandleFunc("GET /health", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
	return mux
}

// Run does what the roles do of their own accord, until the context ends. The peers
// are closed then.
func (p *Platform) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, r := range p.roles {
		group.Go(func() error { return r.run(ctx) })
	}
	group.Go(func() error {
		return every(ctx, pruneEvery, func() {
			for _, peer := range p.config.Peers {
				peer.Prune(time.Now())
			}
		})
	})
	err := group.Wait()
	for _, peer := range p.config.Peers {
		peer.Close()
	}
	return err
}

// every does something again and again until the context ends. What is due while it is
// being done is done once, afterwards.
func every(ctx context.Context, d time.Duration, do func()) error {
	ticker := time.NewTicker(d)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			do()
		case <-ctx.Done():
			return nil
		}
	}
}

// call asks a peer on behalf of a role, once, within the timeout of calls.
func (p *Platform) call(from, to, method, path string, body, into any) error {
	return p.callUntil(time.Now().Add(p.config.CallTimeout), from, to, method, path, body, into)
}

func (p *Platform) callUntil(deadline time.Time, from, to, method, path string, body, into any) error {
	err := p.config.Peers[to].Call(method, path, body, into, deadline)
	p.metrics.called(from, to, api.OutcomeOf(err))
	return err
}

// again is when what has failed for the n-th time, from 1, is tried again.
func (p *Platform) again(failures int) time.Time {
	wait, _ := p.retries.Next("", min(max(failures, 1), retryDoubles), 0)
	return time.Now().Add(wait)
}

// name makes a name that no other process, and none before this one, has given.
func (p *Platform) name(of string) string {
	return of + "-" + p.life + "-" + strconv.FormatInt(p.last.Add(1), 36)
}

// real is how long a documented time takes. What is too long to be told is as good as
// never.
func (p *Platform) real(documented time.Duration) time.Duration {
	const never = 100 * 365 * 24 * time.Hour
	return time.Duration(math.Min(float64(documented)/p.config.Speed, float64(never)))
}

// random gives a source of its own to each purpose, so that one role does not shift
// what another draws. It is to be locked by its user.
func (p *Platform) random(purpose string) *rand.Rand {
	hash := fnv.New64a()
	_, _ = io.WriteString(hash, purpose) // never fails
	return rand.New(rand.NewPCG(p.config.Seed, hash.Sum64()))
}

// log is where a role writes.
func (p *Platform) log(role string) *slog.Logger { return p.config.Log.With("role", role) }
