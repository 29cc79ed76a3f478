package topologies

import (
	"context"
	"io"
	"net/netip"
	"time"
)

// Driver is a way to run a topology.
type Driver string

const (
	Docker  Driver = "docker"  // every node is a container of an engine
	Process Driver = "process" // every node is a process of this machine, see [RunInNamespaces]
)

// Drivers are all of them.
var Drivers = []Driver{Docker, Process}

// Preflight says who would run the nodes, and on what machine. It starts nothing. The
// error wraps [ErrNoEngine] or [ErrNoNamespaces] where nobody can.
func (d Driver) Preflight(ctx context.Context) (Engine, error) {
	if d != Process {
		return Preflight(ctx)
	}
	if !InNamespaces() {
		return Engine{}, errNotInNamespaces
	}
	return describeProcesses(), nil
}

func newDriver(ctx context.Context, o Options) (driver, error) {
	// Written out: a nil of either type is no nil driver.
	if o.Driver == Process {
		d, err := newProcessDriver(o)
		if err != nil {
			return nil, err
		}
		return d, nil
	}
	d, err := newDockerDriver(ctx)
	if err != nil {
		return nil, err
	}
	return d, nil
}

// driver is what runs the nodes of a topology. It makes what they need and knows
// nothing of when they start, of hosts, or of what links are for: [System] does.
type driver interface {
	// describe says who runs the nodes, and on what machine.
	describe(ctx context.Context) (Engine, error)
	// prepare gets what the nodes run of and says what that is. It refuses what
	// the topology asks for and the driver cannot give.
	prepare(ctx context.Context, t *Topology, o Options) ([]ImageUse, error)
	// connect makes what nodes share: a network, where it gives everything its
	// address (System.addressed), and the program of our own.
	connect(ctx context.Context, s *System) error
	// create makes what will run a node and does not start it.
	create(ctx context.Context, s *System, node *Node, address netip.Addr) (unit, error)
	// sweep removes all that this driver made for runs whose labels match.
	sweep(ctx context.Context, match func(labels map[string]string) bool) (Swept, error)
	// close lets go of the driver; what it made stays.
	close()
}

// unit is what runs one node: a container, or processes of this machine.
// [Instance] keeps it from being asked for what makes no sense, names the node in
// errors and reads the kernel's own files where they can be seen.
type unit interface {
	// inspect gives the state in the driver's own words.
	inspect(ctx context.Context) (State, error)
	// start starts what does not run; what runs, or is about to be started again
	// by its restart policy, is left as it is.
	start(ctx context.Context) error
	// kill ends it with SIGKILL, for good: no restart policy starts it again.
	kill(ctx context.Context) error
	// awaitDead returns once nothing of it runs.
	awaitDead(ctx context.Context) error
	// stop asks it to end, and kills it when its grace is over.
	stop(ctx context.Context, grace time.Duration) error
	pause(ctx context.Context) error
	resume(ctx context.Context) error
	// Limits: cores and bytes, 0 for none.
	setCPUs(ctx context.Context, cores float64) error
	cpus(ctx context.Context) (float64, error)
	setMemory(ctx context.Context, bytes int64) error
	memory(ctx context.Context) (int64, error)
	// cgroupName is what its cgroup is called below its host's.
	cgroupName() string
	// cgroup finds the kernel's files for what runs with this state; nil where
	// there are none to be seen. They stay the same for all of its lives.
	cgroup(state State) *cgroupFiles
	// usage is for units without such files.
	usage(ctx context.Context) (Usage, error)
	// logs writes its last lines, or [allLines], each with its time in front.
	logs(ctx context.Context, lines int, w io.Writer) error
}

// allLines are all lines of a log.
const allLines = -1
