package replays

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// describeMachine says what machine this is. What cannot be found stays empty:
// it is told for the reader, and nothing is decided by it.
func describeMachine() Machine {
	m := Machine{OS: runtime.GOOS + "/" + runtime.GOARCH, CPUs: runtime.NumCPU()}
	var name unix.Utsname
	if unix.Uname(&name) == nil {
		m.Kernel = unix.ByteSliceToString(name.Release[:])
	}
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) == nil {
		m.Memory = info.Totalram * uint64(info.Unit)
	}
	m.CPU = field("/proc/cpuinfo", "model name", ":")
	if pretty := strings.Trim(field("/etc/os-release", "PRETTY_NAME", "="), `"`); pretty != "" {
		m.OS = pretty + " (" + m.OS + ")"
	}
	return m
}

// field reads the first value of a key in a file of lines "key SEP value".
func field(path, key, sep string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		if k, v, ok := strings.Cut(lines.Text(), sep); ok && strings.TrimSpace(k) == key {
			return strings.TrimSpace(v)
		}
	}
	return ""
}

// DescribeTool says what build this is, from what the Go tool stamped into it;
// version and commit given at link time take their place.
func DescribeTool(version, commit string) Tool {
	t := Tool{Version: version, Commit: commit, Go: runtime.Version()}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return t
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			if t.Commit == "" {
				t.Commit = s.Value
			}
		case "vcs.modified":
			t.Dirty = s.Value == "true"
		}
	}
	t.Commit, t.Dirty = strings.TrimSuffix(t.Commit, "-dirty"), t.Dirty || strings.HasSuffix(t.Commit, "-dirty")
	return t
}

// noise watches how quiet the machine is: the worst overshoot of a 1 ms ticker
// since it was last read. It is what a load generator on this machine suffers
// too.
type noise struct{ worst atomic.Int64 }

func (n *noise) watch(ctx context.Context) {
	const every = time.Millisecond
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	last := time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			now := time.Now()
			if over := int64(now.Sub(last) - every); over > n.worst.Load() {
				n.worst.Store(over)
			}
			last = now
		}
	}
}

// sample gives the machine's series; see the machine-quiet gate.
func (n *noise) sample() (map[string]float64, error) {
	steal, err := stealSeconds()
	if err != nil {
		return nil, err
	}
	return map[string]float64{
		"relapse_tool_overshoot_seconds":      time.Duration(n.worst.Swap(0)).Seconds(),
		"relapse_machine_steal_seconds_total": steal / float64(runtime.NumCPU()),
	}, nil
}

// stealSeconds is the CPU time that a hypervisor gave to others, over all
// cores; proc_stat(5), eighth figure of the first line, in ticks of 10 ms.
func stealSeconds() (float64, error) {
	b, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, fmt.Errorf("read the machine's CPU times: %w", err)
	}
	line, _, _ := strings.Cut(string(b), "\n")
	fields := strings.Fields(line)
	if len(fields) < 9 {
		return 0, fmt.Errorf("/proc/stat: first line has %d fields, want 9 or more", len(fields))
	}
	ticks, err := strconv.ParseFloat(fields[8], 64)
	if err != nil {
		return 0, fmt.Errorf("/proc/stat: steal: %w", err)
	}
	return ticks / 100, nil
}
