package api

// Every POST that changes something carries an operation id, op, which its caller
// draws once and sends again with every retry: it is carried out once however often
// it arrives, and answered alike.

// Token lets a player in: POST /login?player=P, POST /renew?player=P&token=T.
type Token struct {
	Token   string `json:"token"`
	LastsMS int64  `json:"lasts_ms"` // from the answer on, in real milliseconds
}

// Settings is the dynamic configuration that clients poll: GET /config?player=P. It
// is a player's own: see [SettingPlayer].
type Settings struct {
	Version  int64             `json:"version"` // rises with every change
	Settings map[string]string `json:"settings"`
}

// SettingPlayer names the setting that has the number of the player whom an answer
// was made for. A player who reads another one there was given somebody else's
// answer by a cache.
const SettingPlayer = "player"

// For gives the settings that many players share as one of them gets them.
func (s Settings) For(p Player) Settings {
	own := make(map[string]string, len(s.Settings)+1)
	for name, value := range s.Settings {
		own[name] = value
	}
	own[SettingPlayer] = p.String()
	return Settings{Version: s.Version, Settings: own}
}

// Change orders the next version of the settings: POST /documents, which answers
// [Version].
type Change struct {
	Op string `json:"op"`
}

// Version is the version of the settings that holds from now on.
type Version struct {
	Version int64 `json:"version"`
}

// PartyRequest makes a party: POST /parties.
type PartyRequest struct {
	Op      string   `json:"op"`
	Players []Player `json:"players"`
}

// Party is a party that was made; DELETE /parties/{id} ends it.
type Party struct {
	Party string `json:"party"`
}

// QueueRequest asks for a match: POST /queue.
type QueueRequest struct {
	Op      string             `json:"op"`
	Party   string             `json:"party"`
	Players []Player           `json:"players"`
	Pings   map[string]float64 `json:"pings"` // milliseconds, by data centre
}

// Ticket is a place in the queue.
type Ticket struct {
	Ticket string `json:"ticket"`
}

// States of a [TicketState].
const (
	Waiting = "waiting"
	Matched = "matched" // agents are being selected
)

// TicketState is how far a ticket has come: GET /queue/{ticket}.
type TicketState struct {
	State string `json:"state"`
	Match string `json:"match,omitempty"` // once it is matched
}

// MatchRequest has the players of a match select their agents: POST /matches, by the
// queue. The first half of the players, the larger one of an odd number, is one team.
type MatchRequest struct {
	Op      string             `json:"op"`
	Match   string             `json:"match"`
	Players []Player           `json:"players"`
	Pings   map[string]float64 `json:"pings"` // milliseconds, summed over the players, by data centre
}

// AgentRequest locks an agent: POST /matches/{id}/agents. The player and the agent
// make it the same operation; an op may be there.
type AgentRequest struct {
	Op     string `json:"op,omitempty"`
	Player Player `json:"player"`
	Agent  string `json:"agent"`
}

// Agents are those that players choose from: eleven, as at the documented launch,
// under names of our own. No two players of a team have the same one.
var Agents = [...]string{
	"agent-01", "agent-02", "agent-03", "agent-04", "agent-05", "agent-06",
	"agent-07", "agent-08", "agent-09", "agent-10", "agent-11",
}

// States of a [MatchState].
const (
	Selecting    = "selecting"
	Provisioning = "provisioning"
	Playing      = "playing"
	Over         = "over"
	Failed       = "failed" // there was no server, or no result
)

// MatchState is how far a match has come: GET /matches/{id}.
type MatchState struct {
	State  string `json:"state"`
	Server string `json:"server,omitempty"`
	Centre string `json:"dc,omitempty"`
}

// MatchOver says that a match's result is recorded: POST /matches/{id}/over, by the
// game servers.
type MatchOver struct {
	Op string `json:"op"`
}

// ServerRequest asks for a game server: POST /servers.
type ServerRequest struct {
	Op      string             `json:"op"`
	Match   string             `json:"match"`
	Players []Player           `json:"players"`
	Pings   map[string]float64 `json:"pings"` // as in [MatchRequest]
}

// Server is a game server that was provisioned; DELETE /servers/{id} gives it back.
type Server struct {
	Server string `json:"server"`
	Centre string `json:"dc"`
}

// Leases says which servers are still there: POST /leases, by the game servers, which
// answers [Lost].
type Leases struct {
	Op      string   `json:"op,omitempty"` // asking twice is asking once
	Servers []string `json:"servers"`
}

// Lost are servers whose lease was not renewed in time: they were given back.
type Lost struct {
	Lost []string `json:"lost,omitempty"`
}

// GameRequest begins a match on a game server: POST /games.
type GameRequest struct {
	Op      string   `json:"op"`
	Server  string   `json:"server"`
	Match   string   `json:"match"`
	Players []Player `json:"players"` // as in [MatchRequest]
}

// ResultRequest records how a match came out: POST /results.
type ResultRequest struct {
	Op      string         `json:"op"`
	Match   string         `json:"match"`
	Players []PlayerResult `json:"players"`
}

// PlayerResult is how a match came out for one player.
type PlayerResult struct {
	Player Player `json:"player"`
	Won    bool   `json:"won"`
}

// GrantRequest gives money to a player: POST /grant of the store.
type GrantRequest struct {
	Op     string `json:"op"`
	Player Player `json:"player"`
	Amount int64  `json:"amount"`
}
