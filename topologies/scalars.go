package topologies

import (
	"fmt"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/compose-spec/compose-go/v2/template"
	"github.com/compose-spec/compose-go/v2/types"
)

// plain gives a scalar as compose-go will see it, defaults of variables filled in.
func (v value) plain() (string, bool) {
	s, ok := v.text()
	if !ok {
		return "", false
	}
	s, err := template.Substitute(s, func(string) (string, bool) { return "", false })
	return strings.TrimSpace(s), err == nil
}

const (
	// leastMemory is the engine's own minimum for a container, in bytes.
	leastMemory = 6 << 20
	// MostMemory refuses a slip in a size of memory before anything starts, in bytes:
	// no machine here has more. What the machine has is known once something runs.
	MostMemory = 64 << 40
)

// size checks a memory limit.
func size(v value) *FileError {
	const hint = "a number of bytes, or with a unit: 16m, 160m, 1g"
	var bytes types.UnitBytes
	s, ok := v.plain()
	if !ok {
		return v.fail("want a size, got "+v.kind(), hint)
	}
	if err := bytes.DecodeMapstructure(s); err != nil || bytes <= 0 {
		return v.fail(fmt.Sprintf("%q is not a size", s), hint)
	}
	switch {
	case bytes < leastMemory:
		return v.fail(fmt.Sprintf("%q is too little: the engine starts nothing in less than 6m", s), hint)
	case bytes > MostMemory:
		return v.fail(fmt.Sprintf("%q is too much: no machine here has more than 64t", s), hint)
	}
	return nil
}

// tmpfsSize reads the size= of a tmpfs, in bytes, as the kernel does: a number, and k,
// m, g, t, p or e. It is false for one without, and for a part of the machine's memory.
func tmpfsSize(options string) (bytes int64, given bool) {
	for option := range strings.SplitSeq(options, ",") {
		text, ok := strings.CutPrefix(option, "size=")
		if !ok {
			continue
		}
		digits := strings.TrimRight(text, "kKmMgGtTpPeE")
		n, err := strconv.ParseUint(digits, 10, 63)
		if err != nil || len(text) > len(digits)+1 {
			continue
		}
		bytes, given = int64(n), true
		if unit := text[len(digits):]; unit != "" {
			factor := int64(1) << (10 * (1 + strings.Index("kmgtpe", strings.ToLower(unit))))
			bytes = min(bytes, math.MaxInt64/factor) * factor
		}
	}
	return bytes, given
}

func cores(v value) *FileError {
	s, ok := v.plain()
	if !ok {
		return v.fail("want a number of cores, got "+v.kind(), "for example 0.5")
	}
	if n, err := strconv.ParseFloat(s, 32); err != nil || !(n > 0 && n <= 1024) {
		return v.fail(fmt.Sprintf("%q is not a number of cores", s), "a number above zero, for example 0.5")
	}
	return nil
}

func boolean(v value) *FileError {
	if s, ok := v.plain(); !ok || s != "true" && s != "false" {
		return v.fail("want true or false", "")
	}
	return nil
}

func duration(v value) *FileError {
	var d types.Duration
	s, ok := v.plain()
	if !ok {
		return v.fail("want a duration, got "+v.kind(), "for example 500ms or 10s")
	}
	if err := d.DecodeMapstructure(s); err != nil || d < 0 {
		return v.fail(fmt.Sprintf("%q is not a duration", s), "a number with its unit, for example 500ms or 10s")
	}
	return nil
}

// folder takes an absolute path. The engine would refuse any other only when the node
// is made.
func folder(v value) *FileError {
	const hint = "an absolute path without . and .., such as /srv"
	s, ok := v.plain()
	if !ok {
		return v.fail("want a folder, got "+v.kind(), hint)
	}
	if !path.IsAbs(s) || path.Clean(s) != s {
		return v.fail(fmt.Sprintf("%q is not the absolute path of a folder", s), hint)
	}
	return nil
}

