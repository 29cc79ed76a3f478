package topologies

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"
)

// HostInstance is a host that was made: a parent cgroup with its limits, which
// holds the host's nodes.
type HostInstance struct {
	host   Host
	files  *cgroupFiles
	nodes  []*Instance
	memory *hostMemory
}

// hostMemory is what a host's memory is limited to: what it was set to, and the
// room on top of it that somebody needs for a moment. All that hold the host
// share it, so that one who takes its room back undoes no limit set meanwhile.
type hostMemory struct {
	mu        sync.Mutex
	set, room int64 // bytes; no room is added to no limit
}

// HostLimits are what the nodes of a host may use together.
type HostLimits struct {
	MemoryBytes int64   // 0 for no limit
	CPUs        float64 // cores, 0 for no limit
}

// HostUsage is what a host's nodes use together, as the kernel counts it for
// the parent cgroup, those that died since included.
type HostUsage struct {
	CPUSeconds       float64 // user and system time
	ThrottledSeconds float64 // time for which the CPU limit held them back
	MemoryBytes      uint64  // as the limit counts it: page cache included
	// SharedMemoryBytes are the part of the memory that files in tmpfs and shared
	// mappings hold. No process owns it: killing one gives none of it back.
	SharedMemoryBytes uint64
	// OOMKills are the processes that the kernel killed for memory. Version 2
	// counts them for good. Version 1 counts them in the cgroup of the node, which
	// is removed when its container ends, so that the number falls again and is 0
	// where every node that was hit has died of it: 0 does not mean none.
	OOMKills uint64
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
		if _, err := os.Stat(filepath.Join(h.files.memory, i.id)); err == nil {
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
// [HostInstance.WithRoom].
func (h *HostInstance) Limits() (HostLimits, error) {
	h.memory.mu.Lock()
	defer h.memory.mu.Unlock()
	memory, err := h.files.memoryLimit()
	if err != nil {
		return HostLimits{}, h.errorf("read its limits", err)
	}
	if memory > 0 {
		memory -= h.memory.room
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
	out := HostUsage{CPUSeconds: u.CPUSeconds, ThrottledSeconds: u.ThrottledSeconds, MemoryBytes: u.MemoryBytes}
	if out.SharedMemoryBytes, err = h.files.sharedMemory(); err != nil {
		return HostUsage{}, h.errorf("usage", err)
	}
	out.OOMKills, err = h.files.oomKills()
	return out, h.errorf("usage", err)
}

// SetMemory limits the memory of the host's nodes together, in bytes, and reads
// the limit back; 0 goes back to what the compose file says. A limit below what
// is in use makes the kernel take back what it can; for the rest, version 2
// kills and version 1 refuses the limit.
func (h *HostInstance) SetMemory(bytes int64) error {
	if bytes < 0 {
		return h.errorf("limit memory", fmt.Errorf("%d bytes is negative", bytes))
	}
	if bytes == 0 {
		bytes = h.host.Memory
	}
	h.memory.mu.Lock()
	defer h.memory.mu.Unlock()
	if err := h.limitMemory(bytes, h.memory.room); err != nil {
		return err
	}
	h.memory.set = bytes
	return nil
}

// WithRoom gives the host so many bytes of memory more while do runs. On a host
// that has used up its memory every process stands still in the kernel, also one
// that would give memory back if it could run.
func (h *HostInstance) WithRoom(bytes int64, do func() error) error {
	err := h.giveRoom(bytes)
	if err == nil {
		err = do()
	}
	// Also where no room was given: it counts all the same.
	return errors.Join(err, h.giveRoom(-bytes))
}

func (h *HostInstance) giveRoom(bytes int64) error {
	h.memory.mu.Lock()
	defer h.memory.mu.Unlock()
	// Also where the kernel refuses: the next limit that is set shall be right.
	h.memory.room += bytes
	return h.limitMemory(h.memory.set, h.memory.room)
}

func (h *HostInstance) limitMemory(bytes, room int64) error {
	if bytes > 0 {
		bytes += room
	}
	err := apply(h.files.memorySettings(bytes))
	if errors.Is(err, syscall.EBUSY) {
		if usage, again := h.files.usage(); again == nil {
			err = fmt.Errorf("%w: %d bytes are in use, more than the kernel can take back", err, usage.MemoryBytes)
		}
	}
	return h.errorf(fmt.Sprintf("limit memory to %d bytes", bytes), err)
}

// SetCPUs limits the CPU time of the host's nodes together, in cores, and reads
// the limit back; 0 goes back to what the compose file says. On cgroup version 1
// no node may have a limit of its own above the host's.
func (h *HostInstance) SetCPUs(cores float64) error {
	if cores < 0 {
		return h.errorf("limit cpus", fmt.Errorf("%g is negative", cores))
	}
	if cores == 0 {
		cores = h.host.CPUs
	}
	return h.errorf(fmt.Sprintf("limit cpus to %g", cores), apply(h.files.cpuSettings(cores)))
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

// oomKills are the kernel's OOM kills in the group and, as far as it is still
// there, below it.
func (f *cgroupFiles) oomKills() (uint64, error) {
	if f.unified {
		return readCounter(filepath.Join(f.memory, "memory.events"), "oom_kill")
	}
	below, err := filepath.Glob(filepath.Join(f.memory, "*", "memory.oom_control"))
	if err != nil {
		return 0, err
	}
	sum, err := readCounter(filepath.Join(f.memory, "memory.oom_control"), "oom_kill")
	if err != nil {
		return 0, err
	}
	for _, path := range below {
		n, err := readCounter(path, "oom_kill")
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENODEV) {
			continue // a container that has ended since
		}
		if err != nil {
			return 0, err
		}
		sum += n
	}
	return sum, nil
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
