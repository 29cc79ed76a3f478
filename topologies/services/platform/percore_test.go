package platform_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/prometheus/client_golang/prometheus"

	"relapse/topologies/services/apart"
	"relapse/topologies/services/limits"
	"relapse/topologies/services/platform"
	"relapse/topologies/services/platform/api"
)

func TestMain(m *testing.M) {
	apart.Main(m, map[string]apart.Part{"games": serveGames, "session": serveSession})
}

const (
	documentedMatches = 500 // on a core: "more than"

	// matchLasts is how long matches are, instead of half an hour.
	matchLasts = 10 * time.Second

	// mostLate is what 99 of 100 results may be late by at most.
	mostLate = 50 * time.Millisecond

	starters  = 16 // of matches, for each process of game servers
	calmFor   = time.Second
	playedFor = 5 * time.Second
)

// BenchmarkMatchesPerCore has fake game servers begin, play and end matches for a fixed
// time, whatever b.N is. Each process of game servers has one core at most; who begins
// the matches and whom their results are told is this process, whose CPU time is not
// counted.
//
// Matches last 10 s instead of half an hour, so that they come and go 180 times as
// often as in the documented game, each with all calls of one. What is reported is thus
// the least that a core carries: matches/core are those that are on at once, over the
// cores that their processes use.
//
// Lateness is that of results: from when a match was due to begin, and its length,
// until the result is told. It fails if that is over 50 ms for more than one in 100.
//
// The first three are how it grows, each process with ten times the documented matches
// of a core; of-one is matches/core over those of one process, in the same run.
func BenchmarkMatchesPerCore(b *testing.B) {
	const growing = 10 * documentedMatches
	alone := 0.0 // matches on a core, of one process that is growing
	for _, c := range []struct{ processes, matches int }{
		{1, growing}, {2, growing}, {4, growing},
		{1, 4 * growing},
	} {
		b.Run(fmt.Sprintf("processes=%d/matches=%d", c.processes, c.matches), func(b *testing.B) {
			defer debug.SetGCPercent(debug.SetGCPercent(800)) // it shares the machine with what is measured
			m := measure(b, trial{c.processes, c.matches, matchLasts, calmFor, playedFor})
			m.report(b)
			problems := m.problems()
			for _, problem := range problems {
				b.Error(problem)
			}
			if c.matches != growing || len(problems) > 0 {
				return // nothing is compared with what does not count
			}
			if c.processes == 1 {
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
	processes, matches int           // matches that are on in each process
	lasts              time.Duration // of a match
	calm, played       time.Duration
}

// measure has matches begin at an even rate, first until as many end, then calmly, then
// while it is measured.
func measure(tb testing.TB, t trial) *matchMeasurement {
	tb.Helper()
	l := newLeague(tb, t.lasts)
	var running []*apart.Process
	var clients []*api.Client
	for range t.processes {
		var address string
		games := apart.Start(tb, "games", "GOMAXPROCS=1", "GODEBUG=schedtrace=2000000000")
		games.Ask(gamesOf{Peers: l.address, Lasts: t.lasts}, &address)
		client, err := api.NewClient(address, "relapse-platform")
		if err != nil {
			tb.Fatal(err)
		}
		tb.Cleanup(client.Close)
		running, clients = append(running, games), append(clients, client)
	}
	ask := func(weigh bool) (all []hosted) {
		for _, p := range running {
			var h hosted
			p.Ask(weigh, &h)
			all = append(all, h)
		}
		return all
	}
	empty := total(ask(true))
	perSecond := float64(t.matches) / t.lasts.Seconds() // of each process
	stop := l.start(tb.Context(), clients, perSecond)
	defer stop()
	rest(t.lasts + t.calm)
	l.forget()
	before := ask(false)
	rest(t.played)
	after := ask(false)
	m := &matchMeasurement{
		processes: t.processes, matches: t.processes * t.matches, perSecond: perSecond * float64(t.processes),
		then: total(before), now: total(after), late: l.lateness(), notBegun: l.failed.Load(),
	}
	m.heap = (total(ask(true)).Heap - empty.Heap) / float64(m.matches)
	for n, h := range after {
		took, cores := h.Usage.Since(before[n].Usage)
		m.cores += cores
		m.seconds += took.Seconds() / float64(t.processes)
	}
	return m
}

// matchMeasurement is of all processes together.
type matchMeasurement struct {
	processes, matches int
	perSecond          float64 // matches that were to begin
	then, now          hosted  // at its beginning and end
	cores, seconds     float64
	late               time.Duration // p99 of results
	notBegun           int64
	heap               float64 // bytes for a match, with what is remembered of those that have ended
}

func (m *matchMeasurement) perCore() float64 { return float64(m.matches) / m.cores }

func (m *matchMeasurement) ended() float64 { return m.now.Acknowledged - m.then.Acknowledged }

func (m *matchMeasurement) report(b *testing.B) {
	b.ReportMetric(0, "ns/op") // the time is fixed
	b.ReportMetric(m.perCore(), "matches/core")
	b.ReportMetric(m.perCore()/documentedMatches, "times-documented")
	b.ReportMetric(m.cores/float64(m.processes), "cores/process")
	b.ReportMetric(m.ended()/m.seconds, "ended/s")
	b.ReportMetric(m.ended()/m.seconds/m.cores, "ended/s/core")
	b.ReportMetric((m.now.Calls-m.then.Calls)/m.ended(), "calls/match")
	b.ReportMetric(float64(m.late.Microseconds())/1000, "lateness-p99-ms")
	b.ReportMetric(m.now.Usage.Resident/float64(m.processes)/(1<<20), "MiB/process")
	b.ReportMetric(m.heap, "B/match")
}

// problems says why the matches were not carried, if they were not. The metrics of a
// benchmark that fails are not shown, so each says what was measured.
func (m *matchMeasurement) problems() (found []string) {
	add := func(format string, args ...any) {
		found = append(found, fmt.Sprintf("%d matches in %d processes of %.2f cores in all, %.0f ended a second, lateness p99 %v: %s",
			m.matches, m.processes, m.cores, m.ended()/m.seconds, m.late, fmt.Sprintf(format, args...)))
	}
	if m.late > mostLate {
		add("want a lateness of %v at most", mostLate)
	}
	if all := float64(m.matches); m.now.Running < 0.99*all || m.now.Running > 1.05*all {
		add("have %.0f matches that are on, want all of them and hardly more: the machine is too slow for this benchmark", m.now.Running)
	}
	if want := m.perSecond * m.seconds; m.ended() < 0.98*want {
		add("have %.0f results acknowledged, want %.0f", m.ended(), want)
	}
	if have := m.now.CallsFailed - m.then.CallsFailed; have > 0 || m.notBegun > 0 {
		add("have %.0f calls of game servers that failed and %d matches that did not begin, want none", have, m.notBegun)
	}
	return found
}

// What is measured is there: game servers in processes of their own play what is begun on
// them. How fast, is nothing for a test.
func TestMatchesAreMeasured(t *testing.T) {
	m := measure(t, trial{processes: 2, matches: 40, lasts: 500 * time.Millisecond, calm: 300 * time.Millisecond, played: time.Second})
	if m.notBegun > 0 || m.now.CallsFailed > 0 {
		t.Errorf("have %d matches that did not begin and %v calls that failed, want none", m.notBegun, m.now.CallsFailed)
	}
	for _, c := range []struct {
		what string
		have float64
	}{
		{"cores", m.cores}, {"seconds", m.seconds}, {"matches that ended", m.ended()}, {"matches that are on", m.now.Running},
		{"calls", m.now.Calls - m.then.Calls}, {"bytes for a match", m.heap}, {"bytes resident", m.now.Usage.Resident},
		{"lateness", m.late.Seconds()},
	} {
		if c.have <= 0 {
			t.Errorf("%s: have %v, want more than none", c.what, c.have)
		}
	}
}

// A run that did not carry its matches must not pass for one that did.
func TestMatchesThatAreNotCarriedAreAProblem(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(m *matchMeasurement)
		want   int
	}{
		{"all as planned", func(*matchMeasurement) {}, 0},
		{"late to the bound", func(m *matchMeasurement) { m.late = mostLate }, 0},
		{"late beyond it", func(m *matchMeasurement) { m.late = mostLate + time.Millisecond }, 1},
		{"too few that are on", func(m *matchMeasurement) { m.now.Running = 980 }, 1},
		{"matches that do not end", func(m *matchMeasurement) { m.now.Running = 1100 }, 1},
		{"too few results", func(m *matchMeasurement) { m.now.Acknowledged = 97 }, 1},
		{"a call that failed", func(m *matchMeasurement) { m.now.CallsFailed = 1 }, 1},
		{"a match that did not begin", func(m *matchMeasurement) { m.notBegun = 1 }, 1},
	} {
		m := matchMeasurement{
			processes: 1, matches: 1000, perSecond: 100, cores: 1, seconds: 1, now: hosted{Running: 1000, Acknowledged: 100, Calls: 300},
		}
		c.change(&m)
		if have := m.problems(); len(have) != c.want {
			t.Errorf("%s: have %d problems %q, want %d", c.name, len(have), have, c.want)
		}
	}
}

// rest lets a part of a benchmark's fixed time pass.
func rest(d time.Duration) { <-time.After(d) }

// league begins matches at their time, whatever the game servers do, and is all whom
// these ask: results, provisioning and agent select. It is the origin of settings, too.
type league struct {
	address string
	lasts   time.Duration // of a match
	began   time.Time
	failed  atomic.Int64 // matches that could not be begun

	mu   sync.Mutex
	late *hdrhistogram.Histogram // of results, in microseconds
}

func newLeague(tb testing.TB, lasts time.Duration) *league {
	tb.Helper()
	l := &league{lasts: lasts, late: hdrhistogram.New(1, time.Minute.Microseconds(), 3)}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	l.address = listener.Addr().String()
	server := &http.Server{Handler: l}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = server.Serve(listener) // until it is closed
	}()
	tb.Cleanup(func() {
		server.Close()
		<-served
	})
	return l
}

// start begins matches in every process, so many a second in each, until it is stopped.
func (l *league) start(ctx context.Context, clients []*api.Client, perSecond float64) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	l.began = time.Now()
	var working sync.WaitGroup
	for n, client := range clients {
		due := make(chan beginning)
		working.Go(func() {
			defer close(due)
			l.pace(ctx, n, perSecond, due)
		})
		for range starters {
			working.Go(func() {
				for s := range due {
					l.begin(client, s)
				}
			})
		}
	}
	return func() {
		cancel()
		working.Wait()
	}
}

// beginning is that of a match which is due.
type beginning struct {
	process, number int
	at              time.Duration // since the league began
}

// name tells when a match was due, so that nobody has to remember it.
func (s beginning) name() string {
	return fmt.Sprintf("match-%d-%d-%s", s.process, s.number, strconv.FormatInt(int64(s.at), 36))
}

// dueAt reads that.
func dueAt(name string) (time.Duration, error) {
	at, err := strconv.ParseInt(name[strings.LastIndexByte(name, '-')+1:], 36, 64)
	return time.Duration(at), err
}

// pace gives every match at its time to whoever is free.
func (l *league) pace(ctx context.Context, process int, perSecond float64, due chan<- beginning) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for number := 0; ; number++ {
		s := beginning{process, number, time.Duration(float64(number) / perSecond * float64(time.Second))}
		timer.Reset(s.at - time.Since(l.began))
		select {
		case <-timer.C:
		case <-ctx.Done():
			return
		}
		select {
		case due <- s:
		case <-ctx.Done():
			return
		}
	}
}

