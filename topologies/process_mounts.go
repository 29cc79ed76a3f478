package topologies

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// emptyFolders are made for programs that look for them when they start.
var emptyFolders = []string{"/etc", "/run", "/tmp", "/var/tmp", "/var/log/nginx", "/var/lib/nginx", "/var/lib/haproxy"}

// mount makes the node's file system: of the machine it sees programs, and nothing
// that it could change.
func (n *nodeSpec) mount() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	const quiet = unix.MS_NOSUID | unix.MS_NODEV
	if err := unix.Mount("tmpfs", n.Root, "tmpfs", quiet, "mode=0755,size=64m"); err != nil {
		return fmt.Errorf("mount the node's file system: %w", err)
	}
	own := []string{n.Root}
	for _, folder := range systemFolders {
		if err := n.share(folder); err != nil {
			return err
		}
	}
	for _, file := range systemFiles {
		if err := n.share("/etc/" + file); err != nil {
			return err
		}
	}
	if err := n.shareDevices(); err != nil {
		return err
	}
	for _, folder := range emptyFolders {
		if err := os.MkdirAll(n.inside(folder), 0o755); err != nil {
			return err
		}
	}
	if err := os.Chmod(n.inside("/tmp"), 0o777|fs.ModeSticky); err != nil {
		return err
	}
	for _, tmpfs := range n.Tmpfs {
		folder, options, _ := strings.Cut(tmpfs, ":")
		if err := n.refuseShared(folder, own); err != nil {
			return err
		}
		if err := os.MkdirAll(n.inside(folder), 0o755); err != nil {
			return err
		}
		flags, data := tmpfsOptions(options)
		if err := unix.Mount("tmpfs", n.inside(folder), "tmpfs", flags, data); err != nil {
			return fmt.Errorf("mount tmpfs %s: %w", tmpfs, err)
		}
		own = append(own, n.inside(folder))
	}
	// After what they may be below of.
	for _, folder := range n.Folders {
		if err := n.share(folder); err != nil {
			return err
		}
	}
	files := append(slices.Clone(n.Files),
		File{Path: "/etc/hosts", Content: []byte(n.Hosts), Mode: 0o644},
		File{Path: "/etc/hostname", Content: []byte(n.Name + "\n"), Mode: 0o644},
		// There is nobody to ask.
		File{Path: "/etc/resolv.conf", Mode: 0o644})
	for _, file := range files {
		if err := n.put(file, own); err != nil {
			return err
		}
	}
	if err := n.bind(n.Program, ownEntrypoint); err != nil {
		return err
	}
	if n.ReadOnly {
		if err := unix.Mount("", n.Root, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY|quiet, ""); err != nil {
			return fmt.Errorf("make the node's file system read-only: %w", err)
		}
	}
	return nil
}

func (n *nodeSpec) inside(path string) string { return filepath.Join(n.Root, path) }

// share shows the node a file or folder of the machine at its own place. What the
// machine does not have is left out.
func (n *nodeSpec) share(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if info.Mode()&fs.ModeSymlink == 0 {
		return n.bind(path, path)
	}
	to, err := os.Readlink(path)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(n.inside(path)), 0o755)
	}
	if err == nil {
		err = os.Symlink(to, n.inside(path))
	}
	return err
}

func (n *nodeSpec) bind(from, to string) error {
	info, err := os.Stat(from)
	if err != nil {
		return err
	}
	target := n.inside(to)
	if info.IsDir() {
		err = os.MkdirAll(target, 0o755)
	} else if err = os.MkdirAll(filepath.Dir(target), 0o755); err == nil {
		err = os.WriteFile(target, nil, 0o644)
	}
	if err != nil {
		return err
	}
	// With what is mounted below: the kernel lets nobody but root see under a mount.
	if err := unix.Mount(from, target, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("mount %s: %w", from, err)
	}
	// A node that runs as root is the owner of what it sees here.
	if err := unix.MountSetattr(unix.AT_FDCWD, target, unix.AT_RECURSIVE, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}); err != nil {
		return fmt.Errorf("mount %s read-only (this needs Linux 5.12): %w", from, err)
	}
	return nil
}

// shareDevices gives the node those devices that are no hardware, as a container has,
// and shared memory and processes of its own.
func (n *nodeSpec) shareDevices() error {
	for _, path := range []string{"/sys", "/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"} {
		if err := n.share(path); err != nil {
			return err
		}
	}
	for name, to := range map[string]string{"fd": "fd", "stdin": "fd/0", "stdout": "fd/1", "stderr": "fd/2"} {
		if err := os.Symlink("/proc/self/"+to, n.inside("/dev/"+name)); err != nil {
			return err
		}
	}
	for _, folder := range []string{"/dev/shm", "/proc"} {
		if err := os.MkdirAll(n.inside(folder), 0o755); err != nil {
			return err
		}
	}
	const quiet = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC
	if err := unix.Mount("tmpfs", n.inside("/dev/shm"), "tmpfs", quiet, "mode=1777,size=64m"); err != nil {
		return fmt.Errorf("mount /dev/shm: %w", err)
	}
	if err := unix.Mount("proc", n.inside("/proc"), "proc", quiet|unix.MS_RDONLY, ""); err != nil {
		// Refused where the machine's own is covered in part, as inside a container.
		return n.bind("/proc", "/proc")
	}
	return nil
}

// tmpfsOptions parts the kernel's own options from flags of a mount.
func tmpfsOptions(options string) (flags uintptr, data string) {
	flags = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC
	kept := []string{}
	moded := false
	for option := range strings.SplitSeq(options, ",") {
		switch key, _, valued := strings.Cut(option, "="); {
		case valued:
			kept = append(kept, option)
			moded = moded || key == "mode"
		case option == "exec":
			flags &^= unix.MS_NOEXEC
		case option == "ro":
			flags |= unix.MS_RDONLY
		}
	}
	if !moded {
		kept = append(kept, "mode=1777")
	}
	return flags, strings.Join(kept, ",")
}

// refuseShared refuses a path at which something of the machine is, which the node
// would change for everybody.
func (n *nodeSpec) refuseShared(path string, own []string) error {
	var at unix.Stat_t
	for place := n.inside(path); ; place = filepath.Dir(place) {
		err := unix.Stat(place, &at)
		if err == nil {
			break
		}
		if place == n.Root || !errors.Is(err, unix.ENOENT) {
			return &fs.PathError{Op: "look at", Path: path, Err: err}
		}
	}
	for _, mount := range own {
		var root unix.Stat_t
		if err := unix.Stat(mount, &root); err == nil && root.Dev == at.Dev {
			return nil
		}
	}
	return fmt.Errorf("%w: %s is in a folder that the node shares with the machine; choose another place, or use --driver docker", ErrNotByProcesses, path)
}

func (n *nodeSpec) put(file File, own []string) error {
	if err := n.refuseShared(filepath.Dir(file.Path), own); err != nil {
		return fmt.Errorf("file %s: %w", file.Path, err)
	}
	mode := fs.FileMode(file.Mode).Perm()
	if mode == 0 {
		mode = 0o644
	}
	path := n.inside(file.Path)
	err := os.MkdirAll(filepath.Dir(path), 0o755)
	if err == nil {
		err = os.WriteFile(path, file.Content, 0o600)
	}
	if err == nil {
		err = os.Chmod(path, mode)
	}
	return err
}
