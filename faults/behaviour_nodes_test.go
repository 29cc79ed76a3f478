package faults_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"relapse/faults"
	"relapse/topologies"
	"relapse/topologies/relay"
)

func instance(t *testing.T, sys *topologies.System, name string) *topologies.Instance {
	t.Helper()
	i, err := sys.Instance(name)
	if err != nil {
		t.Fatal(err)
	}
	return i
}

func state(t *testing.T, i *topologies.Instance) topologies.State {
	t.Helper()
	s, err := i.State(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// running has a node running again, whatever the test did with it.
func running(t *testing.T, i *topologies.Instance) {
	t.Helper()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := errors.Join(i.Resume(ctx), i.Start(ctx)); err != nil {
			t.Error(err)
		}
		for ctx.Err() == nil {
			if _, err := i.Probe(ctx); err == nil {
				return
			}
		}
		t.Errorf("node %s does not answer again", i.Name())
	})
}

const onNode = "nodes: [server]\n"

// The worst case for a proxy: data is on its way to a node that does not read,
// and faults come and go on the link meanwhile.
func TestPauseWithOtherFaultsOnItsLink(t *testing.T) {
	sys := system(t)
	running(t, instance(t, sys, "server"))
	open := dial(t, sys)
	must(t, open)
	stopped := injected(t, sys, "pause", onNode)
	// Fill the buffers on the way to the node.
	_ = open.SetWriteDeadline(time.Now().Add(500 * time.Millisecond))
	junk := make([]byte, 64<<10)
	for {
		if _, err := open.Write(junk); err != nil {
			break
		}
	}
	late := armed(t, sys, "latency", onLink+"latency: 50ms")
	began := time.Now()
	var forced *relay.ForcedError
	if err := late.Inject(t.Context()); err != nil && !errors.As(err, &forced) {
		t.Fatal(err)
	}
	undo(t, late, "undo latency while the node stands still")
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("latency came and went in %s", took)
	}
	undo(t, stopped, "undo pause")
	eventually(t, 5*time.Second, "pause is gone", seen(t.Context(), stopped, false))
	must(t, dial(t, sys))
}

func TestPauseOfANodeThatDies(t *testing.T) {
	sys := system(t)
	server := instance(t, sys, "server")
	running(t, server)
	a := injected(t, sys, "pause", onNode)
	if err := server.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	undo(t, a, "undo a pause whose node is dead")
	undo(t, a, "undo it again")
}

func TestKillStaysDead(t *testing.T) {
	sys := system(t)
	server := instance(t, sys, "server")
	running(t, server)
	before := state(t, server)
	a := injected(t, sys, "kill", onNode)
	always(t, 500*time.Millisecond, "the node stays dead", func() error {
		if state(t, server).Running {
			return errors.New("it runs")
		}
		return nil
	})
	if got := state(t, server).ExitCode; got != 137 {
		t.Errorf("exit code %d, want 137 of a SIGKILL", got)
	}
	undo(t, a, "undo")
	eventually(t, 5*time.Second, "kill is gone", seen(t.Context(), a, false))
	if after := state(t, server); !after.StartedAt.After(before.StartedAt) {
		t.Error("the process that runs is the one from before")
	}
	must(t, dial(t, sys))
}

func TestRestartStartsInTime(t *testing.T) {
	sys := system(t)
	server := instance(t, sys, "server")
	running(t, server)
	before := state(t, server)
	a := armed(t, sys, "restart", onNode+"after: 600ms")
	if err := a.Inject(t.Context()); err != nil {
		t.Fatal(err)
	}
	died := time.Now()
	always(t, 400*time.Millisecond, "the node is dead for a time", func() error {
		if state(t, server).Running {
			return errors.New("it runs")
		}
		return nil
	})
	eventually(t, 5*time.Second, "the node runs again while the fault is held", func() error {
		if !state(t, server).Running {
			return errors.New("it is dead")
		}
		return nil
	})
	t.Logf("dead for %s", time.Since(died).Round(time.Millisecond))
	if after := state(t, server); !after.StartedAt.After(before.StartedAt) {
		t.Error("the process that runs is the one from before")
	}
	if got, err := a.InEffect(t.Context()); err != nil || !got {
		t.Errorf("in effect: %t, %v; a restart is still to be seen by the process's age", got, err)
	}
	undo(t, a, "undo")
	eventually(t, 5*time.Second, "restart is gone", seen(t.Context(), a, false))
}

func TestRestartUndoneBeforeItsStart(t *testing.T) {
	sys := system(t)
	server := instance(t, sys, "server")
	running(t, server)
	a := armed(t, sys, "restart", onNode+"after: 1h")
	if err := a.Inject(t.Context()); err != nil {
		t.Fatal(err)
	}
	undo(t, a, "undo")
	if !state(t, server).Running {
		t.Error("the node is dead after Undo")
	}
}

