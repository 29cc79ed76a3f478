package platform

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"relapse/topologies/services/platform/api"
)

// Defaults of what a match brings in; the source gives none of them.
const (
	DefaultWin  = 20
	DefaultLoss = 10
)

// ResultsConfig is what recording results is made of.
type ResultsConfig struct {
	Win, Loss int64 // what a player is granted, zero for nothing
}

// pruneResults is how often results are forgotten that nobody tries again.
const pruneResults = time.Second

// results records how matches come out, and grants each player what that brings in:
//
//	POST /results  ResultRequest: 201, once the store has acknowledged every grant;
//	               503 while the same operation is under way
//
// A result that fails half way is not acknowledged, and those of its grants that were
// are not made again as long as this process lives. After that the store tells them by
// their operation ids, which follow from the result's.
type results struct {
	p      *Platform
	config ResultsConfig

	recorded prometheus.Counter
	granted  prometheus.Counter

	mu   sync.Mutex
	open map[string]*result // by operation
	done *answers[struct{}]
}

// result is one that is not recorded yet.
type result struct {
	busy    bool
	tried   time.Time
	granted map[api.Player]bool // of whoever is busy with it
}

func newResults(p *Platform) (role, error) {
	c := p.config.Results
	if c.Win < 0 || c.Loss < 0 {
		return nil, fmt.Errorf("a win brings in %d and a loss %d: want zero or more", c.Win, c.Loss)
	}
	s := &results{
		p: p, config: c, open: map[string]*result{}, done: newAnswers[struct{}](p.config.Remember),
		recorded: p.counter("relapse_results_recorded_total", "Matches whose result is recorded, with all its grants."),
		granted:  p.counter("relapse_granted_total", "Money that the store has acknowledged as granted for results."),
	}
	p.gauge("relapse_results_open", "Results that were told and are not recorded yet.", func() float64 {
		s.mu.Lock()
		defer s.mu.Unlock()
		return float64(len(s.open))
	})
	return s, nil
}

func (s *results) routes() []route { return []route{{"POST /results", "record", s.record}} }

func (s *results) run(ctx context.Context) error {
	return every(ctx, pruneResults, func() { s.forget(time.Now()) })
}

// forget drops results that nobody has tried for long: their game servers are gone.
func (s *results) forget(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for op, r := range s.open {
		if !r.busy && now.Sub(r.tried) > s.p.config.Remember {
			delete(s.open, op)
		}
	}
}

func (s *results) record(w http.ResponseWriter, r *http.Request) error {
	var asked api.ResultRequest
	if err := read(w, r, &asked); err != nil {
		return err
	}
	if err := checkOp(asked.Op); err != nil {
		return bad(err)
	}
	var players []api.Player
	for _, p := range asked.Players {
		players = append(players, p.Player)
	}
	if err := checkPlayers(players, mostMatch); err != nil {
		return bad(err)
	}
	if asked.Match == "" {
		return refuse(http.StatusBadRequest, "match: name one")
	}
	mine, err := s.begin(asked.Op)
	if err != nil {
		return err
	}
	if mine != nil {
		if err := s.end(asked.Op, mine, s.grant(r.Context(), asked, mine.granted)); err != nil {
			return err
		}
	}
	w.WriteHeader(http.StatusCreated)
	return nil
}

// begin gives a result to whoever records it; nil if it is recorded.
func (s *results) begin(op string) (*result, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if _, recorded := s.done.get(op, now); recorded {
		return nil, nil
	}
	r := s.open[op]
	switch {
	case r == nil:
		r = &result{granted: map[api.Player]bool{}}
		s.open[op] = r
	case r.busy:
		return nil, refuse(http.StatusServiceUnavailable, "result %s is being recorded: try again", op)
	}
	r.busy, r.tried = true, now
	return r, nil
}

// end gives a result back, recorded unless there was an error.
func (s *results) end(op string, r *result, err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	r.busy = false
	if err != nil {
		return err
	}
	delete(s.open, op)
	s.done.put(op, struct{}{}, time.Now())
	s.recorded.Inc()
	return nil
}

// grant makes the grants that were not acknowledged yet, all within the time of one
// call: a store that is slow holds the worker no longer than one that is away.
func (s *results) grant(ctx context.Context, asked api.ResultRequest, granted map[api.Player]bool) error {
	deadline := time.Now().Add(s.p.config.CallTimeout)
	for _, p := range asked.Players {
		amount := s.config.Loss
		if p.Won {
			amount = s.config.Win
		}
		if amount == 0 || granted[p.Player] {
			continue
		}
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("grants of %s: the caller left: %w", asked.Op, err)
		}
		grant := api.GrantRequest{Op: fmt.Sprintf("%s/%d", asked.Op, p.Player), Player: p.Player, Amount: amount}
		if err := s.p.callUntil(deadline, Results, Store, http.MethodPost, "/grant", grant, nil); err != nil {
			return err
		}
		granted[p.Player] = true
		s.granted.Add(float64(amount))
	}
	return nil
}
