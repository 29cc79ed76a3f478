package replays

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// BusyError says that another play runs on this machine.
type BusyError struct {
	Holder string // what the lock file says of the holder
	Path   string
}

func (e *BusyError) Error() string {
	return fmt.Sprintf("another play runs on this machine (%s): two would disturb each other's times; wait for it, or end it and retry", e.Holder)
}

// lockFolder holds the lock of the machine. It is fixed: tools with different TMPDIR
// would not see each other.
var lockFolder = "/tmp"

// lockPath is where the lock is. Only where the machine has no such folder it is
// where TMPDIR says.
func lockPath() string {
	folder := lockFolder
	if info, err := os.Stat(folder); err != nil || !info.IsDir() {
		folder = os.TempDir()
	}
	return filepath.Join(folder, "relapse.lock")
}

// openLock opens the lock's file. That of somebody else cannot be written to, and
// need not be to be locked.
func openLock(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o666)
	if errors.Is(err, fs.ErrPermission) {
		if theirs, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0); err == nil {
			return theirs, nil
		}
	}
	if err != nil {
		return nil, fmt.Errorf("open the lock of this machine: %w", err)
	}
	return f, nil
}

// Lock makes this process the only one on the machine that plays, until unlock
// is called or the process ends, however it ends.
func Lock() (unlock func(), err error) {
	path := lockPath()
	f, err := openLock(path)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		defer f.Close()
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("lock %s: %w", path, err)
		}
		holder, _ := os.ReadFile(path)
		return nil, &BusyError{Holder: strings.TrimSpace(string(holder)), Path: path}
	}
	// The holder's name helps whoever finds the lock taken; the lock holds
	// without it.
	_ = f.Truncate(0)
	_, _ = fmt.Fprintf(f, "process %d\n", os.Getpid())
	return func() { _ = f.Close() }, nil
}
