package topologies

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/netip"
	"strconv"
	"sync"
	"time"
)

// ErrNotRunning says that an instance has no process.
var ErrNotRunning = errors.New("not running")

// cpuPeriod is the time over which the kernel counts CPU against a limit: what
// Docker and Kubernetes use, so that a limited node is throttled in gaps as
// long as it would be there.
const cpuPeriod = 100 * time.Millisecond

// Instance is a node that was started.
type Instance struct {
	node    *Node
	address netip.Addr
	unit    unit

	mu     sync.Mutex
	cgroup *cgroupFiles // nil until looked up, see Usage
	killed time.Time    // start of the process that Kill or Stop ended last
}

// State is what the driver knows of a node. Where it is said of the engine, it is
// what the tool does itself for nodes that are processes.
type State struct {
	Running    bool
	Paused     bool
	Restarting bool // it died, and the engine is about to start it again
	// Restarts is how often the engine started it again by its restart policy. It
	// counts from 0 again once somebody else has started it.
	Restarts int
	ExitCode int
	// OOMKilled says that the kernel killed a process of this node for memory
	// since it was started last. The engine's own word is not enough: on cgroup
	// version 1 it sets its flag on every container of a host that reached its
	// limit. Of a node that runs, the kernel's counter for the node decides; of one
	// that is dead, the exit code of a SIGKILL that did not come from here. It is
	// false where none of this can be seen, and says nothing of lives before.
	OOMKilled bool
	StartedAt time.Time
	Pid       int
}

// exitKilled is the exit code of a process that a SIGKILL ended.
const exitKilled = 137

// Name is the node's name.
func (i *Instance) Name() string { return i.node.Name }

// Node is the node as its topology has it.
func (i *Instance) Node() *Node { return i.node }

// Address is the node's own address; no link is on the way to it.
func (i *Instance) Address() netip.Addr { return i.address }

// State asks the engine, and the kernel where the engine knows too little.
func (i *Instance) State(ctx context.Context) (State, error) {
	state, err := i.inspect(ctx)
	if err != nil || !state.OOMKilled {
		return state, err
	}
	i.mu.Lock()
	ours := state.StartedAt.Equal(i.killed)
	i.mu.Unlock()
	if !state.Running {
		state.OOMKilled = state.ExitCode == exitKilled && !ours
		return state, nil
	}
	state.OOMKilled = false
	if files, err := i.cgroupFiles(ctx); err == nil && files != nil {
		kills, err := files.oomKills()
		state.OOMKilled = err == nil && kills > 0
	}
	return state, nil
}

// inspect gives the state in the driver's own words.
func (i *Instance) inspect(ctx context.Context) (State, error) {
	state, err := i.unit.inspect(ctx)
	return state, i.errorf("inspect", err)
}

// Pause freezes every process of the node. Open connections stay; the kernel
// still accepts new ones until the backlog is full. A paused node stays so.
func (i *Instance) Pause(ctx context.Context) error {
	state, err := i.State(ctx)
	switch {
	case err != nil:
		return err
	case state.Paused:
		return nil
	case !state.Running:
		return i.errorf("pause", ErrNotRunning)
	}
	return i.errorf("pause", i.unit.pause(ctx))
}

// Resume ends a pause. A node that is not paused is left as it is.
func (i *Instance) Resume(ctx context.Context) error {
	state, err := i.State(ctx)
	if err != nil || !state.Paused {
		return err
	}
	return i.errorf("resume", i.unit.resume(ctx))
}

// Kill ends the node with SIGKILL, paused or not, and returns once it is dead.
// It stays dead until [Instance.Start], whatever its restart policy says.
func (i *Instance) Kill(ctx context.Context) error {
	state, err := i.State(ctx)
	if err != nil || !state.Running && !state.Restarting {
		return err
	}
	i.noteKilled(state)
	if err := i.unit.kill(ctx); err != nil {
		// It may have died by itself in between.
		if state, again := i.State(ctx); again != nil || state.Running || state.Restarting {
			return i.errorf("kill", err)
		}
		return nil
	}
	return i.awaitDead(ctx, "kill")
}

// noteKilled keeps a death of our making from being taken for one of the
// kernel's.
func (i *Instance) noteKilled(state State) {
	if !state.Running {
		return
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.killed = state.StartedAt
}

func (i *Instance) awaitDead(ctx context.Context, doing string) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	return i.errorf(doing+": wait for its end", i.unit.awaitDead(ctx))
}

