package topologies

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// noMemoryLimit is what version 1 gives and takes for no limit: the largest
// number of whole pages.
var noMemoryLimit = int64(math.MaxInt64) / int64(os.Getpagesize()) * int64(os.Getpagesize())

// memoryLimit reads the limit in bytes; 0 for none.
func (f *cgroupFiles) memoryLimit() (int64, error) {
	path := f.memoryLimitFile()
	content, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	text := strings.TrimSpace(string(content))
	if text == "max" {
		return 0, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", path, err)
	}
	if n >= noMemoryLimit {
		return 0, nil
	}
	return n, nil
}

// memoryLimitFile is where the limit is. Version 2 has no switch that keeps the
// kernel from killing at memory.max; at memory.high it holds back whoever asks for
// more, until that is as good as standing still.
func (f *cgroupFiles) memoryLimitFile() string {
	switch {
	case !f.unified:
		return filepath.Join(f.memory, "memory.limit_in_bytes")
	case f.stalls:
		return filepath.Join(f.memory, "memory.high")
	}
	return filepath.Join(f.memory, "memory.max")
}

// setting is a value that a file of a cgroup shall have.
type setting struct {
	path, value string
	counter     string // the value is read back as that of a line "counter value"
	optional    bool   // some kernels do not have the file
}

// memorySettings limit memory to so many bytes; 0 for no limit.
func (f *cgroupFiles) memorySettings(bytes int64) []setting {
	if f.unified {
		value := "max"
		if bytes > 0 {
			value = strconv.FormatInt(bytes, 10)
		}
		return []setting{{path: f.memoryLimitFile(), value: value}}
	}
	if bytes == 0 {
		bytes = noMemoryLimit
	}
	return []setting{{path: f.memoryLimitFile(), value: strconv.FormatInt(bytes, 10)}}
}

// stallSettings have the kernel hold processes at the limit instead of killing
// one. The groups below inherit it.
func (f *cgroupFiles) stallSettings() []setting {
	if f.unified || !f.stalls {
		return nil // version 2 has another limit for it
	}
	return []setting{{path: filepath.Join(f.memory, "memory.oom_control"), value: "1", counter: "oom_kill_disable"}}
}

// swapSettings keep what is in the cgroup out of the machine's swap, where it
// would be out of the limit's sight. The groups below inherit it.
func (f *cgroupFiles) swapSettings() []setting {
	name := "memory.swappiness" // version 1 swaps nothing of a group that has 0 here
	if f.unified {
		name = "memory.swap.max"
	}
	return []setting{{path: filepath.Join(f.memory, name), value: "0", optional: true}}
}

// cpuSettings limit CPU time to so many cores, counted over [hostPeriod].
func (f *cgroupFiles) cpuSettings(cores float64) []setting {
	period := strconv.FormatInt(hostPeriod.Microseconds(), 10)
	quota := strconv.FormatInt(int64(cores*float64(hostPeriod.Microseconds())), 10)
	if f.unified {
		return []setting{{path: filepath.Join(f.cpu, "cpu.max"), value: quota + " " + period}}
	}
	return []setting{
		{path: filepath.Join(f.cpu, "cpu.cfs_period_us"), value: period},
		{path: filepath.Join(f.cpu, "cpu.cfs_quota_us"), value: quota},
	}
}

// apply makes the settings and reads each of them back.
func apply(settings []setting) error {
	for _, set := range settings {
		// Not made if it is missing: the kernel would refuse that for another
		// reason than the one that counts.
		file, err := os.OpenFile(set.path, os.O_WRONLY|os.O_TRUNC, 0)
		if set.optional && errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		_, err = file.WriteString(set.value)
		if err := errors.Join(err, file.Close()); err != nil {
			return fmt.Errorf("set %s to %s: %w", set.path, set.value, err)
		}
		content, err := os.ReadFile(set.path)
		if err != nil {
			return err
		}
		got := strings.TrimSpace(string(content))
		if set.counter != "" {
			n, err := readCounter(set.path, set.counter)
			if err != nil {
				return err
			}
			got = strconv.FormatUint(n, 10)
		}
		if !sameLimit(got, set.value) {
			return fmt.Errorf("%s is %s after it was set to %s", set.path, got, set.value)
		}
	}
	return nil
}

// sameLimit is [sameBytes] where both are numbers.
func sameLimit(got, want string) bool {
	if got == want {
		return true
	}
	g, errGot := strconv.ParseInt(got, 10, 64)
	w, errWant := strconv.ParseInt(want, 10, 64)
	return errGot == nil && errWant == nil && sameBytes(g, w)
}

// sameBytes allows for the kernel's rounding of memory down to whole pages.
func sameBytes(got, want int64) bool { return got <= want && want-got < int64(os.Getpagesize()) }
