package simulants_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"relapse/topologies/services/apart"
	"relapse/topologies/services/presence/redistest"
	"relapse/topologies/services/simulants"
)

const (
	// Documented: one harness on 4 CPUs was 10,000 players.
	documentedHarness = 10_000 // players
	documentedCore    = 2_500  // players

	// mostLate is what 99 of 100 requests may be late by at most: a harness that is late
	// for more of them does not carry its players.
	mostLate = 50 * time.Millisecond

	sharedRanges = 256
	allLogins    = 6000 // a second, of all harnesses
	calmFor      = 2 * time.Second
	playedFor    = 6 * time.Second
)

// BenchmarkPlayersPerCore plays for a fixed time, whatever b.N is. Every harness is a
// process of its own, with the environment of the topology's containers: one core at
// most. All share the ranges of players through one Redis server. The platform is one
// process more, and its CPU time is not counted, nor is that of Redis.
//
// The first three are how it grows, each harness with the players of a documented one;
// of-one is players/core over those of one harness, in the same run. The others are what
// one core carries.
//
// All polls run at the documented speed. Settings are polled four times as often as by
// the incident's players, in place of the questions about the match that two of three
// players ask every 15 s, but not before matches have been played for half an hour. So
// a player makes as many requests a minute as by the README of valorant-launch, a little
// over eight.
//
// It fails if 99 of 100 requests are not sent within 50 ms of their time, in any of the
// harnesses, while it is measured.
func BenchmarkPlayersPerCore(b *testing.B) {
	alone := 0.0 // players on a core, of one documented harness
	for _, c := range []struct{ harnesses, players int }{
		{1, documentedHarness}, {2, documentedHarness}, {4, documentedHarness},
		{1, 25_000}, {1, 100_000},
	} {
		b.Run(fmt.Sprintf("harnesses=%d/players=%d", c.harnesses, c.players), func(b *testing.B) {
			m := measure(b, trial{c.harnesses, c.players, allLogins, calmFor, playedFor})
			m.report(b)
			problems := m.problems()
			for _, problem := range problems {
				b.Error(problem)
			}
			if c.players != documentedHarness || len(problems) > 0 {
				return // nothing is compared with what does not count
			}
			if c.harnesses == 1 {
				alone = m.perCore()
			}
			if alone > 0 {
				b.ReportMetric(m.perCore()/alone, "of-one")
			}
		})
	}
}

// trial is what is measured.
type trial struct {
	harnesses, players int // players of each harness
	logins             int // a second, of all harnesses
	calm, played       time.Duration
}

// measure has harnesses play, first to the last login, then calmly, then while it is
// measured.
func measure(tb testing.TB, p trial) *measurement {
	tb.Helper()
	server := redistest.Start(tb)
	client := server.Client()
	tb.Cleanup(func() { client.Close() })
	all := p.harnesses * p.players
	// There are twice as many numbers as players, so that no range is too small.
	document := fmt.Sprintf(`
target: %s
seed: 7
players: %d
ranges: %d
login_rate: %d
polls: {renew: 5m, config: 15s, heartbeat: 15s}
scenarios: {match: 45m, buy: 1h, skin: 30m}
shared: {redis: '%s', lease: 1500ms}
`, startPlatform(tb), 2*all, sharedRanges, p.logins/p.harnesses, server.Address)
	var running []*apart.Process
	for n := range p.harnesses {
		h := apart.Start(tb, "harness", "GOMAXPROCS=1", "GODEBUG=schedtrace=2000000000")
		h.Tell(member{ID: fmt.Sprintf("harness-%d", n+1), Document: document})
		running = append(running, h)
	}
	ask := func(d demand) (all standings) {
		for _, h := range running {
			var s standing
			h.Ask(d, &s)
			all = append(all, s)
		}
		return all
	}
	within(tb, 10*time.Second, "every harness has its share of the ranges", func() bool {
		for _, s := range ask(demand{}) {
			if s.Ranges != float64(sharedRanges/p.harnesses) {
				return false
			}
		}
		return true
	})
	empty := ask(demand{Weigh: true}).total()
	each := float64(p.players)
	ask(demand{Players: &each})
	ramp := time.Duration(all) * time.Second / time.Duration(p.logins)
	within(tb, ramp+10*time.Second, fmt.Sprintf("%d players have signed in", all), func() bool {
		return ask(demand{}).total().SignedIn == float64(all)
	})
	rest(p.calm)
	if err := client.ConfigResetStat(tb.Context()).Err(); err != nil {
		tb.Fatal(err)
	}
	before := ask(demand{Forget: true})
	rest(p.played)
	after := ask(demand{})
	m := &measurement{
		harnesses: p.harnesses, players: all, then: before.total(), now: after.total(), planned: before[0].Planned,
		renewal: perCall(tb, client, "evalsha"),
	}
	m.heap = (ask(demand{Weigh: true}).total().Heap - empty.Heap) / float64(all)
	for n, s := range after {
		took, cores := s.Usage.Since(before[n].Usage)
		m.cores += cores
		m.seconds += took.Seconds() / float64(p.harnesses)
	}
	return m
}

