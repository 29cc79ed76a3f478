package topologies

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// A topology of processes needs a network that is nobody else's, for its nodes
// listen at the same ports as each other and its links are rules of a packet filter.
// So the tool itself runs in a network namespace of its own, where it may do what it
// likes, and each node in another one. Nothing on the machine changes, and nothing of
// it can be left: the kernel takes a namespace away with the last process in it. Users
// other than root get the right to that in a user namespace.

// ErrNoNamespaces says that no namespaces can be made, so that nodes cannot run as
// processes. It is trouble of the rig and says nothing about any system.
var ErrNoNamespaces = errors.New("nodes cannot run as processes here")

// namespacesVariable holds the network namespace that the tool was started in.
const namespacesVariable = "RELAPSE_NAMESPACES"

// InNamespaces says whether this process runs in namespaces made for it, as the
// driver [Process] needs it.
func InNamespaces() bool {
	outer, own := os.Getenv(namespacesVariable), networkNamespace()
	return outer != "" && own != "" && outer != own
}

var errNotInNamespaces = fmt.Errorf("%w: the tool runs in the machine's own namespaces; start it again in its own, as `relapse replay --driver process` does", ErrNoNamespaces)

func networkNamespace() string {
	name, err := os.Readlink("/proc/self/ns/net")
	if err != nil {
		return ""
	}
	return name
}

// NamespacedCommand is a command that will run in namespaces made for it. It is asked
// to end when the thread that starts it does: start it from a goroutine that holds on
// to its thread (runtime.LockOSThread) until the command has ended.
func NamespacedCommand(program string, args ...string) *exec.Cmd {
	c := exec.Command(program, args...)
	c.Env = append(os.Environ(), namespacesVariable+"="+networkNamespace())
	c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGTERM}
	if os.Geteuid() != 0 {
		c.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		c.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}}
		c.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}}
	}
	return c
}

// RunInNamespaces runs a program with this process's input, output and arguments in
// namespaces made for it, waits for its end and gives its exit code. When ctx ends, it
// is asked to end. The error wraps [ErrNoNamespaces] where there can be none.
func RunInNamespaces(ctx context.Context, program string, args ...string) (int, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	c := NamespacedCommand(program, args...)
	c.Stdin, c.Stdout, c.Stderr = os.Stdin, os.Stdout, os.Stderr
	if err := c.Start(); err != nil {
		return 0, noNamespaces(err)
	}
	stop := context.AfterFunc(ctx, func() { _ = c.Process.Signal(syscall.SIGTERM) })
	defer stop()
	err := c.Wait()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.Exited() {
		return exit.ExitCode(), nil
	}
	if err != nil {
		return 0, fmt.Errorf("the tool in its own namespaces: %w", err)
	}
	return 0, nil
}

// noNamespaces says what is behind an error of the kernel.
func noNamespaces(err error) error {
	const hint = "run it as root, or let users make namespaces (sysctl kernel.apparmor_restrict_unprivileged_userns=0 on Ubuntu, kernel.unprivileged_userns_clone=1 on older Debian)"
	if errors.Is(err, os.ErrPermission) || errors.Is(err, syscall.ENOSPC) {
		return fmt.Errorf("%w: %w; %s", ErrNoNamespaces, err, hint)
	}
	return fmt.Errorf("%w: %w", ErrNoNamespaces, err)
}

// CheckNamespaces says whether nodes could run as processes here; the error wraps
// [ErrNoNamespaces] where they could not. It has program, a build of the tool, try it.
func CheckNamespaces(program string) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	out, err := NamespacedCommand(program, "namespaces").CombinedOutput()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return fmt.Errorf("%w: %s", ErrNoNamespaces, strings.TrimSpace(string(out)))
	}
	if err != nil {
		return noNamespaces(err)
	}
	return nil
}

// TryNamespaces does once, in namespaces of this process, what the driver [Process]
// does there.
func TryNamespaces() error {
	if !InNamespaces() {
		return errNotInNamespaces
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return noNamespaces(fmt.Errorf("make mounts private: %w", err))
	}
	bridge, err := addBridge("relapse-try")
	if err != nil {
		return noNamespaces(err)
	}
	return netlink.LinkDel(bridge)
}

// addBridge makes the switch that nodes are plugged into.
func addBridge(name string) (netlink.Link, error) {
	attrs := netlink.NewLinkAttrs()
	attrs.Name = name
	bridge := &netlink.Bridge{LinkAttrs: attrs}
	if err := netlink.LinkAdd(bridge); err != nil {
		return nil, fmt.Errorf("make bridge %s: %w", name, err)
	}
	return bridge, nil
}

// privileged says whether this process is root on the machine, and not merely in a
// user namespace: what the kernel counts and limits is for root alone.
func privileged() bool {
	if os.Geteuid() != 0 {
		return false
	}
	content, err := os.ReadFile("/proc/self/uid_map")
	if err != nil {
		return false
	}
	fields := strings.Fields(string(content))
	return len(fields) == 3 && fields[0] == "0" && fields[1] == "0" && fields[2] == "4294967295"
}
