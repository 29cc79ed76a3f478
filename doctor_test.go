package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"relapse/topologies"
	"relapse/topologies/relay"
)

// sound is a machine that has everything.
func sound() health {
	h := health{
		tool: "1.0", root: true, cores: 2, memory: 20 << 30, ports: 28232, files: 524288,
		engine: topologies.Engine{
			Version: "20.10.24", API: "1.41", OperatingSystem: "Debian 12", Kernel: "6.18.2", CPUs: 2, MemoryBytes: 24 << 30,
			CgroupVersion: "1", CgroupDriver: "cgroupfs", StorageDriver: "overlay2",
		},
		nodes:    []topologies.FoundProgram{{Name: "nginx", Path: "/usr/sbin/nginx"}},
		programs: map[string]string{},
		disks: []disk{
			{holds: "records", path: "/srv/runs", free: 30 << 30},
			{holds: "files of runs", path: "/root/.cache", free: 30 << 30},
			{holds: "images", path: "/var/lib/docker", free: 4000 << 20},
		},
	}
	for _, p := range usefulPrograms {
		h.programs[p.name] = "/usr/bin/" + p.name
	}
	return h
}

// TestDoctorOfASoundMachine is all that doctor says of one.
func TestDoctorOfASoundMachine(t *testing.T) {
	const want = `tool          1.0
engine    ok  docker 20.10.24 (API 1.41) on Debian 12, kernel 6.18.2, 2 CPUs, 24576 MiB, cgroup v1 with the cgroupfs driver, overlay2
hosts     ok  can be made, for topologies with x-hosts
process   ok  nodes can run as processes, with --driver process
limits    ok  processes can be limited, and hosts made of them
program   ok  nginx at /usr/sbin/nginx
filter    ok  the kernel has nftables, for all faults on packets
cores     ok  2
memory    ok  20 GiB available
disk      ok  30 GiB free in /srv/runs, for records
disk      ok  30 GiB free in /root/.cache, for files of runs
disk      ok  4000 MiB free in /var/lib/docker, for images
ports     ok  28232 for connections that this machine begins
files     ok  524288 may be open at once
apt-get   ok  /usr/bin/apt-get
dpkg-deb  ok  /usr/bin/dpkg-deb
chromium  ok  /usr/bin/chromium
promtool  ok  /usr/bin/promtool
`
	var b strings.Builder
	if err := tellHealth(&b, sound()); err != nil {
		t.Errorf("have %v, want no error", err)
	}
	if b.String() != want {
		t.Errorf("have\n%s\nwant\n%s", &b, want)
	}
}