// measurement is of all harnesses together.
type measurement struct {
	harnesses, players int
	then, now          standing // at its beginning and end
	cores, seconds     float64
	heap               float64            // bytes for a player
	renewal            float64            // microseconds of Redis
	planned            map[string]float64 // polls of a player in a minute, by name
}

func (m *measurement) perCore() float64 { return float64(m.players) / m.cores }

func (m *measurement) perSecond() float64 { return (m.now.Requests - m.then.Requests) / m.seconds }

func (m *measurement) report(b *testing.B) {
	each := float64(m.harnesses)
	b.ReportMetric(0, "ns/op") // the time is fixed
	b.ReportMetric(m.perCore(), "players/core")
	b.ReportMetric(m.perCore()/documentedCore, "times-documented")
	b.ReportMetric(m.cores/each, "cores/harness")
	b.ReportMetric(m.perSecond(), "requests/s")
	b.ReportMetric(m.perSecond()/m.cores, "requests/s/core")
	b.ReportMetric(60*m.perSecond()/float64(m.players), "requests/player-minute")
	b.ReportMetric(milliseconds(m.now.Late), "lateness-p99-ms")
	b.ReportMetric(m.now.Usage.Resident/each/(1<<20), "MiB/harness")
	b.ReportMetric(m.now.Slots/each, "connections/harness")
	b.ReportMetric(m.heap, "B/player")
	b.ReportMetric(m.renewal, "redis-µs/renewal")
}

// problems says why the players were not carried, if they were not. The metrics of a
// benchmark that fails are not shown, so each says what was measured.
func (m *measurement) problems() (found []string) {
	add := func(format string, args ...any) {
		found = append(found, fmt.Sprintf("%d players in %d harnesses of %.2f cores in all, %.0f requests a second, lateness p99 %.1f ms in the worst: %s",
			m.players, m.harnesses, m.cores, m.perSecond(), milliseconds(m.now.Late), fmt.Sprintf(format, args...)))
	}
	if m.now.Late > mostLate {
		add("want a lateness of %v at most", mostLate)
	}
	for _, never := range []struct {
		what string
		have float64
	}{
		{"requests that were not sent at all", m.now.Unsent - m.then.Unsent},
		{"times that a harness lost its ranges before it was measured", m.then.Lapses},
		{"times that a harness lost its ranges while it was measured", m.now.Lapses - m.then.Lapses},
		{"times that a player was told something else than before", m.now.Mismatches},
	} {
		if never.have != 0 {
			add("have %.0f %s, want none", never.have, never.what)
		}
	}
	asked, answered := m.now.Heartbeats-m.then.Heartbeats, m.now.Answered-m.then.Answered
	if answered < 0.99*asked {
		add("have %.0f of %.0f heartbeats answered, want nearly all: the platform is too slow for this benchmark", answered, asked)
	}
	for _, name := range pollNames {
		have := m.now.Polls[name] - m.then.Polls[name]
		want := m.planned[name] / 60 * m.seconds * float64(m.players)
		// Five percent, and what scatters by chance.
		if math.Abs(have-want) > 0.05*want+4*math.Sqrt(want) {
			add("have %.0f polls of %s, want %.0f as planned", have, name, want)
		}
	}
	return found
}

