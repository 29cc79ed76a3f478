package faults_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"relapse/faults"
	"relapse/topologies"
)

var update = flag.Bool("update", false, "write the golden files anew")

// rig is the one system that all tests with containers share: that one test
// must leave nothing behind for the next is part of what they test.
var rig struct {
	once   sync.Once
	folder string
	system *topologies.System
	err    error
}

const plainRate = 80 // of each operation of the players, per second

func TestMain(m *testing.M) {
	code := m.Run()
	if rig.system != nil {
		if err := rig.system.Stop(context.Background()); err != nil {
			fmt.Fprintln(os.Stderr, "stop the rig:", err)
			code = 1
		}
	}
	if rig.folder != "" {
		_ = os.RemoveAll(rig.folder)
	}
	os.Exit(code)
}

func system(t *testing.T) *topologies.System {
	t.Helper()
	if !topologies.InNamespaces() {
		topologies.RequireEngine(t)
	}
	rig.once.Do(func() { rig.system, rig.err = startRig() })
	if rig.err != nil {
		t.Fatal(rig.err)
	}
	return rig.system
}

func startRig() (*topologies.System, error) {
	program, err := rigProgram()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	topology, err := topologies.Load(ctx, os.DirFS("testdata"), "rig")
	if err != nil {
		return nil, err
	}
	if topologies.CheckHosts(ctx) != nil {
		topology = withoutHosts(topology)
	}
	driver := topologies.Docker
	if topologies.InNamespaces() {
		driver = topologies.Process
	}
	s, err := topologies.Start(ctx, topology, topologies.Options{
		Run: fmt.Sprintf("faults-%d", os.Getpid()), Binary: program, Driver: driver, Proxied: topology.MatchLinks("client -> *"),
	})
	if err != nil {
		return nil, err
	}
	usual := map[string]float64{"get": plainRate, "other": plainRate, "plain": 1}
	for generator, rates := range map[string]map[string]float64{"players": usual, "bystanders": usual, "queue": {"match": plainRate}} {
		players, err := s.Players(generator)
		if err != nil {
			return s, err
		}
		if err := players.SetRates(ctx, rates); err != nil {
			return s, err
		}
	}
	return s, nil
}

// programVariable holds the path of the rig's program where it is built already: see
// TestContractByProcesses.
const programVariable = "RELAPSE_TEST_PROGRAM"

// rigProgram builds it once.
var rigProgram = sync.OnceValues(func() (string, error) {
	if built := os.Getenv(programVariable); built != "" {
		return built, nil
	}
	var err error
	if rig.folder, err = os.MkdirTemp("", "relapse-faults-"); err != nil {
		return "", err
	}
	program := filepath.Join(rig.folder, "program")
	// As make build has it, so that packages are compiled once for both.
	build := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", program, "./testdata/program")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the rig's program: %w\n%s", err, out)
	}
	return program, nil
})

// withoutHosts takes the hosts away with all that is on them.
func withoutHosts(t *topologies.Topology) *topologies.Topology {
	out := *t
	out.Hosts = nil
	out.Nodes = slices.DeleteFunc(slices.Clone(t.Nodes), func(n topologies.Node) bool { return n.Host != "" })
	return &out
}

// needHosts ends the test of a kind on hosts where there can be none.
func needHosts(t *testing.T, kind faults.Kind) {
	t.Helper()
	if kind.Group == faults.GroupHost {
		topologies.RequireHosts(t)
	}
}

// decoded gives a fault whose parameters are written in yaml.
func decoded(t *testing.T, kind, text string) faults.Fault {
	t.Helper()
	f, err := faults.Decode(kind, parameters(t, text))
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Validate(); err != nil {
		t.Fatal(err)
	}
	return f
}

// eventually polls a condition until it holds, and names it if it never does.
func eventually(t *testing.T, within time.Duration, what string, holds func() error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := holds()
		if err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("%s: not within %s: %v", what, within, err)
		}
	}
}

// always polls a condition for a time.
func always(t *testing.T, lasts time.Duration, what string, holds func() error) {
	t.Helper()
	over := time.NewTimer(lasts)
	defer over.Stop()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if err := holds(); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		select {
		case <-over.C:
			return
		case <-tick.C:
		}
	}
}
