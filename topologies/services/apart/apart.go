// Package apart runs parts of a benchmark in processes of their own, so that the CPU
// time and the memory of each are nobody else's.
//
// A part is a function of the test's own program, which is started again for it. It and
// the benchmark talk in lines of JSON, over its standard input and output:
//
//	func TestMain(m *testing.M) { apart.Main(m, map[string]apart.Part{"platform": servePlatform}) }
//
//	platform := apart.Start(b, "platform")
//	platform.Hear(&address)
package apart

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// partName in the environment has the test's program be a part.
const partName = "RELAPSE_TEST_PART"

// began is when this process has.
var began = time.Now()

// Part is what a process does. It ends once there is nothing more to read, which says
// that the benchmark is over.
type Part func(in *json.Decoder, out *json.Encoder) error

// Main runs the tests of a package, or the part that this process was started for. It
// does not return.
func Main(m *testing.M, parts map[string]Part) {
	name := os.Getenv(partName)
	if name == "" {
		os.Exit(m.Run())
	}
	part, known := parts[name]
	if !known {
		fmt.Fprintf(os.Stderr, "%s=%s: this program has no such part\n", partName, name)
		os.Exit(1)
	}
	if err := part(json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// Process is a part that runs, until the test or benchmark that has started it ends.
type Process struct {
	tb   testing.TB
	name string
	in   *json.Encoder
	out  *json.Decoder
}

// Start starts a part, with some variables of the environment beside those of this
// process.
func Start(tb testing.TB, name string, environment ...string) *Process {
	tb.Helper()
	command := exec.Command(os.Args[0])
	command.Env = append(append(os.Environ(), environment...), partName+"="+name)
	command.Stderr = os.Stderr
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	in, err := command.StdinPipe()
	if err != nil {
		tb.Fatal(err)
	}
	out, err := command.StdoutPipe()
	if err != nil {
		tb.Fatal(err)
	}
	if err := command.Start(); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		in.Close()
		if err := command.Wait(); err != nil {
			tb.Errorf("%s: %v", name, err)
		}
	})
	return &Process{tb: tb, name: name, in: json.NewEncoder(in), out: json.NewDecoder(out)}
}

// Tell sends something to the part.
func (p *Process) Tell(what any) {
	p.tb.Helper()
	if err := p.in.Encode(what); err != nil {
		p.tb.Fatalf("tell %s: %v", p.name, err)
	}
}

// Hear waits for what the part says.
func (p *Process) Hear(into any) {
	p.tb.Helper()
	if err := p.out.Decode(into); err != nil {
		p.tb.Fatalf("hear of %s: %v", p.name, err)
	}
}

// Ask does both.
func (p *Process) Ask(what, into any) {
	p.tb.Helper()
	p.Tell(what)
	p.Hear(into)
}

// Usage is what a process has used until a moment.
type Usage struct {
	At       time.Duration // since it began
	CPU      time.Duration // of all its threads, user and system
	Resident float64       // bytes of memory that it holds at that moment
}

// Used gives the usage of this process.
func Used() (Usage, error) {
	// The most that was resident is no use here: a process inherits it from whoever
	// started it.
	pages, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return Usage{}, fmt.Errorf("memory of this process: %w", err)
	}
	var size, resident float64
	if _, err := fmt.Sscan(string(pages), &size, &resident); err != nil {
		return Usage{}, fmt.Errorf("memory of this process: %q: %w", pages, err)
	}
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		return Usage{}, fmt.Errorf("CPU time of this process: %w", err)
	}
	return Usage{
		At: time.Since(began), CPU: time.Duration(used.Utime.Nano() + used.Stime.Nano()),
		Resident: resident * float64(os.Getpagesize()),
	}, nil
}

// Since gives the time that has passed since an earlier usage of the same process, and
// how many cores it has used in that on the average.
func (u Usage) Since(earlier Usage) (passed time.Duration, cores float64) {
	passed = u.At - earlier.At
	return passed, (u.CPU - earlier.CPU).Seconds() / passed.Seconds()
}

// Heap gives the bytes that this process has on its heap and on stacks, without garbage.
func Heap() float64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc + m.StackInuse)
}

// Metrics are all of a registry at a moment.
type Metrics []*dto.MetricFamily

// Gather reads them.
func Gather(registry *prometheus.Registry) (Metrics, error) { return registry.Gather() }

// Sum adds up the counters and gauges of a name whose labels are these, if they are
// given: "op", "buy", "outcome", "ok". It panics if there are none: such a name is a
// mistake of the benchmark, and zero would read as a measurement.
func (m Metrics) Sum(name string, labels ...string) (total float64) {
	found := false
	for _, family := range m {
		if family.GetName() != name {
			continue
		}
		for _, one := range family.GetMetric() {
			if has(one, labels) {
				found = true
				total += one.GetCounter().GetValue() + one.GetGauge().GetValue()
			}
		}
	}
	if !found {
		panic(fmt.Sprintf("no metric %s%q", name, labels))
	}
	return total
}

func has(m *dto.Metric, labels []string) bool {
	have := map[string]string{}
	for _, l := range m.GetLabel() {
		have[l.GetName()] = l.GetValue()
	}
	for n := 0; n+1 < len(labels); n += 2 {
		if have[labels[n]] != labels[n+1] {
			return false
		}
	}
	return true
}
