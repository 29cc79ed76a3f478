package simulants

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"relapse/topologies/services/http1"
	"relapse/topologies/services/platform/api"
)

// role is a part of the platform that players ask.
type role uint8

const (
	roleSession role = iota
	roleParty
	roleQueue
	roleAgents
	roleStore
	roles
)

var roleNames = [roles]string{"session", "party", "queue", "agents", "store"}

// op is a kind of request.
type op uint8

const (
	opLogin   op = iota // the first one of a player
	opRelogin           // any further one
	opRenew
	opConfig
	opHeartbeat
	opParty
	opQueue
	opTicket
	opUnqueue
	opAgent
	opMatch
	opDisband
	opWallet
	opCatalog
	opBuy
	opInventory
	opEquip
	ops
)

// calls say of each kind of request how it is counted and whom it goes to.
var calls = [ops]struct {
	name   string
	role   role
	answer bool // a body that is read, of an answer that says yes
}{
	opLogin:     {"login", roleSession, true},
	opRelogin:   {"relogin", roleSession, true},
	opRenew:     {"renew", roleSession, true},
	opConfig:    {"config", roleSession, true},
	opHeartbeat: {"heartbeat", roleSession, false},
	opParty:     {"party", roleParty, true},
	opQueue:     {"queue", roleQueue, true},
	opTicket:    {"ticket", roleQueue, true},
	opUnqueue:   {"unqueue", roleQueue, false},
	opAgent:     {"agent", roleAgents, false},
	opMatch:     {"match", roleAgents, true},
	opDisband:   {"disband", roleParty, false},
	opWallet:    {"wallet", roleStore, true},
	opCatalog:   {"catalog", roleStore, true},
	opBuy:       {"buy", roleStore, true},
	opInventory: {"inventory", roleStore, true},
	opEquip:     {"equip", roleStore, false},
}

// action is a request that a player is to make. It holds all that the request says,
// so that it can be written without the shard's lock.
type action struct {
	place  int32  // of the player
	life   uint16 // of the player
	op     op
	by     activity
	due    time.Duration
	player api.Player
	number uint32 // of the operation, the same for every try
	id     string // token, party, ticket or match
	what   string // item or agent
	party  []api.Player
}

// late says by how much an action is, or was, after its time.
func (a *action) late(now time.Duration) time.Duration { return max(0, now-a.due) }

// request writes what an action sends.
func (h *Harness) request(c *http1.Client, a *action) http1.Request {
	player := a.player.String()
	switch a.op {
	case opLogin, opRelogin:
		return c.Request(http.MethodPost, "/login?player="+player)
	case opRenew:
		return c.Request(http.MethodPost, "/renew?player="+player+"&token="+url.QueryEscape(a.id))
	case opConfig:
		return c.Request(http.MethodGet, "/config?player="+player)
	case opHeartbeat:
		return c.Request(http.MethodPost, "/heartbeat?player="+player)
	case opTicket:
		return c.Request(http.MethodGet, "/queue/"+url.PathEscape(a.id))
	case opUnqueue:
		return c.Request(http.MethodDelete, "/queue/"+url.PathEscape(a.id))
	case opMatch:
		return c.Request(http.MethodGet, "/matches/"+url.PathEscape(a.id))
	case opDisband:
		return c.Request(http.MethodDelete, "/parties/"+url.PathEscape(a.id))
	case opWallet:
		return c.Request(http.MethodGet, "/wallet?player="+player)
	case opCatalog:
		return c.Request(http.MethodGet, "/catalog")
	case opInventory:
		return c.Request(http.MethodGet, "/inventory?player="+player)
	case opParty:
		return post(c, "/parties", api.PartyRequest{Op: h.operation(a), Players: a.party})
	case opQueue:
		return post(c, "/queue", api.QueueRequest{Op: h.operation(a), Party: a.id, Players: a.party, Pings: h.pings(a.player)})
	case opAgent:
		return post(c, "/matches/"+url.PathEscape(a.id)+"/agents", api.AgentRequest{Op: h.operation(a), Player: a.player, Agent: a.what})
	case opBuy, opEquip:
		return post(c, "/"+calls[a.op].name, struct {
			Op     string     `json:"op"`
			Player api.Player `json:"player"`
			Item   string     `json:"item"`
		}{h.operation(a), a.player, a.what})
	}
	panic(fmt.Sprintf("no request is written for %s", calls[a.op].name))
}

func post(c *http1.Client, path string, body any) http1.Request {
	// Structs of strings and numbers: no error is possible.
	b, _ := json.Marshal(body)
	return c.RequestWithBody(http.MethodPost, path, "application/json", b)
}

// operation is the id of an operation, unique to this life of the harness: one that
// starts anew must not ask for what its predecessor asked for.
func (h *Harness) operation(a *action) string {
	return h.life + "-" + strconv.FormatInt(int64(a.player), 36) + "-" + strconv.FormatUint(uint64(a.number), 36)
}

// What pings are drawn between, in milliseconds: chosen, from a player in the town of a
// data centre to one at the other end of the region.
const (
	leastPing = 8
	mostPing  = 150
)

// pings are a player's to the data centres: the same ones whenever it is asked.
func (h *Harness) pings(p api.Player) map[string]float64 {
	out := map[string]float64{}
	for n, name := range h.config.Match.DataCentres {
		out[name] = float64(leastPing + spread(h.config.Seed, uint64(p), uint64(n))%(mostPing-leastPing))
	}
	return out
}

// spread is a number that is drawn for what its arguments stand for, without a source
// that would have to be kept (the finalizer of SplitMix64).
func spread(of ...uint64) (x uint64) {
	for _, v := range of {
		x += v + 0x9e3779b97f4a7c15
		x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
		x = (x ^ x>>27) * 0x94d049bb133111eb
		x ^= x >> 31
	}
	return x
}
