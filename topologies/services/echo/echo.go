// Package echo is a server that does nothing but answer, at any size asked for:
// what the tests of faults put at the other end of a link.
//
//	GET /bytes?n=1000    1000 bytes (1 if n is not given)
//
// With --memory it holds so much beside, for a host whose memory runs out.
package echo

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"net/http"
	"os"
	"runtime"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"relapse/topologies/services"
)

// MostBytes is the size of the largest answer.
const MostBytes = 64 << 20

func init() {
	services.Register("echo", "a server that answers with as many bytes as it is asked for", run)
}

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("echo", flag.ContinueOnError)
	listen := flags.String("listen", ":8080", "address of the server")
	metricsAt := flags.String("metrics", services.MetricsAddress, "address of its metrics")
	memory := flags.Int("memory", 0, "bytes of memory that it holds")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	held, err := hold(*memory)
	if err != nil {
		return err
	}
	defer runtime.KeepAlive(held)
	registry := prometheus.NewRegistry()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return services.Serve(ctx, *listen, Handler(registry)) })
	group.Go(func() error { return services.Serve(ctx, *metricsAt, services.MetricsHandler(registry)) })
	return group.Wait()
}

// hold takes memory for good: the kernel gives a page when it is first written
// to.
func hold(bytes int) ([]byte, error) {
	if bytes < 0 || bytes > 1<<30 {
		return nil, fmt.Errorf("--memory=%d: want a number of bytes up to %d", bytes, 1<<30)
	}
	held := make([]byte, bytes)
	for i := 0; i < bytes; i += os.Getpagesize() {
		held[i] = 1
	}
	return held, nil
}

var chunk = bytes.Repeat([]byte("."), 32<<10)

// Handler answers, and counts in relapse_handled_total and
// relapse_answered_bytes_total of the registry.
func Handler(registry prometheus.Registerer) http.Handler {
	handled := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "relapse_handled_total", Help: "Requests handled.",
	}, []string{"op", "outcome"})
	answered := prometheus.NewCounter(prometheus.CounterOpts{
		Name: "relapse_answered_bytes_total", Help: "Bytes of bodies that were answered.",
	})
	registry.MustRegister(handled, answered)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /bytes", func(w http.ResponseWriter, r *http.Request) {
		n := 1
		if text := r.FormValue("n"); text != "" {
			var err error
			if n, err = strconv.Atoi(text); err != nil || n < 0 || n > MostBytes {
				handled.WithLabelValues("bytes", "refused").Inc()
				http.Error(w, fmt.Sprintf("n=%q: want a number of bytes up to %d", text, MostBytes), http.StatusBadRequest)
				return
			}
		}
		w.Header().Set("Content-Length", strconv.Itoa(n))
		w.Header().Set("Content-Type", "text/plain")
		for left := n; left > 0; {
			sent, err := w.Write(chunk[:min(left, len(chunk))])
			answered.Add(float64(sent))
			if err != nil {
				handled.WithLabelValues("bytes", "error").Inc()
				return
			}
			left -= sent
		}
		handled.WithLabelValues("bytes", "ok").Inc()
	})
	return mux
}