func (l *league) begin(client *api.Client, s beginning) {
	name := s.name()
	asked := api.GameRequest{Op: name + "/game", Server: "server-" + name, Match: name, Players: players(10*s.number, 10)}
	if err := client.Call(http.MethodPost, "/games", asked, nil, time.Now().Add(2*time.Second)); err != nil {
		l.failed.Add(1)
	}
}

func (l *league) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch path := r.URL.Path; {
	case path == "/results":
		now := time.Since(l.began)
		var told api.ResultRequest
		if err := json.NewDecoder(r.Body).Decode(&told); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		at, err := dueAt(told.Match)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		l.note(now - at - l.lasts)
		w.WriteHeader(http.StatusCreated)
	case strings.HasPrefix(path, "/documents/"):
		_, _ = io.WriteString(w, `{"version": 1, "settings": {"cohort": "1"}}`)
	case path == "/leases":
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(w, "{}") // none is lost
	default: // a server is given back, a match is over
		_, _ = io.Copy(io.Discard, r.Body)
		w.WriteHeader(http.StatusNoContent)
	}
}

// note notes how late a result was.
func (l *league) note(late time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	// An error would say that the value is over a minute: it is recorded as one.
	_ = l.late.RecordValue(min(max(late, time.Microsecond), time.Minute).Microseconds())
}

