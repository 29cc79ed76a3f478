package simulants_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"relapse/topologies/services/platform/api"
)

// platform is all parts of one in memory: it keeps its word, unless a test has it lie.
type platform struct {
	lasts time.Duration // of a match
	mux   *http.ServeMux

	mu        sync.Mutex
	asked     map[string]int // by the first part of the path
	beats     []time.Time    // heartbeats
	players   map[string]int // logins by player
	tokens    map[string]string
	lastsMS   int64
	wallets   map[string]*wallet
	bought    map[string]int64 // by operation: the balance
	charges   int
	matches   map[string]*match
	parties   map[string][]api.Player
	noMatches bool
	gate      chan struct{}                                         // requests wait until it is closed, if there is one
	lie       func(w http.ResponseWriter, r *http.Request) bool     // answers in the platform's stead; locked
	twist     func(path string, body map[string]any) map[string]any // changes what it answers; locked
}

type wallet struct {
	balance, version int64
	items            []string
	equipped         string
}

type match struct {
	players []api.Player
	agents  map[string]bool
	began   time.Time // to be played
	over    bool
}

const (
	startBalance = 1000
	itemPrice    = 100
	itemCount    = 40
	grant        = 20
)

func newPlatform(lasts time.Duration) *platform {
	p := &platform{
		lasts: lasts, mux: http.NewServeMux(), lastsMS: 60_000,
		asked: map[string]int{}, players: map[string]int{}, tokens: map[string]string{}, wallets: map[string]*wallet{},
		bought: map[string]int64{}, matches: map[string]*match{}, parties: map[string][]api.Player{},
	}
	for pattern, handle := range map[string]func(http.ResponseWriter, *http.Request){
		"POST /login": p.login, "POST /renew": p.renew, "GET /config": p.settings, "POST /heartbeat": p.heartbeat,
		"POST /parties": p.party, "DELETE /parties/{id}": p.disband,
		"POST /queue": p.queue, "GET /queue/{id}": p.ticket, "DELETE /queue/{id}": p.nothing,
		"POST /matches/{id}/agents": p.agent, "GET /matches/{id}": p.match,
		"GET /wallet": p.wallet, "GET /inventory": p.inventory, "GET /catalog": p.catalog, "POST /buy": p.buy, "POST /equip": p.equip,
	} {
		p.mux.HandleFunc(pattern, handle)
	}
	return p
}

// serve has a test ask it.
func (p *platform) serve(t *testing.T) string {
	t.Helper()
	server := httptest.NewServer(p)
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return server.URL
}

func (p *platform) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	part, _, _ := strings.Cut(r.URL.Path[1:], "/")
	p.asked[part]++
	gate := p.gate
	lied := p.lie != nil && p.lie(w, r)
	p.mu.Unlock()
	if lied {
		return
	}
	if gate != nil {
		select {
		case <-gate:
		case <-r.Context().Done():
			return
		}
	}
	p.mux.ServeHTTP(w, r)
}

// count says how often a part of it was asked.
func (p *platform) count(part string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.asked[part]
}

// do has something done while nobody asks.
func (p *platform) do(what func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	what()
}

// say answers; the platform is locked.
func (p *platform) say(w http.ResponseWriter, r *http.Request, status int, body any) {
	if p.twist != nil {
		b, err := json.Marshal(body)
		if err != nil {
			panic(err)
		}
		var fields map[string]any
		if json.Unmarshal(b, &fields) == nil {
			body = p.twist(r.URL.Path, fields)
		}
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(body)
}

func read[T any](r *http.Request) (body T) {
	decoder := json.NewDecoder(r.Body)
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&body); err != nil {
		panic(http.ErrAbortHandler)
	}
	return body
}

func (p *platform) nothing(w http.ResponseWriter, _ *http.Request) {
	w.WriteHeader(http.StatusNoContent)
}

func (p *platform) login(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	player := r.URL.Query().Get("player")
	p.players[player]++
	p.tokens[player] = fmt.Sprintf("token-%s-%d", player, p.players[player])
	p.say(w, r, 200, api.Token{Token: p.tokens[player], LastsMS: p.lastsMS})
}

