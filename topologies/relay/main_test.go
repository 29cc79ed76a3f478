package relay_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/vishvananda/netlink"
)

// insideVariable marks the test process that runs in a network namespace of its
// own, where a packet filter can be changed without a trace on the machine.
const insideVariable = "RELAPSE_TEST_NAMESPACE"

func TestMain(m *testing.M) {
	if os.Getenv(insideVariable) != "" {
		if err := loopbackUp(); err != nil {
			fmt.Fprintln(os.Stderr, "bringing the loopback of the test's network namespace up:", err)
			os.Exit(1)
		}
		os.Exit(m.Run())
	}
	again := exec.Command("/proc/self/exe", os.Args[1:]...)
	again.Env = append(os.Environ(), insideVariable+"=1")
	again.Stdin, again.Stdout, again.Stderr = os.Stdin, os.Stdout, os.Stderr
	again.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	if os.Geteuid() != 0 {
		again.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		again.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}}
		again.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}}
	}
	err := again.Start()
	if err != nil {
		// No namespace can be had: the tests of rules skip, or fail in CI.
		os.Exit(m.Run())
	}
	err = again.Wait()
	var exit *exec.ExitError
	switch {
	case err == nil:
		os.Exit(0)
	case errors.As(err, &exit):
		os.Exit(exit.ExitCode())
	default:
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func loopbackUp() error {
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return err
	}
	if err := netlink.LinkSetUp(lo); err != nil {
		return err
	}
	// A subnet for links to take addresses in.
	addr, err := netlink.ParseAddr("10.77.0.1/24")
	if err != nil {
		return err
	}
	return netlink.AddrAdd(lo, addr)
}

// needsNamespace skips a test that changes addresses or the packet filter, when
// it cannot have a network namespace to do that in.
func needsNamespace(t testing.TB) {
	t.Helper()
	if os.Getenv(insideVariable) != "" {
		return
	}
	if os.Getenv("CI") == "true" {
		t.Fatal("no network namespace can be had: run as root, or allow user namespaces")
	}
	t.Skip("no network namespace can be had: run as root, or allow user namespaces")
}
