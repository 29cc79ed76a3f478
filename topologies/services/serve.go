package services

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// MetricsAddress is where every service shows its metrics, at /metrics.
const MetricsAddress = ":9090"

// shutdownWithin bounds how long a server waits for requests in flight once
// its service is told to end.
const shutdownWithin = 500 * time.Millisecond

// MetricsHandler shows a registry at /metrics. A service passes a registry of
// its own rather than the default one: the collectors of the Go runtime that
// the default one holds cost more per scrape than all that a check asks for.
func MetricsHandler(registry *prometheus.Registry) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{
		// Scrapes come four times a second over a local network: compressing
		// them costs more than it saves.
		DisableCompression: true,
		Registry:           registry,
	}))
	return mux
}

// Serve answers HTTP on an address until the context ends, then lets requests
// in flight finish for half a second. An address that is taken is an error at
// once.
func Serve(ctx context.Context, address string, handler http.Handler) error {
	var lc net.ListenConfig
	// Nobody here speaks it, and each connection would be asked.
	lc.SetMultipathTCP(false)
	listener, err := lc.Listen(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("listen on %s: %w", address, err)
	}
	return ServeListener(ctx, listener, handler)
}

// ServeListener is [Serve] on a listener that is already there.
func ServeListener(ctx context.Context, listener net.Listener, handler http.Handler) error {
	return ServeWith(ctx, listener, &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second})
}

// ServeWith is [ServeListener] by a server with settings of its own.
func ServeWith(ctx context.Context, listener net.Listener, server *http.Server) error {
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(patient{listener}) }()
	select {
	case err := <-failed:
		return fmt.Errorf("serve %s: %w", listener.Addr(), err)
	case <-ctx.Done():
	}
	shutdown, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownWithin)
	defer cancel()
	if err := server.Shutdown(shutdown); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("shut down %s: %w", listener.Addr(), err)
	}
	return server.Close()
}

// patient is a listener that does not give up where the kernel has no memory for
// one more connection: a host without memory is what some incidents are about, and
// its services stand still and do not end.
type patient struct{ net.Listener }

// memoryAgain is when memory is asked for again.
const memoryAgain = 50 * time.Millisecond

// Accept gives the next connection that there is memory for.
func (p patient) Accept() (net.Conn, error) {
	for {
		conn, err := p.Listener.Accept()
		if !errors.Is(err, syscall.ENOMEM) && !errors.Is(err, syscall.ENOBUFS) {
			return conn, err
		}
		time.Sleep(memoryAgain)
	}
}
