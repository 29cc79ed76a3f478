package simulants_test

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"runtime/debug"
	"testing"
	"time"

	"relapse/topologies/services/apart"
)

func TestMain(m *testing.M) {
	apart.Main(m, map[string]apart.Part{"platform": servePlatform, "harness": serveHarness})
}

// servePlatform is the platform of a benchmark. It says at which address it answers.
func servePlatform(in *json.Decoder, out *json.Encoder) error {
	debug.SetGCPercent(800) // it shares the machine with what is measured
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	p := newPlatform(35 * time.Minute)
	p.lastsMS = time.Hour.Milliseconds() // of a token: players renew theirs sooner
	go http.Serve(listener, p)
	if err := out.Encode("http://" + listener.Addr().String()); err != nil {
		return err
	}
	_ = in.Decode(new(any)) // until the benchmark is over
	return nil
}

// startPlatform starts the platform of a benchmark and gives its address.
func startPlatform(tb testing.TB) (address string) {
	tb.Helper()
	apart.Start(tb, "platform").Hear(&address)
	return address
}

// BenchmarkPlayers plays for a fixed time, whatever b.N is: run it with -benchtime 1x.
// Documented is 2,500 players on a core. The first one plays at the speed of the
// incident's documented times, with all polls; the others show, by more requests of
// each player, what a core carries.
//
// players/core is players over the cores that the harness used; its platform is
// another process. Lateness is that of all requests since the first login, those of
// the ramp as well.
func BenchmarkPlayers(b *testing.B) {
	for _, c := range []struct {
		players, speed int
	}{{25_000, 1}, {25_000, 4}, {100_000, 1}} {
		b.Run(fmt.Sprintf("players=%d/speed=%d", c.players, c.speed), func(b *testing.B) {
			benchmarkPlayers(b, c.players, c.speed)
		})
	}
}

const (
	loginRate = 4000 // a second
	settleFor = 3 * time.Second
	measured  = 10 * time.Second
)

func benchmarkPlayers(b *testing.B, players, speed int) {
	defer debug.SetGCPercent(debug.SetGCPercent(800)) // as the service has it
	conf := config(b, startPlatform(b), fmt.Sprintf(`
speed: %d
players: %d
ranges: 256
login_rate: %d
scenarios: {match: 45m, buy: 1h, skin: 30m}
think: 3s
retry_after: 500ms
match: {ask: 2s, ask_playing: 15s, granted_within: 2s}
`, speed, players, loginRate))
	before := apart.Heap()
	h, stop := run(b, conf, nil)
	defer stop()
	order(b, h, map[string]float64{"players": float64(players)})
	ramp := time.Duration(players)*time.Second/loginRate + settleFor
	rest(ramp)
	if have := signedIn(b, h); have < 0.99*float64(players) {
		b.Fatalf("have %v players signed in after %v, want %d: the machine is too slow for this benchmark", have, ramp, players)
	}
	requests := func() float64 { return sum(b, h, "relapse_attempts_total") }
	sent, since := requests(), used(b)
	rest(measured)
	took, cores := used(b).Since(since)
	perSecond := (requests() - sent) / took.Seconds()
	b.ReportMetric(0, "ns/op") // the time is fixed
	b.ReportMetric(float64(players)/cores, "players/core")
	b.ReportMetric(cores, "cores")
	b.ReportMetric(perSecond, "requests/s")
	b.ReportMetric(perSecond/cores, "requests/s/core")
	b.ReportMetric(60*perSecond/float64(players), "requests/player-minute")
	b.ReportMetric(float64(h.LatenessP99().Microseconds())/1000, "lateness-p99-ms")
	b.ReportMetric((apart.Heap()-before)/float64(players), "bytes/player")
	if all, ok := sum(b, h, "relapse_requests_total", "op", "heartbeat"), sum(b, h, "relapse_requests_total", "op", "heartbeat", "outcome", "ok"); ok < 0.99*all {
		b.Errorf("have %v of %v heartbeats answered, want nearly all: the platform is too slow for this benchmark", ok, all)
	}
	if have := sum(b, h, "relapse_player_mismatch_total"); have != 0 {
		b.Errorf("have %v mismatches, want none", have)
	}
}

// rest lets a part of a benchmark's fixed time pass.
func rest(d time.Duration) { <-time.After(d) }

// used is what this process has used.
func used(b *testing.B) apart.Usage {
	b.Helper()
	u, err := apart.Used()
	if err != nil {
		b.Fatal(err)
	}
	return u
}
