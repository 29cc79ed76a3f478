package suites_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"relapse/replays"
	"relapse/topologies"
)

// buildBinary builds the tool for a benchmark, as it runs inside the containers.
func buildBinary(b *testing.B) string {
	b.Helper()
	path := filepath.Join(b.TempDir(), "relapse")
	build := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", path, "..")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		b.Fatalf("build the tool: %v\n%s", err, out)
	}
	return path
}

// linkTopology is a client and a server with one link, which is asked for over
// its proxy and past it.
var linkTopology = fstest.MapFS{"link/compose.yaml": {Data: []byte(`
name: link
services:
  client:
    image: relapse
    command: [service, echo]
    links: [server]
    labels: {relapse.probe: "http:8080/bytes"}
  server:
    image: relapse
    command: [service, echo]
    expose: ["8080"]
    labels: {relapse.probe: "http:8080/bytes"}
`)}}

// BenchmarkLink measures what the relay adds to a link: small HTTP exchanges on
// kept connections between this machine and a container, past the relay and
// through it, in one run. Only the ratios carry over to other machines.
func BenchmarkLink(b *testing.B) {
	topologies.RequireEngine(b)
	ctx := b.Context()
	t, err := topologies.Load(ctx, linkTopology, "link")
	if err != nil {
		b.Fatal(err)
	}
	link := t.Links[0]
	sys, err := topologies.Start(ctx, t, topologies.Options{Run: "bench-link", Binary: buildBinary(b), Proxied: []topologies.Link{link}})
	if err != nil {
		b.Fatal(err)
	}
	defer func() {
		if err := sys.Stop(context.WithoutCancel(ctx)); err != nil {
			b.Error(err)
		}
	}()
	server, err := sys.Instance("server")
	if err != nil {
		b.Fatal(err)
	}
	direct := func(ctx context.Context) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", net.JoinHostPort(server.Address().String(), fmt.Sprint(link.Port)))
	}
	proxied := func(ctx context.Context) (net.Conn, error) { return sys.Dial(ctx, link) }
	for _, connections := range []int{1, 16} {
		for _, path := range []struct {
			name string
			dial func(context.Context) (net.Conn, error)
		}{{"direct", direct}, {"proxied", proxied}} {
			b.Run(fmt.Sprintf("%s/connections=%d", path.name, connections), func(b *testing.B) {
				exchangeAll(b, path.dial, server.Node().Probe, connections)
			})
		}
	}
}

// exchangeAll makes b.N exchanges over some connections, each of which asks
// again once it was answered.
func exchangeAll(b *testing.B, dial func(context.Context) (net.Conn, error), probe topologies.Probe, connections int) {
	took := make([][]time.Duration, connections)
	var group sync.WaitGroup
	b.ResetTimer()
	for n := range connections {
		share := b.N / connections
		if n < b.N%connections {
			share++
		}
		group.Go(func() {
			conn, err := dial(b.Context())
			if err != nil {
				b.Error(err)
				return
			}
			defer conn.Close()
			for range share {
				began := time.Now()
				if _, err := topologies.Exchange(b.Context(), conn, probe); err != nil {
					b.Error(err)
					return
				}
				took[n] = append(took[n], time.Since(began))
			}
		})
	}
	group.Wait()
	b.StopTimer()
	all := slices.Concat(took...)
	if len(all) == 0 {
		b.Fatal("no exchange was made")
	}
	slices.Sort(all)
	b.ReportMetric(float64(all[len(all)/2].Microseconds()), "p50-µs")
	b.ReportMetric(float64(all[len(all)*99/100].Microseconds()), "p99-µs")
	b.ReportMetric(float64(len(all))/b.Elapsed().Seconds(), "exchanges/s")
}

// BenchmarkPlay plays the un-fixed arm of an incident and reports what the tool
// itself adds: the time beyond the phases, and how late faults were injected
// and seen, by the play's own clock.
func BenchmarkPlay(b *testing.B) {
	topologies.RequireEngine(b)
	unlock, err := replays.Lock()
	if err != nil {
		b.Fatal(err)
	}
	defer unlock()
	inc, err := replays.Find("account-service")
	if err != nil {
		b.Fatal(err)
	}
	binary := buildBinary(b)
	var beyond, injected, seen, gone []float64
	for n := 0; b.Loop(); n++ {
		plan, err := inc.Plan("unfixed", uint64(n))
		if err != nil {
			b.Fatal(err)
		}
		record, err := replays.Play(b.Context(), inc, plan, filepath.Join(b.TempDir(), "record"), replays.PlayOptions{
			Run: fmt.Sprintf("bench-play-%d", n), Binary: binary,
		})
		if err != nil {
			b.Fatal(err)
		}
		verdict := replays.JudgePlay(record)
		beyond = append(beyond, verdict.Seconds-verdict.Phases)
		for k, f := range verdict.Faults {
			if plan.Faults[k].Condition || f.InjectedAt == nil || f.InEffectAt == nil || f.GoneAt == nil {
				continue
			}
			injected = append(injected, *f.InjectedAt-f.ScheduledAt)
			seen = append(seen, *f.InEffectAt-*f.InjectedAt)
			gone = append(gone, *f.GoneAt-*f.UndoneAt)
		}
	}
	if len(injected) == 0 {
		b.Fatal("no fault was seen")
	}
	b.ReportMetric(slices.Max(beyond), "s-beyond-phases")
	b.ReportMetric(1000*slices.Max(injected), "ms-injected-late")
	b.ReportMetric(1000*slices.Max(seen), "ms-until-seen")
	b.ReportMetric(1000*slices.Max(gone), "ms-until-gone")
}

// BenchmarkDriver replays the healthy arm of an incident as a person does, by each
// driver, and reports the time from the command to the first phase, whose first sample
// is taken at once, and from the last phase's end until the command has ended. The
// latter holds the last sample, a quarter of a second after the end, and the report.
func BenchmarkDriver(b *testing.B) {
	binary := buildBinary(b)
	for _, driver := range topologies.Drivers {
		b.Run(string(driver), func(b *testing.B) {
			if driver == topologies.Process {
				topologies.RequireNamespaces(b, binary)
			} else {
				topologies.RequireEngine(b)
			}
			var up, down []float64
			for b.Loop() {
				dir := filepath.Join(b.TempDir(), "record")
				command := exec.Command(binary, "replay", "account-service", "--arm", "healthy", "--driver", string(driver), "--out", dir)
				began := time.Now()
				out, err := command.CombinedOutput()
				ended := time.Now()
				if code := command.ProcessState.ExitCode(); code > 2 || code < 0 {
					b.Fatalf("%v\n%s", err, out)
				}
				record, err := replays.ReadRecord(dir)
				if err != nil {
					b.Fatal(err)
				}
				for _, e := range record.Events {
					switch {
					case e.Event == replays.EventPhase && len(up) == len(down):
						up = append(up, e.At.Sub(began).Seconds())
					case e.Event == replays.EventPhasesEnd:
						down = append(down, ended.Sub(e.At).Seconds())
					}
				}
			}
			if len(up) == 0 || len(up) != len(down) {
				b.Fatalf("%d plays began and %d ended", len(up), len(down))
			}
			b.ReportMetric(slices.Max(up), "s-to-first-phase")
			b.ReportMetric(slices.Max(down), "s-from-last-phase")
		})
	}
}