// TestDoctorSaysWhatIsMissing holds, item by item, that what is not there is told with
// what to do, and that only what no replay does without ends as trouble of the rig.
func TestDoctorSaysWhatIsMissing(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(*health)
		lacks  []string // names of the items that are not there
		fix    string   // part of what to do about the first
		code   int
	}{
		{"nothing", func(*health) {}, nil, "", exitAsExpected},
		{"an engine", func(h *health) {
			h.engine, h.engineErr = topologies.Engine{}, fmt.Errorf("%w at here", topologies.ErrNoEngine)
		},
			[]string{"engine"}, "apt-get install docker.io", exitAsExpected},
		{"an engine, and namespaces for processes", func(h *health) {
			h.engineErr, h.processErr = topologies.ErrNoEngine, topologies.ErrNoNamespaces
		},
			[]string{"engine", "process"}, "apt-get install docker.io", exitRig},
		{"namespaces for processes", func(h *health) { h.processErr = topologies.ErrNoNamespaces }, []string{"process"}, "as root", exitAsExpected},
		{"limits of processes", func(h *health) { h.limitsErr = syscall.EACCES }, []string{"limits"}, "/sys/fs/cgroup", exitAsExpected},
		{"a node's program", func(h *health) {
			h.nodes[0].Missing, h.nodes[0].Install = topologies.ErrNoProgram, "apt-get install nginx"
		},
			[]string{"program"}, "apt-get install nginx", exitAsExpected},
		{"an engine that is new enough", func(h *health) { h.engine.API = "1.40" }, []string{"engine"}, "Docker 20.10 or newer", exitAsExpected},
		{"a newer engine", func(h *health) { h.engine.API = "1.52" }, nil, "", exitAsExpected},
		{"the engine's own word on its interface", func(h *health) { h.engine.API = "" }, nil, "", exitAsExpected},
		{"hosts, of an engine with systemd", func(h *health) { h.hostsErr, h.engine.CgroupDriver = topologies.ErrNoHosts, "systemd" },
			[]string{"hosts"}, `"native.cgroupdriver=cgroupfs"`, exitAsExpected},
		{"hosts, of an engine without root", func(h *health) { h.hostsErr, h.engine.Rootless = topologies.ErrNoHosts, true }, []string{"hosts"}, "runs as root", exitAsExpected},
		{"hosts, without root", func(h *health) { h.hostsErr, h.root = topologies.ErrNoHosts, false }, []string{"hosts"}, "run relapse as root", exitAsExpected},
		{"hosts, for another reason", func(h *health) { h.hostsErr = topologies.ErrNoHosts }, []string{"hosts"}, "/sys/fs/cgroup", exitAsExpected},
		{"all of nftables", func(h *health) {
			h.filter.Missing = map[relay.Action]string{relay.Rate: "no limit", relay.Cap: "no count"}
		},
			[]string{"filter"}, "CONFIG_NF_TABLES", exitAsExpected},
		{"a namespace to ask in", func(h *health) { h.filterErr = syscall.ENOSPC }, []string{"filter"}, "network namespaces", exitAsExpected},
		{"the right to ask the kernel", func(h *health) { h.filterErr = fmt.Errorf("ask: %w", syscall.EPERM) }, nil, "", exitAsExpected},
		{"cores", func(h *health) { h.cores = 1 }, []string{"cores"}, "more of them", exitAsExpected},
		{"memory", func(h *health) { h.memory = 2<<30 - 1 }, []string{"memory"}, "give the machine more", exitAsExpected},
		{"a kernel that says how much memory", func(h *health) { h.memory = 0 }, nil, "", exitAsExpected},
		{"room for images", func(h *health) { h.disks[2].free = 1<<30 - 1 }, []string{"disk"}, "docker image prune", exitAsExpected},
		{"a folder", func(h *health) { h.disks[0].err = syscall.EACCES }, []string{"disk"}, "make the folder", exitAsExpected},
		{"ports", func(h *health) { h.ports = 9999 }, []string{"ports"}, "ip_local_port_range", exitAsExpected},
		{"a kernel that says how many ports", func(h *health) { h.ports = 0 }, nil, "", exitAsExpected},
		{"files", func(h *health) { h.files = 1023 }, []string{"files"}, "ulimit -n 1024", exitAsExpected},
		{"apt-get", func(h *health) { delete(h.programs, "apt-get") }, []string{"apt-get"}, "docker load", exitAsExpected},
		{"dpkg-deb", func(h *health) { delete(h.programs, "dpkg-deb") }, []string{"dpkg-deb"}, "apt-get install dpkg", exitAsExpected},
		{"chromium", func(h *health) { delete(h.programs, "chromium") }, []string{"chromium"}, "make setup", exitAsExpected},
		{"promtool", func(h *health) { delete(h.programs, "promtool") }, []string{"promtool"}, "make setup", exitAsExpected},
		{"several", func(h *health) { h.cores, h.engineErr = 1, topologies.ErrNoEngine }, []string{"engine", "cores"}, "DOCKER_HOST", exitAsExpected},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := sound()
			tc.change(&h)
			var lacks []string
			fix := ""
			for _, i := range h.items() {
				if (i.lack == "") != (i.fix == "") || i.has == "" {
					t.Errorf("item %+v: want what there is, and what is lacking with what to do about it", i)
				}
				if i.lack == "" {
					continue
				}
				if lacks = append(lacks, i.name); fix == "" {
					fix = i.fix
				}
			}
			if !slices.Equal(lacks, tc.lacks) || !strings.Contains(fix, tc.fix) {
				t.Errorf("not there: have %v, the first with %q; want %v with %q", lacks, fix, tc.lacks, tc.fix)
			}
			var b strings.Builder
			err := tellHealth(&b, h)
			code := exitAsExpected
			if exit := (*exitError)(nil); errors.As(err, &exit) {
				code = exit.code
			}
			if code != tc.code || tc.code == exitAsExpected && err != nil {
				t.Errorf("exit code %d (%v), want %d", code, err, tc.code)
			}
			if have := strings.Count(b.String(), "do: "); have != len(lacks) {
				t.Errorf("%d items are told with what to do, want %d:\n%s", have, len(lacks), &b)
			}
		})
	}
}

// TestDoctorHere holds that this machine can be looked at, without an engine too.
func TestDoctorHere(t *testing.T) {
	t.Setenv("DOCKER_HOST", "unix:///nonexistent/engine.sock")
	code, out := printed(t, "doctor")
	want := exitRig
	if strings.Contains(string(out), "process   ok") {
		want = exitAsExpected
	}
	if code != want {
		t.Errorf("exit code %d, want %d:\n%s", code, want, out)
	}
	for _, want := range []string{"tool ", "engine    no", "do: install and start Docker", "\nfilter ", "\ncores ", "\nmemory ", "\ndisk ", "\nports ", "\nfiles ", "\npromtool "} {
		if !strings.Contains(string(out), want) {
			t.Errorf("it does not say %q:\n%s", want, out)
		}
	}
}

func TestDoctorReadsTheKernel(t *testing.T) {
	file := func(content string) string {
		path := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for _, tc := range []struct {
		content string
		want    uint64
	}{
		{"MemTotal:       24684232 kB\nMemFree:        23357896 kB\nMemAvailable:   23892340 kB\n", 23892340 << 10},
		{"MemTotal:       24684232 kB\n", 0}, // of a kernel before 3.14
		{"MemAvailable:\n", 0},
		{"MemAvailable: many kB\n", 0},
	} {
		if have := availableMemory(file(tc.content)); have != tc.want {
			t.Errorf("%q: have %d bytes, want %d", tc.content, have, tc.want)
		}
	}
	for _, tc := range []struct {
		content string
		want    int
	}{{"32768\t60999\n", 28232}, {"1024 1024\n", 1}, {"60999 32768\n", 0}, {"32768\n", 0}, {"", 0}} {
		if have := portRange(file(tc.content)); have != tc.want {
			t.Errorf("%q: have %d ports, want %d", tc.content, have, tc.want)
		}
	}
	nowhere := filepath.Join(t.TempDir(), "none")
	if availableMemory(nowhere) != 0 || portRange(nowhere) != 0 {
		t.Error("a file that is not there says something")
	}
	if d := room("records", filepath.Join(nowhere, "runs")); d.err != nil || d.free == 0 {
		t.Errorf("room where a folder would be: %+v", d)
	}
	if d := room("records", filepath.Join(file("x"), "runs")); d.err == nil {
		t.Errorf("room below a file: %+v", d)
	}
}