func (p *platform) renew(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	player := r.URL.Query().Get("player")
	if p.tokens[player] == "" || p.tokens[player] != r.URL.Query().Get("token") {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	p.say(w, r, 200, api.Token{Token: p.tokens[player], LastsMS: p.lastsMS})
}

func (p *platform) settings(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	player, err := api.ParsePlayer(r.URL.Query().Get("player"))
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	p.say(w, r, 200, api.Settings{Version: 1, Settings: map[string]string{"cohort": "1"}}.For(player))
}

func (p *platform) heartbeat(w http.ResponseWriter, _ *http.Request) {
	p.mu.Lock()
	if len(p.beats) < 100_000 {
		p.beats = append(p.beats, time.Now())
	}
	p.mu.Unlock()
	w.WriteHeader(http.StatusNoContent)
}

func (p *platform) party(w http.ResponseWriter, r *http.Request) {
	asked := read[api.PartyRequest](r)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.parties[asked.Op] = asked.Players
	p.say(w, r, 200, api.Party{Party: asked.Op})
}

func (p *platform) disband(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.parties, r.PathValue("id"))
	w.WriteHeader(http.StatusNoContent)
}

func (p *platform) queue(w http.ResponseWriter, r *http.Request) {
	asked := read[api.QueueRequest](r)
	p.mu.Lock()
	defer p.mu.Unlock()
	if !slices.Equal(p.parties[asked.Party], asked.Players) || len(asked.Pings) == 0 {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	p.matches[asked.Op] = &match{players: asked.Players, agents: map[string]bool{}}
	p.say(w, r, 202, api.Ticket{Ticket: asked.Op})
}

func (p *platform) ticket(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.noMatches {
		p.say(w, r, 200, api.TicketState{State: api.Waiting})
		return
	}
	p.say(w, r, 200, api.TicketState{State: api.Matched, Match: r.PathValue("id")})
}

func (p *platform) agent(w http.ResponseWriter, r *http.Request) {
	asked := read[api.AgentRequest](r)
	p.mu.Lock()
	defer p.mu.Unlock()
	m := p.matches[r.PathValue("id")]
	if m == nil || m.agents[asked.Agent] {
		w.WriteHeader(http.StatusConflict)
		return
	}
	m.agents[asked.Agent] = true
	if len(m.agents) == len(m.players) {
		m.began = time.Now()
	}
	w.WriteHeader(http.StatusOK)
}

func (p *platform) match(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	m := p.matches[r.PathValue("id")]
	switch {
	case m == nil:
		w.WriteHeader(http.StatusNotFound)
		return
	case m.began.IsZero():
		p.say(w, r, 200, api.MatchState{State: api.Selecting})
		return
	case !m.over && time.Since(m.began) < p.lasts:
		p.say(w, r, 200, api.MatchState{State: api.Playing})
		return
	case !m.over:
		m.over = true
		for _, player := range m.players {
			one := p.of(player.String())
			one.balance += grant
			one.version++
		}
	}
	p.say(w, r, 200, api.MatchState{State: api.Over})
}

// of is a player's wallet; the platform is locked.
func (p *platform) of(player string) *wallet {
	if p.wallets[player] == nil {
		p.wallets[player] = &wallet{balance: startBalance, version: 1}
	}
	return p.wallets[player]
}

func (p *platform) wallet(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	one := p.of(r.URL.Query().Get("player"))
	p.say(w, r, 200, map[string]int64{"balance": one.balance, "version": one.version})
}

func (p *platform) inventory(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	one := p.of(r.URL.Query().Get("player"))
	p.say(w, r, 200, map[string]any{"items": one.items, "equipped": one.equipped})
}

func (p *platform) catalog(w http.ResponseWriter, r *http.Request) {
	var goods []map[string]any
	for n := range itemCount {
		goods = append(goods, map[string]any{"item": fmt.Sprintf("skin-%02d", n), "price": itemPrice})
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.say(w, r, 200, goods)
}

type itemOrder struct {
	Op     string     `json:"op"`
	Player api.Player `json:"player"`
	Item   string     `json:"item"`
}

func (p *platform) buy(w http.ResponseWriter, r *http.Request) {
	asked := read[itemOrder](r)
	p.mu.Lock()
	defer p.mu.Unlock()
	one := p.of(asked.Player.String())
	if balance, known := p.bought[asked.Op]; known {
		p.say(w, r, 200, map[string]int64{"balance": balance})
		return
	}
	if one.balance < itemPrice || slices.Contains(one.items, asked.Item) {
		w.WriteHeader(http.StatusConflict)
		return
	}
	one.balance -= itemPrice
	one.version++
	one.items = append(one.items, asked.Item)
	p.bought[asked.Op] = one.balance
	p.charges++
	p.say(w, r, 200, map[string]int64{"balance": one.balance})
}

func (p *platform) equip(w http.ResponseWriter, r *http.Request) {
	asked := read[itemOrder](r)
	p.mu.Lock()
	defer p.mu.Unlock()
	one := p.of(asked.Player.String())
	if !slices.Contains(one.items, asked.Item) {
		w.WriteHeader(http.StatusConflict)
		return
	}
	one.equipped = asked.Item
	w.WriteHeader(http.StatusOK)
}
