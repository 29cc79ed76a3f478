package host

import (
	"context"
	"flag"
	"fmt"
	"runtime"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"relapse/topologies/services"
)

// ControlAddress is where an agent takes orders.
const ControlAddress = ":9092"

// LeakFolder is where the compose file mounts the tmpfs.
const LeakFolder = "/leak"

// spareThreads are more than writing leaks, burning CPU time and answering take.
const spareThreads = 24

func init() {
	services.Register("host", "the agent on a host: leaks its memory and uses its CPU time when told to", run)
}

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("host", flag.ContinueOnError)
	folder := flags.String("leak-folder", LeakFolder, "folder of a tmpfs that leaks are written to")
	control := flags.String("control", ControlAddress, "address on which orders are taken")
	metricsAt := flags.String("metrics", services.MetricsAddress, "address of the metrics")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	if err := inMemory(*folder); err != nil {
		return err
	}
	// A hog keeps one P busy for each of its cores; orders and metrics must be
	// answered beside it.
	runtime.GOMAXPROCS(runtime.NumCPU() + 2)
	services.SpareThreads(spareThreads)
	registry := prometheus.NewRegistry()
	agent := New(*folder, registry)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return services.Serve(ctx, *metricsAt, services.MetricsHandler(registry)) })
	group.Go(func() error { return services.Serve(ctx, *control, agent.Control()) })
	err := group.Wait()
	agent.Close()
	return err
}

// inMemory refuses a folder on a disk: what is written there would be page
// cache, which the kernel takes back whenever memory is short.
func inMemory(folder string) error {
	var stat unix.Statfs_t
	if err := unix.Statfs(folder, &stat); err != nil {
		return fmt.Errorf("--leak-folder %s: %w; mount a tmpfs there: tmpfs: [\"%s:size=96m\"]", folder, err, folder)
	}
	if stat.Type != unix.TMPFS_MAGIC {
		return fmt.Errorf("--leak-folder %s is on no tmpfs: mount one there: tmpfs: [\"%s:size=96m\"]", folder, folder)
	}
	return nil
}