// A loop is a death after each start, with the times given between them, and it
// ends with a node that lives.
func TestCrashLoopGoesOn(t *testing.T) {
	sys := system(t)
	server := instance(t, sys, "server")
	running(t, server)
	a := armed(t, sys, "crash-loop", onNode+"up: 400ms\ndown: 300ms")
	began := time.Now()
	if err := a.Inject(t.Context()); err != nil {
		t.Fatal(err)
	}
	lives := map[time.Time]bool{}
	deaths, alive := 1, false
	eventually(t, 20*time.Second, "four deaths", func() error {
		s := state(t, server)
		switch {
		case s.Running:
			lives[s.StartedAt] = true
			alive = true
		case alive:
			alive = false
			deaths++
		}
		if deaths < 4 {
			return fmt.Errorf("%d deaths", deaths)
		}
		return nil
	})
	if len(lives) != 3 {
		t.Errorf("%d processes lived between four deaths, want 3", len(lives))
	}
	if took := time.Since(began); took < 3*700*time.Millisecond {
		t.Errorf("four deaths took %s, want three times 700 ms at least", took)
	}
	undo(t, a, "undo")
	eventually(t, 5*time.Second, "crash-loop is gone", seen(t.Context(), a, false))
	last := state(t, server).StartedAt
	always(t, time.Second, "the node lives", func() error {
		if s := state(t, server); !s.Running || !s.StartedAt.Equal(last) {
			return errors.New("it died")
		}
		return nil
	})
	must(t, dial(t, sys))
}

// One restart is no loop.
func TestCrashLoopIsNotSeenBeforeItsSecondDeath(t *testing.T) {
	sys := system(t)
	server := instance(t, sys, "server")
	running(t, server)
	a := armed(t, sys, "crash-loop", onNode+"up: 1h\ndown: 0s")
	before := state(t, server).StartedAt
	if err := a.Inject(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, 5*time.Second, "the node runs again", func() error {
		if s := state(t, server); !s.Running || !s.StartedAt.After(before) {
			return errors.New("it is dead")
		}
		return nil
	})
	if got, err := a.InEffect(t.Context()); err != nil || got {
		t.Errorf("in effect after one restart: %t, %v", got, err)
	}
}

