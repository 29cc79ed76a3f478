package tournament

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"relapse/topologies/services/gamehosts"
	"relapse/topologies/services/limiter"
	"relapse/topologies/services/matchmaking"
)

const (
	step         = 50 * time.Millisecond  // real time from one step of the stage to the next
	askEvery     = 100 * time.Millisecond // real time from one question for the limit to the next
	answerWithin = 200 * time.Millisecond // real time
	hostsEvery   = time.Minute            // documented, from one look at which hosts are there to the next
	// staleAfter is when a limiter that has not polled is not obeyed any more.
	staleAfter = 3 * limiter.PollEvery
	// ordinaryIDs keeps the numbers of ordinary games apart from those of the tournament.
	ordinaryIDs = 1 << 32
)

// Config is what a tournament is made of.
type Config struct {
	Rules
	Speed    float64
	LockIn   time.Duration // how long before the first tier lock-in opens, documented time
	Running  map[string]int
	Limiters []*matchmaking.Peer
	Hosts    []*matchmaking.Peer
	// Adds has the limits of several limiters added up, as where each grants on its
	// own. It shows that the checks see it; else the lowest counts.
	Adds bool
}

// heard is what a limiter said last that was new.
type heard struct {
	limit limiter.Limit
	at    time.Time
}

// Tournament is a stage behind HTTP. The first order starts its clock and those of its
// hosts.
type Tournament struct {
	config  Config
	clock   *gamehosts.Clock
	log     *gamehosts.Log[Event]
	metrics *metrics

	mu       sync.Mutex
	stage    *Stage
	heard    []heard
	rotation map[string]*rotation // by mode: each host gets its share of every mode
	pending  []gamehosts.Placement
	ordinary int64
	began    bool
}

// New makes a tournament whose clock stands.
func New(c Config, registry *prometheus.Registry) (*Tournament, error) {
	switch {
	case !(c.Speed > 0):
		return nil, fmt.Errorf("tournament: a speed of %v: want more than zero", c.Speed)
	case len(c.Hosts) == 0:
		return nil, errors.New("tournament: no nodes of hosts: give --hosts HOST:PORT,…")
	case len(c.Limiters) == 0 && c.Gate != GateNone:
		return nil, fmt.Errorf("tournament: a gate %s Champ Select and no limiter: give --limiters HOST:PORT,…", c.Gate)
	}
	t := &Tournament{config: c, clock: gamehosts.NewClock(c.Speed), log: gamehosts.NewLog[Event](), rotation: map[string]*rotation{}}
	for _, m := range gamehosts.Modes {
		t.rotation[m.Name] = &rotation{}
	}
	t.heard = make([]heard, len(c.Limiters))
	var err error
	if t.stage, err = NewStage(c.Rules, t.log.Add); err != nil {
		return nil, err
	}
	t.metrics = newMetrics(registry)
	t.metrics.show(t.stage, 0)
	return t, nil
}

// Run has time pass until the context ends. Each of its parts has a goroutine of its own,
// so that a node that does not answer holds none of the others up.
func (t *Tournament) Run(ctx context.Context) error {
	t.look()
	var parts sync.WaitGroup
	for _, part := range []struct {
		every time.Duration
		do    func()
	}{{step, t.step}, {askEvery, t.ask}, {t.clock.Real(hostsEvery), t.look}} {
		parts.Go(func() {
			ticker := time.NewTicker(part.every)
			defer ticker.Stop()
			for {
				select {
				case <-ctx.Done():
					return
				case <-ticker.C:
				}
				part.do()
			}
		})
	}
	parts.Wait()
	return nil
}

// look learns which hosts are there.
func (t *Tournament) look() {
	for n, peer := range t.config.Hosts {
		var hosts []gamehosts.Inventory
		if peer.Call(http.MethodGet, "/hosts", nil, &hosts, time.Now().Add(answerWithin)) != nil {
			hosts = nil
		}
		t.mu.Lock()
		for _, r := range t.rotation {
			r.update(n, hosts)
		}
		t.mu.Unlock()
	}
}

func (t *Tournament) ask() {
	for n, peer := range t.config.Limiters {
		var limit limiter.Limit
		if peer.Call(http.MethodGet, "/limit", nil, &limit, time.Now().Add(answerWithin)) != nil {
			continue // what it said last grows old
		}
		t.mu.Lock()
		if before := t.heard[n].limit; limit.Number > 0 && (limit.Boot != before.Boot || limit.Number != before.Number) {
			t.heard[n] = heard{limit, time.Now()}
		}
		t.mu.Unlock()
	}
}

