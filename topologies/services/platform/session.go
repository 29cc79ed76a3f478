package platform

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"relapse/topologies/services/matchmaking"
	"relapse/topologies/services/platform/api"
	"relapse/topologies/services/platform/cache"
)

// Caches are where the settings of players are kept on their way from their origin.
type Caches struct {
	Handler bool // in the process of the session service
	Caller  bool // by each player, for whom alone they are: Cache-Control: private
	Edge    bool // by whoever stands between, too: Cache-Control: public
}

// ParseCaches reads where settings are kept, as a flag has it: "handler,caller", or
// "none".
func ParseCaches(s string) (c Caches, err error) {
	if s == "none" {
		return Caches{}, nil
	}
	places := map[string]*bool{"handler": &c.Handler, "caller": &c.Caller, "edge": &c.Edge}
	for part := range strings.SplitSeq(s, ",") {
		place := places[strings.TrimSpace(part)]
		if place == nil {
			return Caches{}, fmt.Errorf("cache %q: want some of handler, caller and edge, or none", part)
		}
		*place = true
	}
	return c, nil
}

// SessionConfig is what the session service is made of.
type SessionConfig struct {
	TokenLasts time.Duration // documented time

	// Caches are where settings are kept, and Keep for how long, documented time.
	// An answer is never older than Keep for each of the places on its way.
	Caches Caches
	Keep   time.Duration
	Jitter float64 // percent by which the process itself keeps them shorter
	// StaleFor is how long after its time the process gives what it has where the
	// origin fails, documented time.
	StaleFor time.Duration

	// What the caches are protected by, each to be left out.
	NoSingleflight bool // everybody who misses asks the origin
	CacheErrors    bool // errors are kept like settings
	SharedKey      bool // a player's answer is kept for all of the cohort, as it is
	AtOnce         bool // all cohorts' settings run out at the same moments, in place of Jitter

	Redis string // host:port; see [DefaultBeatEvery] for what is written there
	// BeatEvery is how often heartbeats are written, and HoldBeats how long each is
	// held back before that, both in real time.
	BeatEvery, HoldBeats time.Duration
}

// DefaultBeatEvery is how often heartbeats go to Redis, all of a partition in one
// command.
const DefaultBeatEvery = 250 * time.Millisecond

// session answers what clients ask for in the background:
//
//	POST /login?player=P          200 Token
//	POST /renew?player=P&token=T  200 Token, the same one; 401 if it is unknown or has run out
//	GET  /config?player=P         200 Settings, with Cache-Control
//	POST /heartbeat?player=P      204
type session struct {
	p       *Platform
	config  SessionConfig
	tokens  *tokens
	beats   *heartbeats
	kept    *cache.Cache[int, api.Settings] // by cohort
	control string                          // the header Cache-Control

	newest     atomic.Int64 // version that has been seen
	staleReads prometheus.Counter
}

func newSession(p *Platform) (role, error) {
	c := p.config.Session
	if err := positive(map[string]time.Duration{"a token's life": c.TokenLasts, "the time settings are kept": c.Keep}); err != nil {
		return nil, err
	}
	s := &session{p: p, config: c, tokens: newTokens(p.real(c.TokenLasts), p.life, p.random("tokens"))}
	var err error
	if s.control, err = c.cacheControl(p.real(c.Keep)); err != nil {
		return nil, err
	}
	if s.beats, err = newHeartbeats(p, c); err != nil {
		return nil, err
	}
	keep, jitter := p.real(c.Keep), c.Jitter
	if !c.Caches.Handler {
		keep = 0
	}
	if c.AtOnce {
		jitter = 0
	}
	lookups := p.counters("relapse_cache_lookups_total",
		"Lookups of settings, by what became of them (hit, miss, joined, stale, failed).", "outcome",
		cache.Hit.String(), cache.Miss.String(), cache.Joined.String(), cache.Stale.String(), cache.Failed.String())
	stampedes := p.counter("relapse_cache_stampedes_total", "Loads of settings that began while others of the same were on.")
	s.staleReads = p.counter("relapse_stale_reads_total", "Settings that were given though this process had seen a newer version.")
	p.gauge("relapse_tokens", "Players who have a token, whether or not it has run out.", func() float64 { return float64(s.tokens.len()) })
	s.kept, err = cache.New[int, api.Settings](cache.Config{
		Keep: keep, Jitter: jitter, AtOnce: c.AtOnce, StaleFor: p.real(c.StaleFor), Unshared: c.NoSingleflight, KeepErrors: c.CacheErrors,
		Rand: p.random("cache"),
		Count: func(e cache.Event) {
			if e == cache.Stampede {
				stampedes.Inc()
				return
			}
			lookups[e.String()].Inc()
		},
	})
	return s, err
}

