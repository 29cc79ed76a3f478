package topologies

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Usage is what a node has used of its machine since it was started.
type Usage struct {
	CPUSeconds       float64 // user and system time
	MemoryBytes      uint64  // as the limit counts it: page cache included
	ThrottledSeconds float64 // time for which its CPU limit held it back
}

// Usage reads the kernel's own files for the node, which takes well under a
// millisecond. Where there are none to be seen (the engine is on another machine)
// it asks the driver, which takes longer. A node that does not run gives an
// error that wraps [ErrNotRunning].
func (i *Instance) Usage() (Usage, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	files, err := i.cgroupFiles(ctx)
	if err != nil {
		return Usage{}, err
	}
	if files == nil {
		u, err := i.unit.usage(ctx)
		return u, i.errorf("usage", err)
	}
	u, err := files.usage()
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%w (%w)", ErrNotRunning, err)
	}
	return u, i.errorf("usage", err)
}

// cgroupFiles finds the node's files once: a node that is started again gets the
// same ones. It gives nil when this machine does not have them.
func (i *Instance) cgroupFiles(ctx context.Context) (*cgroupFiles, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.cgroup != nil {
		return i.cgroup, nil
	}
	state, err := i.inspect(ctx) // State asks for these files
	if err != nil {
		return nil, err
	}
	if !state.Running || state.Pid <= 0 {
		return nil, i.errorf("usage", ErrNotRunning)
	}
	i.cgroup = i.unit.cgroup(state)
	return i.cgroup, nil
}

// cgroupMount is one mounted hierarchy: a controller of version 1, or all of
// version 2 under the name "".
type cgroupMount struct {
	root  string // what part of the hierarchy is mounted
	point string
}

// cgroupMounts reads the mounts of this process once: they are made at boot.
var cgroupMounts = sync.OnceValues(func() (map[string]cgroupMount, error) {
	content, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	return parseCgroupMounts(string(content)), nil
})

func parseCgroupMounts(mountinfo string) map[string]cgroupMount {
	mounts := map[string]cgroupMount{}
	for line := range strings.Lines(mountinfo) {
		before, after, found := strings.Cut(strings.TrimSpace(line), " - ")
		where, what := strings.Fields(before), strings.Fields(after)
		if !found || len(where) < 5 || len(what) < 3 {
			continue
		}
		mount := cgroupMount{root: where[3], point: where[4]}
		switch what[0] {
		case "cgroup2":
			mounts[""] = mount
		case "cgroup":
			for option := range strings.SplitSeq(what[2], ",") {
				if option != "rw" && option != "ro" {
					mounts[option] = mount
				}
			}
		}
	}
	return mounts
}

// cgroupFiles are the folders that hold a container's counters. On version 2
// all three are one.
type cgroupFiles struct {
	unified              bool
	stalls               bool // what wants more memory than the limit waits
	cpu, cpuacct, memory string
}

// findCgroupFiles reads /proc/pid/cgroup: lines of "number:controllers:path",
// with no controllers for version 2. It gives nil if the counters are not here.
func findCgroupFiles(content string, mounts map[string]cgroupMount) *cgroupFiles {
	v1 := map[string]string{}
	unified := ""
	for line := range strings.Lines(content) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(fields) != 3 {
			continue
		}
		for controller := range strings.SplitSeq(fields[1], ",") {
			mount, mounted := mounts[controller]
			inside, within := strings.CutPrefix(fields[2], strings.TrimSuffix(mount.root, "/"))
			if !mounted || !within {
				continue
			}
			folder := filepath.Join(mount.point, inside)
			if controller == "" {
				unified = folder
			} else {
				v1[controller] = folder
			}
		}
	}
	if v1["cpu"] != "" && v1["cpuacct"] != "" && v1["memory"] != "" {
		return &cgroupFiles{cpu: v1["cpu"], cpuacct: v1["cpuacct"], memory: v1["memory"]}
	}
	// A machine with version 1 may mount version 2 beside it without controllers.
	if unified != "" && len(v1) == 0 {
		return &cgroupFiles{unified: true, cpu: unified, cpuacct: unified, memory: unified}
	}
	return nil
}

func (f *cgroupFiles) usage() (Usage, error) {
	stat, err := readCounters(filepath.Join(f.cpu, "cpu.stat"))
	if err != nil {
		return Usage{}, err
	}
	if f.unified {
		memory, err := readNumber(filepath.Join(f.memory, "memory.current"))
		return Usage{
			CPUSeconds:       float64(stat["usage_usec"]) / 1e6,
			ThrottledSeconds: float64(stat["throttled_usec"]) / 1e6,
			MemoryBytes:      memory,
		}, err
	}
	cpu, err := readNumber(filepath.Join(f.cpuacct, "cpuacct.usage"))
	if err != nil {
		return Usage{}, err
	}
	memory, err := readNumber(filepath.Join(f.memory, "memory.usage_in_bytes"))
	return Usage{
		CPUSeconds:       float64(cpu) / 1e9,
		ThrottledSeconds: float64(stat["throttled_time"]) / 1e9,
		MemoryBytes:      memory,
	}, err
}

// cpus reads the CPU limit in cores; 0 for none.
func (f *cgroupFiles) cpus() (float64, error) {
	var quota, period string
	if f.unified {
		content, err := os.ReadFile(filepath.Join(f.cpu, "cpu.max"))
		if err != nil {
			return 0, err
		}
		quota, period, _ = strings.Cut(strings.TrimSpace(string(content)), " ")
	} else {
		q, err := os.ReadFile(filepath.Join(f.cpu, "cpu.cfs_quota_us"))
		if err != nil {
			return 0, err
		}
		p, err := os.ReadFile(filepath.Join(f.cpu, "cpu.cfs_period_us"))
		if err != nil {
			return 0, err
		}
		quota, period = strings.TrimSpace(string(q)), strings.TrimSpace(string(p))
	}
	if quota == "max" || strings.HasPrefix(quota, "-") {
		return 0, nil
	}
	q, err := strconv.ParseFloat(quota, 64)
	if err != nil {
		return 0, fmt.Errorf("cpu quota of %s: %w", f.cpu, err)
	}
	p, err := strconv.ParseFloat(period, 64)
	if err != nil || p <= 0 {
		return 0, fmt.Errorf("cpu period of %s: %q", f.cpu, period)
	}
	return q / p, nil
}

// oomKills are the kernel's OOM kills of a container's processes.
func (f *cgroupFiles) oomKills() (uint64, error) {
	file := "memory.oom_control"
	if f.unified {
		file = "memory.events"
	}
	return readCounter(filepath.Join(f.memory, file), "oom_kill")
}

func readNumber(path string) (uint64, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseUint(strings.TrimSpace(string(content)), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", path, err)
	}
	return n, nil
}

// readCounters reads a file of lines "name number".
func readCounters(path string) (map[string]uint64, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	counters := map[string]uint64{}
	for line := range strings.Lines(string(content)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if n, err := strconv.ParseUint(value, 10, 64); err == nil {
			counters[name] = n
		}
	}
	return counters, nil
}
