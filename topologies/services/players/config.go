package players

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml"

	"relapse/topologies/services/retry"
)

// Config says whom a generator loads, and with what.
type Config struct {
	// Target is the base URL, such as http://lb:8080. Its host must resolve to
	// an address inside a subnet of one of the machine's own interfaces.
	Target string `yaml:"target"`
	// Targets are several base URLs in Target's stead. The requests of an
	// operation go to one after the other.
	Targets []string `yaml:"targets"`
	// Spares are further base URLs, to which nothing goes but what a replay orders
	// there (see [Generator.Redirect]).
	Spares []string `yaml:"spares"`
	// Timeout is how long a player waits, from the time the request was meant
	// to be sent; for a further attempt, from the time of that.
	Timeout time.Duration `yaml:"timeout"`
	// Retries says when a player sends a failed request again; a player who is
	// told nothing never does. A further attempt goes to the next target. The
	// classes of a policy are the operations, a malformed request being one of
	// its operation: who builds it does not know that it is.
	Retries *retry.Config `yaml:"retries"`
	// Seed decides phases, tokens and the waits of populations.
	Seed uint64 `yaml:"seed"`
	// Tokens is how many tokens {token} in a path draws from.
	Tokens int `yaml:"tokens"`
	// Token is the format of the n-th token's name, with one %d verb.
	Token string `yaml:"token"`
	// InFlight bounds the requests in flight; arrivals over it are counted as
	// unsent. It is a fuse, not a concurrency to load with.
	InFlight int `yaml:"in_flight"`
	// Arrivals is how the arrivals of an operation are spaced.
	Arrivals Arrivals `yaml:"arrivals"`
	// Operations are what rates are set for.
	Operations  map[string]Operation `yaml:"operations"`
	Populations struct {
		Match     *Match     `yaml:"match"`
		Launchers *Launchers `yaml:"launchers"`
		Sessions  *Sessions  `yaml:"sessions"`
	} `yaml:"populations"`
}

// Call is one request that players make.
type Call struct {
	Method string `yaml:"method"`
	Path   string `yaml:"path"` // {token} stands for a token drawn anew for every request
}

// Operation is a request that rates are set for.
type Operation struct {
	Method string `yaml:"method"`
	Path   string `yaml:"path"` // as in [Call]
	// Malformed is what is sent in its stead for a share of the requests while a
	// replay orders so (see [Generator.SetMalformed]): what a client sends that
	// builds the request wrongly. It is counted under a name of its own, with
	// "-malformed" at its end.
	Malformed *Call `yaml:"malformed"`
	// Elsewhere says what players do who are told that it is closed.
	Elsewhere *Elsewhere `yaml:"elsewhere"`
}

func (o Operation) call() Call { return Call{o.Method, o.Path} }

// malformedName is what an operation's malformed requests are counted under.
func malformedName(operation string) string { return operation + "-malformed" }

// Match is the population of players in a match. They make no calls but to
// refresh their token; a refresh that fails is tried again, and failures in a
// row drop the player from the match for the rest of the run.
type Match struct {
	Players      int           `yaml:"players"`
	Refresh      Call          `yaml:"refresh"`
	Every        time.Duration `yaml:"every"`
	RetryAfter   time.Duration `yaml:"retry_after"`
	DroppedAfter int           `yaml:"dropped_after"` // failures in a row
}

// Launchers is the population of launchers. Each checks its player's token;
// where SignOutOnError is set, a check that fails signs the player out, who
// then tries to sign in again until that succeeds.
type Launchers struct {
	Count          int           `yaml:"count"`
	Check          Call          `yaml:"check"`
	Every          time.Duration `yaml:"every"`
	SignOutOnError bool          `yaml:"sign_out_on_error"`
	Login          Call          `yaml:"login"`
	// The player tries to sign in after a wait drawn evenly between the two.
	BackAfterMin time.Duration `yaml:"back_after_min"`
	BackAfterMax time.Duration `yaml:"back_after_max"`
}

// Sessions is the population of players who stay connected. Each holds one
// connection to a target and makes the call over it, and over no other, every
// period. A connection that breaks is opened again as the retries say, at once
// if they say nothing; a call that is due meanwhile waits for it until its
// timeout.
type Sessions struct {
	Count int           `yaml:"count"`
	Call  Call          `yaml:"call"`
	Every time.Duration `yaml:"every"`
}

// Operations of populations; no configured operation may have their name.
const (
	opRefresh = "refresh"
	opCheck   = "check"
	opRelogin = "relogin"
	opSession = "session"
)

// ErrConfig says that a configuration cannot be played.
var ErrConfig = errors.New("players")