// scratch takes a folder below the root, with options behind a colon.
func scratch(v value) *FileError {
	const hint = "an absolute path below /, such as /run, or with a size /run:size=16m"
	s, ok := v.plain()
	if !ok {
		return v.fail("want a folder, got "+v.kind(), hint)
	}
	if dir, _, _ := strings.Cut(s, ":"); !path.IsAbs(dir) || path.Clean(dir) != dir || dir == "/" {
		return v.fail(fmt.Sprintf("%q is not the absolute path of a folder", s), hint)
	}
	return nil
}

// linuxCapabilities are those of capabilities(7), without their prefix.
var linuxCapabilities = strings.Fields(`AUDIT_CONTROL AUDIT_READ AUDIT_WRITE BLOCK_SUSPEND BPF CHECKPOINT_RESTORE CHOWN
	DAC_OVERRIDE DAC_READ_SEARCH FOWNER FSETID IPC_LOCK IPC_OWNER KILL LEASE LINUX_IMMUTABLE MAC_ADMIN MAC_OVERRIDE
	MKNOD NET_ADMIN NET_BIND_SERVICE NET_BROADCAST NET_RAW PERFMON SETFCAP SETGID SETPCAP SETUID SYSLOG SYS_ADMIN
	SYS_BOOT SYS_CHROOT SYS_MODULE SYS_NICE SYS_PACCT SYS_PTRACE SYS_RAWIO SYS_RESOURCE SYS_TIME SYS_TTY_CONFIG
	WAKE_ALARM`)

// reachingOut are the capabilities that mean the machine and not the container: its
// kernel, its clock, its files by their handles, what it logs and who may do what.
var reachingOut = strings.Fields(`AUDIT_CONTROL BLOCK_SUSPEND BPF DAC_READ_SEARCH MAC_ADMIN MAC_OVERRIDE PERFMON SYS_ADMIN
	SYS_BOOT SYS_MODULE SYS_RAWIO SYS_TIME SYSLOG WAKE_ALARM`)

// capability takes single ones, of those that stay inside a container: with the others,
// or with ALL, a node could leave its own or harm the machine.
func capability(v value) *FileError {
	s, ok := v.plain()
	if !ok {
		return v.fail("want a capability, got "+v.kind(), "for example NET_ADMIN")
	}
	name := strings.TrimPrefix(strings.ToUpper(s), "CAP_")
	if name == "ALL" {
		return v.fail("all capabilities at once are not given", "name the ones that the program needs")
	}
	if !slices.Contains(linuxCapabilities, name) {
		return v.fail(fmt.Sprintf("unknown capability %q", s), suggest(name, linuxCapabilities))
	}
	if slices.Contains(reachingOut, name) {
		return v.fail(fmt.Sprintf("capability %s reaches out of its container, to the machine", s), "nodes are not given it: run the program without")
	}
	return nil
}

func commandLine(v value) *FileError {
	if err := textOrList("a command line or a list of its words")(v); err != nil {
		return err
	}
	var words types.ShellCommand
	if s, ok := v.plain(); ok && words.DecodeMapstructure(s) != nil {
		return v.fail("this is not a command line", "close every quote, or write the words as a list")
	}
	return nil
}

func openFiles(v value) *FileError {
	const hint = "one number of open files, for example 16384: soft and hard limit are the same here"
	s, ok := v.plain()
	if !ok {
		return v.fail("want a number, got "+v.kind(), hint)
	}
	if n, err := strconv.Atoi(s); err != nil || n < 1 {
		return v.fail(fmt.Sprintf("%q is not a number above zero", s), hint)
	}
	return nil
}

