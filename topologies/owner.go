package topologies

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Labels on everything that a run starts. Nothing without [LabelRun] is ever
// touched.
const (
	LabelRun   = "relapse.run"   // id of the run
	LabelOwner = "relapse.owner" // the process that started it: boot id, process id, start time
	LabelNode  = "relapse.node"  // node of the topology; the relay is "relay"
	LabelKeep  = "relapse.keep"  // "true" where the run was to be left standing
	// LabelDriver is "process" in the folder of a run whose nodes are processes, and
	// missing for all others.
	LabelDriver = "relapse.driver"
)

// process names one process of one boot, so that a number that the kernel gave
// to another process later is not taken for the first.
type process struct {
	boot  string
	pid   int
	start string // clock ticks since boot, as the kernel prints them
}

func ownProcess() process {
	pid := os.Getpid()
	return process{boot: bootID(), pid: pid, start: startTime(pid)}
}

// String is the value of [LabelOwner].
func (p process) String() string { return fmt.Sprintf("%s:%d:%s", p.boot, p.pid, p.start) }

// token is short and fit for the name of a container.
func (p process) token() string { return fmt.Sprintf("%d-%s", p.pid, p.start) }

func parseProcess(s string) (process, bool) {
	fields := strings.Split(s, ":")
	if len(fields) != 3 {
		return process{}, false
	}
	pid, err := strconv.Atoi(fields[1])
	if err != nil || pid <= 0 {
		return process{}, false
	}
	return process{boot: fields[0], pid: pid, start: fields[2]}, true
}

// alive says whether the process still runs. A zombie does not: it can end
// nothing of what it started.
func (p process) alive() bool {
	return p.boot == bootID() && p.start != "" && startTime(p.pid) == p.start
}

func bootID() string {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "unknown-boot"
	}
	return strings.TrimSpace(string(b))
}

// startTime reads field 22 of /proc/pid/stat; "" if there is no such process.
func startTime(pid int) string {
	b, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return ""
	}
	// The name, field 2, may hold spaces and brackets: count from its end.
	end := bytes.LastIndexByte(b, ')')
	if end < 0 {
		return ""
	}
	fields := strings.Fields(string(b[end+1:]))
	if len(fields) < 20 || fields[0] == "Z" || fields[0] == "X" {
		return ""
	}
	return fields[19]
}
