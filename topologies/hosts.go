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
	"time"
)

// A host is a parent cgroup that is limited before any container joins it: the
// engine makes a parent that does not exist without limits and without a word.

// hostPeriod is shorter than that of one container, so that nodes that share a
// host are held back in short gaps, as by a scheduler, and not all at once for
// most of a tenth of a second.
const hostPeriod = 20 * time.Millisecond

const cgroupRoot = "/sys/fs/cgroup"

// cpuWeight is how many host processes the nodes of a run weigh against when
// CPU time is scarce, together or per host. The engine's own parent weighs as
// one: a single busy process beside a play would take half of a core from all
// nodes together. Not more, since the tool that measures is a host process too.
const cpuWeight = 8

// hostCgroup is the parent's name, below the root of every hierarchy; that of
// host "" holds the nodes that are on no host. The "@", which no run id has,
// keeps run "a" from matching the hosts of run "a-b".
func hostCgroup(run, host string) string { return "/relapse-" + run + "@" + host }

// createHosts makes and limits the topology's hosts and reads the limits back.
// The weight of the nodes that are on no host is given where that is possible
// and asked for by nobody: [System.CPUWeight] says what came of it.
func (s *System) createHosts(ctx context.Context) error {
	engine, err := describeEngine(ctx, s.docker)
	if err != nil {
		return err
	}
	unified := engine.CgroupVersion == "2"
	if engine.CgroupDriver != "cgroupfs" {
		if len(s.topology.Hosts) == 0 {
			return nil
		}
		return fmt.Errorf("host %s: the engine manages cgroups by %s, hosts need cgroupfs; set native.cgroupdriver=cgroupfs in the engine's exec-opts",
			s.topology.Hosts[0].Name, engine.CgroupDriver)
	}
	if err := createHost(hostCgroup(s.options.Run, ""), Host{}, unified); err == nil {
		s.cgroupParent = hostCgroup(s.options.Run, "")
	}
	for _, host := range s.topology.Hosts {
		if err := createHost(hostCgroup(s.options.Run, host.Name), host, unified); err != nil {
			if errors.Is(err, fs.ErrPermission) {
				err = fmt.Errorf("%w; making a parent cgroup needs root", err)
			}
			return fmt.Errorf("host %s: %w", host.Name, err)
		}
	}
	return nil
}

// CPUWeight is how many host processes the nodes weigh against: 1 where the
// engine's own parent holds them.
func (s *System) CPUWeight() int {
	if s.cgroupParent == "" {
		return 1
	}
	return cpuWeight
}

func createHost(name string, host Host, unified bool) error {
	type setting struct{ controller, file, value string }
	quota := strconv.FormatInt(int64(host.CPUs*float64(hostPeriod.Microseconds())), 10)
	period := strconv.FormatInt(hostPeriod.Microseconds(), 10)
	memory := strconv.FormatInt(host.Memory, 10)
	var settings []setting
	switch {
	case unified:
		if err := os.WriteFile(filepath.Join(cgroupRoot, "cgroup.subtree_control"), []byte("+cpu +memory"), 0o644); err != nil {
			return err
		}
		settings = append(settings, setting{"", "cpu.weight", strconv.Itoa(100 * cpuWeight)})
		if host.CPUs > 0 {
			settings = append(settings, setting{"", "cpu.max", quota + " " + period})
		}
		if host.Memory > 0 {
			settings = append(settings, setting{"", "memory.max", memory})
		}
	default:
		settings = append(settings, setting{"cpu", "cpu.shares", strconv.Itoa(1024 * cpuWeight)})
		if host.CPUs > 0 {
			settings = append(settings, setting{"cpu", "cpu.cfs_period_us", period}, setting{"cpu", "cpu.cfs_quota_us", quota})
		}
		if host.Memory > 0 {
			settings = append(settings, setting{"memory", "memory.limit_in_bytes", memory})
		}
	}
	for _, set := range settings {
		folder := filepath.Join(cgroupRoot, set.controller, name)
		if err := os.Mkdir(folder, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		path := filepath.Join(folder, set.file)
		if err := os.WriteFile(path, []byte(set.value), 0o644); err != nil {
			return fmt.Errorf("set %s to %s: %w", path, set.value, err)
		}
		got, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if !sameLimit(strings.TrimSpace(string(got)), set.value) {
			return fmt.Errorf("%s is %s after it was set to %s", path, strings.TrimSpace(string(got)), set.value)
		}
	}
	return nil
}

// sameLimit allows for the kernel's rounding of memory down to whole pages.
func sameLimit(got, want string) bool {
	if got == want {
		return true
	}
	g, errGot := strconv.ParseInt(got, 10, 64)
	w, errWant := strconv.ParseInt(want, 10, 64)
	return errGot == nil && errWant == nil && g <= w && w-g < int64(os.Getpagesize())
}

// removeHosts removes the parents of a run from every hierarchy: the engine
// made some in hierarchies that we never touched, and leaves them all. A
// container that has just been removed can hold its parent for a moment.
func removeHosts(ctx context.Context, run string) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	removed := map[string]bool{}
	for {
		var left []string
		for _, pattern := range []string{cgroupRoot, filepath.Join(cgroupRoot, "*")} {
			found, err := filepath.Glob(filepath.Join(pattern, hostCgroup(run, "*")))
			if err != nil {
				return len(removed), fmt.Errorf("find hosts of run %s: %w", run, err)
			}
			left = append(left, found...)
		}
		if len(left) == 0 {
			return len(removed), nil
		}
		var errs []error
		for _, folder := range left {
			err := os.Remove(folder)
			if err == nil {
				removed[filepath.Base(folder)] = true
			} else if !errors.Is(err, fs.ErrNotExist) {
				errs = append(errs, err)
			}
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return len(removed), fmt.Errorf("remove hosts of run %s: %w", run, errors.Join(append(errs, ctx.Err())...))
		}
	}
}