// forget has lateness be that of results from now on.
func (l *league) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.late.Reset()
}

// lateness is what 99 of 100 results were late by at most.
func (l *league) lateness() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Duration(l.late.ValueAtQuantile(99)) * time.Microsecond
}

// The platform's side.

// hosted is how a process of the platform stands. Numbers of events are those since it
// began; those of matches are of game servers only.
type hosted struct {
	Usage              apart.Usage
	Heap               float64 // bytes, if it was asked to collect garbage
	Running            float64
	Acknowledged       float64 // results
	Calls, CallsFailed float64
}

func total(all []hosted) (sum hosted) {
	for _, h := range all {
		sum.Usage.Resident += h.Usage.Resident
		sum.Heap += h.Heap
		sum.Running += h.Running
		sum.Acknowledged += h.Acknowledged
		sum.Calls += h.Calls
		sum.CallsFailed += h.CallsFailed
	}
	return sum
}

// gamesOf are what a process of game servers is told first.
type gamesOf struct {
	Peers string        // host:port of all whom they ask
	Lasts time.Duration // of a match
}

// serveGames is a process of game servers, configured like one of the topology but for
// the length of its matches.
func serveGames(in *json.Decoder, out *json.Encoder) error {
	var of gamesOf
	if err := in.Decode(&of); err != nil {
		return err
	}
	c := config(platform.Games)
	c.Provisioning.Lease = platform.DefaultLease
	c.Games = platform.GamesConfig{Length: of.Lasts, Recorders: 64}
	return serveRole(in, out, c, of.Peers, func(m apart.Metrics) (h hosted) {
		h.Running = m.Sum("relapse_games_running")
		h.Acknowledged = m.Sum("relapse_results_acknowledged_total")
		h.Calls = m.Sum("relapse_calls_total")
		h.CallsFailed = h.Calls - m.Sum("relapse_calls_total", "outcome", "ok")
		return h
	})
}