// limit is the lowest that a limiter says which is alive; none may start without one.
func (t *Tournament) limit(now time.Time) float64 {
	lowest, sum, alive := 0.0, 0.0, false
	for _, h := range t.heard {
		if h.at.IsZero() || now.Sub(h.at) > t.clock.Real(staleAfter) {
			continue
		}
		if !alive || h.limit.Limit < lowest {
			lowest = h.limit.Limit
		}
		sum += h.limit.Limit
		alive = true
	}
	if t.config.Adds {
		return sum
	}
	return lowest
}

func (t *Tournament) step() {
	t.mu.Lock()
	limit := t.limit(time.Now())
	for _, id := range t.stage.Step(t.clock.Now(), limit) {
		t.pending = append(t.pending, gamehosts.Placement{Game: id, Mode: gamehosts.Clash})
	}
	batches := make([][]gamehosts.Placement, len(t.config.Hosts))
	kept := t.pending[:0]
	for _, p := range t.pending {
		to := t.rotation[p.Mode].next()
		if to == nil {
			kept = append(kept, p)
			continue
		}
		p.Host = to.Host
		batches[to.node] = append(batches[to.node], p)
	}
	t.pending = kept
	t.metrics.show(t.stage, limit)
	t.mu.Unlock()
	for n, games := range batches {
		if len(games) > 0 {
			t.place(n, games)
		}
	}
}

// place sends games to a node. If that fails they go to whoever's turn it is next; a
// game that had arrived all the same would then be played twice, which the audit sees,
// so a node is asked again first.
func (t *Tournament) place(n int, games []gamehosts.Placement) {
	peer := t.config.Hosts[n]
	var err error
	for range 2 {
		if err = peer.Call(http.MethodPost, "/games", games, nil, time.Now().Add(answerWithin)); err == nil {
			break
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if err != nil {
		t.metrics.failures.Inc()
		for _, r := range t.rotation {
			r.update(n, nil) // until it is looked for again
		}
		t.pending = append(t.pending, games...)
		return
	}
	for _, p := range games {
		if p.Mode == gamehosts.Clash {
			t.stage.Placed(p.Game)
		}
	}
}

// start starts all clocks with the first order, and has the games on that have been
// played all day.
func (t *Tournament) start() {
	t.clock.Start()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.began {
		return
	}
	t.began = true
	for _, mode := range gamehosts.Modes {
		running := t.config.Running[mode.Name]
		for n := range running {
			age := time.Duration((float64(n) + 0.5) / float64(running) * float64(mode.Length()))
			t.play(mode.Name, age)
		}
	}
	// The clock of a node whose hosts are not there yet starts too.
	for _, peer := range t.config.Hosts {
		go func() {
			_ = peer.Call(http.MethodPost, "/games", []gamehosts.Placement{}, nil, time.Now().Add(answerWithin)) // seen by its time
		}()
	}
}

// play has an ordinary game begin.
func (t *Tournament) play(mode string, age time.Duration) {
	t.ordinary++
	t.pending = append(t.pending, gamehosts.Placement{Game: ordinaryIDs + t.ordinary, Mode: mode, Age: age})
}

// Handler answers players and who checks:
//
//	POST /brackets          202: the teams of a bracket have locked in
//	POST /games?mode=NAME   202: an ordinary game begins; 400 where there is no such mode
//	GET  /log               see [gamehosts.Log.ServeHTTP]
func (t *Tournament) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /brackets", func(w http.ResponseWriter, _ *http.Request) {
		t.start()
		t.mu.Lock()
		t.stage.LockIn(max(0, t.clock.Now()-(t.config.FirstTier-t.config.LockIn)))
		t.mu.Unlock()
		w.WriteHeader(http.StatusAccepted)
	})
	mux.HandleFunc("POST /games", func(w http.ResponseWriter, r *http.Request) {
		mode, err := gamehosts.ModeOf(r.URL.Query().Get("mode"))
		if err == nil && mode.Name == gamehosts.Clash {
			err = errors.New("games of the tournament begin by its brackets: POST /brackets")
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		t.start()
		t.mu.Lock()
		t.play(mode.Name, 0)
		t.mu.Unlock()
		w.WriteHeader(http.StatusAccepted)
	})
	mux.Handle("GET /log", t.log)
	mux.HandleFunc("GET /health", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
	return mux
}