// Start starts a node that is dead, at its old address, and returns once its
// process runs; whether it answers yet is for [Instance.Probe] to tell. A node
// that runs is left as it is, and so is one that the engine is about to start.
func (i *Instance) Start(ctx context.Context) error {
	return i.errorf("start", i.unit.start(ctx))
}

// Stop asks the node to end, and kills it if it has not within its grace period.
func (i *Instance) Stop(ctx context.Context) error {
	if state, err := i.State(ctx); err == nil {
		i.noteKilled(state)
	}
	return i.errorf("stop", i.unit.stop(ctx, i.node.StopGrace))
}

// SetCPUs limits the node's CPU time, in cores; 0 goes back to what the compose
// file says.
func (i *Instance) SetCPUs(ctx context.Context, cpus float64) error {
	if cpus < 0 {
		return i.errorf("limit cpus", fmt.Errorf("%g is negative", cpus))
	}
	if cpus == 0 {
		cpus = i.node.CPUs
	}
	return i.errorf(fmt.Sprintf("limit cpus to %g", cpus), i.unit.setCPUs(ctx, cpus))
}

// cpuQuota is the share of cpuPeriod in microseconds; -1 lifts the limit. The
// kernel takes no less than a millisecond.
func cpuQuota(cpus float64) int64 {
	if cpus <= 0 {
		return -1
	}
	return max(1000, int64(cpus*float64(cpuPeriod.Microseconds())))
}

// CPUs reads the limit back, in cores, from the kernel where its files can be
// seen, else from the engine. 0 means no limit.
func (i *Instance) CPUs(ctx context.Context) (float64, error) {
	if files, err := i.cgroupFiles(ctx); err == nil && files != nil {
		return files.cpus()
	}
	cpus, err := i.unit.cpus(ctx)
	return cpus, i.errorf("inspect", err)
}

// SetMemory limits the node's memory, in bytes, and reads the limit back; 0 goes
// back to what the compose file says. The engine takes no limit below 6 MiB. A
// limit below what is in use makes the kernel take back what it can; for the
// rest, cgroup version 2 kills and version 1 refuses the limit.
func (i *Instance) SetMemory(ctx context.Context, bytes int64) error {
	if bytes < 0 {
		return i.errorf("limit memory", fmt.Errorf("%d bytes is negative", bytes))
	}
	if bytes == 0 {
		bytes = i.node.Memory
	}
	doing := fmt.Sprintf("limit memory to %d bytes", bytes)
	if err := i.unit.setMemory(ctx, bytes); err != nil {
		return i.errorf(doing, err)
	}
	got, err := i.Memory(ctx)
	if err == nil && !sameLimit(strconv.FormatInt(got, 10), strconv.FormatInt(bytes, 10)) {
		err = fmt.Errorf("it is %d afterwards", got)
	}
	return i.errorf(doing, err)
}

// Memory reads the limit back, in bytes, from the kernel where its files can be
// seen, else from the engine. 0 means no limit.
func (i *Instance) Memory(ctx context.Context) (int64, error) {
	if files, err := i.cgroupFiles(ctx); err == nil && files != nil {
		bytes, err := files.memoryLimit()
		if !errors.Is(err, fs.ErrNotExist) {
			return bytes, i.errorf("read its memory limit", err)
		}
		// It has just died: the engine keeps the limit for its next life.
	}
	bytes, err := i.unit.memory(ctx)
	return bytes, i.errorf("inspect", err)
}

// Logs writes what the node has printed so far, both streams, each line with
// its time (RFC 3339, UTC) in front.
func (i *Instance) Logs(ctx context.Context, w io.Writer) error {
	return i.errorf("read its log", i.unit.logs(ctx, allLines, w))
}

// Probe opens a connection straight to the node, makes one exchange as the
// node's probe says, and gives the time that all of it took.
func (i *Instance) Probe(ctx context.Context) (time.Duration, error) {
	if i.node.Probe.Protocol == "" {
		return 0, i.errorf("probe", errors.New("it has none (label relapse.probe)"))
	}
	began := time.Now()
	err := probeAt(ctx, i.endpoint(i.node.Probe.Port), i.node.Probe)
	return time.Since(began), i.errorf("probe", err)
}

func (i *Instance) endpoint(port uint16) string {
	return net.JoinHostPort(i.address.String(), strconv.Itoa(int(port)))
}

func probeAt(ctx context.Context, endpoint string, p Probe) error {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", endpoint)
	if err != nil {
		return err
	}
	defer conn.Close()
	_, err = Exchange(ctx, conn, p)
	return err
}

// errorf names the node and what was being done; nil stays nil.
func (i *Instance) errorf(doing string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("node %s: %s: %w", i.node.Name, doing, err)
}
