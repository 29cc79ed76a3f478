package topologies

import (
	"context"
	"io"
	"net/netip"
	"time"

	"github.com/moby/moby/client"
)

// What only tests see of the inside of this package.
var (
	Abandoned        = abandoned
	Descendants      = descendants
	FreeSubnet       = freeSubnet
	NewFleet         = newFleet
	NewFront         = newFront
	NewPlayers       = newPlayers
	OwnerDead        = ownerDead
	HostCgroup       = hostCgroup
	InOneLine        = inOneLine
	LimitsBelow      = limitsBelow
	MergedPath       = mergedPath
	NoHost           = noHost
	NotRemoved       = notRemoved
	PackageVersion   = packageVersion
	ProgramsOf       = programsOf
	RunFolder        = runFolder
	SubnetPool       = subnetPool
	TmpfsOptions     = tmpfsOptions
	WriteDebianLayer = writeDebianLayer
)

// NewProcessLog is the log of a node that is a process, and what ends its last line.
func NewProcessLog(path string) (log io.Writer, flush func()) {
	l := &processLog{path: path}
	return l, l.flush
}

// HoldsHosts asks whether an engine can hold hosts.
func HoldsHosts(e Engine) error { return holdsHosts(e) }

// CreateHost makes a host below another root than the kernel's.
func CreateHost(root, name string, host Host, unified bool) error {
	return createHost(root, name, host, unified)
}

// NewHostInstance is a host below another root than the kernel's.
func NewHostInstance(root, name string, host Host, unified bool, nodes ...*Node) *HostInstance {
	h := &HostInstance{host: host, files: hostFiles(root, name, unified), memory: newHostMemory(host.Memory)}
	h.files.stalls = host.OOMKillDisable
	for _, n := range nodes {
		h.nodes = append(h.nodes, &Instance{node: n, address: netip.MustParseAddr("127.0.0.1")})
	}
	return h
}

// SetReadyWithin gives nodes less time than people have patience for.
func SetReadyWithin(d time.Duration) (restore func()) {
	before := readyWithin
	readyWithin = d
	return func() { readyWithin = before }
}

// OwnProcess is the label of this process as an owner.
func OwnProcess() string { return ownProcess().String() }

// CgroupFolders gives the folders of cpu, cpuacct and memory.
func CgroupFolders(content, mountinfo string) []string {
	files := findCgroupFiles(content, parseCgroupMounts(mountinfo))
	if files == nil {
		return nil
	}
	return []string{files.cpu, files.cpuacct, files.memory}
}

// CgroupOOMKills reads the counter of a container's folder.
func CgroupOOMKills(unified bool, folder string) (uint64, error) {
	return (&cgroupFiles{unified: unified, memory: folder}).oomKills()
}

// CgroupUsage reads counters from three folders.
func CgroupUsage(unified bool, folder string) (Usage, float64, error) {
	files := &cgroupFiles{unified: unified, cpu: folder, cpuacct: folder, memory: folder}
	u, err := files.usage()
	if err != nil {
		return u, 0, err
	}
	cpus, err := files.cpus()
	return u, cpus, err
}

// SweepEngine sweeps another engine than this machine's.
func SweepEngine(ctx context.Context, docker *client.Client) (Swept, error) {
	return sweep(ctx, docker, func(map[string]string) bool { return true })
}
