package topologies

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"github.com/vishvananda/netlink"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
)

// processDriver runs every node as a process of this machine, in namespaces of its
// own: what a container is, without an engine and without images. The tool holds the
// bridge that all nodes are plugged into, in its own network namespace:
//
//	tool ── bridge ─┬─ node: network, processes, mounts, host name
//	                ├─ node
//	                └─ relay
//
// Nodes end with the tool, by the kernel's own doing. The watchdog sees to what is no
// process: cgroups and the run's folder.
type processDriver struct {
	binary     string
	privileged bool // root on the machine: there can be cgroups and other users
	program    *program
	labels     map[string]string
	addressed  *Addressed
	bridge     netlink.Link // nil before connect
	starts     chan func()  // to be done by the one thread that starts processes

	mu    sync.Mutex
	units []*processUnit
	ended bool
}

// Files of a node in the run's folder.
const (
	specFile    = "node.json"
	processFile = "process" // the process that runs it, or ran it last
	logFile     = "log"
	rootFolder  = "root"
)

const librariesVariable = "LD_LIBRARY_PATH"

func newProcessDriver(o Options) (*processDriver, error) {
	if !InNamespaces() {
		return nil, errNotInNamespaces
	}
	binary, err := filepath.Abs(o.Binary) // it is started in another folder
	if err != nil {
		return nil, fmt.Errorf("program of the nodes: %w", err)
	}
	d := &processDriver{binary: binary, privileged: privileged(), starts: make(chan func())}
	go func() {
		// The kernel ends a process with the thread that started it, so that this one
		// must stay. It is not unlocked: it ends with the driver.
		runtime.LockOSThread()
		for start := range d.starts {
			start()
		}
	}()
	return d, nil
}

// startProcess starts a process that ends with the tool.
func (d *processDriver) startProcess(c *exec.Cmd) error {
	done := make(chan error, 1)
	d.starts <- func() { done <- c.Start() }
	return <-done
}

func (d *processDriver) describe(context.Context) (Engine, error) { return describeProcesses(), nil }

// describeProcesses is what stands in for an engine.
func describeProcesses() Engine {
	e := Engine{
		Driver: Process, Architecture: runtime.GOARCH, CPUs: runtime.NumCPU(),
		CgroupDriver: "cgroupfs", CgroupVersion: "1", Rootless: !privileged(),
	}
	var root unix.Statfs_t
	if unix.Statfs(cgroupRoot, &root) == nil && root.Type == unix.CGROUP2_SUPER_MAGIC {
		e.CgroupVersion = "2"
	}
	var name unix.Utsname
	if unix.Uname(&name) == nil {
		e.OperatingSystem = unix.ByteSliceToString(name.Sysname[:])
		e.Kernel = unix.ByteSliceToString(name.Release[:])
	}
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) == nil {
		e.MemoryBytes = int64(info.Totalram) * int64(info.Unit)
	}
	return e
}

// CheckProcessLimits says whether nodes that are processes can have limits and hosts;
// the error wraps [ErrNoHosts] where they cannot. It makes nothing.
func CheckProcessLimits() error { return canHoldHosts(describeProcesses()) }

