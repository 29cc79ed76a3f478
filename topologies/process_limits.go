package topologies

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// members are the processes of the node, none of a dead one.
func (u *processUnit) members() []int {
	u.mu.Lock()
	l := u.life
	u.mu.Unlock()
	if l.over() {
		return nil
	}
	if u.files != nil {
		if content, err := os.ReadFile(filepath.Join(u.files.memory, "cgroup.procs")); err == nil {
			var pids []int
			for _, field := range strings.Fields(string(content)) {
				if pid, err := strconv.Atoi(field); err == nil && pid > 0 {
					pids = append(pids, pid)
				}
			}
			return pids
		}
	}
	return descendants(l.pid())
}

// descendants gives a process and all that it has started, and those have.
func descendants(pid int) []int {
	all := []int{pid}
	for i := 0; i < len(all); i++ {
		lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", all[i])) // the pattern is well-formed
		for _, list := range lists {
			content, _ := os.ReadFile(list) // of a thread that has ended: it has none
			for _, field := range strings.Fields(string(content)) {
				if child, err := strconv.Atoi(field); err == nil && !slices.Contains(all, child) {
					all = append(all, child)
				}
			}
		}
	}
	return all
}

// processStat gives the fields of /proc/pid/stat from the state on, which is the third
// of proc_pid_stat(5); nil if there is no such process.
func processStat(pid int) []string {
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return nil
	}
	// The name before it may hold spaces and brackets.
	_, after, _ := strings.Cut(string(content[strings.LastIndexByte(string(content), ')')+1:]), " ")
	return strings.Fields(after)
}

// runState is the letter that the kernel has for what a process does; "X" for one that
// is gone.
func runState(pid int) string {
	if fields := processStat(pid); len(fields) > 0 {
		return fields[0]
	}
	return "X"
}

// needsRoot refuses a limit where there are no cgroups.
func needsRoot(what string) error {
	return fmt.Errorf("%w: %s, which the kernel keeps for a cgroup, and making one needs root and a %s that can be written to", ErrNotByProcesses, what, cgroupRoot)
}

func (u *processUnit) setCPUs(_ context.Context, cores float64) error {
	if u.files == nil {
		return needsRoot("a CPU limit")
	}
	if u.alive() {
		if err := apply(u.files.nodeCPUSettings(cores)); err != nil {
			return err
		}
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.cores = cores
	return nil
}

func (u *processUnit) alive() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return !u.life.over()
}

// leastNodeMemory is an engine's own minimum for a container: what runs by one driver
// shall run by the other.
const leastNodeMemory = 6 << 20

func (u *processUnit) cpus(context.Context) (float64, error) {
	if u.files == nil {
		return 0, needsRoot("a CPU limit")
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.cores, nil
}

func (u *processUnit) setMemory(_ context.Context, bytes int64) error {
	if u.files == nil {
		return needsRoot("a memory limit")
	}
	if bytes > 0 && bytes < leastNodeMemory {
		return fmt.Errorf("%d bytes are less than %d, the least that a node can have", bytes, leastNodeMemory)
	}
	if u.alive() {
		if err := apply(slices.Concat(u.files.memorySettings(bytes), u.files.swapSettings())); err != nil {
			return err
		}
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.bytes = bytes
	return nil
}

func (u *processUnit) memory(context.Context) (int64, error) {
	if u.files == nil {
		return 0, needsRoot("a memory limit")
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.bytes, nil
}

// nodeCPUSettings limit CPU time to so many cores, counted over [cpuPeriod]; 0 for no
// limit.
func (f *cgroupFiles) nodeCPUSettings(cores float64) []setting {
	period, quota := strconv.FormatInt(cpuPeriod.Microseconds(), 10), strconv.FormatInt(cpuQuota(cores), 10)
	if f.unified {
		if cores <= 0 {
			quota = "max"
		}
		return []setting{{path: filepath.Join(f.cpu, "cpu.max"), value: quota + " " + period}}
	}
	return []setting{
		{path: filepath.Join(f.cpu, "cpu.cfs_period_us"), value: period},
		{path: filepath.Join(f.cpu, "cpu.cfs_quota_us"), value: quota},
	}
}

func (u *processUnit) cgroupName() string { return u.node.Name }

func (u *processUnit) cgroup(State) *cgroupFiles { return u.files }

// makeCgroup makes the node's cgroup anew, so that it counts from zero in every life.
func (u *processUnit) makeCgroup() error {
	if u.files == nil {
		return nil
	}
	u.mu.Lock()
	cores, bytes := u.cores, u.bytes
	u.mu.Unlock()
	u.removeCgroup()
	if u.files.unified {
		control := filepath.Join(filepath.Dir(u.files.memory), "cgroup.subtree_control")
		if err := os.WriteFile(control, []byte("+cpu +memory"), 0o644); err != nil {
			return err
		}
	}
	for _, folder := range u.files.folders() {
		if err := os.MkdirAll(folder, 0o755); err != nil {
			return err
		}
	}
	var settings []setting
	if cores > 0 {
		settings = append(settings, u.files.nodeCPUSettings(cores)...)
	}
	if bytes > 0 {
		settings = slices.Concat(settings, u.files.memorySettings(bytes), u.files.swapSettings())
	}
	return apply(settings)
}

// removeCgroup is a courtesy: what is left goes with its parent at the end of the run.
func (u *processUnit) removeCgroup() {
	if u.files == nil {
		return
	}
	for _, folder := range u.files.folders() {
		_ = os.Remove(folder)
	}
}

// folders are the group's own, each once.
func (f *cgroupFiles) folders() []string {
	folders := []string{f.cpu, f.cpuacct, f.memory}
	slices.Sort(folders)
	return slices.Compact(folders)
}

// clockTicks are those of a second in /proc/pid/stat, on all machines that Go runs on.
const clockTicks = 100

// usage adds up what the kernel says of each process. Of one that has ended, what its
// parent has heard counts.
func (u *processUnit) usage(context.Context) (Usage, error) {
	members := u.members()
	if len(members) == 0 {
		return Usage{}, ErrNotRunning
	}
	var sum Usage
	for _, pid := range members {
		fields := processStat(pid)
		// utime, stime, cutime, cstime and rss are fields 14 to 17 and 24 of all.
		if len(fields) < 22 {
			continue
		}
		for _, field := range fields[11:15] {
			ticks, err := strconv.ParseFloat(field, 64)
			if err != nil {
				return Usage{}, fmt.Errorf("/proc/%d/stat: %w", pid, err)
			}
			sum.CPUSeconds += ticks / clockTicks
		}
		pages, err := strconv.ParseUint(fields[21], 10, 64)
		if err != nil {
			return Usage{}, fmt.Errorf("/proc/%d/stat: %w", pid, err)
		}
		sum.MemoryBytes += pages * uint64(os.Getpagesize())
	}
	return sum, nil
}