// ParseConfig reads a configuration, strictly. Several documents are read one
// over the other, so that a later one can change single fields.
func ParseConfig(documents ...[]byte) (Config, error) {
	c := Config{Timeout: 2 * time.Second, InFlight: 4096, Arrivals: Even, Token: "player-%04d"}
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

// targets gives all of them, however they were written.
func (c *Config) targets() []string {
	if c.Target != "" {
		return []string{c.Target}
	}
	return c.Targets
}

func (c *Config) validate() error {
	if err := c.validateTargets(); err != nil {
		return err
	}
	switch {
	case c.Timeout <= 0:
		return fmt.Errorf("timeout %v: want more than zero", c.Timeout)
	case c.InFlight < 1:
		return fmt.Errorf("in_flight %d: want at least 1", c.InFlight)
	case c.Arrivals != Even && c.Arrivals != Poisson:
		return fmt.Errorf("arrivals %q: want %s or %s", c.Arrivals, Even, Poisson)
	case len(c.Operations) == 0:
		return errors.New("operations: name at least one; without any there is nothing to load with")
	}
	if c.Retries != nil {
		if err := c.Retries.Validate(); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.Operations)) {
		if err := c.validateOperation(name, c.Operations[name]); err != nil {
			return err
		}
	}
	return c.validatePopulations()
}

func (c *Config) validateTargets() error {
	switch {
	case c.Target == "" && len(c.Targets) == 0:
		return errors.New("target is missing: write target: http://lb:8080")
	case c.Target != "" && len(c.Targets) > 0:
		return errors.New("target and targets: write one of them")
	}
	seen := map[string]bool{}
	for _, text := range c.targets() {
		if err := validateTarget("target", text, seen); err != nil {
			return err
		}
	}
	for _, text := range c.Spares {
		if err := validateTarget("spare", text, seen); err != nil {
			return err
		}
	}
	return nil
}

// validateTarget checks a base URL and that it is none of those seen before.
func validateTarget(what, text string, seen map[string]bool) error {
	target, err := url.Parse(text)
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w", what, err)
	case target.Scheme != "http" || target.Host == "" || (target.Path != "" && target.Path != "/"):
		return fmt.Errorf("%s %q: want http://HOST:PORT", what, text)
	case seen[target.Host]:
		return fmt.Errorf("%s %q: it is there twice", what, text)
	}
	seen[target.Host] = true
	return nil
}

func (c *Config) validateOperation(name string, o Operation) error {
	if slices.Contains([]string{opRefresh, opCheck, opRelogin, opSession}, name) {
		return fmt.Errorf("operation %s: the name is taken by a population", name)
	}
	if err := c.validateCall("operation "+name, o.call()); err != nil {
		return err
	}
	if o.Elsewhere != nil {
		if err := c.validateElsewhere(name, *o.Elsewhere); err != nil {
			return err
		}
	}
	if o.Malformed == nil {
		return nil
	}
	if _, taken := c.Operations[malformedName(name)]; taken {
		return fmt.Errorf("operation %s: the name is that of the malformed requests of %s", malformedName(name), name)
	}
	return c.validateCall("operation "+name+": malformed", *o.Malformed)
}

func (c *Config) validatePopulations() error {
	if m := c.Populations.Match; m != nil {
		if m.Players < 1 || m.Every <= 0 || m.RetryAfter <= 0 || m.DroppedAfter < 1 {
			return fmt.Errorf("populations.match: players %d, every %v, retry_after %v, dropped_after %d: all must be more than zero",
				m.Players, m.Every, m.RetryAfter, m.DroppedAfter)
		}
		if err := c.validateCall("populations.match.refresh", m.Refresh); err != nil {
			return err
		}
	}
	if l := c.Populations.Launchers; l != nil {
		if l.Count < 1 || l.Every <= 0 {
			return fmt.Errorf("populations.launchers: count %d, every %v: both must be more than zero", l.Count, l.Every)
		}
		if l.SignOutOnError && (l.BackAfterMin <= 0 || l.BackAfterMax < l.BackAfterMin) {
			return fmt.Errorf("populations.launchers: back_after_min %v, back_after_max %v: want more than zero, and in order", l.BackAfterMin, l.BackAfterMax)
		}
		if err := c.validateCall("populations.launchers.check", l.Check); err != nil {
			return err
		}
		if err := c.validateCall("populations.launchers.login", l.Login); err != nil {
			return err
		}
	}
	if s := c.Populations.Sessions; s != nil {
		if s.Count < 1 || s.Every <= 0 {
			return fmt.Errorf("populations.sessions: count %d, every %v: both must be more than zero", s.Count, s.Every)
		}
		if err := c.validateCall("populations.sessions.call", s.Call); err != nil {
			return err
		}
	}
	return nil
}

func (c *Config) validateCall(where string, call Call) error {
	if call.Method != http.MethodGet && call.Method != http.MethodPost {
		return fmt.Errorf("%s: method %q: want GET or POST", where, call.Method)
	}
	if !strings.HasPrefix(call.Path, "/") || strings.ContainsAny(call.Path, " \r\n") {
		return fmt.Errorf("%s: path %q: want an absolute path without spaces", where, call.Path)
	}
	if strings.Contains(call.Path, tokenPlace) && c.Tokens < 1 {
		return fmt.Errorf("%s: path %q names a token, but tokens is %d", where, call.Path, c.Tokens)
	}
	return nil
}