// What is measured is there: harnesses in processes of their own play what is asked of
// all of them. How fast, is nothing for a test.
func TestHarnessesAreMeasured(t *testing.T) {
	m := measure(t, trial{harnesses: 2, players: 300, logins: 2000, played: time.Second})
	if m.players != 600 || m.now.SignedIn != 600 || m.now.Ranges != sharedRanges {
		t.Errorf("have %d players to play, %v signed in and %v ranges, want 600, 600 and %d", m.players, m.now.SignedIn, m.now.Ranges, sharedRanges)
	}
	for _, c := range []struct {
		what string
		have float64
	}{
		{"cores", m.cores}, {"seconds", m.seconds}, {"requests a second", m.perSecond()}, {"bytes for a player", m.heap},
		{"bytes resident", m.now.Usage.Resident}, {"connections", m.now.Slots}, {"microseconds of a renewal", m.renewal},
		{"planned heartbeats", m.planned["heartbeat"]},
	} {
		if c.have <= 0 {
			t.Errorf("%s: have %v, want more than none", c.what, c.have)
		}
	}
}

// A run that did not carry its players must not pass for one that did.
func TestPlayersThatAreNotCarriedAreAProblem(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(m *measurement)
		want   int
	}{
		{"all as planned", func(*measurement) {}, 0},
		{"late to the bound", func(m *measurement) { m.now.Late = mostLate }, 0},
		{"late beyond it", func(m *measurement) { m.now.Late = mostLate + time.Millisecond }, 1},
		{"a request that was not sent", func(m *measurement) { m.now.Unsent = 1 }, 1},
		{"requests that were not sent before", func(m *measurement) { m.then.Unsent, m.now.Unsent = 5, 5 }, 0},
		{"ranges lost", func(m *measurement) { m.now.Lapses = 1 }, 1},
		{"a mismatch", func(m *measurement) { m.now.Mismatches = 1 }, 1},
		{"heartbeats without an answer", func(m *measurement) { m.now.Answered *= 0.98 }, 1},
		{"too few polls of one kind", func(m *measurement) { m.now.Polls["config"] *= 0.8 }, 1},
		{"too many", func(m *measurement) { m.now.Polls["config"] *= 1.2 }, 1},
	} {
		// 60,000 players for a second.
		m := measurement{
			harnesses: 1, players: 60_000, cores: 1, seconds: 1, planned: map[string]float64{"renew": 0.2, "config": 4, "heartbeat": 4},
			then: standing{Polls: map[string]float64{}},
			now: standing{
				Requests: 8200, Heartbeats: 4000, Answered: 4000,
				Polls: map[string]float64{"renew": 200, "config": 4000, "heartbeat": 4000},
			},
		}
		c.change(&m)
		if have := m.problems(); len(have) != c.want {
			t.Errorf("%s: have %d problems %q, want %d", c.name, len(have), have, c.want)
		}
	}
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// within asks whether a condition holds a few times a second, so that asking costs
// little of what is measured.
func within(tb testing.TB, most time.Duration, what string, holds func() bool) {
	tb.Helper()
	for deadline := time.Now().Add(most); !holds(); rest(200 * time.Millisecond) {
		if time.Now().After(deadline) {
			tb.Fatalf("not within %v: %s: the machine is too slow for this benchmark", most, what)
		}
	}
}

// perCall gives what a call of a command has taken Redis on the average, in microseconds.
func perCall(tb testing.TB, client *redis.Client, command string) float64 {
	tb.Helper()
	stats, err := client.Info(tb.Context(), "commandstats").Result()
	if err != nil {
		tb.Fatal(err)
	}
	for line := range strings.Lines(stats) {
		fields, found := strings.CutPrefix(strings.TrimSpace(line), "cmdstat_"+command+":")
		if !found {
			continue
		}
		for field := range strings.SplitSeq(fields, ",") {
			if value, found := strings.CutPrefix(field, "usec_per_call="); found {
				took, err := strconv.ParseFloat(value, 64)
				if err != nil {
					tb.Fatal(err)
				}
				return took
			}
		}
	}
	tb.Fatalf("Redis was never asked for %s: %s", command, stats)
	return 0
}

// The harness's side.

// member is what a harness is told first.
type member struct {
	ID       string // among those that share ranges
	Document string // its configuration
}

