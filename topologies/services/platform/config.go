package platform

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"relapse/topologies/services/limits"
	"relapse/topologies/services/platform/api"
)

// Defaults; the source gives none of them.
const (
	DefaultLimit       = 64
	DefaultSpeed       = 60
	DefaultCallTimeout = 2 * time.Second
	DefaultRemember    = time.Minute
	// DefaultOriginTakes is the modelled cost of the settings at their origin.
	DefaultOriginTakes = 5 * time.Millisecond
)

// mostSpeed refuses a speed that can only be a mistake: an hour in 3.6 ms.
const mostSpeed = 1e6

// Config is what a process of the platform is made of. Percentages go from 0 to 100.
type Config struct {
	Roles []string // see [Roles]

	// Limits are how many requests are worked on at once, by role, or "all" for one
	// pool that the roles of the process share. What is over is refused at once
	// with 503; nothing waits.
	Limits limits.Limits
	// Costs are what each request to a role takes, modelled: it holds its worker
	// for so long before it is looked at, and burns no CPU. A pool of n workers then
	// has a capacity of n ÷ cost requests a second. An hour is a role that is stuck.
	Costs map[string]time.Duration
	// Peers are whom the roles ask, by role, and [Store].
	Peers map[string]*api.Client

	Speed       float64       // documented seconds in a real one
	CallTimeout time.Duration // of each call to a peer, real time
	// Remember is how long operations, and what has ended, are known, in real time:
	// who tries again after that has it done again.
	Remember time.Duration
	Seed     uint64       // decides tokens, lengths and who wins
	Log      *slog.Logger // nil for none

	Session      SessionConfig
	Origin       OriginConfig
	Queue        QueueConfig
	Agents       AgentsConfig
	Provisioning ProvisioningConfig
	Games        GamesConfig
	Results      ResultsConfig
}

// complete checks what all roles have in common and gives it with its defaults. Each
// role checks its own.
func (c Config) complete() (Config, error) {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if len(c.Roles) == 0 {
		return c, fmt.Errorf("no roles: give some of %s", strings.Join(Roles(), ", "))
	}
	seen := map[string]bool{}
	for _, name := range c.Roles {
		switch {
		case !slices.Contains(Roles(), name):
			return c, fmt.Errorf("no role %q; there are: %s", name, strings.Join(Roles(), ", "))
		case seen[name]:
			return c, fmt.Errorf("role %s is there twice", name)
		}
		seen[name] = true
	}
	for _, name := range Peers(c.Roles) {
		if c.Peers[name] == nil {
			return c, fmt.Errorf("no peer %s, which %s ask: give its address", name, strings.Join(c.Roles, ", "))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.Costs)) {
		switch {
		case !slices.Contains(Roles(), name):
			return c, fmt.Errorf("a cost of %q, which is no role; there are: %s", name, strings.Join(Roles(), ", "))
		case c.Costs[name] < 0:
			return c, fmt.Errorf("a request to %s takes %v: want zero or more", name, c.Costs[name])
		}
	}
	switch {
	case !within(c.Speed, 1/mostSpeed, mostSpeed):
		return c, fmt.Errorf("a speed of %v: want more than zero, up to %v", c.Speed, float64(mostSpeed))
	case c.CallTimeout <= 0:
		return c, fmt.Errorf("a timeout of calls of %v: want more than zero", c.CallTimeout)
	case c.Remember <= 0:
		return c, fmt.Errorf("operations are remembered for %v: want more than zero", c.Remember)
	}
	return c, nil
}

// within is false for what is no number, too.
func within(v, least, most float64) bool { return v >= least && v <= most }

// positive says which of some lengths is not more than zero.
func positive(lengths map[string]time.Duration) error {
	for _, what := range slices.Sorted(maps.Keys(lengths)) {
		if lengths[what] <= 0 {
			return fmt.Errorf("%s: %v: want more than zero", what, lengths[what])
		}
	}
	return nil
}

// count says whether a number of workers is one.
func count(what string, n int) error {
	if n < 1 || n > math.MaxInt16 {
		return fmt.Errorf("%s: %d: want 1 to %d", what, n, math.MaxInt16)
	}
	return nil
}

// errNoOp says that a request that changes something has no operation id.
var errNoOp = errors.New("op: give one; without it nobody can try again")

// checkOp refuses a request without an operation id.
func checkOp(op string) error {
	if op == "" {
		return errNoOp
	}
	return nil
}

// checkPlayers refuses players that cannot be a party or a match of so many at most.
func checkPlayers(players []api.Player, most int) error {
	if len(players) < 1 || len(players) > most {
		return fmt.Errorf("players: %d of them: want 1 to %d", len(players), most)
	}
	for n, p := range players {
		switch {
		case p < 0:
			return fmt.Errorf("players: %d: want numbers from 0", p)
		case slices.Contains(players[:n], p):
			return fmt.Errorf("players: %d is there twice", p)
		}
	}
	return nil
}

// checkPings refuses pings that cannot be compared.
func checkPings(pings map[string]float64) error {
	for _, centre := range slices.Sorted(maps.Keys(pings)) {
		if centre == "" || !within(pings[centre], 0, math.MaxFloat32) {
			return fmt.Errorf("pings: %q: %v: want a name, and milliseconds from zero", centre, pings[centre])
		}
	}
	return nil
}