// restartPolicy takes Compose's policies, but not its bound on the number of
// tries: a node that is given up in the midst of a play is another topology.
func restartPolicy(v value) *FileError {
	const hint = "no, always, on-failure or unless-stopped; without it a node that died stays dead, since that is evidence"
	s, ok := v.plain()
	if !ok {
		return v.fail("want a policy, got "+v.kind(), hint)
	}
	if !slices.Contains([]string{
		types.RestartPolicyNo, types.RestartPolicyAlways, types.RestartPolicyOnFailure, types.RestartPolicyUnlessStopped,
	}, s) {
		return v.fail(fmt.Sprintf("%q is not a policy", s), hint)
	}
	return nil
}

// oomScoreAdj takes what every engine may set: below what a process has already,
// the kernel asks for a capability that an engine in a container lacks.
func oomScoreAdj(v value) *FileError {
	const hint = "a whole number from 0 to 1000: the higher, the sooner the kernel kills the node where memory is short"
	s, ok := v.plain()
	if !ok {
		return v.fail("want a number, got "+v.kind(), hint)
	}
	if n, err := strconv.Atoi(s); err != nil || n < 0 || n > 1000 {
		return v.fail(fmt.Sprintf("%q is not a number from 0 to 1000", s), hint)
	}
	return nil
}

func fileMode(v value) *FileError {
	s, ok := v.plain()
	digits := strings.TrimPrefix(s, "0o")
	n, err := strconv.ParseUint(digits, 8, 32)
	if !ok || err != nil || n > 0o777 || !strings.HasPrefix(s, "0") {
		return v.fail("want a file mode in octal", "for example 0444")
	}
	return nil
}

// pairs checks environment and labels: a mapping or a list of name=value.
func pairs(want string) check {
	return func(v value) *FileError {
		if items, ok := v.items(); ok {
			for _, item := range items {
				s, ok := item.text()
				if name, _, hasValue := strings.Cut(s, "="); !ok || !hasValue || name == "" {
					return item.fail("want name=value", "every name needs "+want)
				}
			}
			return nil
		}
		fields, ok := v.fields()
		if !ok {
			return v.fail("want a mapping, got "+v.kind(), "write one \"name: value\" a line")
		}
		for _, f := range fields {
			if f.name == "" || strings.Contains(f.name, "=") {
				return f.failKey(fmt.Sprintf("%q is not a name", f.name), "a name is not empty and holds no =")
			}
			if _, ok := f.text(); !ok && f.tag != "!reset" {
				return f.failKey("want text, got "+f.kind(), "every name needs "+want)
			}
		}
		return nil
	}
}

// dependsOn takes both forms of Compose. Started and healthy mean the same
// here: a node starts when those it depends on answer their probe.
func dependsOn(v value) *FileError {
	if _, ok := v.items(); ok {
		return listOf(text("a service's name"))(v)
	}
	condition := func(v value) *FileError {
		if s, _ := v.text(); s != types.ServiceConditionStarted && s != types.ServiceConditionHealthy {
			return v.fail(fmt.Sprintf("condition %q is not supported", s),
				"service_started or service_healthy; both wait until the node answers its probe")
		}
		return nil
	}
	reasons := map[string]string{
		"restart":  "a node that died stays dead, since that is evidence",
		"required": "every service of a topology is started",
	}
	return eachField(mapping(map[string]check{"condition": condition}, reasons, nil))(v)
}

// oneNetwork accepts the network that every topology has anyway, so that a file
// can be run by docker compose in a closed network too.
func oneNetwork(v value) *FileError {
	const hint = "all nodes share one closed network; say who talks to whom with links:"
	fields, ok := v.fields()
	if !ok {
		return v.fail("want a mapping, got "+v.kind(), hint)
	}
	for i, f := range fields {
		if i > 0 {
			return f.failKey("a second network is not supported", hint)
		}
		if f.null() {
			continue
		}
		if err := mapping(map[string]check{"internal": boolean}, nil, yamlNames[types.NetworkConfig]())(f.value); err != nil {
			return err
		}
	}
	return nil
}

func networkNames(v value) *FileError {
	return listOf(text("the network's name"))(v)
}
