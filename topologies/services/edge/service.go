package edge

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"os"
	"runtime/debug"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"relapse/topologies/services"
	"relapse/topologies/services/http1"
	"relapse/topologies/services/retry"
)

// DefaultMemory is what a connection holds: 64 KiB, about what the buffers of a
// proxy are for one connection. A choice, since the source does not say.
const DefaultMemory = 64 << 10

// gcPercent collects often: what the heap has over what is live would else be
// taken for memory of connections.
const gcPercent = 50

// spareThreads are more than an edge needs that is held up in every one of its
// connections' memory.
const spareThreads = 16

const pruneEvery = time.Second

func init() {
	services.Register("edge", "an edge that filters and routes what players ask for, and holds memory for each connection", run)
}

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("edge", flag.ContinueOnError)
	var (
		listen         = flags.String("listen", ":8080", "address for players")
		metricsAt      = flags.String("metrics", services.MetricsAddress, "address of its metrics")
		backend        = flags.String("backend", "", "host:port of the back end that makes games")
		backendTimeout = flags.Duration("backend-timeout", time.Second, "for each attempt to reach the back end")
		memory         = flags.Int("connection-memory", DefaultMemory, "bytes that an open connection holds")
		most           = flags.Int("max-connections", 0, "open connections, 503 for those above; 0 for no limit")
		after          = flags.Duration("unroutable-after", time.Second, "how long a back end is looked for that is not there (modelled)")
		status         = flags.Int("unroutable-status", http.StatusServiceUnavailable, "what is answered then")
		forward        = flags.Bool("forward-unnamed", false, "leave it to the back end to refuse requests that name no queue")
		retries        = flags.String("retries", "", "file of the retries towards the back end; none if not given")
		seed           = flags.Uint64("seed", 1, "decides the jitter of retries")
	)
	if err := flags.Parse(args); err != nil {
		return err
	}
	switch {
	case flags.NArg() > 0:
		return fmt.Errorf("unexpected argument %q", flags.Arg(0))
	case *backend == "":
		return errors.New("no --backend given")
	}
	policy, err := readRetries(*retries, *seed)
	if err != nil {
		return err
	}
	client, err := newBackend(*backend)
	if err != nil {
		return err
	}
	defer client.Close()
	registry := prometheus.NewRegistry()
	edge, err := New(Config{
		Memory: Memory(*memory), MaxConnections: *most,
		Backend: client, BackendTimeout: *backendTimeout, Retries: policy,
		ForwardUnnamed: *forward, UnroutableAfter: *after, UnroutableStatus: *status,
	}, registry)
	if err != nil {
		return err
	}
	debug.SetGCPercent(gcPercent)
	services.SpareThreads(spareThreads)
	var lc net.ListenConfig
	inner, err := lc.Listen(ctx, "tcp", *listen)
	if err != nil {
		return fmt.Errorf("listen on %s: %w", *listen, err)
	}
	group, ctx := errgroup.WithContext(ctx)
	// Without a timeout for the first request: players stay connected for long
	// before they ask for anything.
	server := &http.Server{Handler: edge.Handler()}
	group.Go(func() error { return services.ServeWith(ctx, edge.Listen(inner), server) })
	group.Go(func() error { return services.Serve(ctx, *metricsAt, services.MetricsHandler(registry)) })
	group.Go(func() error {
		tick := time.NewTicker(pruneEvery)
		defer tick.Stop()
		for {
			select {
			case now := <-tick.C:
				client.Prune(now)
			case <-ctx.Done():
				return nil
			}
		}
	})
	return group.Wait()
}

func readRetries(path string, seed uint64) (*retry.Policy, error) {
	if path == "" {
		return nil, nil
	}
	document, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	config, err := retry.Parse(document)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if config.Count == 0 {
		return nil, nil
	}
	start := time.Now()
	return retry.New(config, func() time.Duration { return time.Since(start) }, rand.New(rand.NewPCG(seed, 0)))
}

// newBackend looks the back end up once: its address is fixed, like that of
// every node.
func newBackend(hostPort string) (*http1.Client, error) {
	address, err := net.ResolveTCPAddr("tcp", hostPort)
	if err != nil {
		return nil, fmt.Errorf("back end %s: %w", hostPort, err)
	}
	at := address.AddrPort()
	return &http1.Client{
		Address: netip.AddrPortFrom(at.Addr().Unmap(), at.Port()), Host: hostPort, Agent: "relapse-edge",
	}, nil
}
