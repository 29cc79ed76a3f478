package platform

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"relapse/topologies/services/platform/api"
	"relapse/topologies/services/platform/due"
)

// GamesConfig is what the game servers are made of. Shares are in percent of the
// matches.
type GamesConfig struct {
	Length       time.Duration // of a match, documented time
	LengthSpread float64       // percent by which lengths differ from that, up or down, evenly drawn

	CrashShare float64       // the server is gone at the end, and the result with it
	LateShare  float64       // the result comes late
	LateBy     time.Duration // by so much, documented time

	Recorders int // results that are told at once
}

// lateAfter is from when on a result counts as late, real time from the match's end.
const lateAfter = time.Second

// mostTries bounds how often it is tried to tell what others find out for themselves:
// that a server is free, by the end of its lease, and that a match is over.
const mostTries = 8

// mostLeases is how many leases are renewed in one request.
const mostLeases = 10_000

// games stands for all game servers. As in the documented tests they are fake: they
// are provisioned and record results, and nobody plays on them; the documented ones ran
// more than 500 matches on a core. A match here is an entry of a heap from its
// beginning to its end.
//
//	POST /games  GameRequest: 201
//
// When its time is over, its result is sent until it is acknowledged, under the same
// operation id. Then the server is given back, and agent select told that it is over.
// One that crashes is just gone: it is for others to find out.
type games struct {
	p      *Platform
	config GamesConfig
	clock  *due.Times // ends of matches: no calls
	calls  *due.Times

	started, crashed, acknowledged, late, lost prometheus.Counter
	delay                                      prometheus.Histogram

	mu      sync.Mutex
	rng     *rand.Rand
	running map[string]*game // by match, until the result is acknowledged
	answers *answers[struct{}]
}

// game is a match on a game server. It does not change.
type game struct {
	match, server string
	players       []api.Player
	ends          time.Time

	crashes, late bool
	firstWins     bool // the first team
}

func newGames(p *Platform) (role, error) {
	c := p.config.Games
	lengths := map[string]time.Duration{"a match's length": c.Length, "a lease": p.config.Provisioning.Lease}
	if c.LateShare > 0 {
		lengths["the lateness of results"] = c.LateBy
	}
	if err := positive(lengths); err != nil {
		return nil, err
	}
	if !within(c.LengthSpread, 0, 99) {
		return nil, fmt.Errorf("lengths spread by %v percent: want 0 to 99", c.LengthSpread)
	}
	if !within(c.CrashShare, 0, 100) || !within(c.LateShare, 0, 100) {
		return nil, fmt.Errorf("%v percent of the matches crash, of %v the result is late: want 0 to 100", c.CrashShare, c.LateShare)
	}
	if err := count("recorders", c.Recorders); err != nil {
		return nil, err
	}
	x := &games{
		p: p, config: c, clock: due.New(p.lateness(Games)), calls: due.New(p.lateness(Games)), rng: p.random("games"),
		running: map[string]*game{}, answers: newAnswers[struct{}](p.config.Remember),
		started:      p.counter("relapse_games_started_total", "Matches that have begun on a game server."),
		crashed:      p.counter("relapse_games_crashed_total", "Matches whose server was gone before the result was told, as configured."),
		acknowledged: p.counter("relapse_results_acknowledged_total", "Matches whose result was acknowledged to the game server."),
		late:         p.counter("relapse_results_late_total", "Results acknowledged more than a second after the match's end."),
		lost:         p.counter("relapse_leases_lost_total", "Servers of running matches that had been given back, each time that this was found."),
		delay: p.seconds("relapse_result_delay_seconds", "Time from a match's end until its result was acknowledged.",
			.005, .01, .02, .05, .1, .2, .5, 1, 2, 5, 10, 20, 50),
	}
	p.gauge("relapse_games_running", "Matches whose result is not acknowledged yet, or that have yet to crash.", func() float64 {
		return float64(len(x.servers()))
	})
	return x, nil
}

func (x *games) routes() []route { return []route{{"POST /games", "begin", x.begin}} }

func (x *games) run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return x.clock.Run(ctx, 1) })
	group.Go(func() error { return x.calls.Run(ctx, x.config.Recorders) })
	group.Go(func() error { return every(ctx, x.p.config.Provisioning.Lease/renewals, x.renew) })
	return group.Wait()
}