// prepare finds the nodes' programs, and refuses nodes that cannot be processes.
func (d *processDriver) prepare(ctx context.Context, t *Topology, o Options) ([]ImageUse, error) {
	var errs []error
	for i := range t.Nodes {
		node := &t.Nodes[i]
		if _, _, err := userOf(node); err != nil {
			errs = append(errs, err)
		}
		for _, capability := range node.CapAdd {
			if capability != "NET_ADMIN" {
				errs = append(errs, fmt.Errorf("%w: node %s: cap_add %s; leave it out, or use --driver docker", ErrNotByProcesses, node.Name, capability))
			}
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return programUses(ctx, t, o.Binary)
}

// userOf gives the user and group that a node runs as.
func userOf(node *Node) (uid, gid int, err error) {
	user, group, grouped := strings.Cut(node.User, ":")
	if node.User == "" {
		return 0, 0, nil
	}
	u, err := strconv.ParseUint(user, 10, 31)
	if err == nil && grouped {
		var g uint64
		g, err = strconv.ParseUint(group, 10, 31)
		gid = int(g)
	}
	if err != nil {
		return 0, 0, fmt.Errorf("%w: node %s: user %q, which its image would explain; write it in numbers, such as \"65534:65534\", or use --driver docker",
			ErrNotByProcesses, node.Name, node.User)
	}
	return int(u), gid, nil
}

func (d *processDriver) connect(_ context.Context, s *System) error {
	d.labels = s.labels
	if err := d.refuseLimits(s); err != nil {
		return err
	}
	if err := d.findProgram(s); err != nil {
		return err
	}
	return d.makeBridge(s)
}

// refuseLimits refuses limits of nodes where nothing can keep them. Hosts have been
// refused before.
func (d *processDriver) refuseLimits(s *System) error {
	if s.cgroupParent != "" {
		return nil
	}
	var errs []error
	for i := range s.topology.Nodes {
		node := &s.topology.Nodes[i]
		if node.Memory > 0 || node.CPUs > 0 {
			errs = append(errs, fmt.Errorf("node %s: %w", node.Name, needsRoot("mem_limit or cpus")))
		}
	}
	return errors.Join(errs...)
}

// findProgram keeps the tool's program in memory for all nodes, where it counts for
// the tool; a copy is made where the users of nodes could not run it.
func (d *processDriver) findProgram(s *System) (err error) {
	info, err := os.Stat(d.binary)
	if err != nil {
		return fmt.Errorf("program of the nodes: %w", err)
	}
	if info.Mode()&0o005 != 0o005 {
		d.program, err = putProgram(s.folder, d.binary)
		return err
	}
	d.program = &program{path: d.binary}
	d.program.pin()
	return nil
}

// create writes down what the node's process will need to know.
func (d *processDriver) create(_ context.Context, s *System, node *Node, address netip.Addr) (unit, error) {
	folder := filepath.Join(s.folder, node.Name)
	u := &processUnit{
		driver: d, node: node, folder: folder,
		log: &processLog{path: filepath.Join(folder, logFile)}, cores: node.CPUs, bytes: node.Memory,
	}
	parent := s.cgroupParent
	if node.Host != "" {
		parent = hostCgroup(s.options.Run, node.Host)
	}
	if parent != "" {
		u.files = hostFiles(cgroupRoot, filepath.Join(parent, node.Name), s.unified)
	}
	spec := d.spec(s, node, address, u)
	content, err := json.Marshal(spec)
	if err == nil {
		err = os.MkdirAll(spec.Root, 0o700)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(folder, specFile), content, 0o600)
	}
	if err != nil {
		return nil, fmt.Errorf("node %s: %w", node.Name, err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ended {
		return nil, fmt.Errorf("node %s: %w", node.Name, errRunOver)
	}
	d.units = append(d.units, u)
	return u, nil
}

func (d *processDriver) spec(s *System, node *Node, address netip.Addr, u *processUnit) nodeSpec {
	n := nodeSpec{
		Name: node.Name, Root: filepath.Join(u.folder, rootFolder), Address: netip.PrefixFrom(address, s.addressed.Subnet.Bits()),
		Program: d.program.path, Files: node.Files, ReadOnly: node.ReadOnly,
		Dir: node.WorkingDir, NetAdmin: slices.Contains(node.CapAdd, "NET_ADMIN"), NoFile: node.NoFile, OOMScoreAdj: node.OOMScoreAdj,
	}
	if n.Dir == "" {
		n.Dir = "/"
	}
	n.UID, n.GID, _ = userOf(node) // refused before
	for _, tmpfs := range node.Tmpfs {
		path, options := tmpfsMount(tmpfs, node.User)
		n.Tmpfs = append(n.Tmpfs, path+":"+options)
	}
	if u.files != nil {
		n.Cgroups = u.files.folders()
	}
	n.Hosts = "127.0.0.1\tlocalhost\n" + address.String() + "\t" + node.Name + "\n"
	for _, host := range s.extraHosts(node.Name) {
		name, to, _ := strings.Cut(host, ":")
		n.Hosts += to + "\t" + name + "\n"
	}
	n.Args = slices.Concat(node.Entrypoint, node.Command)
	if node.Image == OwnImage && len(node.Entrypoint) == 0 {
		n.Args = slices.Concat([]string{ownEntrypoint}, node.Command)
	} else if path, found := findProgram(node.Entrypoint[0]); found {
		n.Folders = []string{filepath.Dir(path)}
	}
	environment := map[string]string{"PATH": strings.Join(searched(), ":"), "HOSTNAME": node.Name, "HOME": "/"}
	// Programs that were unpacked somewhere find their libraries by it.
	if libraries := os.Getenv(librariesVariable); libraries != "" && node.Image != OwnImage {
		environment[librariesVariable] = libraries
		for _, folder := range filepath.SplitList(libraries) {
			if filepath.IsAbs(folder) {
				n.Folders = append(n.Folders, filepath.Clean(folder))
			}
		}
	}
	slices.Sort(n.Folders)
	n.Folders = slices.Compact(n.Folders)
	n.Folders = slices.DeleteFunc(n.Folders, func(folder string) bool {
		return slices.ContainsFunc(systemFolders, func(s string) bool { return folder == s || strings.HasPrefix(folder, s+"/") })
	})
	for name, value := range node.Environment {
		environment[name] = value
	}
	for name, value := range environment {
		n.Env = append(n.Env, name+"="+value)
	}
	slices.Sort(n.Env)
	return n
}

// attributes are the namespaces of a node's process, and its user where the tool has
// one user alone.
func (d *processDriver) attributes(node *Node) *syscall.SysProcAttr {
	a := &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWIPC | syscall.CLONE_NEWUTS,
		Pdeathsig:  syscall.SIGKILL,
		// A group of its own: Ctrl-C in the tool's terminal does not reach it.
		Setpgid: true,
	}
	if d.privileged {
		return a
	}
	uid, gid, _ := userOf(node) // refused before
	a.Cloneflags |= syscall.CLONE_NEWUSER
	a.UidMappings = []syscall.SysProcIDMap{{ContainerID: uid, HostID: os.Geteuid(), Size: 1}}
	a.GidMappings = []syscall.SysProcIDMap{{ContainerID: gid, HostID: os.Getegid(), Size: 1}}
	// What it needs to make itself the node; it drops them then.
	a.AmbientCaps = []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_NET_ADMIN, unix.CAP_SYS_CHROOT, unix.CAP_SETPCAP, unix.CAP_DAC_OVERRIDE, unix.CAP_FOWNER}
	return a
}

// over says whether nothing is to be started any more.
func (d *processDriver) over() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.ended
}

// end ends all nodes.
func (d *processDriver) end(ctx context.Context) error {
	d.mu.Lock()
	d.ended = true
	units := slices.Clone(d.units)
	d.mu.Unlock()
	var ending errgroup.Group
	for _, u := range units {
		ending.Go(func() error {
			if err := u.endForGood(ctx); err != nil {
				return fmt.Errorf("node %s: end it: %w", u.node.Name, err)
			}
			u.log.close()
			return nil
		})
	}
	return ending.Wait()
}

func (d *processDriver) sweep(ctx context.Context, match func(map[string]string) bool) (Swept, error) {
	if d.labels == nil || !match(d.labels) {
		return sweepProcesses(ctx, match)
	}
	// Our own nodes: those that die now are not started again.
	err := d.end(ctx)
	swept, sweepErr := sweepProcesses(ctx, match)
	return swept, errors.Join(err, sweepErr)
}

func (d *processDriver) close() {
	d.program.unpin()
	close(d.starts)
}
