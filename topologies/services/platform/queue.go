package platform

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"relapse/topologies/services/matchmaking"
	"relapse/topologies/services/platform/api"
	"relapse/topologies/services/platform/due"
)

// QueueConfig is what matchmaking is made of.
type QueueConfig struct {
	MatchSize int // players, an even number
	// WidenAfter is how long a party waits for others who are nearest to the same data
	// centre. Then it is matched with anybody who has waited as long, documented time.
	WidenAfter time.Duration
	// WaitMost is how long a party waits at most: then the match begins with those who
	// are there, documented time. The source does not know such matches. Simulated
	// players, who are few in the first steps of a ladder, would else wait for ever.
	WaitMost time.Duration
	// Senders are how many matches are handed on at once.
	Senders int
}

// matchEvery is how often matches are made.
const matchEvery = 50 * time.Millisecond

// Matches by how they were made.
const (
	full    = "full"    // of players who are nearest to one data centre
	widened = "widened" // of players who have waited
	short   = "short"   // with places left free
)

// queue makes matches:
//
//	POST   /queue           QueueRequest: 202 Ticket; 409 if a player waits with others
//	GET    /queue/{ticket}  200 TicketState, until a while after it was matched; then 404
//	DELETE /queue/{ticket}  204; who is in a match by then plays it
//
// A party that asks again while it waits gets the ticket that it has. A ticket is
// matched once the agents of its match can be selected, and not before.
type queue struct {
	p      *Platform
	config QueueConfig
	widen  time.Duration // real time
	most   time.Duration
	calls  *due.Times

	made   map[string]prometheus.Counter
	waited prometheus.Observer

	mu       sync.Mutex
	tickets  map[string]*ticket // not told yet
	waiting  []*ticket          // not in a match, the oldest first
	byPlayer map[api.Player]*ticket
	answers  *answers[string]
	told     *answers[*ticket]
}

func newQueue(p *Platform) (role, error) {
	c := p.config.Queue
	if c.MatchSize < 2 || c.MatchSize > mostMatch || c.MatchSize%2 != 0 {
		return nil, fmt.Errorf("a match of %d players: want two teams of the same size, %d players at most", c.MatchSize, mostMatch)
	}
	if err := positive(map[string]time.Duration{"the time until a party is matched with anybody": c.WidenAfter, "the longest wait": c.WaitMost}); err != nil {
		return nil, err
	}
	if err := count("senders", c.Senders); err != nil {
		return nil, err
	}
	q := &queue{
		p: p, config: c, widen: p.real(c.WidenAfter), most: p.real(c.WaitMost), calls: due.New(p.lateness(Queue)),
		made: p.counters("relapse_matches_made_total",
			"Matches made, by kind (full: of players near one data centre, widened: of players who had waited, short: with places left free).",
			"kind", full, widened, short),
		waited:  p.seconds("relapse_queue_wait_seconds", "Time that parties waited until they were in a match.", .05, .1, .2, .5, 1, 2, 5, 10, 20),
		tickets: map[string]*ticket{}, byPlayer: map[api.Player]*ticket{},
		answers: newAnswers[string](p.config.Remember), told: newAnswers[*ticket](p.config.Remember),
	}
	p.gauge("relapse_queued_players", "Players who are in the queue, or in a match that is not handed on yet.", func() float64 {
		q.mu.Lock()
		defer q.mu.Unlock()
		return float64(len(q.byPlayer))
	})
	return q, nil
}

func (q *queue) routes() []route {
	return []route{
		{"POST /queue", "enter", q.enter},
		{"GET /queue/{ticket}", "poll", q.poll},
		{"DELETE /queue/{ticket}", "leave", q.leave},
	}
}

func (q *queue) run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return every(ctx, matchEvery, func() { q.match(time.Now()) }) })
	group.Go(func() error { return q.calls.Run(ctx, q.config.Senders) })
	return group.Wait()
}

func (q *queue) enter(w http.ResponseWriter, r *http.Request) error {
	var asked api.QueueRequest
	if err := read(w, r, &asked); err != nil {
		return err
	}
	if err := checkOp(asked.Op); err != nil {
		return bad(err)
	}
	if err := checkPlayers(asked.Players, q.config.MatchSize/2); err != nil {
		return bad(err)
	}
	if err := checkPings(asked.Pings); err != nil {
		return bad(err)
	}
	if len(asked.Pings) == 0 {
		return refuse(http.StatusBadRequest, "pings: name one data centre at least")
	}
	id, err := q.ticketOf(asked)
	if err != nil {
		return err
	}
	matchmaking.Answer(w, http.StatusAccepted, api.Ticket{Ticket: id})
	return nil
}

