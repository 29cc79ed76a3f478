package relay_test

import (
	"io"
	"math"
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"

	"relapse/topologies/relay"
)

func TestThrottledIsPerConnection(t *testing.T) {
	const rate, size = 1 << 19, 1 << 18
	r := startRelay(t, []netip.AddrPort{startServer(t, func(c *net.TCPConn) { _, _ = c.Write(make([]byte, size)) })})
	r.add(t, 0, toxic("each", "throttled", relay.Downstream, map[string]any{"rate": rate}))
	var all sync.WaitGroup
	for range 3 {
		conn := r.dial(t, 0)
		start := time.Now()
		all.Go(func() {
			if n, err := io.Copy(io.Discard, conn); n != size || err != nil {
				t.Errorf("got %d bytes, %v", n, err)
			}
			if got := size / time.Since(start).Seconds(); math.Abs(got-rate) > 0.1*rate {
				t.Errorf("one of three connections got %.0f bytes a second, want %d", got, rate)
			}
		})
	}
	all.Wait()
}