// A pause loop stands still again and again, is not seen before it has done so twice,
// and ends with a node that goes on.
func TestPauseLoopGoesOn(t *testing.T) {
	sys := system(t)
	server := instance(t, sys, "server")
	running(t, server)
	a := armed(t, sys, "pause-loop", onNode+"pause: 600ms\nrun: 300ms")
	if err := a.Inject(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got, err := a.InEffect(t.Context()); err != nil || got {
		t.Errorf("in effect in its first pause: %t, %v", got, err)
	}
	eventually(t, 5*time.Second, "pause-loop is in effect", seen(t.Context(), a, true))
	pauses, still := 0, false
	eventually(t, 10*time.Second, "three more pauses", func() error {
		paused := state(t, server).Paused
		if paused && !still {
			pauses++
		}
		if still = paused; pauses < 3 {
			return fmt.Errorf("%d pauses", pauses)
		}
		return nil
	})
	undo(t, a, "undo")
	eventually(t, 5*time.Second, "pause-loop is gone", seen(t.Context(), a, false))
	always(t, time.Second, "the node goes on", func() error {
		if s := state(t, server); !s.Running || s.Paused {
			return errors.New("it stands still")
		}
		return nil
	})
	must(t, dial(t, sys))
}

func TestCPULimitThrottles(t *testing.T) {
	sys := system(t)
	server := instance(t, sys, "server")
	busy := func() (cores float64) {
		before, err := server.Usage()
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		for time.Since(began) < time.Second {
			download(t, sys, 4, 300*time.Millisecond)
		}
		after, err := server.Usage()
		if err != nil {
			t.Fatal(err)
		}
		return (after.CPUSeconds - before.CPUSeconds) / time.Since(began).Seconds()
	}
	free := busy()
	limit := free / 3
	a := injected(t, sys, "cpu-limit", fmt.Sprintf("%scpus: %.3f", onNode, limit))
	used := busy()
	t.Logf("%.3f cores used with a limit of %.3f, %.3f without", used, limit, free)
	if used > 1.3*limit {
		t.Errorf("%.3f cores used, want %.3f or less", used, limit)
	}
	undo(t, a, "undo")
	if got, err := server.CPUs(t.Context()); err != nil || got != 0 {
		t.Errorf("afterwards the limit is %v (%v), want none", got, err)
	}
}

func TestSurgesMultiply(t *testing.T) {
	sys := system(t)
	generator := players(t, sys, "players")
	near := func(want float64) func() error {
		return near(func() (float64, error) { return generator.Arrivals(t.Context(), "get") }, want, 0.1*want)
	}
	eventually(t, 3*time.Second, "the plain rate", near(plainRate))
	first := armed(t, sys, "surge", "{node: players, operation: get, times: 3}")
	second := armed(t, sys, "surge", "{node: players, operation: get, times: 2}")
	for _, a := range []faults.Armed{first, second} {
		if err := a.Inject(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, 3*time.Second, "six times the rate", near(6*plainRate))
	undo(t, first, "undo the first")
	eventually(t, 3*time.Second, "twice the rate", near(2*plainRate))
	undo(t, second, "undo the second")
	eventually(t, 3*time.Second, "the plain rate again", near(plainRate))
}

// A fault whose injection was cut short by a context that ended is undone like
// any other, and does not come after all once Undo is done.
func TestUndoAfterAnInjectThatFailed(t *testing.T) {
	sys := system(t)
	running(t, instance(t, sys, "server"))
	running(t, instance(t, sys, "control"))
	for _, kind := range faults.Kinds() {
		t.Run(kind.Name, func(t *testing.T) {
			needHosts(t, kind)
			example := strings.NewReplacer("client -> server", "client -> *", "[server]", `["server", "control"]`, "[host-1]", "[host-*]").Replace(kind.Example)
			a, err := decoded(t, kind.Name, example).Arm(t.Context(), sys, rand.New(rand.NewPCG(7, 7)))
			if err != nil {
				t.Fatal(err)
			}
			for _, patience := range []time.Duration{0, time.Millisecond, 30 * time.Millisecond} {
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				err := a.Inject(ctx)
				cancel()
				t.Logf("%s: %v", patience, err)
				undo(t, a, "undo")
				eventually(t, 5*time.Second, "nothing is left", seen(t.Context(), a, false))
				always(t, 100*time.Millisecond, "nothing comes back", seen(t.Context(), a, false))
			}
		})
	}
}

func TestHoldsSideBySide(t *testing.T) {
	sys := system(t)
	// Their server may have been restarted just before.
	eventually(t, 5*time.Second, "all sessions are connected", allConnected(t, players(t, sys, "players")))
	until := make(chan struct{})
	var all sync.WaitGroup
	for _, f := range []struct{ kind, have string }{
		{"latency", onLink + "latency: 40ms"},
		{"cpu-limit", onNode + "cpus: 0.5"},
		{"connection-cap", onLink + "connections: 50"},
		{"surge", "{node: players, operation: get, times: 3}"},
		{"malformed", "{node: players, operation: get, percent: 50%}"},
		{"reconnect-wave", "{node: players, every: 500ms}"},
	} {
		a := armed(t, sys, f.kind, f.have)
		all.Go(func() {
			if r := faults.Hold(t.Context(), a, until, faults.HoldOptions{}); r.Err != nil || !r.Gone {
				t.Errorf("%s: %+v", f.kind, r)
			}
		})
	}
	phase := time.AfterFunc(2*time.Second, func() { close(until) })
	defer phase.Stop()
	all.Wait()
}

func TestArmRefuses(t *testing.T) {
	sys := system(t)
	for _, tc := range []struct{ name, kind, have string }{
		{"links that are not there", "latency", "{links: [server -> client], latency: 1s}"},
		{"a link without a proxy", "refuse", "links: [players -> control]"},
		{"nodes that are not there", "pause", "nodes: [nginx-*]"},
		{"a rate that nothing reaches", "bandwidth", onLink + "rate: 90Gbit"},
		{"players that are none", "surge", "{node: server, operation: get, times: 3}"},
		{"players that are not there", "surge", "{node: nobody, operation: get, times: 3}"},
		{"an operation that is none", "surge", "{node: players, operation: dance, times: 3}"},
		{"an operation without a malformed request", "malformed", "{node: players, operation: plain, percent: 50%}"},
		{"a malformed operation that is none", "malformed", "{node: players, operation: dance, percent: 50%}"},
		{"malformed requests of no players", "malformed", "{node: server, operation: get, percent: 50%}"},
		{"waves of no players", "reconnect-wave", "{node: server, every: 1s}"},
		{"a redirect of no players", "redirect", "{node: server, from: control, to: spare}"},
		{"a redirect from what is no target", "redirect", "{node: players, from: server, to: spare}"},
		{"a redirect to what is no target", "redirect", "{node: players, from: control, to: server}"},
		{"a side that is not there", "partition", "sides: [[client], [nginx-*]]"},
		{"sides that have a node in common", "partition", "sides: [[client, server], ['s*']]"},
		{"sides without a link between them", "partition", "sides: [[server], [control]]"},
		{"sides with a link without a proxy", "partition", "sides: [[client, players], [control]]"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a, err := decoded(t, tc.kind, tc.have).Arm(t.Context(), sys, rand.New(rand.NewPCG(1, 1)))
			if err == nil {
				t.Fatalf("armed %+v", a)
			}
			t.Log(err)
		})
	}
}
