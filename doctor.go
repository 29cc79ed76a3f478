package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"relapse/reports"
	"relapse/topologies"
	"relapse/topologies/relay"
)

func init() { commands = append(commands, doctorCommand) }

func doctorCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "doctor",
		Short: "Say what this machine has of what a replay needs, and what to do about the rest",
		Long: `Doctor looks at everything that a replay, or some replays, or the project's own
tests need, and changes nothing. Of what is not there it says what cannot be done
without it and how to get it. Exit code 3: nothing can be replayed here.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return tellHealth(c.OutOrStdout(), examine(c.Context())) },
	}
}

// Least of what this machine must have for plays that pass their validity gates.
const (
	leastAPIMinor = 41      // of version 1 of the engine's interface
	leastCores    = 2       // on which all incidents of the library were sized
	leastMemory   = 2 << 30 // bytes that are free: the nodes of the largest topology, the engine and the samples
	leastDisk     = 1 << 30 // bytes that are free: images from Debian packages, and the records of a night
	leastPorts    = 10_000  // a tool that asks 20 nodes four times a second leaves 4,800 behind in a minute
	leastFiles    = 1024    // that a process may open
	mebibyte      = 1 << 20 // in which sizes are told
)

// health is what there is to know of this machine.
type health struct {
	tool      string
	root      bool
	engine    topologies.Engine
	engineErr error // no engine answers
	hostsErr  error // no host can be made

	processErr error // no node can run as a process
	limitsErr  error // such nodes cannot be limited
	nodes      []topologies.FoundProgram

	filter    relay.Capabilities
	filterErr error             // the kernel cannot be asked for its packet filter
	programs  map[string]string // paths, by name; none of what is not there
	cores     int
	memory    uint64 // bytes that can be had, 0 where nobody says
	disks     []disk
	ports     int    // that a connection may begin at, 0 where nobody says
	files     uint64 // that a process may open
}

// disk is the room in a folder, or in the nearest one above it that is there.
type disk struct {
	holds string // what
	path  string
	free  uint64 // bytes
	err   error
}

// programs that are of use, and what for.
var usefulPrograms = []struct{ name, lack, fix string }{
	{"apt-get", "where no registry answers, only images that are present can be used", "play on Debian or Ubuntu, or load the images that the compose files name with docker load"},
	{"dpkg-deb", "where no registry answers, only images that are present can be used", "apt-get install dpkg, or load the images that the compose files name with docker load"},
	{"chromium", "the test of the report in a browser is not run", "make setup"},
	{"promtool", "the test of alert timing against Prometheus is not run", "make setup"},
}

// examine looks at this machine. What it cannot find out is said, item by item.
func examine(ctx context.Context) health {
	h := health{
		tool: build(), root: os.Getuid() == 0, programs: map[string]string{},
		cores: runtime.NumCPU(), memory: availableMemory("/proc/meminfo"), ports: portRange("/proc/sys/net/ipv4/ip_local_port_range"),
	}
	h.filter, h.filterErr = relay.CheckKernel()
	h.engine, h.engineErr = topologies.Preflight(ctx)
	if h.engineErr == nil {
		h.hostsErr = topologies.CheckHosts(ctx)
	}
	if h.processErr = checkProcesses(); h.processErr == nil {
		h.limitsErr, h.nodes = topologies.CheckProcessLimits(), topologies.Programs()
	}
	for _, p := range usefulPrograms {
		if path, err := exec.LookPath(p.name); err == nil {
			h.programs[p.name] = path
		}
	}
	h.disks = append(h.disks, room("records", "runs"))
	if cache, err := os.UserCacheDir(); err == nil {
		h.disks = append(h.disks, room("files of runs", cache))
	}
	// An engine on this machine has its folder here.
	if _, err := os.Stat(h.engine.Folder); h.engine.Folder != "" && err == nil {
		h.disks = append(h.disks, room("images", h.engine.Folder))
	}
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) == nil {
		h.files = limit.Cur
	}
	return h
}

// room measures what is free where a folder is, or would be.
func room(holds, path string) disk {
	d := disk{holds: holds}
	if d.path, d.err = filepath.Abs(path); d.err != nil {
		return d
	}
	for at := d.path; ; at = filepath.Dir(at) {
		var s unix.Statfs_t
		d.err = unix.Statfs(at, &s)
		if d.err == nil {
			d.free = s.Bavail * uint64(s.Bsize)
			return d
		}
		if !errors.Is(d.err, fs.ErrNotExist) || at == filepath.Dir(at) {
			return d
		}
	}
}

// availableMemory reads what programs can still get, in bytes; 0 where the kernel does
// not say.
func availableMemory(path string) uint64 {
	f, err := os.Open(path)
	if err != nil {
		return 0
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		if fields := strings.Fields(lines.Text()); len(fields) >= 2 && fields[0] == "MemAvailable:" {
			kibibytes, _ := strconv.ParseUint(fields[1], 10, 64) // 0 where it is no number
			return kibibytes << 10
		}
	}
	return 0
}

// portRange reads how many ports connections may begin at; 0 where the kernel does not
// say.
func portRange(path string) int {
	content, err := os.ReadFile(path)
	if err != nil {
		return 0
	}
	var first, last int
	if _, err := fmt.Sscan(string(content), &first, &last); err != nil || last < first {
		return 0
	}
	return last - first + 1
}

// item is one thing that a replay, or some of them, or a test of the project needs.
type item struct {
	name string
	has  string // what there is of it
	lack string // what cannot be done for want of it; "" where it is there
	fix  string // how to get it
	must bool   // without it nothing can be replayed
}

// items are in the order in which somebody would set a machine up.
func (h health) items() []item {
	out := []item{h.engineItem()}
	if h.engineErr == nil {
		out = append(out, h.hostsItem())
	}
	out = append(out, h.processItems()...)
	out = append(out, h.filterItem())
	cores := item{name: "cores", has: strconv.Itoa(h.cores)}
	if h.cores < leastCores {
		cores.lack = fmt.Sprintf("incidents are sized for %d: plays may be unknown, since load and faults come late", leastCores)
		cores.fix = "give the machine, or the container that the tool runs in, more of them"
	}
	memory := item{name: "memory", has: size(h.memory) + " available"}
	switch {
	case h.memory == 0:
		memory.has = "the kernel does not say how much is available"
	case h.memory < leastMemory:
		memory.lack = fmt.Sprintf("less than %s: the kernel may kill nodes that no fault killed, which makes plays unknown", size(leastMemory))
		memory.fix = "end what else runs here, or give the machine more"
	}
	out = append(out, cores, memory)
	for _, d := range h.disks {
		disk := item{name: "disk", has: fmt.Sprintf("%s free in %s, for %s", size(d.free), d.path, d.holds)}
		switch {
		case d.err != nil:
			disk.has, disk.lack, disk.fix = fmt.Sprintf("%s, for %s", d.err, d.holds), "nobody knows whether there is room", "make the folder, or let this user read it"
		case d.free < leastDisk:
			disk.lack = fmt.Sprintf("less than %s: a play whose record cannot be written is lost", size(leastDisk))
			disk.fix = "remove old records below runs/ and images that nobody needs (docker image prune), or name another disk with --out"
		}
		out = append(out, disk)
	}
	ports := item{name: "ports", has: fmt.Sprintf("%d for connections that this machine begins", h.ports)}
	switch {
	case h.ports == 0:
		ports.has = "the kernel does not say how many connections may begin here"
	case h.ports < leastPorts:
		ports.lack = fmt.Sprintf("less than %d: nodes cannot be asked four times a second for long", leastPorts)
		ports.fix = `sysctl -w net.ipv4.ip_local_port_range="32768 60999"`
	}
	files := item{name: "files", has: fmt.Sprintf("%d may be open at once", h.files)}
	if h.files < leastFiles {
		files.lack = fmt.Sprintf("less than %d: the tool cannot hold its connections to all nodes", leastFiles)
		files.fix = fmt.Sprintf("ulimit -n %d, in the shell that starts the tool", leastFiles)
	}
	out = append(out, ports, files)
	for _, p := range usefulPrograms {
		program := item{name: p.name, has: h.programs[p.name]}
		if program.has == "" {
			program.has, program.lack, program.fix = "not found", p.lack, p.fix
		}
		out = append(out, program)
	}
	return out
}

func (h health) engineItem() item {
	e := h.engine
	i := item{name: "engine", must: h.processErr != nil}
	nothing := "nothing can be replayed"
	if h.processErr == nil {
		nothing = "nodes run as processes only"
	}
	if h.engineErr != nil {
		i.has, i.lack = h.engineErr.Error(), nothing
		i.fix = "install and start Docker (Debian and Ubuntu: apt-get install docker.io && systemctl start docker), or set DOCKER_HOST to an engine on this machine"
		return i
	}
	i.has = fmt.Sprintf("docker %s (API %s) on %s, kernel %s, %d CPUs, %d MiB, cgroup v%s with the %s driver, %s",
		e.Version, e.API, e.OperatingSystem, e.Kernel, e.CPUs, e.MemoryBytes/mebibyte, e.CgroupVersion, e.CgroupDriver, e.StorageDriver)
	if before(e.API, leastAPIMinor) {
		i.lack = fmt.Sprintf("%s: it speaks an interface older than 1.%d", nothing, leastAPIMinor)
		i.fix = "install Docker 20.10 or newer"
	}
	return i
}

// before says whether a version 1.N, as engines number their interface, is before a
// minor one. What cannot be read is none that is known to be too old.
func before(api string, minor int) bool {
	var major, have int
	if _, err := fmt.Sscanf(api, "%d.%d", &major, &have); err != nil {
		return false
	}
	return major < 1 || major == 1 && have < minor
}

func (h health) hostsItem() item {
	i := item{name: "hosts", has: "can be made, for topologies with x-hosts"}
	if h.hostsErr == nil {
		return i
	}
	i.has, i.lack = h.hostsErr.Error(), "incidents on hosts are refused before anything starts"
	switch {
	case h.engine.Rootless:
		i.fix = "use an engine that runs as root: systemctl start docker, and unset DOCKER_HOST"
	case h.engine.CgroupDriver != "cgroupfs":
		i.fix = `write {"exec-opts": ["native.cgroupdriver=cgroupfs"]} to /etc/docker/daemon.json and start the engine again`
	case !h.root:
		i.fix = "run relapse as root"
	default:
		i.fix = "run relapse where /sys/fs/cgroup can be written to, on the machine itself or in a container that is privileged"
	}
	return i
}

// processItems are what nodes need that run without an engine.
func (h health) processItems() []item {
	process := item{name: "process", has: "nodes can run as processes, with --driver process"}
	if h.processErr != nil {
		process.has, process.lack = h.processErr.Error(), "nodes run in containers only"
		process.fix = "run relapse as root, or where users may make namespaces (sysctl -w kernel.unprivileged_userns_clone=1)"
		return []item{process}
	}
	limits := item{name: "limits", has: "processes can be limited, and hosts made of them"}
	if h.limitsErr != nil {
		limits.has, limits.lack = h.limitsErr.Error(), "with --driver process, limits and hosts are refused before anything starts"
		limits.fix = "run relapse as root, where /sys/fs/cgroup can be written to"
	}
	out := []item{process, limits}
	for _, p := range h.nodes {
		program := item{name: "program", has: p.Name + " at " + p.Path}
		if p.Missing != nil {
			program.has, program.lack = p.Name+" not found", "topologies that it is part of do not run with --driver process"
			program.fix = p.Install
		}
		out = append(out, program)
	}
	return out
}

// checkProcesses says why this machine cannot run nodes as processes.
func checkProcesses() error {
	binary, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find the tool's own binary: %w", err)
	}
	return topologies.CheckNamespaces(binary)
}

func (h health) filterItem() item {
	i := item{name: "filter", has: "the kernel has nftables, for all faults on packets"}
	missing := slices.Sorted(maps.Keys(h.filter.Missing))
	switch {
	case errors.Is(h.filterErr, fs.ErrPermission):
		i.has = "only root may ask what the kernel's nftables can do; a fault that cannot be had is refused by name"
	case h.filterErr != nil:
		i.has, i.lack = h.filterErr.Error(), "nobody knows which faults on packets can be had; those that cannot are refused by name"
		i.fix = "run relapse where network namespaces can be made: on the machine itself, or in a container that is privileged"
	case len(missing) > 0:
		i.has = fmt.Sprintf("the kernel cannot %s: %s", join(missing), h.filter.Missing[missing[0]])
		i.lack, i.fix = "faults that need it are refused by name", "modprobe nf_tables, or boot a kernel with all of nftables (CONFIG_NF_TABLES and its CONFIG_NFT_ parts)"
	}
	return i
}

// join names several actions.
func join(actions []relay.Action) string {
	var names []string
	for _, a := range actions {
		names = append(names, string(a))
	}
	return strings.Join(names, ", ")
}

// size tells bytes as people do.
func size(bytes uint64) string {
	if bytes >= 10<<30 {
		return fmt.Sprintf("%d GiB", bytes>>30)
	}
	return fmt.Sprintf("%d MiB", bytes/mebibyte)
}

// tellHealth writes a line an item, and two more for each that is not there.
func tellHealth(w io.Writer, h health) error {
	var missing []string
	line := func(name, state, text string) {
		// An engine says what it likes of itself.
		fmt.Fprintf(w, "%-8s  %-2s  %s\n", name, state, reports.Printable(text))
	}
	line("tool", "", h.tool)
	for _, i := range h.items() {
		if i.lack == "" {
			line(i.name, "ok", i.has)
			continue
		}
		line(i.name, "no", i.has)
		line("", "", "so: "+i.lack)
		line("", "", "do: "+i.fix)
		if i.must {
			missing = append(missing, i.name)
		}
	}
	if len(missing) > 0 {
		return &exitError{exitRig, fmt.Errorf("nothing can be replayed on this machine without: %s", strings.Join(missing, ", "))}
	}
	return nil
}
