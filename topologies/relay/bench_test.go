package relay_test

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"
)

// BenchmarkEcho compares exchanges of 100 bytes on a direct connection with the
// same through the relay, in one run on one machine: only the ratio means
// something.
func BenchmarkEcho(b *testing.B) {
	server := startServer(b, echo)
	r := startRelay(b, []netip.AddrPort{server, server, server})
	r.add(b, 1, toxic("far", "delay", "upstream", map[string]any{"latency_ms": 0.001}))
	r.add(b, 2, toxic("card", "shaped", "upstream", map[string]any{"bucket": "b", "rate": 1e9, "burst": 1e6}))
	for _, connections := range []int{1, 16} {
		for _, path := range []struct {
			name string
			to   netip.AddrPort
		}{
			{"direct", server},
			{"relay", r.links[0].Listen},
			{"relay-delay", r.links[1].Listen},
			{"relay-shaped", r.links[2].Listen},
		} {
			b.Run(fmt.Sprintf("%s/connections=%d", path.name, connections), func(b *testing.B) {
				measureEcho(b, path.to, connections)
			})
		}
	}
}

func measureEcho(b *testing.B, to netip.AddrPort, connections int) {
	message := string(make([]byte, 100))
	var mu sync.Mutex
	var all []time.Duration
	var wait sync.WaitGroup
	each := b.N/connections + 1
	conns := make([]net.Conn, connections)
	for i := range conns {
		conn, err := net.Dial("tcp4", to.String())
		if err != nil {
			b.Fatal(err)
		}
		defer conn.Close()
		conns[i] = conn
	}
	b.ResetTimer()
	for _, conn := range conns {
		wait.Go(func() {
			took := make([]time.Duration, 0, each)
			for range each {
				d, err := exchange(conn, message, 5*time.Second)
				if err != nil {
					b.Error(err)
					return
				}
				took = append(took, d)
			}
			mu.Lock()
			all = append(all, took...)
			mu.Unlock()
		})
	}
	wait.Wait()
	b.StopTimer()
	slices.Sort(all)
	at := func(q float64) float64 { return float64(all[int(q*float64(len(all)-1))].Nanoseconds()) / 1e3 }
	b.ReportMetric(at(0.5), "p50-µs")
	b.ReportMetric(at(0.99), "p99-µs")
	b.ReportMetric(float64(len(all))/b.Elapsed().Seconds(), "exchanges/s")
}
