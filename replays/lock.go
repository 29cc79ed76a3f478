package replays

import (
	"errors"
	"fmt"
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

// Lock makes this process the only one on the machine that plays, until unlock
// is called or the process ends, however it ends.
func Lock() (unlock func(), err error) {
	path := filepath.Join(os.TempDir(), "relapse.lock")
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o666)
	if err != nil {
		return nil, fmt.Errorf("open the lock of this machine: %w", err)
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