func (x *games) begin(w http.ResponseWriter, r *http.Request) error {
	var asked api.GameRequest
	if err := read(w, r, &asked); err != nil {
		return err
	}
	if err := checkOp(asked.Op); err != nil {
		return bad(err)
	}
	if err := checkPlayers(asked.Players, mostMatch); err != nil {
		return bad(err)
	}
	if asked.Match == "" || asked.Server == "" {
		return refuse(http.StatusBadRequest, "match, server: name both")
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	now := time.Now()
	if _, known := x.answers.get(asked.Op, now); !known {
		if x.running[asked.Match] != nil {
			return refuse(http.StatusConflict, "match %s was begun by another operation", asked.Match)
		}
		x.answers.put(asked.Op, struct{}{}, now)
		x.start(asked, now)
	}
	w.WriteHeader(http.StatusCreated)
	return nil
}

// start draws how a match goes. The lock is held.
func (x *games) start(asked api.GameRequest, now time.Time) {
	spread := x.config.LengthSpread / 100 * (2*x.rng.Float64() - 1)
	g := &game{
		match: asked.Match, server: asked.Server, players: asked.Players,
		ends:      now.Add(x.p.real(time.Duration(float64(x.config.Length) * (1 + spread)))),
		crashes:   100*x.rng.Float64() < x.config.CrashShare,
		late:      100*x.rng.Float64() < x.config.LateShare,
		firstWins: x.rng.IntN(2) == 0,
	}
	x.running[g.match] = g
	x.started.Inc()
	x.clock.At(g.ends, func() { x.end(g) })
}

// end has a match end, in one way or the other.
func (x *games) end(g *game) {
	if g.crashes {
		x.remove(g)
		x.crashed.Inc()
		return
	}
	at := g.ends
	if g.late {
		at = at.Add(x.p.real(x.config.LateBy))
	}
	x.calls.At(at, func() { x.record(g, 1) })
}

// remove forgets a match. Its server's lease is not renewed any more.
func (x *games) remove(g *game) {
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.running, g.match)
}

// record tells a match's result, until it is acknowledged. Recording has the time of
// two calls: the one to the store is made in it.
func (x *games) record(g *game, attempt int) {
	asked := api.ResultRequest{Op: g.match + "/result", Match: g.match}
	first := firstTeam(len(g.players))
	for n, p := range g.players {
		asked.Players = append(asked.Players, api.PlayerResult{Player: p, Won: (n < first) == g.firstWins})
	}
	deadline := time.Now().Add(2 * x.p.config.CallTimeout)
	if err := x.p.callUntil(deadline, Games, Results, http.MethodPost, "/results", asked, nil); err != nil {
		if attempt == 1 { // what comes of the others is in the metrics
			x.p.log(Games).Warn("a result is not recorded; trying again", "match", g.match, "error", err)
		}
		x.calls.At(x.p.again(attempt), func() { x.record(g, attempt+1) })
		return
	}
	now := time.Now()
	x.acknowledged.Inc()
	x.delay.Observe(now.Sub(g.ends).Seconds())
	if now.Sub(g.ends) > lateAfter {
		x.late.Inc()
	}
	x.remove(g)
	x.calls.At(now, func() {
		x.try(1, func() error { return x.p.call(Games, Provisioning, http.MethodDelete, "/servers/"+g.server, nil, nil) })
	})
	x.calls.At(now, func() { x.try(1, func() error { return x.tellOver(g) }) })
}

func (x *games) tellOver(g *game) error {
	err := x.p.call(Games, Agents, http.MethodPost, "/matches/"+g.match+"/over", api.MatchOver{Op: g.match + "/over"}, nil)
	if api.StatusOf(err) == http.StatusNotFound {
		return nil // agent select has been started anew, and nobody asks for the match
	}
	return err
}

// try makes a call, and some times again if it fails.
func (x *games) try(attempt int, call func() error) {
	if call() == nil || attempt == mostTries {
		return
	}
	x.calls.At(x.p.again(attempt), func() { x.try(attempt+1, call) })
}

// servers are those of all matches that run.
func (x *games) servers() []string {
	x.mu.Lock()
	defer x.mu.Unlock()
	servers := make([]string, 0, len(x.running))
	for _, g := range x.running {
		servers = append(servers, g.server)
	}
	return servers
}

// renew tells provisioning which servers are there.
func (x *games) renew() {
	for servers := range slices.Chunk(x.servers(), mostLeases) {
		var lost api.Lost
		if err := x.p.call(Games, Provisioning, http.MethodPost, "/leases", api.Leases{Servers: servers}, &lost); err != nil {
			x.p.log(Games).Warn("leases are not renewed; trying again when the next renewal is due", "servers", len(servers), "error", err)
			continue
		}
		x.lost.Add(float64(len(lost.Lost)))
	}
}
