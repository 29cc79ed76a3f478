package topologies

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// nodeSpec is what a process needs to know to become a node. The tool writes it into
// the run's folder; a process of the tool's own program, which the tool has started in
// new namespaces, reads it there (see [RunNode]).
type nodeSpec struct {
	Name     string       `json:"name"`
	Root     string       `json:"root"` // folder to mount the node's file system at
	Address  netip.Prefix `json:"address"`
	Hosts    string       `json:"hosts"`   // content of its hosts file
	Program  string       `json:"program"` // to be found at [ownEntrypoint]
	Folders  []string     `json:"folders"` // of the machine, beside [systemFolders]
	Files    []File       `json:"files"`
	Tmpfs    []string     `json:"tmpfs"` // with options, see [tmpfsMount]
	ReadOnly bool         `json:"read_only"`

	Args     []string `json:"args"`
	Env      []string `json:"env"`
	Dir      string   `json:"dir"`
	UID      int      `json:"uid"`
	GID      int      `json:"gid"`
	NetAdmin bool     `json:"net_admin"` // keeps this one capability

	NoFile      int64    `json:"no_file"` // 0 for the machine's own
	OOMScoreAdj int      `json:"oom_score_adj"`
	Cgroups     []string `json:"cgroups"` // folders to join
}

// systemFolders hold programs and what they load. A node sees these of the machine's
// folders and, of its /etc, what is in systemFiles.
var (
	systemFolders = []string{"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt", "/nix"}
	systemFiles   = []string{
		"passwd", "group", "nsswitch.conf", "host.conf", "protocols", "services", "localtime", "ld.so.cache", "ld.so.conf",
		"ld.so.conf.d", "alternatives", "ssl", "pki", "ca-certificates",
	}
)

// The pipes that a process has from the tool. At one it reads a byte once its network
// is there, and sees that the tool is gone; to the other it writes why it has not
// become the node. Both are closed when it has.
const (
	aheadPipe  = 3
	reportPipe = 4
)

// RunNode turns this process, which a tool must have started for it, into a node: the
// program of the node takes its place, and RunNode does not return. An error is told
// to the tool as well.
func RunNode(spec string) error {
	// Rights, and what happens when the tool ends, are a thread's.
	runtime.LockOSThread()
	for _, pipe := range []int{aheadPipe, reportPipe} {
		unix.CloseOnExec(pipe)
		if err := unix.SetNonblock(pipe, false); err != nil {
			return fmt.Errorf("a node is started by the tool alone: %w", err)
		}
	}
	err := becomeNode(spec)
	_, _ = unix.Write(reportPipe, []byte(err.Error()))
	return err
}

func becomeNode(spec string) error {
	content, err := os.ReadFile(spec)
	if err != nil {
		return err
	}
	var n nodeSpec
	if err := json.Unmarshal(content, &n); err != nil {
		return fmt.Errorf("read %s: %w", spec, err)
	}
	// Folders are for whomever the node runs as.
	unix.Umask(0o022)
	if err := n.mount(); err != nil {
		return err
	}
	// Opened before the machine's folders are out of sight.
	var cgroups []*os.File
	for _, folder := range n.Cgroups {
		f, err := os.OpenFile(filepath.Join(folder, "cgroup.procs"), os.O_WRONLY, 0)
		if err != nil {
			return fmt.Errorf("join the node's cgroup: %w", err)
		}
		cgroups = append(cgroups, f)
	}
	if err := n.limit(); err != nil {
		return err
	}
	if err := awaitAhead(); err != nil {
		return err
	}
	if err := n.plugIn(); err != nil {
		return err
	}
	if err := unix.Sethostname([]byte(n.Name)); err != nil {
		return fmt.Errorf("set the node's name: %w", err)
	}
	if err := unix.Chroot(n.Root); err != nil {
		return fmt.Errorf("enter the node's file system: %w", err)
	}
	if err := os.Chdir(n.Dir); err != nil {
		return fmt.Errorf("working_dir: %w", err)
	}
	program, err := exec.LookPath(n.Args[0]) // by the PATH that the tool has given
	if err != nil {
		return err
	}
	// Last, so that what was done up to here counts for the tool.
	for _, f := range cgroups {
		if _, err := f.WriteString("0"); err != nil {
			return fmt.Errorf("join the node's cgroup: %w", err)
		}
	}
	if err := n.dropRights(); err != nil {
		return err
	}
	// Given up with the rights, and asked for again; the tool may have ended between.
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
		return fmt.Errorf("end with the tool: %w", err)
	}
	if toolGone() {
		return errToolGone
	}
	if err := syscall.Exec(program, n.Args, n.Env); err != nil {
		return fmt.Errorf("run %s: %w", program, err)
	}
	return nil // never
}