// cacheControl is what callers are told. They count in whole seconds: what would be
// none of them is refused, since a topology would then be without the cache that it
// asks for.
func (c SessionConfig) cacheControl(keep time.Duration) (string, error) {
	if !c.Caches.Caller && !c.Caches.Edge {
		return "no-store", nil
	}
	if keep < time.Second {
		return "", fmt.Errorf("callers keep settings for %v: want a second or more, or no cache with them", keep)
	}
	who := "private"
	if c.Caches.Edge {
		who = "public"
	}
	return fmt.Sprintf("%s, max-age=%d", who, keep/time.Second), nil
}

func (s *session) routes() []route {
	return []route{
		{"POST /login", "login", s.login},
		{"POST /renew", "renew", s.renew},
		{"GET /config", "config", s.settings},
		{"POST /heartbeat", "heartbeat", s.heartbeat},
	}
}

func (s *session) run(ctx context.Context) error { return s.beats.run(ctx) }

func (s *session) login(w http.ResponseWriter, r *http.Request) error {
	player, err := player(r)
	if err != nil {
		return err
	}
	s.answer(w, s.tokens.issue(player, time.Now()))
	return nil
}

func (s *session) renew(w http.ResponseWriter, r *http.Request) error {
	player, err := player(r)
	if err != nil {
		return err
	}
	token := r.URL.Query().Get("token")
	if !s.tokens.renew(player, token, time.Now()) {
		return refuse(http.StatusUnauthorized, "token: unknown, or it has run out: log in")
	}
	s.answer(w, token)
	return nil
}

func (s *session) answer(w http.ResponseWriter, token string) {
	matchmaking.Answer(w, http.StatusOK, api.Token{Token: token, LastsMS: s.tokens.lasts.Milliseconds()})
}

func (s *session) heartbeat(w http.ResponseWriter, r *http.Request) error {
	player, err := player(r)
	if err != nil {
		return err
	}
	s.beats.beat(player, time.Now())
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// settings gives a player the settings of the cohort, with the number of the player.
// What the cohort shares is kept and the number added to each answer; the mistake that
// SharedKey makes is to keep the answer.
func (s *session) settings(w http.ResponseWriter, r *http.Request) error {
	player, err := player(r)
	if err != nil {
		return err
	}
	cohort := cohortOf(player)
	settings, err := s.kept.Get(r.Context(), cohort, func() (api.Settings, error) {
		var loaded api.Settings
		err := s.p.call(Session, Origin, http.MethodGet, fmt.Sprintf("/documents/%d", cohort), nil, &loaded)
		if s.config.SharedKey {
			loaded = loaded.For(player)
		}
		return loaded, err
	})
	if err != nil {
		return err
	}
	if !s.config.SharedKey {
		settings = settings.For(player)
	}
	s.see(settings.Version)
	w.Header().Set("Cache-Control", s.control)
	matchmaking.Answer(w, http.StatusOK, settings)
	return nil
}

// see counts a version that is given and is not the newest that the process knows of:
// settings of another cohort may have been loaded since.
func (s *session) see(version int64) {
	for {
		newest := s.newest.Load()
		switch {
		case version < newest:
			s.staleReads.Inc()
			return
		case version == newest || s.newest.CompareAndSwap(newest, version):
			return
		}
	}
}
