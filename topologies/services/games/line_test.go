package games_test

import (
	"context"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"relapse/topologies/services/games"
	"relapse/topologies/services/limits"
)

const ms = time.Millisecond

// TestLine has callers come one after the other, a millisecond apart, to a back
// end that takes 100 ms for a game. Time is the test's own.
func TestLine(t *testing.T) {
	type caller struct {
		path  string        // of a good request where it is empty
		stays time.Duration // for ever where it is zero
	}
	patient, hasty := caller{}, caller{stays: 50 * ms}
	unnamed := caller{path: "/games?queue="}
	nobody := -1 * ms // whoever leaves gets no answer
	for _, tc := range []struct {
		name     string
		config   games.Config
		callers  []caller
		answered []time.Duration // how long after each came
		statuses []int
		handled  map[string]float64
	}{
		{
			"one worker, one after the other", games.Config{Workers: 1, Queue: -1},
			[]caller{patient, patient, patient},
			[]time.Duration{100 * ms, 199 * ms, 298 * ms}, []int{201, 201, 201}, map[string]float64{"ok": 3},
		},
		{
			"two workers", games.Config{Workers: 2, Queue: -1},
			[]caller{patient, patient, patient},
			[]time.Duration{100 * ms, 100 * ms, 198 * ms}, []int{201, 201, 201}, map[string]float64{"ok": 3},
		},
		{
			"a bounded queue", games.Config{Workers: 1, Queue: 1},
			[]caller{patient, patient, patient},
			[]time.Duration{100 * ms, 199 * ms, 0}, []int{201, 201, 503}, map[string]float64{"ok": 2, "shed": 1},
		},
		{
			"no queue", games.Config{Workers: 1, Queue: 0},
			[]caller{patient, patient},
			[]time.Duration{100 * ms, 0}, []int{201, 503}, map[string]float64{"ok": 1, "shed": 1},
		},
		{
			"work goes on for who has left", games.Config{Workers: 1, Queue: -1},
			[]caller{hasty, hasty, patient},
			[]time.Duration{nobody, nobody, 298 * ms}, []int{0, 0, 201}, map[string]float64{"unclaimed": 2, "ok": 1},
		},
		{
			"who has left is passed over, once a worker has not begun", games.Config{Workers: 1, Queue: -1, DropAbandoned: true},
			[]caller{hasty, hasty, patient},
			[]time.Duration{nobody, nobody, 198 * ms}, []int{0, 0, 201}, map[string]float64{"unclaimed": 1, "abandoned": 1, "ok": 1},
		},
		{
			"no queue named, found at once", games.Config{Workers: 1, Queue: -1},
			[]caller{unnamed, patient},
			[]time.Duration{0, 100 * ms}, []int{400, 201}, map[string]float64{"no_queue": 1, "ok": 1},
		},
		{
			"no queue named, found after work", games.Config{Workers: 1, Queue: -1, UnnamedTakes: 100 * ms, UnnamedStatus: 503},
			[]caller{unnamed, patient},
			[]time.Duration{100 * ms, 199 * ms}, []int{503, 201}, map[string]float64{"no_queue": 1, "ok": 1},
		},
		{
			"the same by a limit", games.Config{Limits: limits.Limits{limits.All: 1}, UnnamedTakes: 100 * ms},
			[]caller{unnamed, patient},
			[]time.Duration{100 * ms, 0}, []int{400, 503}, map[string]float64{"no_queue": 1, "shed": 1},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tc.config.Takes = 100 * ms
				registry := prometheus.NewRegistry()
				g, err := games.New(tc.config, registry)
				if err != nil {
					t.Fatal(err)
				}
				took := make([]time.Duration, len(tc.callers))
				statuses := make([]int, len(tc.callers))
				var all sync.WaitGroup
				for n, c := range tc.callers {
					if n > 0 {
						time.Sleep(1 * ms)
					}
					all.Go(func() {
						ctx, leave := context.WithCancel(t.Context())
						defer leave()
						if c.stays > 0 {
							time.AfterFunc(c.stays, leave)
						}
						path := c.path
						if path == "" {
							path = "/games?queue=normal"
						}
						began := time.Now()
						answer := httptest.NewRecorder()
						g.Handler().ServeHTTP(answer, httptest.NewRequestWithContext(ctx, http.MethodPost, path, nil))
						took[n], statuses[n] = time.Since(began), answer.Code
						if ctx.Err() != nil {
							took[n], statuses[n] = nobody, 0
						}
					})
				}
				all.Wait()
				time.Sleep(time.Second) // for what is left in line
				if !slices.Equal(took, tc.answered) {
					t.Errorf("answered after %v, want %v", took, tc.answered)
				}
				if !slices.Equal(statuses, tc.statuses) {
					t.Errorf("answered with %v, want %v", statuses, tc.statuses)
				}
				handled := map[string]float64{}
				for _, outcome := range []string{"ok", "no_queue", "shed", "abandoned", "unclaimed"} {
					if n := value(t, registry, "relapse_handled_total", games.Create, outcome); n > 0 {
						handled[outcome] = n
					}
				}
				if !maps.Equal(handled, tc.handled) {
					t.Errorf("handled %v, want %v", handled, tc.handled)
				}
			})
		})
	}
}

