package simulants

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/goccy/go-yaml"

	"relapse/topologies/services/platform/api"
	"relapse/topologies/services/players"
)

// Config says whom simulated players ask, and what they do. The source gives the
// kinds of polls and scenarios but none of their times: the defaults are chosen, so
// that polls are most of the requests, as documented. Times are documented ones,
// which [Config.Speed] divides, but for those that say "as played".
type Config struct {
	// Target is the base URL of every part of the platform that Targets does not
	// name, such as http://platform:8080 where it is one program. Its host must
	// resolve to an address inside a subnet of one of the machine's own interfaces.
	Target  string  `yaml:"target"`
	Targets Targets `yaml:"targets"`
	// Timeout is how long a player waits, from the time that a request was meant to
	// be sent; as played.
	Timeout time.Duration `yaml:"timeout"`
	// Seed decides who plays what when.
	Seed uint64 `yaml:"seed"`
	// Speed is how many documented seconds pass in one that is played.
	Speed float64 `yaml:"speed"`
	// Players is how many numbers of players there are, from 0. It bounds what can be
	// ordered.
	Players int `yaml:"players"`
	// Ranges is how many ranges the numbers are divided into, of which each harness
	// takes some; see [Ranges].
	Ranges int `yaml:"ranges"`
	// LoginRate is how many players are created a second where an order of players
	// does not name another; as played.
	LoginRate float64 `yaml:"login_rate"`
	// LoginAgain is how long a player waits who could not sign in, or whose token was
	// not known any more: drawn evenly between half of it and one and a half; as played.
	LoginAgain time.Duration `yaml:"login_again"`
	// Workers is how many shards there are; 0 is one for each CPU.
	Workers int `yaml:"workers"`
	// InFlight bounds the requests on their way, over all shards. What is due over it
	// waits for a slot, and is late. It is a fuse, not a concurrency to load with.
	InFlight int `yaml:"in_flight"`
	// Arrivals is how logins and scenarios are spaced.
	Arrivals players.Arrivals `yaml:"arrivals"`
	// Jitter is by how much of itself a time between two polls differs, up or down.
	// Where in its period a player's first poll is, is drawn as well.
	Jitter float64 `yaml:"jitter"`
	// Lockstep has all players poll at the same moments, without any jitter: a trap,
	// since identical players make peaks that real ones never do.
	Lockstep bool `yaml:"lockstep"`
	// Closed has a player do nothing while it waits for an answer: a trap, since a
	// platform that slows down is then asked for less, and looks well.
	Closed bool `yaml:"closed"`
	// Polls are the requests that the client makes by itself.
	Polls Polls `yaml:"polls"`
	// Scenarios are what the pool hands out.
	Scenarios Scenarios `yaml:"scenarios"`
	// Think is what passes between two steps of a scenario, of a player on the average.
	Think time.Duration `yaml:"think"`
	// Tries is how often a step of a scenario is tried that has no definite answer, in
	// all, each with the same operation id; RetryAfter what passes between, as played.
	Tries      int           `yaml:"tries"`
	RetryAfter time.Duration `yaml:"retry_after"`
	Match      Match         `yaml:"match"`
	// Shared has several harnesses share the ranges; nil for one harness alone.
	Shared *Shared `yaml:"shared"`
}

// Targets are base URLs of the parts of a platform.
type Targets struct {
	Session string `yaml:"session"`
	Party   string `yaml:"party"`
	Queue   string `yaml:"queue"`
	Agents  string `yaml:"agents"`
	Store   string `yaml:"store"`
}

// Polls say how often the client asks by itself.
type Polls struct {
	// Off has players make no polls at all: what a test that knows scenarios only
	// understates the load by.
	Off       bool          `yaml:"off"`
	Renew     time.Duration `yaml:"renew"`  // the token; earlier where it does not last so long
	Config    time.Duration `yaml:"config"` // the dynamic configuration
	Heartbeat time.Duration `yaml:"heartbeat"`
}

// Scenarios say what passes between two runs of a scenario of one player who is
// signed in, on the average; 0 for never.
type Scenarios struct {
	Match time.Duration `yaml:"match"`
	Buy   time.Duration `yaml:"buy"`
	Skin  time.Duration `yaml:"skin"`
}