func (q *queue) ticketOf(asked api.QueueRequest) (string, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := time.Now()
	if id, known := q.answers.get(asked.Op, now); known {
		return id, nil
	}
	for _, p := range asked.Players {
		switch other := q.byPlayer[p]; {
		case other == nil:
		case other.same(asked.Players):
			q.answers.put(asked.Op, other.id, now)
			return other.id, nil
		default:
			return "", refuse(http.StatusConflict, "player %d is in the queue with others: leave it first", p)
		}
	}
	t := &ticket{
		id: q.p.name("ticket"), players: slices.Clone(asked.Players),
		pings: asked.Pings, choice: nearest(asked.Pings), since: now,
	}
	q.tickets[t.id] = t
	q.waiting = append(q.waiting, t)
	for _, p := range t.players {
		q.byPlayer[p] = t
	}
	q.answers.put(asked.Op, t.id, now)
	return t.id, nil
}

func (q *queue) poll(w http.ResponseWriter, r *http.Request) error {
	q.mu.Lock()
	t, ended := q.told.get(r.PathValue("ticket"), time.Now())
	waiting := q.tickets[r.PathValue("ticket")] != nil
	q.mu.Unlock()
	switch {
	case ended: // what it is does not change any more
		matchmaking.Answer(w, http.StatusOK, api.TicketState{State: api.Matched, Match: t.match})
	case waiting:
		matchmaking.Answer(w, http.StatusOK, api.TicketState{State: api.Waiting})
	default:
		return refuse(http.StatusNotFound, "no ticket %q: it was left, or matched a while ago", r.PathValue("ticket"))
	}
	return nil
}

func (q *queue) leave(w http.ResponseWriter, r *http.Request) error {
	q.mu.Lock()
	if t := q.tickets[r.PathValue("ticket")]; t != nil && t.match == "" {
		q.waiting = slices.DeleteFunc(q.waiting, func(other *ticket) bool { return other == t })
		q.forget(t)
	}
	q.mu.Unlock()
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// forget takes a ticket out of the queue. The lock is held.
func (q *queue) forget(t *ticket) {
	delete(q.tickets, t.id)
	for _, p := range t.players {
		delete(q.byPlayer, p)
	}
}

// match makes all matches that can be made: first of those who are nearest to the same
// data centre, then of those who have waited, and last of whoever is there.
func (q *queue) match(now time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	byChoice := map[string][]*ticket{}
	for _, t := range q.waiting {
		byChoice[t.choice] = append(byChoice[t.choice], t)
	}
	for _, choice := range slices.Sorted(maps.Keys(byChoice)) {
		for _, f := range fill(byChoice[choice], q.config.MatchSize) {
			q.begin(f, full, now)
		}
	}
	var patient []*ticket
	for _, t := range q.waiting {
		if t.match == "" && now.Sub(t.since) >= q.widen {
			patient = append(patient, t)
		}
	}
	for _, f := range fill(patient, q.config.MatchSize) {
		q.begin(f, widened, now)
	}
	q.waiting = slices.DeleteFunc(q.waiting, func(t *ticket) bool { return t.match != "" })
	for len(q.waiting) > 0 && now.Sub(q.waiting[0].since) >= q.most {
		f := newForming(q.config.MatchSize)
		for _, t := range q.waiting {
			f.add(t)
		}
		q.begin(f, short, now)
		q.waiting = slices.DeleteFunc(q.waiting, func(t *ticket) bool { return t.match != "" })
	}
}

// begin has a match handed on. The lock is held.
func (q *queue) begin(f *forming, kind string, now time.Time) {
	match := q.p.name("match")
	for _, t := range f.tickets() {
		t.match = match
		q.waited.Observe(now.Sub(t.since).Seconds())
	}
	q.made[kind].Inc()
	asked := api.MatchRequest{Op: match, Match: match, Players: f.players(), Pings: f.pings()}
	q.calls.At(now, func() { q.hand(asked, f.tickets(), 1) })
}

// hand has the agents of a match be selected, and tries again until that has begun.
func (q *queue) hand(asked api.MatchRequest, tickets []*ticket, attempt int) {
	if err := q.p.call(Queue, Agents, http.MethodPost, "/matches", asked, nil); err != nil {
		if attempt == 1 { // what comes of the others is in the metrics
			q.p.log(Queue).Warn("a match is not handed on; trying again", "match", asked.Match, "error", err)
		}
		q.calls.At(q.p.again(attempt), func() { q.hand(asked, tickets, attempt+1) })
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	now := time.Now()
	for _, t := range tickets {
		q.forget(t)
		q.told.put(t.id, t, now)
	}
}
