package platform_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"relapse/topologies/services/apart"
	"relapse/topologies/services/platform"
	"relapse/topologies/services/platform/api"
	"relapse/topologies/services/presence/redistest"
)

// What a client asks of the session service in a minute by itself, by the times of the
// incident valorant-launch.
const (
	heartbeatsAMinute = 4.0
	settingsAMinute   = 1.0
	renewalsAMinute   = 0.2
)

// BenchmarkSessionPerCore gives what a core of the session service carries: it has one,
// and is asked for heartbeats and settings, four to one, as fast as this process can. It
// writes the heartbeats to a Redis server and keeps the settings; the CPU time of Redis,
// of the origin and of those who ask is not counted.
//
// players/core is for how many players a core is enough, with their renewals. Where cores
// is less than one, those who ask were what was slow, and the figures of a core are
// quotients: what was carried is requests/s.
func BenchmarkSessionPerCore(b *testing.B) {
	perSecond, cores, failed := askSession(b, calmFor, playedFor)
	b.ReportMetric(0, "ns/op") // the time is fixed
	b.ReportMetric(cores, "cores")
	b.ReportMetric(perSecond, "requests/s")
	b.ReportMetric(perSecond/cores, "requests/s/core")
	b.ReportMetric(60*perSecond/cores/(heartbeatsAMinute+settingsAMinute+renewalsAMinute), "players/core")
	if failed > 0 {
		b.Errorf("have %d requests that failed, want none", failed)
	}
}

func TestASessionServiceIsMeasured(t *testing.T) {
	perSecond, cores, failed := askSession(t, 0, 200*time.Millisecond)
	if perSecond <= 0 || cores <= 0 || failed > 0 {
		t.Errorf("have %v requests a second with %v cores, of which %d failed, want some and none", perSecond, cores, failed)
	}
}

// askSession keeps a session service busy.
func askSession(tb testing.TB, calm, played time.Duration) (perSecond, cores float64, failures int64) {
	tb.Helper()
	const (
		askers = 24
		online = 100_000
	)
	l := newLeague(tb, time.Minute) // which is the origin of the settings
	server := redistest.Start(tb)
	session := apart.Start(tb, "session", "GOMAXPROCS=1", "GODEBUG=schedtrace=2000000000")
	var address string
	session.Ask(sessionPeers{Redis: server.Address, Origin: l.address}, &address)
	client, err := api.NewClient(address, "relapse-platform")
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(client.Close)
	var asked, answered, failed atomic.Int64
	ctx, stop := context.WithCancel(tb.Context())
	var asking sync.WaitGroup
	for range askers {
		asking.Go(func() {
			for ctx.Err() == nil {
				n := asked.Add(1)
				method, path := http.MethodPost, fmt.Sprintf("/heartbeat?player=%d", n%online)
				if n%5 == 0 {
					method, path = http.MethodGet, fmt.Sprintf("/config?player=%d", n%online)
				}
				if client.Call(method, path, nil, nil, time.Now().Add(2*time.Second)) != nil {
					failed.Add(1)
					continue
				}
				answered.Add(1)
			}
		})
	}
	defer asking.Wait()
	defer stop()
	stand := func() (n int64, u apart.Usage) {
		var h hosted
		session.Ask(false, &h)
		return answered.Load(), h.Usage
	}
	rest(calm)
	then, before := stand()
	rest(played)
	now, after := stand()
	took, cores := after.Since(before)
	return float64(now-then) / took.Seconds(), cores, failed.Load()
}

// sessionPeers are whom a session service asks.
type sessionPeers struct{ Redis, Origin string }

// serveSession is a session service, configured like the one of the topology.
func serveSession(in *json.Decoder, out *json.Encoder) error {
	var peers sessionPeers
	if err := in.Decode(&peers); err != nil {
		return err
	}
	c := config(platform.Session)
	c.Session.Redis = peers.Redis
	c.Session.Keep = 5 * time.Minute
	c.Session.BeatEvery = platform.DefaultBeatEvery
	return serveRole(in, out, c, peers.Origin, func(apart.Metrics) hosted { return hosted{} })
}
