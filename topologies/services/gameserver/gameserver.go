// Package gameserver is a game server whose ticks burn CPU: each takes a stated CPU time
// of the thread that plays it, however long the kernel has the thread wait for that.
// Ticks of all games come one after the other, as players' requests.
//
//	players -> gameserver: POST /tick
package gameserver

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"runtime"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"relapse/topologies/services"
)

func init() {
	services.Register("gameserver", "a game server whose ticks burn CPU", run)
}

// mostCost refuses what can only be a mistake: the ticks of a second would take minutes.
const mostCost = time.Second

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("gameserver", flag.ContinueOnError)
	var (
		cost      = flags.Duration("cost", 4*time.Millisecond, "CPU time of a tick, burnt")
		cpus      = flags.Float64("cpus", 0, "cores that its container may use, for its metrics")
		listen    = flags.String("listen", ":8080", "address for players")
		metricsAt = flags.String("metrics", services.MetricsAddress, "address of the metrics")
	)
	services.Settings(flags)
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	if *cost <= 0 || *cost > mostCost || !(*cpus > 0) {
		return fmt.Errorf("gameserver: ticks of %v on %v cores: want more than zero, up to %v, and more than zero", *cost, *cpus, mostCost)
	}
	registry := prometheus.NewRegistry()
	handler := Handler(*cost, *cpus, registry)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return services.Serve(ctx, *metricsAt, services.MetricsHandler(registry)) })
	group.Go(func() error { return services.Serve(ctx, *listen, handler) })
	return group.Wait()
}

// Handler answers POST /tick with 204 once the tick's CPU time is burnt, one tick after
// the other, and GET /health.
func Handler(cost time.Duration, cpus float64, registry *prometheus.Registry) http.Handler {
	ticks := prometheus.NewCounter(prometheus.CounterOpts{Name: "relapse_ticks_total", Help: "Ticks that were played."})
	limit := prometheus.NewGauge(prometheus.GaugeOpts{Name: "relapse_gameserver_cpus", Help: "Cores that the game server may use."})
	limit.Set(cpus)
	registry.MustRegister(ticks, limit, prometheus.NewCounterFunc(prometheus.CounterOpts{
		Name: "relapse_gameserver_cpu_seconds_total", Help: "CPU time that the process has used, by the kernel's account.",
	}, func() float64 { return cpuTime(unix.CLOCK_PROCESS_CPUTIME_ID).Seconds() }))
	var playing sync.Mutex
	mux := http.NewServeMux()
	mux.HandleFunc("POST /tick", func(w http.ResponseWriter, _ *http.Request) {
		playing.Lock()
		burn(cost)
		playing.Unlock()
		ticks.Inc()
		w.WriteHeader(http.StatusNoContent)
	})
	mux.HandleFunc("GET /health", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
	return mux
}

// burn uses up CPU time of this thread. Time in which the kernel has the thread wait,
// since the container's share is used up, does not count: it would make an overloaded
// server do less.
func burn(cost time.Duration) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for end := cpuTime(unix.CLOCK_THREAD_CPUTIME_ID) + cost; cpuTime(unix.CLOCK_THREAD_CPUTIME_ID) < end; {
		work()
	}
}

// sink keeps the compiler from leaving the work out; whoever works holds the lock.
var sink uint64

// work is some tens of microseconds, so that few of them are for reading the clock.
func work() {
	for n := range uint64(20_000) {
		sink = sink*6364136223846793005 + n
	}
}

// cpuTime reads one of the kernel's clocks of CPU time; 0 where it has none, which no
// Linux lacks.
func cpuTime(clock int32) time.Duration {
	var ts unix.Timespec
	if unix.ClockGettime(clock, &ts) != nil {
		return 0
	}
	return time.Duration(ts.Nano())
}