// demand is what a harness is to do before it says how it stands.
type demand struct {
	Players *float64 // order so many of it
	Forget  bool     // how late its requests were until now
	Weigh   bool     // collect garbage, so that its heap can be read
}

// standing is how a harness stands. Numbers of events are those since it began.
type standing struct {
	Usage    apart.Usage
	Late     time.Duration // p99, of its requests since it was told to forget
	Heap     float64       // bytes, if it was told to weigh
	Ranges   float64
	SignedIn float64
	Slots    float64 // each with a connection at most

	Requests, Unsent     float64
	Heartbeats, Answered float64
	Lapses, Mismatches   float64
	Polls, Planned       map[string]float64 // by name; planned are those of a player in a minute
}

type standings []standing

// total adds up how all harnesses stand; late is the one that is the latest.
func (all standings) total() standing {
	sum := standing{Polls: map[string]float64{}}
	for _, s := range all {
		sum.Late = max(sum.Late, s.Late)
		sum.Usage.Resident += s.Usage.Resident
		sum.Heap += s.Heap
		sum.Ranges += s.Ranges
		sum.SignedIn += s.SignedIn
		sum.Slots += s.Slots
		sum.Requests += s.Requests
		sum.Unsent += s.Unsent
		sum.Heartbeats += s.Heartbeats
		sum.Answered += s.Answered
		sum.Lapses += s.Lapses
		sum.Mismatches += s.Mismatches
		for name, n := range s.Polls {
			sum.Polls[name] += n
		}
	}
	return sum
}

var pollNames = []string{"renew", "config", "heartbeat"}

// serveHarness is a harness of a benchmark. It says how it stands whenever it was told
// to do something.
func serveHarness(in *json.Decoder, out *json.Encoder) error {
	debug.SetGCPercent(800) // as the service has it
	var is member
	if err := in.Decode(&is); err != nil {
		return err
	}
	c, err := simulants.ParseConfig([]byte(is.Document))
	if err != nil {
		return err
	}
	ranges, err := simulants.NewRedisRanges(c, is.ID)
	if err != nil {
		return err
	}
	defer ranges.Close()
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	h, err := simulants.New(ctx, c, ranges)
	if err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- h.Run(ctx) }()
	for {
		var d demand
		if in.Decode(&d) != nil { // the benchmark is over
			stop()
			return <-ended
		}
		s, err := stand(h, d)
		if err != nil {
			return err
		}
		if err := out.Encode(s); err != nil {
			return err
		}
	}
}

func stand(h *simulants.Harness, d demand) (s standing, err error) {
	if d.Players != nil {
		if err := h.SetRates(map[string]float64{"players": *d.Players}); err != nil {
			return s, err
		}
	}
	if d.Forget {
		h.ForgetLateness()
	}
	if d.Weigh {
		s.Heap = apart.Heap()
	}
	if s.Usage, err = apart.Used(); err != nil {
		return s, err
	}
	s.Late = h.LatenessP99()
	m, err := apart.Gather(h.Registry())
	if err != nil {
		return s, err
	}
	s.Ranges = m.Sum("relapse_player_ranges")
	s.SignedIn = m.Sum("relapse_players") - m.Sum("relapse_players", "state", "signing_in")
	s.Slots = m.Sum("relapse_player_slots")
	s.Requests = m.Sum("relapse_attempts_total")
	// Of players, which are no requests, it is their seconds that are missing.
	s.Unsent = m.Sum("relapse_requests_total", "outcome", "unsent") - m.Sum("relapse_requests_total", "outcome", "unsent", "op", "players")
	s.Heartbeats = m.Sum("relapse_requests_total", "op", "heartbeat")
	s.Answered = m.Sum("relapse_requests_total", "op", "heartbeat", "outcome", "ok")
	s.Lapses = m.Sum("relapse_range_lapses_total")
	s.Mismatches = m.Sum("relapse_player_mismatch_total")
	s.Polls, s.Planned = map[string]float64{}, map[string]float64{}
	for _, name := range pollNames {
		s.Polls[name] = m.Sum("relapse_player_polls_total", "name", name)
		s.Planned[name] = m.Sum("relapse_player_planned_per_minute", "kind", "poll", "name", name)
	}
	return s, nil
}
