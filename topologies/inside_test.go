package topologies_test

import (
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"relapse/topologies"
)

func TestOwnerDead(t *testing.T) {
	own := topologies.OwnProcess()
	fields := strings.Split(own, ":")
	if len(fields) != 3 || fields[1] != strconv.Itoa(os.Getpid()) {
		t.Fatalf("this process is %q", own)
	}
	ended := exec.Command("true")
	if err := ended.Start(); err != nil {
		t.Fatal(err)
	}
	zombie := fields[0] + ":" + strconv.Itoa(ended.Process.Pid) + ":" + fields[2]
	t.Cleanup(func() { _ = ended.Wait() })
	tests := []struct {
		name, owner string
		dead        bool
	}{
		{"this one", own, false},
		{"before the machine was started again", "0:" + fields[1] + ":" + fields[2], true},
		{"its number went to another one", fields[0] + ":" + fields[1] + ":1", true},
		{"no such process", fields[0] + ":4194300:" + fields[2], true},
		{"another one", zombie, true},
		{"no owner", "", true},
		{"no number", "a:b:c", true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			labels := map[string]string{topologies.LabelRun: "x", topologies.LabelOwner: test.owner}
			if got := topologies.OwnerDead(labels); got != test.dead {
				t.Errorf("dead: %v", got)
			}
			if got := topologies.Abandoned(labels); got != test.dead {
				t.Errorf("abandoned: %v", got)
			}
			labels[topologies.LabelKeep] = "true"
			if topologies.Abandoned(labels) {
				t.Error("abandoned, though it was to be kept")
			}
		})
	}
}

func TestFreeSubnet(t *testing.T) {
	first, found := topologies.FreeSubnet("run", nil)
	if !found || first.Bits() != 24 || !topologies.SubnetPool.Overlaps(first) {
		t.Fatalf("got %s", first)
	}
	if again, _ := topologies.FreeSubnet("run", nil); again != first {
		t.Errorf("another time %s, first %s", again, first)
	}
	taken := []netip.Prefix{first}
	second, found := topologies.FreeSubnet("run", taken)
	if !found || second.Overlaps(first) {
		t.Errorf("%s is taken, got %s", first, second)
	}
	wide := netip.PrefixFrom(first.Addr(), 16).Masked()
	if other, found := topologies.FreeSubnet("run", []netip.Prefix{wide}); !found || other.Overlaps(wide) {
		t.Errorf("%s is taken, got %s", wide, other)
	}
	if none, found := topologies.FreeSubnet("run", []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}); found {
		t.Errorf("all is taken, got %s", none)
	}
}

func TestCgroupFolders(t *testing.T) {
	const v1 = `30 24 0:26 / /sys/fs/cgroup rw - tmpfs tmpfs rw
31 30 0:27 / /sys/fs/cgroup/unified rw,nosuid - cgroup2 cgroup2 rw,nsdelegate
35 30 0:31 / /sys/fs/cgroup/cpu,cpuacct rw shared:12 - cgroup cgroup rw,cpu,cpuacct
36 30 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory
`
	const v2 = "31 30 0:27 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"
	const nested = "31 30 0:27 /outer /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"
	tests := []struct {
		name, process, mounts string
		want                  []string
	}{
		{"version 1", "5:memory:/docker/abc\n4:cpu,cpuacct:/docker/abc\n0::/docker/abc\n", v1,
			[]string{"/sys/fs/cgroup/cpu,cpuacct/docker/abc", "/sys/fs/cgroup/cpu,cpuacct/docker/abc", "/sys/fs/cgroup/memory/docker/abc"}},
		{"version 2", "0::/system.slice/docker-abc.scope\n", v2,
			slices.Repeat([]string{"/sys/fs/cgroup/system.slice/docker-abc.scope"}, 3)},
		{"a part is mounted", "0::/outer/docker/abc\n", nested, slices.Repeat([]string{"/sys/fs/cgroup/docker/abc"}, 3)},
		{"another part is mounted", "0::/docker/abc\n", nested, nil},
		{"nothing is mounted", "0::/docker/abc\n", "", nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got := topologies.CgroupFolders(test.process, test.mounts); !slices.Equal(got, test.want) {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestCgroupCounters(t *testing.T) {
	tests := []struct {
		name    string
		unified bool
		files   map[string]string
		want    topologies.Usage
		cpus    float64
	}{
		{"version 1", false, map[string]string{
			"cpu.stat": "nr_periods 10\nnr_throttled 2\nthrottled_time 1500000000\n", "cpuacct.usage": "2500000000\n",
			"memory.usage_in_bytes": "4096\n", "cpu.cfs_quota_us": "50000\n", "cpu.cfs_period_us": "100000\n",
		}, topologies.Usage{CPUSeconds: 2.5, MemoryBytes: 4096, ThrottledSeconds: 1.5}, 0.5},
		{"version 1 without a limit", false, map[string]string{
			"cpu.stat": "throttled_time 0\n", "cpuacct.usage": "0\n",
			"memory.usage_in_bytes": "0\n", "cpu.cfs_quota_us": "-1\n", "cpu.cfs_period_us": "100000\n",
		}, topologies.Usage{}, 0},
		{"version 2", true, map[string]string{
			"cpu.stat":       "usage_usec 2500000\nuser_usec 1\nthrottled_usec 1500000\n",
			"memory.current": "4096\n", "cpu.max": "150000 100000\n",
		}, topologies.Usage{CPUSeconds: 2.5, MemoryBytes: 4096, ThrottledSeconds: 1.5}, 1.5},
		{"version 2 without a limit", true, map[string]string{
			"cpu.stat": "usage_usec 0\n", "memory.current": "0\n", "cpu.max": "max 100000\n",
		}, topologies.Usage{}, 0},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			folder := t.TempDir()
			for name, content := range test.files {
				if err := os.WriteFile(filepath.Join(folder, name), []byte(content), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			got, cpus, err := topologies.CgroupUsage(test.unified, folder)
			if err != nil || got != test.want || cpus != test.cpus {
				t.Errorf("got %+v and %g cpus, %v", got, cpus, err)
			}
		})
	}
	if _, _, err := topologies.CgroupUsage(true, t.TempDir()); err == nil {
		t.Error("no files and no error")
	}
}

func TestCgroupOOMKills(t *testing.T) {
	for _, test := range []struct {
		name          string
		unified       bool
		file, content string
		want          uint64
		counted       bool
	}{
		{"version 1", false, "memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n", 3, true},
		{"version 2", true, "memory.events", "low 0\nhigh 0\nmax 12\noom 4\noom_kill 2\noom_group_kill 0\n", 2, true},
		{"a kernel that does not count them", false, "memory.oom_control", "oom_kill_disable 0\nunder_oom 0\n", 0, false},
		{"no such file", true, "memory.stat", "anon 1\n", 0, false},
	} {
		folder := t.TempDir()
		if err := os.WriteFile(filepath.Join(folder, test.file), []byte(test.content), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := topologies.CgroupOOMKills(test.unified, folder); got != test.want || (err == nil) != test.counted {
			t.Errorf("%s: %d, %v; want %d, counted: %t", test.name, got, err, test.want, test.counted)
		}
	}
}
