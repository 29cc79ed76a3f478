package players_test

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"

	"relapse/topologies/services/players"
)

// BenchmarkRequest gives the CPU time of one request without retries: of the
// generator and of a server that does as little as one can, in one process. The
// rate is the account service's; a machine that is busy with other things makes
// the requests wait, but not cost more.
func BenchmarkRequest(b *testing.B) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer listener.Close()
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go sayNothing(conn)
		}
	}()
	c, err := players.ParseConfig(fmt.Appendf(nil, `
target: http://%s
tokens: 2000
operations:
  op: {method: GET, path: "/verify?token={token}"}
`, listener.Addr()))
	if err != nil {
		b.Fatal(err)
	}
	g, err := players.New(b.Context(), c)
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.Context())
	done := make(chan error, 1)
	go func() { done <- g.Run(ctx) }()
	answered := func() (n float64) {
		families, err := g.Registry().Gather()
		if err != nil {
			b.Fatal(err)
		}
		for _, family := range families {
			if family.GetName() != "relapse_requests_total" {
				continue
			}
			for _, m := range family.GetMetric() {
				if strings.Contains(label(m), "ok") {
					n += m.GetCounter().GetValue()
				}
			}
		}
		return n
	}
	b.ReportAllocs()
	b.ResetTimer()
	before := cpuTime(b)
	if err := g.SetRates(map[string]float64{"op": 2000}); err != nil {
		b.Fatal(err)
	}
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for answered() < float64(b.N) {
		<-tick.C
	}
	took := cpuTime(b) - before
	n := answered()
	b.StopTimer()
	cancel()
	if err := <-done; err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(took.Microseconds())/n, "cpu-µs/request")
}

// sayNothing answers every request of a connection with 204.
func sayNothing(conn net.Conn) {
	defer conn.Close()
	reader := bufio.NewReader(conn)
	for {
		for {
			line, err := reader.ReadSlice('\n')
			if err != nil {
				return
			}
			if len(line) <= 2 {
				break
			}
		}
		if _, err := conn.Write([]byte("HTTP/1.1 204 No Content\r\n\r\n")); err != nil {
			return
		}
	}
}

func label(m *dto.Metric) string {
	var all []string
	for _, l := range m.GetLabel() {
		all = append(all, l.GetValue())
	}
	return strings.Join(all, " ")
}

func cpuTime(b *testing.B) time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
