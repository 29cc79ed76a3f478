package platform

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"time"

	"relapse/topologies/services/matchmaking"
	"relapse/topologies/services/platform/api"
)

// mostParty is how many players a party has at most: a team.
const mostParty = 5

// party knows who plays together. A player is in one party at a time; whoever is taken
// into another one leaves the one before, and a party that all have left is gone.
//
//	POST   /parties       PartyRequest: 200 Party
//	DELETE /parties/{id}  204, also for one that is not there
type party struct {
	p *Platform

	mu      sync.Mutex
	members map[string][]api.Player // by party
	in      map[api.Player]string
	answers *answers[string]
}

func newParty(p *Platform) (role, error) {
	y := &party{p: p, members: map[string][]api.Player{}, in: map[api.Player]string{}, answers: newAnswers[string](p.config.Remember)}
	p.gauge("relapse_parties", "Parties that players are in.", func() float64 {
		y.mu.Lock()
		defer y.mu.Unlock()
		return float64(len(y.members))
	})
	return y, nil
}

func (y *party) routes() []route {
	return []route{
		{"POST /parties", "create", y.create},
		{"DELETE /parties/{id}", "end", y.end},
	}
}

func (y *party) run(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

func (y *party) create(w http.ResponseWriter, r *http.Request) error {
	var asked api.PartyRequest
	if err := read(w, r, &asked); err != nil {
		return err
	}
	if err := checkOp(asked.Op); err != nil {
		return bad(err)
	}
	if err := checkPlayers(asked.Players, mostParty); err != nil {
		return bad(err)
	}
	matchmaking.Answer(w, http.StatusOK, api.Party{Party: y.of(asked)})
	return nil
}

// of gives the party that was asked for.
func (y *party) of(asked api.PartyRequest) string {
	y.mu.Lock()
	defer y.mu.Unlock()
	now := time.Now()
	if id, known := y.answers.get(asked.Op, now); known {
		return id
	}
	id := y.p.name("party")
	for _, p := range asked.Players {
		y.leave(p)
		y.in[p] = id
	}
	y.members[id] = slices.Clone(asked.Players)
	y.answers.put(asked.Op, id, now)
	return id
}

// leave takes a player out of a party. The lock is held.
func (y *party) leave(p api.Player) {
	id, member := y.in[p]
	if !member {
		return
	}
	delete(y.in, p)
	left := slices.DeleteFunc(y.members[id], func(other api.Player) bool { return other == p })
	if len(left) == 0 {
		delete(y.members, id)
		return
	}
	y.members[id] = left
}

func (y *party) end(w http.ResponseWriter, r *http.Request) error {
	y.mu.Lock()
	id := r.PathValue("id")
	for _, p := range y.members[id] {
		delete(y.in, p)
	}
	delete(y.members, id)
	y.mu.Unlock()
	w.WriteHeader(http.StatusNoContent)
	return nil
}
