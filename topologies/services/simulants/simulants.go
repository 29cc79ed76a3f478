// Package simulants plays the players of a platform at its boundary: no real
// clients, only the requests that these make.
//
// A simulated player runs the client's background polls (its token, the dynamic
// configuration, heartbeats) and scenarios: queue, agent select and match; buy;
// change the skin. A pool creates players at a login rate and hands out scenarios
// at stated frequencies. So was the platform of the incident valorant-launch
// loaded before its launch: one harness on 4 CPUs was 10,000 players.
//
// Load is open loop. A poll is sent at its time whatever became of the one before,
// scenarios are handed out at their rate whatever the platform does, and only the
// steps within a scenario wait for each other, as a real client's do. Latency
// counts from when a request was meant to be sent. What the harness itself fails to
// do is counted: lateness, requests that found no free slot at their time, requests
// and players that never were.
//
// The harness is a witness, too: it remembers what each player was told, and
// compares what the player is told later (see witness.go).
//
// Players cost no goroutine and no timer each. A shard, one a CPU, has its players in
// an array and their due times in a timing wheel; requests go out over slots, each
// a goroutine with at most one request on its way, and a slot that has its answer
// takes the next request of any player. Shards share nothing but metrics.
//
//	order (players, login) -> range of numbers -> player -> wheel -> slot -> platform
//	                                                ^                 |
//	                                                '---- answer -----'
package simulants

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"relapse/topologies/services/http1"
	"relapse/topologies/services/players"
)

// leaveWithin bounds how long a harness that ends takes to give its ranges back.
const leaveWithin = time.Second

// Harness plays players. All its times are offsets from one start on the monotonic
// clock.
type Harness struct {
	config  Config
	metrics *metrics
	ranges  Ranges
	start   time.Time
	life    string // tells the operations of one life of a harness from those of another
	log     *slog.Logger
	told    atomic.Int64 // mismatches that were logged
	shards  []*shard
	targets map[string]players.TargetState // by host and port, for whoever asks
	keepNow chan struct{}

	mu     sync.Mutex
	rates  map[string]float64 // as ordered; nil before the first order
	scales map[string]scale
	share  float64 // players that this harness plays; see [Holding]
}

// scale multiplies what was ordered of an operation, or a scenario's frequency.
type scale struct {
	operation string
	factor    float64
}

// New makes a harness. Ranges says which players' numbers it plays; nil stands for
// all of them. It refuses a target outside the machine's own networks with
// [http1.ErrForeignTarget]. There are no players before an order ([Harness.SetRates])
// and no load before [Harness.Run].
func New(ctx context.Context, c Config, ranges Ranges) (*Harness, error) {
	if err := c.validate(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	h := &Harness{
		config: c, ranges: ranges, start: time.Now(),
		life:    strconv.FormatInt(time.Now().UnixNano(), 36),
		log:     slog.New(slog.NewTextHandler(os.Stderr, nil)),
		keepNow: make(chan struct{}, 1),
		targets: map[string]players.TargetState{},
		scales:  map[string]scale{},
	}
	h.metrics = newMetrics(h)
	workers := c.Workers
	if workers == 0 {
		workers = runtime.GOMAXPROCS(0)
	}
	for n := range workers {
		h.shards = append(h.shards, newShard(h, n, workers))
	}
	if err := h.connect(ctx); err != nil {
		return nil, err
	}
	if h.ranges == nil {
		h.ranges = alone(c.Ranges)
		if _, err := h.keep(ctx); err != nil {
			return nil, err
		}
	}
	return h, nil
}

// connect gives every shard clients of its own, one for each address.
func (h *Harness) connect(ctx context.Context) error {
	type place struct {
		host    string
		clients []*http1.Client // by shard
	}
	places := map[string]place{}
	for r := range roles {
		target := h.config.target(r)
		p, known := places[target]
		if !known {
			address, host, err := http1.LookUp(ctx, target)
			if err != nil {
				return err
			}
			p.host = host
			for range h.shards {
				p.clients = append(p.clients, &http1.Client{Address: address, Host: host, Agent: "relapse-simulants"})
			}
			places[target] = p
			h.targets[host] = players.TargetState{}
		}
		for n, s := range h.shards {
			s.clients[r] = p.clients[n]
		}
	}
	return nil
}

// now is the time since the start.
func (h *Harness) now() time.Duration { return time.Since(h.start) }

// random gives a source of its own to each purpose, so that what one of them draws
// does not shift the others.
func random(seed uint64, purpose string) *rand.Rand {
	// FNV-1a: any stable hash would do.
	hash := uint64(14695981039346656037)
	for _, b := range []byte(purpose) {
		hash = (hash ^ uint64(b)) * 1099511628211
	}
	return rand.New(rand.NewPCG(seed, hash))
}

// Registry holds the harness's metrics.
func (h *Harness) Registry() *prometheus.Registry { return h.metrics.registry }

// Run plays until the context ends, then waits for the requests on their way, which
// end within the timeout, and gives its ranges back. It can be called once.
func (h *Harness) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, s := range h.shards {
		group.Go(func() error {
			s.run(ctx)
			return nil
		})
	}
	group.Go(func() error {
		h.keepOn(ctx)
		return nil
	})
	err := group.Wait()
	leaving, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveWithin)
	defer cancel()
	if err := h.ranges.Leave(leaving); err != nil {
		// The others have them once the lease is over.
		h.log.Warn("cannot give ranges back", "error", err)
	}
	return err
}

// present is how many players there are, signed in or on the way to it.
func (h *Harness) present() (n int) {
	for _, s := range h.shards {
		s.mu.Lock()
		n += s.present()
		s.mu.Unlock()
	}
	return n
}
