package edge

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Memory is how many bytes an open connection holds. They are anonymous memory
// outside of the Go heap, of which every page was written: the kernel has to
// give each of them, and gets all of them back when the connection ends, whatever
// the garbage collector does.
type Memory int

// take maps and touches the memory.
func (m Memory) take() (pages, error) {
	if m == 0 {
		return nil, nil
	}
	mapped, err := unix.Mmap(-1, 0, int(m), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return nil, fmt.Errorf("map %d bytes for a connection: %w", m, err)
	}
	// A huge page would be 2 MiB for the first of many connections and nothing
	// for the others. A kernel without huge pages refuses, and needs no telling.
	_ = unix.Madvise(mapped, unix.MADV_NOHUGEPAGE)
	for at := 0; at < len(mapped); at += os.Getpagesize() {
		mapped[at] = 1
	}
	return mapped, nil
}

// pages are taken memory.
type pages []byte

func (p pages) giveBack() {
	if p != nil {
		_ = unix.Munmap(p) // fails for what is not mapped, which this is
	}
}
