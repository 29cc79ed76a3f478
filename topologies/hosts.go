package topologies

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
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

// ErrNoHosts says that no host can be made: the engine or the user lacks what a
// parent cgroup needs. It is trouble of the rig and says nothing about any
// system.
var ErrNoHosts = errors.New("hosts cannot be made here")

// CheckHosts says whether a topology with hosts could be started here, by processes
// where this process is in namespaces for them, else by the engine; the error wraps
// [ErrNoHosts] where it could not, and says what to change. It makes nothing.
func CheckHosts(ctx context.Context) error {
	driver := Docker
	if InNamespaces() {
		driver = Process
	}
	engine, err := driver.Preflight(ctx)
	if err != nil {
		return err
	}
	return canHoldHosts(engine)
}

// canHoldHosts asks the engine and the kernel.
func canHoldHosts(engine Engine) error {
	if err := holdsHosts(engine); err != nil {
		return err
	}
	folder := hostFiles(cgroupRoot, "", engine.unified()).memory
	if err := unix.Access(folder, unix.W_OK); err != nil {
		return noHost(&fs.PathError{Op: "write to", Path: folder, Err: err})
	}
	return limitsBelow(cgroupRoot, engine.unified())
}

// limitsBelow holds that a parent's memory limit counts what is below it. On
// version 1 that could be switched off up to kernel 5.10: a host's limit would
// then bind nobody, without a word. Later kernels say 1 for good or, like version
// 2, have no such switch.
func limitsBelow(root string, unified bool) error {
	if unified {
		return nil
	}
	path := filepath.Join(hostFiles(root, "", unified).memory, "memory.use_hierarchy")
	content, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return noHost(err)
	}
	if got := strings.TrimSpace(string(content)); got != "1" {
		return fmt.Errorf("%w: %s is %s, so that a host's memory limit would not count its nodes; write 1 to it while no other cgroup is there, as at boot",
			ErrNoHosts, path, got)
	}
	return nil
}

// holdsHosts says why an engine cannot put containers into parents that we make.
func holdsHosts(engine Engine) error {
	switch {
	case engine.Rootless && engine.Driver == Process:
		return fmt.Errorf("%w: the tool runs without root, and making a parent cgroup needs it; run it as root", ErrNoHosts)
	case engine.Rootless:
		return fmt.Errorf("%w: the engine runs without root and cannot join a cgroup outside its own part; use one that runs as root", ErrNoHosts)
	case engine.CgroupDriver != "cgroupfs":
		return fmt.Errorf("%w: the engine manages cgroups by %s, hosts need cgroupfs; set native.cgroupdriver=cgroupfs in the engine's exec-opts",
			ErrNoHosts, engine.CgroupDriver)
	}
	return nil
}

// noHost says what is behind an error of the kernel.
func noHost(err error) error {
	switch {
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%w: %w; making a parent cgroup needs root", ErrNoHosts, err)
	case errors.Is(err, syscall.EROFS):
		return fmt.Errorf("%w: %w; run the tool where the machine's %s can be written to", ErrNoHosts, err, cgroupRoot)
	}
	return fmt.Errorf("%w: %w", ErrNoHosts, err)
}

// createHosts makes and limits the topology's hosts and reads the limits back.
// The weight of the nodes that are on no host is given where that is possible
// and asked for by nobody: [System.CPUWeight] says what came of it.
func (s *System) createHosts(ctx context.Context) error {
	engine, err := s.driver.describe(ctx)
	if err != nil {
		return err
	}
	s.engine = engine
	if err := holdsHosts(engine); err != nil {
		if len(s.topology.Hosts) == 0 {
			return nil
		}
		return fmt.Errorf("host %s: %w", s.topology.Hosts[0].Name, err)
	}
	s.unified = engine.unified()
	if len(s.topology.Hosts) > 0 {
		if err := limitsBelow(cgroupRoot, s.unified); err != nil {
			return fmt.Errorf("host %s: %w", s.topology.Hosts[0].Name, err)
		}
	}
	if err := createHost(cgroupRoot, hostCgroup(s.options.Run, ""), Host{}, s.unified); err == nil {
		s.cgroupParent = hostCgroup(s.options.Run, "")
	}
	for _, host := range s.topology.Hosts {
		s.hostMemory[host.Name] = newHostMemory(host.Memory)
		if err := createHost(cgroupRoot, hostCgroup(s.options.Run, host.Name), host, s.unified); err != nil {
			return fmt.Errorf("host %s: %w", host.Name, noHost(err))
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

// hostFiles are the folders of a parent below the root of the hierarchies.
func hostFiles(root, name string, unified bool) *cgroupFiles {
	if unified {
		folder := filepath.Join(root, name)
		return &cgroupFiles{unified: true, cpu: folder, cpuacct: folder, memory: folder}
	}
	return &cgroupFiles{
		cpu:     filepath.Join(root, "cpu", name),
		cpuacct: filepath.Join(root, "cpuacct", name),
		memory:  filepath.Join(root, "memory", name),
	}
}

func createHost(root, name string, host Host, unified bool) error {
	files := hostFiles(root, name, unified)
	weight := setting{path: filepath.Join(files.cpu, "cpu.shares"), value: strconv.Itoa(1024 * cpuWeight)}
	if unified {
		if err := os.WriteFile(filepath.Join(root, "cgroup.subtree_control"), []byte("+cpu +memory"), 0o644); err != nil {
			return err
		}
		weight = setting{path: filepath.Join(files.cpu, "cpu.weight"), value: strconv.Itoa(100 * cpuWeight)}
	}
	settings := []setting{weight}
	if host.CPUs > 0 {
		settings = append(settings, files.cpuSettings(host.CPUs)...)
	}
	if host.Memory > 0 {
		files.stalls = host.OOMKillDisable
		settings = slices.Concat(settings, files.memorySettings(host.Memory), files.swapSettings(), files.stallSettings())
	}
	for _, set := range settings {
		if err := os.Mkdir(filepath.Dir(set.path), 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	return apply(settings)
}

// calmHosts leaves the CPU time to the engine, which is about to remove a run's
// nodes: those weigh more than it does, and have much to do when all that held
// them back has just been undone. It is a courtesy: without it removal is slow.
func calmHosts(run string) {
	for _, weight := range []struct{ file, least string }{
		{filepath.Join("cpu", hostCgroup(run, "*"), "cpu.shares"), "2"},
		{filepath.Join(hostCgroup(run, "*"), "cpu.weight"), "1"},
	} {
		files, _ := filepath.Glob(filepath.Join(cgroupRoot, weight.file)) // the pattern is well-formed
		for _, file := range files {
			_ = os.WriteFile(file, []byte(weight.least), 0)
		}
	}
}

// notRemoved tells how many parents of a run are left and why the first is: all
// of them are for one reason, a line each.
func notRemoved(run string, errs []error, ended error) error {
	if len(errs) == 0 { // somebody else has just removed them
		return fmt.Errorf("remove hosts of run %s: %w", run, ended)
	}
	return fmt.Errorf("remove hosts of run %s: %d cgroups are left (%w), the first: %w", run, len(errs), ended, errs[0])
}

// removeBelow removes the groups of nodes that are processes; an engine removes those
// of its containers itself. What cannot be removed shows in its parent.
func removeBelow(folder string) {
	entries, _ := os.ReadDir(folder)
	for _, entry := range entries {
		if entry.IsDir() {
			_ = os.Remove(filepath.Join(folder, entry.Name()))
		}
	}
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
			removeBelow(folder)
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
			return len(removed), notRemoved(run, errs, ctx.Err())
		}
	}
}