var errToolGone = errors.New("the tool is gone")

// awaitAhead returns once the tool says that the network is there.
func awaitAhead() error {
	var one [1]byte
	for {
		n, err := unix.Read(aheadPipe, one[:])
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return fmt.Errorf("wait for the node's network: %w", err)
		case n == 0:
			return errToolGone
		}
		return nil
	}
}

// toolGone says whether nobody holds the other end of the pipe any more.
func toolGone() bool {
	pipe := []unix.PollFd{{Fd: aheadPipe}}
	for {
		_, err := unix.Poll(pipe, 0)
		if !errors.Is(err, unix.EINTR) {
			return err == nil && pipe[0].Revents&unix.POLLHUP != 0
		}
	}
}

// plugIn gives the node's end of its cable its address.
func (n *nodeSpec) plugIn() error {
	for _, name := range []string{"lo", nodeInterface} {
		link, err := netlink.LinkByName(name)
		if err != nil {
			return fmt.Errorf("network interface %s: %w", name, err)
		}
		if name == nodeInterface {
			address := &net.IPNet{IP: n.Address.Addr().AsSlice(), Mask: net.CIDRMask(n.Address.Bits(), 32)}
			if err := netlink.AddrAdd(link, &netlink.Addr{IPNet: address}); err != nil {
				return fmt.Errorf("address %s: %w", n.Address, err)
			}
		}
		if err := netlink.LinkSetUp(link); err != nil {
			return fmt.Errorf("network interface %s: %w", name, err)
		}
	}
	return nil
}

// limit sets what a process has of itself.
func (n *nodeSpec) limit() error {
	if n.NoFile > 0 {
		var has syscall.Rlimit
		if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &has); err != nil {
			return fmt.Errorf("limit of open files: %w", err)
		}
		// Raising what the machine allows takes more than this is worth.
		files := min(uint64(n.NoFile), has.Max)
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: files, Max: files}); err != nil {
			return fmt.Errorf("limit of open files: %w", err)
		}
	}
	if n.OOMScoreAdj != 0 {
		if err := os.WriteFile("/proc/self/oom_score_adj", fmt.Appendf(nil, "%d", n.OOMScoreAdj), 0); err != nil {
			return fmt.Errorf("oom_score_adj: %w", err)
		}
	}
	return nil
}

// dropRights leaves the node the user that it is to run as, and no capability but the
// one that it keeps, as in a container.
func (n *nodeSpec) dropRights() error {
	for c := uintptr(0); c < 64; c++ {
		if c == unix.CAP_NET_ADMIN && n.NetAdmin {
			continue
		}
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0); errors.Is(err, unix.EINVAL) {
			break // the kernel has no more of them
		} else if err != nil {
			return fmt.Errorf("drop capability %d: %w", c, err)
		}
	}
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return fmt.Errorf("drop capabilities: %w", err)
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("give up rights for good: %w", err)
	}
	// In a user namespace the process has the node's user from the start.
	if os.Getegid() != n.GID {
		if err := syscall.Setgroups([]int{n.GID}); err != nil {
			return fmt.Errorf("group %d: %w", n.GID, err)
		}
		if err := syscall.Setresgid(n.GID, n.GID, n.GID); err != nil {
			return fmt.Errorf("group %d: %w", n.GID, err)
		}
	}
	if os.Geteuid() != n.UID {
		if err := syscall.Setresuid(n.UID, n.UID, n.UID); err != nil {
			return fmt.Errorf("user %d: %w", n.UID, err)
		}
	}
	return nil
}