// pausing is the context of a caller whom a worker does not find gone for so long:
// nothing else in a test's own time keeps a worker from its work, as a pause of the
// whole process would.
type pausing struct {
	context.Context
	pause time.Duration
}

func (p pausing) Err() error {
	time.Sleep(p.pause)
	return p.Context.Err()
}

// TestAPauseIsNotMadeUpFor has 100 callers wait for one worker, which takes 10 ms
// for each and is kept from its work once, after the first.
func TestAPauseIsNotMadeUpFor(t *testing.T) {
	const callers, takes = 100, 10 * ms
	for _, tc := range []struct {
		name    string
		pause   time.Duration
		at      int           // a caller
		after   time.Duration // when it is answered
		allDone time.Duration
	}{
		{"none", 0, 3, 30 * ms, 1000 * ms},
		{"as late as a timer", 20 * ms, 3, 30 * ms, 1000 * ms},
		{"as late as is made up for", 50 * ms, 6, 60 * ms, 1000 * ms},
		// Of what would have been done meanwhile, five are.
		{"two seconds, the fifth after it", 2000 * ms, 6, 2010 * ms, 2010*ms + 94*takes},
		{"two seconds, the sixth", 2000 * ms, 7, 2020 * ms, 2010*ms + 94*takes},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g, err := games.New(games.Config{Takes: takes, Workers: 1, Queue: -1}, prometheus.NewRegistry())
				if err != nil {
					t.Fatal(err)
				}
				took := make([]time.Duration, callers)
				began := time.Now()
				var all sync.WaitGroup
				for n := range callers {
					ctx := t.Context()
					if n == 0 {
						ctx = pausing{ctx, tc.pause}
					}
					all.Go(func() {
						request := httptest.NewRequestWithContext(ctx, http.MethodPost, "/games?queue=normal", nil)
						g.Handler().ServeHTTP(httptest.NewRecorder(), request)
						took[n] = time.Since(began)
					})
					synctest.Wait() // they come in order
				}
				all.Wait()
				if have := took[tc.at-1]; have != tc.after {
					t.Errorf("caller %d was answered after %v, want %v", tc.at, have, tc.after)
				}
				if have := slices.Max(took); have != tc.allDone {
					t.Errorf("all were answered after %v, want %v", have, tc.allDone)
				}
			})
		})
	}
}

func TestTheQueueIsMeasured(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		registry := prometheus.NewRegistry()
		g, err := games.New(games.Config{Takes: 100 * ms, Workers: 1, Queue: -1}, registry)
		if err != nil {
			t.Fatal(err)
		}
		length := func(want float64) {
			t.Helper()
			synctest.Wait()
			if have := value(t, registry, "relapse_queue_length"); have != want {
				t.Errorf("queue: have %v, want %v", have, want)
			}
		}
		length(0)
		// They all leave at once, and their work stays.
		left, leave := context.WithCancel(t.Context())
		leave()
		for range 4 {
			go g.Handler().ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(left, http.MethodPost, "/games?queue=normal", nil))
		}
		length(3)
		time.Sleep(100 * ms)
		length(2)
		time.Sleep(time.Second)
		length(0)
		if have := value(t, registry, "relapse_games_created_total"); have != 0 {
			t.Errorf("games that somebody was told of: have %v, want none", have)
		}
	})
}
