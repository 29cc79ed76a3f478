package topologies

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// HostInstance is a host that was made: a parent cgroup with its limits, which
// holds the host's nodes.
type HostInstance struct {
	host   Host
	files  *cgroupFiles
	nodes  []*Instance
	memory *hostMemory
}

// hostMemory is what a host's memory is limited to. All that hold the host share
// it, so that one who takes its room back undoes no limit set meanwhile.
//
// The kernel may take long over a limit below what is in use, and cannot be called
// back. So one limit is written at a time, who waits for that can give up, and who
// reads waits for nobody.
type hostMemory struct {
	turn chan struct{} // full while a limit is written

	mu      sync.Mutex // never held while the kernel has something to do
	wanted  memoryLimit
	written memoryLimit // the last one that the kernel took
	writing memoryLimit // the one that it is being given, else the written one
}

// memoryLimit is what a limit was set to, and the room on top of it that somebody
// needs for a moment, in bytes.
type memoryLimit struct{ set, room int64 }

// bytes is the limit as the kernel gets it, 0 for none: no room is added to none.
func (l memoryLimit) bytes() int64 {
	if l.set == 0 {
		return 0
	}
	return l.set + l.room
}

func newHostMemory(bytes int64) *hostMemory {
	limit := memoryLimit{set: bytes}
	return &hostMemory{turn: make(chan struct{}, 1), wanted: limit, written: limit, writing: limit}
}

// set changes what is wanted, and gives what was before.
func (m *hostMemory) set(bytes int64) (before int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	before, m.wanted.set = m.wanted.set, bytes
	return before
}

// unset takes a limit back that the kernel did not take, unless there is another
// one by now: room that comes and goes shall not bring it back.
func (m *hostMemory) unset(bytes, before int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.wanted.set == bytes {
		m.wanted.set = before
	}
}

func (m *hostMemory) addRoom(bytes int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.wanted.room += bytes
}

// begin gives what is to be written.
func (m *hostMemory) begin() memoryLimit {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.writing = m.wanted
	return m.writing
}

// end notes whether the kernel took it.
func (m *hostMemory) end(took bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if took {
		m.written = m.writing
	}
	m.writing = m.written
}

// known are the limits that the kernel can have.
func (m *hostMemory) known() (written, writing memoryLimit) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.written, m.writing
}

// read reads the limit back from the kernel and takes the room off, 0 for none.
func (m *hostMemory) read(files *cgroupFiles) (int64, error) {
	for {
		written, writing := m.known()
		bytes, err := files.memoryLimit()
		if err != nil || bytes == 0 {
			return 0, err
		}
		if a, b := m.known(); a != written || b != writing {
			continue // which room is in it cannot be told
		}
		if sameBytes(bytes, writing.bytes()) {
			return bytes - writing.room, nil
		}
		return bytes - written.room, nil
	}
}

// HostLimits are what the nodes of a host may use together.
type HostLimits struct {
	MemoryBytes int64   // 0 for no limit
	CPUs        float64 // cores, 0 for no limit
}

// HostUsage is what a host's nodes use together, as the kernel counts it for
// the parent cgroup, those that died since included.
type HostUsage struct {
	CPUSeconds  float64 // user and system time
	MemoryBytes uint64  // as the limit counts it: page cache included
	// SharedMemoryBytes are the part of the memory that files in tmpfs and shared
	// mappings hold. No process owns it: killing one gives none of it back.
	SharedMemoryBytes uint64
}

// Host finds a host of the topology.
func (s *System) Host(name string) (*HostInstance, error) {
	for _, host := range s.topology.Hosts {
		if host.Name != name {
			continue
		}
		h := &HostInstance{
			host: host, files: hostFiles(cgroupRoot, hostCgroup(s.options.Run, name), s.unified),
			memory: s.hostMemory[name],
		}
		h.files.stalls = host.OOMKillDisable
		for i := range s.topology.Nodes {
			if node := &s.topology.Nodes[i]; node.Host == name {
				h.nodes = append(h.nodes, s.instances[node.Name])
			}
		}
		return h, nil
	}
	return nil, fmt.Errorf("topology %s: no host %q", s.topology.Name, name)
}

// checkHosts holds that the nodes are in the hosts that were made here. An
// engine on another machine has made parents of its own there, without limits
// and without a word.
func (s *System) checkHosts() error {
	for _, host := range s.topology.Hosts {
		h, err := s.Host(host.Name)
		if err != nil {
			return err
		}
		if len(h.nodes) > 0 && !h.holdsAny() {
			return fmt.Errorf("host %s: %w: none of its nodes is below %s; the engine must run on this machine and see the same cgroups",
				host.Name, ErrNoHosts, h.files.memory)
		}
	}
	return nil
}

func (h *HostInstance) holdsAny() bool {
	for _, i := range h.nodes {
		if _, err := os.Stat(filepath.Join(h.files.memory, i.unit.cgroupName())); err == nil {
			return true
		}
	}
	return false
}

// Name is the host's name.
func (h *HostInstance) Name() string { return h.host.Name }

// Nodes are the nodes on the host, sorted by name.
func (h *HostInstance) Nodes() []*Instance { return h.nodes }

