package topologies

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// program is a run's copy of our binary, which every container of our own image
// mounts. One file is in the page cache once, and the one who brought it there is
// charged for it: the tool. In an image each container would read its own copy
// through the engine's file system, and its host would be charged, so that a host
// of little memory would drop the code of its programs and read it again forever.
type program struct {
	path   string
	pinned []byte // nil where the kernel does not let us
}

// putProgram copies the binary into a run's folder, since another build may take
// its place while the run goes on.
func putProgram(folder, binary string) (_ *program, err error) {
	from, err := os.Open(binary)
	if err != nil {
		return nil, fmt.Errorf("program of the nodes: %w", err)
	}
	defer from.Close()
	path := filepath.Join(folder, "program")
	to, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o755)
	if err != nil {
		return nil, fmt.Errorf("program of the nodes: %w", err)
	}
	_, err = io.Copy(to, from)
	if err == nil {
		err = to.Chmod(0o755) // what the umask took away, other users need
	}
	// Closed before it is used in any way: what is open for writing cannot be
	// executed.
	if err = errors.Join(err, to.Close()); err != nil {
		return nil, fmt.Errorf("program of the nodes: copy %s to %s: %w", binary, path, err)
	}
	p := &program{path: path}
	p.pin()
	return p, nil
}

// pin keeps the program in memory: a kernel that drops its page cache would have
// all nodes wait for the disk at once. Users other than root may pin little, and
// go without.
func (p *program) pin() {
	file, err := os.Open(p.path)
	if err != nil {
		return
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return
	}
	mapped, err := unix.Mmap(int(file.Fd()), 0, int(info.Size()), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return
	}
	if err := unix.Mlock(mapped); err != nil {
		_ = unix.Munmap(mapped)
		return
	}
	p.pinned = mapped
}

// unpin lets it go; what is mapped in containers stays theirs.
func (p *program) unpin() {
	if p != nil && p.pinned != nil {
		_ = unix.Munmap(p.pinned)
		p.pinned = nil
	}
}