// serveRole is a process of the platform whose peers all answer at one address. It says
// where it answers, and how it stands whenever it is asked, collecting garbage before
// that if it is to.
func serveRole(in *json.Decoder, out *json.Encoder, c platform.Config, peers string, read func(apart.Metrics) hosted) error {
	c.Limits = limits.Limits{limits.All: platform.DefaultLimit}
	c.Remember = platform.DefaultRemember
	c.Peers = map[string]*api.Client{}
	for _, name := range platform.Peers(c.Roles) {
		client, err := api.NewClient(peers, "relapse-platform")
		if err != nil {
			return err
		}
		c.Peers[name] = client // which is closed with the platform
	}
	registry := prometheus.NewRegistry()
	p, err := platform.New(c, registry)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer listener.Close()
	go http.Serve(listener, p.Handler())
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	if err := out.Encode(listener.Addr().String()); err != nil {
		return err
	}
	for {
		var weigh bool
		if in.Decode(&weigh) != nil { // the benchmark is over
			stop()
			return <-ended
		}
		heap := 0.0
		if weigh {
			heap = apart.Heap()
		}
		usage, err := apart.Used()
		if err != nil {
			return err
		}
		m, err := apart.Gather(registry)
		if err != nil {
			return err
		}
		h := read(m)
		h.Usage, h.Heap = usage, heap
		if err := out.Encode(h); err != nil {
			return err
		}
	}
}