// Agent gives the control of the host's agent, the node on it with a label
// relapse.agent.
func (h *HostInstance) Agent() (*Agent, error) {
	for _, i := range h.nodes {
		if i.node.Agent != 0 {
			return newAgent(i), nil
		}
	}
	return nil, h.errorf("find its agent", errors.New("no node on it has a label relapse.agent"))
}

// Limits reads the limits back from the kernel, without the room of
// [HostInstance.WithRoom]. It does not wait for a limit that is being set.
func (h *HostInstance) Limits() (HostLimits, error) {
	memory, err := h.memory.read(h.files)
	if err != nil {
		return HostLimits{}, h.errorf("read its limits", err)
	}
	cpus, err := h.files.cpus()
	return HostLimits{MemoryBytes: memory, CPUs: cpus}, h.errorf("read its limits", err)
}

// Usage reads the kernel's files for the parent, which takes about as long as
// for one node.
func (h *HostInstance) Usage() (HostUsage, error) {
	u, err := h.files.usage()
	if err != nil {
		return HostUsage{}, h.errorf("usage", err)
	}
	out := HostUsage{CPUSeconds: u.CPUSeconds, MemoryBytes: u.MemoryBytes}
	out.SharedMemoryBytes, err = h.files.sharedMemory()
	return out, h.errorf("usage", err)
}

// SetMemory limits the memory of the host's nodes together, in bytes, and reads
// the limit back; 0 goes back to what the compose file says. A limit below what
// is in use makes the kernel take back what it can; for the rest, version 2
// kills and version 1 refuses the limit. The kernel may need longer than ctx
// gives: after that error the limit can still change.
func (h *HostInstance) SetMemory(ctx context.Context, bytes int64) error {
	if bytes < 0 {
		return h.errorf("limit memory", fmt.Errorf("%d bytes is negative", bytes))
	}
	if bytes == 0 {
		bytes = h.host.Memory
	}
	before := h.memory.set(bytes)
	err := h.writeMemory(ctx)
	if err != nil {
		h.memory.unset(bytes, before)
	}
	return err
}

// roomWithin bounds the wait for room, which the kernel gives at once where
// nothing holds it up, and the wait for its end: what needs the room needs time
// too.
const roomWithin = time.Second

// WithRoom gives the host so many bytes of memory more while do runs. On a host
// that has used up its memory every process stands still in the kernel, also one
// that would give memory back if it could run. Where the kernel gives no room, do
// runs all the same, since it may need none. The room is taken back also when ctx
// has ended.
func (h *HostInstance) WithRoom(ctx context.Context, bytes int64, do func() error) error {
	giving, cancel := context.WithTimeout(ctx, roomWithin)
	defer cancel()
	h.memory.addRoom(bytes)
	gave := h.writeMemory(giving)
	did := do()
	h.memory.addRoom(-bytes)
	taking, cancel := context.WithTimeout(context.WithoutCancel(ctx), roomWithin)
	defer cancel()
	return errors.Join(gave, did, h.writeMemory(taking))
}

// writeMemory gives the kernel the limit that is wanted, for as long as ctx waits.
func (h *HostInstance) writeMemory(ctx context.Context) error {
	select {
	case h.memory.turn <- struct{}{}:
	case <-ctx.Done():
		return h.errorf("limit memory", fmt.Errorf("the kernel is still busy with another limit of this host: %w", context.Cause(ctx)))
	}
	bytes := h.memory.begin().bytes()
	doing := fmt.Sprintf("limit memory to %d bytes", bytes)
	done := make(chan error, 1)
	go func() {
		err := h.limitMemory(bytes)
		h.memory.end(err == nil)
		<-h.memory.turn
		done <- err
	}()
	select {
	case err := <-done:
		return h.errorf(doing, err)
	case <-ctx.Done():
		return h.errorf(doing, fmt.Errorf("the kernel has not done it yet, and may do it later: %w", context.Cause(ctx)))
	}
}

func (h *HostInstance) limitMemory(bytes int64) error {
	err := apply(h.files.memorySettings(bytes))
	if errors.Is(err, syscall.EBUSY) {
		if usage, again := h.files.usage(); again == nil {
			err = fmt.Errorf("%w: %d bytes are in use, more than the kernel can take back", err, usage.MemoryBytes)
		}
	}
	return err
}

// errorf names the host and what was being done; nil stays nil.
func (h *HostInstance) errorf(doing string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("host %s: %s: %w", h.host.Name, doing, err)
}

// sharedMemory is that of the group and all below it, in bytes.
func (f *cgroupFiles) sharedMemory() (uint64, error) {
	name := "total_shmem" // version 1 leaves what is below out of "shmem"
	if f.unified {
		name = "shmem"
	}
	return readCounter(filepath.Join(f.memory, "memory.stat"), name)
}

// readCounter reads one counter of a file of lines "name number".
func readCounter(path, name string) (uint64, error) {
	counters, err := readCounters(path)
	if err != nil {
		return 0, err
	}
	n, ok := counters[name]
	if !ok {
		return 0, fmt.Errorf("%s does not count %s", path, name)
	}
	return n, nil
}