// Match says how players come to a match.
type Match struct {
	// Parties are the weights of parties of 1, 2, … players.
	Parties []float64 `yaml:"parties"`
	// Agents are the names that players choose from.
	Agents []string `yaml:"agents"`
	// DataCentres are the names of what a player has pings to; these are drawn.
	DataCentres []string `yaml:"data_centres"`
	// Ask is the time between two questions for a ticket, or for a match that has not
	// begun; AskPlaying for one that has.
	Ask        time.Duration `yaml:"ask"`
	AskPlaying time.Duration `yaml:"ask_playing"`
	// Patience is how long a party queues before it gives up; Longest how long a
	// player waits for a match to be over.
	Patience time.Duration `yaml:"patience"`
	Longest  time.Duration `yaml:"longest"`
	// Grants are what a match can grant a player, such as for winning and for losing.
	// Where it is empty anything more than nothing will do.
	Grants []int64 `yaml:"grants"`
	// GrantedWithin is when a player who was told that the match is over must have the
	// grant; as played.
	GrantedWithin time.Duration `yaml:"granted_within"`
}

// Shared says where harnesses share the ranges.
type Shared struct {
	Redis string        `yaml:"redis"` // host:port
	Lease time.Duration `yaml:"lease"` // after which a harness that says nothing has no ranges; as played
}

// ErrConfig says that a configuration cannot be played.
var ErrConfig = errors.New("simulants")

// shortestPoll bounds how often one player polls, as played: what is more often can
// only be a mistake in the speed.
const shortestPoll = 20 * time.Millisecond

// ParseConfig reads a configuration, strictly. Several documents are read one over
// the other, so that a later one can change single fields.
func ParseConfig(documents ...[]byte) (Config, error) {
	c := Config{
		Timeout: 2 * time.Second, Speed: 1, Players: 100_000, Ranges: 256,
		LoginRate: 250, LoginAgain: time.Second,
		InFlight: 8192, Arrivals: players.Even, Jitter: 0.2,
		Polls:     Polls{Renew: 5 * time.Minute, Config: time.Minute, Heartbeat: 15 * time.Second},
		Scenarios: Scenarios{Match: 45 * time.Minute, Buy: time.Hour, Skin: 30 * time.Minute},
		Think:     3 * time.Second, Tries: 5, RetryAfter: 500 * time.Millisecond,
		Match: Match{
			Parties:     []float64{50, 25, 10, 5, 10},
			Agents:      slices.Clone(api.Agents[:]),
			DataCentres: []string{"frankfurt", "london", "paris", "warsaw"},
			Ask:         2 * time.Second, AskPlaying: 15 * time.Second,
			Patience: 10 * time.Minute, Longest: time.Hour, GrantedWithin: 2 * time.Second,
		},
	}
	for _, document := range documents {
		if err := yaml.UnmarshalWithOptions(document, &c, yaml.Strict()); err != nil {
			return Config{}, fmt.Errorf("%w: %w", ErrConfig, err)
		}
	}
	if err := c.validate(); err != nil {
		return Config{}, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	return c, nil
}

// played gives a documented time as it is played.
func (c *Config) played(documented time.Duration) time.Duration {
	return time.Duration(float64(documented) / c.Speed)
}

// every gives how often a player polls, as played.
func (c *Config) every(poll activity) time.Duration {
	switch poll {
	case onSession:
		return c.played(c.Polls.Renew)
	case onConfig:
		return c.played(c.Polls.Config)
	case onHeartbeat:
		return c.played(c.Polls.Heartbeat)
	}
	return 0
}

// between gives what passes between two runs of a scenario of one player, as
// documented.
func (c *Config) between(k kind) time.Duration {
	return [...]time.Duration{matching: c.Scenarios.Match, buying: c.Scenarios.Buy, skinning: c.Scenarios.Skin}[k]
}

// perSecond is how often one player who is signed in begins a scenario, as played.
func (c *Config) perSecond(k kind) float64 {
	between := c.between(k)
	if between <= 0 {
		return 0
	}
	return c.Speed / between.Seconds()
}

// partySize is how many players a party has on the average.
func (m *Match) partySize() float64 {
	sum, all := 0.0, 0.0
	for n, weight := range m.Parties {
		sum += float64(n+1) * weight
		all += weight
	}
	return sum / all
}

// target is the base URL of a part of the platform.
func (c *Config) target(r role) string {
	named := [...]string{
		roleSession: c.Targets.Session, roleParty: c.Targets.Party, roleQueue: c.Targets.Queue,
		roleAgents: c.Targets.Agents, roleStore: c.Targets.Store,
	}[r]
	if named != "" {
		return named
	}
	return c.Target
}

// positive says whether a number is one that can be divided by.
func positive(v float64) bool { return v > 0 && !math.IsInf(v, 0) }
