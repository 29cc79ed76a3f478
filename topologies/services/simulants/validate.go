package simulants

import (
	"errors"
	"fmt"
	"math"
	"net/url"
	"time"

	"relapse/topologies/services/players"
)

func (c *Config) validate() error {
	for r := range roles {
		if err := validateTarget(roleNames[r], c.target(r)); err != nil {
			return err
		}
	}
	switch {
	case c.Timeout <= 0:
		return fmt.Errorf("timeout %v: want more than zero", c.Timeout)
	case !positive(c.Speed):
		return fmt.Errorf("speed %v: want more than zero", c.Speed)
	case c.Players < 1 || c.Players > math.MaxInt32:
		return fmt.Errorf("players %d: want 1 to %d", c.Players, math.MaxInt32)
	case c.Ranges < 1 || c.Ranges > c.Players:
		return fmt.Errorf("ranges %d: want 1 at least, and no more than the %d players", c.Ranges, c.Players)
	case !(c.LoginRate > 0) || c.LoginRate > maxRate:
		return fmt.Errorf("login_rate %v: want more than zero, and %d at most", c.LoginRate, maxRate)
	case c.LoginAgain <= 0:
		return fmt.Errorf("login_again %v: want more than zero", c.LoginAgain)
	case c.Workers < 0:
		return fmt.Errorf("workers %d: want 0, for one each CPU, or more", c.Workers)
	case c.InFlight < 1:
		return fmt.Errorf("in_flight %d: want at least 1", c.InFlight)
	case c.Arrivals != players.Even && c.Arrivals != players.Poisson:
		return fmt.Errorf("arrivals %q: want %s or %s", c.Arrivals, players.Even, players.Poisson)
	case !(c.Jitter >= 0) || c.Jitter >= 1:
		return fmt.Errorf("jitter %v: want 0 at least, and less than 1", c.Jitter)
	case c.Think < 0:
		return fmt.Errorf("think %v: want zero or more", c.Think)
	case c.Tries < 1 || c.Tries > math.MaxUint8:
		return fmt.Errorf("tries %d: want 1 to %d", c.Tries, math.MaxUint8)
	case c.RetryAfter <= 0:
		return fmt.Errorf("retry_after %v: want more than zero", c.RetryAfter)
	}
	if err := c.validatePolls(); err != nil {
		return err
	}
	for k := range kinds {
		if c.between(k) < 0 {
			return fmt.Errorf("scenarios.%s %v: want zero, for never, or more", kindNames[k], c.between(k))
		}
	}
	if c.Scenarios.Match > 0 {
		if err := c.Match.validate(); err != nil {
			return err
		}
		if c.Match.GrantedWithin > math.MaxUint8*c.RetryAfter {
			return fmt.Errorf("match.granted_within %v: want no more than %d times the retry_after of %v, since the wallet is read so often",
				c.Match.GrantedWithin, math.MaxUint8, c.RetryAfter)
		}
	}
	if s := c.Shared; s != nil && (s.Redis == "" || s.Lease < 3*shortestPoll) {
		return fmt.Errorf("shared: redis %q, lease %v: want a HOST:PORT, and %v or more", s.Redis, s.Lease, 3*shortestPoll)
	}
	return nil
}

func (c *Config) validatePolls() error {
	if c.Polls.Off {
		return nil
	}
	for _, poll := range polls {
		if every := c.every(poll); every < shortestPoll {
			return fmt.Errorf("polls.%s: every %v as played, at %v times the documented speed: want %v or more", pollNames[poll], every, c.Speed, shortestPoll)
		}
	}
	return nil
}

func (m *Match) validate() error {
	if len(m.Parties) == 0 || len(m.Parties) > maxParty {
		return fmt.Errorf("match.parties: %d weights: want those of parties of 1 to %d players, or of fewer", len(m.Parties), maxParty)
	}
	all := 0.0
	for n, weight := range m.Parties {
		if !(weight >= 0) || math.IsInf(weight, 0) {
			return fmt.Errorf("match.parties: weight %v of parties of %d: want zero or more", weight, n+1)
		}
		all += weight
	}
	if all == 0 {
		return errors.New("match.parties: no weight is more than zero")
	}
	if len(m.Agents) == 0 || len(m.Agents) > math.MaxUint8 {
		return fmt.Errorf("match.agents: %d names: want 1 to %d", len(m.Agents), math.MaxUint8)
	}
	if len(m.DataCentres) == 0 {
		return errors.New("match.data_centres: name at least one; a match is placed by the pings to them")
	}
	for _, t := range []struct {
		name string
		time time.Duration
	}{
		{"ask", m.Ask}, {"ask_playing", m.AskPlaying}, {"patience", m.Patience}, {"longest", m.Longest}, {"granted_within", m.GrantedWithin},
	} {
		if t.time <= 0 {
			return fmt.Errorf("match.%s %v: want more than zero", t.name, t.time)
		}
	}
	for _, grant := range m.Grants {
		if grant <= 0 {
			return fmt.Errorf("match.grants: %d: want more than zero; a match that grants nothing cannot be told from a grant that is lost", grant)
		}
	}
	return nil
}

func validateTarget(part, text string) error {
	if text == "" {
		return fmt.Errorf("targets.%s is missing: write it, or target: http://platform:8080 for all that have none of their own", part)
	}
	target, err := url.Parse(text)
	switch {
	case err != nil:
		return fmt.Errorf("targets.%s: %w", part, err)
	case target.Scheme != "http" || target.Host == "" || (target.Path != "" && target.Path != "/"):
		return fmt.Errorf("targets.%s %q: want http://HOST:PORT", part, text)
	}
	return nil
}
