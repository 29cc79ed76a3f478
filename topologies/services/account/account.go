// Package account is the application behind the account service: it signs
// players in and out, checks and refreshes their tokens, and protects itself
// against overload. It stands for the documented Java application, of which
// nothing but that role is published.
//
// What a call costs is modelled: a request waits for its cost (see [Costs])
// while it holds one of the places in flight, and burns no CPU for it. The
// places, the refusals and the times that callers see are therefore those of
// an application with that many threads; its CPU use is not.
//
// The protection is a limit of requests in flight. A request over the limit is
// refused at once with 503, never queued. By default one limit holds for all
// calls, as the source has it ("its own protection against overload"); limits
// per class of call are the change that keeps one class from crowding out the
// others.
//
// Tokens live in the application's own memory. They are written to the cache
// behind the request path, so that a slow cache cannot slow a call down. The
// application never fills the cache on its own accord after the start: a cache
// that comes back empty is refilled only by the checks that miss it.
package account

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"relapse/topologies/services"
	"relapse/topologies/services/limits"
)

// The application's calls; all but health count against a limit.
const (
	Login   = "login"   // POST /login: 200 and {"token": …}
	Logout  = "logout"  // POST /logout[?token=…]: 204
	Verify  = "verify"  // GET /verify?token=…: 200 and the token's value, else 404
	Refresh = "refresh" // GET /refresh?token=…: 204, else 404
)

// Calls lists the calls that a limit or a cost can name.
var Calls = []string{Login, Logout, Verify, Refresh}

// DefaultCosts gives how long each call takes: modelled, since the source does
// not say.
func DefaultCosts() map[string]time.Duration {
	return map[string]time.Duration{
		Login:   15 * time.Millisecond,
		Logout:  5 * time.Millisecond,
		Verify:  4 * time.Millisecond,
		Refresh: 5 * time.Millisecond,
	}
}

// DefaultLimit is how many requests may be in flight.
const DefaultLimit = 64

// Config is what an application is made of.
type Config struct {
	Costs     map[string]time.Duration // by call; a call that is not named costs nothing
	Limits    limits.Limits
	Preloaded int // tokens that are known from the start: [TokenName] of 0, 1, …
	ValueSize int // bytes of a token's value, in the cache and in a reply
	Cache     *Cache
}

// TokenName is the name of the n-th token that is known from the start.
func TokenName(n int) string { return fmt.Sprintf("player-%04d", n) }

// Application is a running account application.
type Application struct {
	costs   map[string]time.Duration
	limits  *limits.Limiter
	tokens  *tokens
	cache   *Cache
	metrics *metrics
}

// New makes an application; its metrics go to the registry.
func New(c Config, registry *prometheus.Registry) (*Application, error) {
	if c.Cache == nil {
		return nil, errors.New("account: no cache")
	}
	if c.ValueSize < minValueSize {
		return nil, fmt.Errorf("account: a value of %d bytes cannot hold what names its token; give at least %d", c.ValueSize, minValueSize)
	}
	limiter, err := limits.New(c.Limits, Calls)
	if err != nil {
		return nil, err
	}
	limiter.Register(registry)
	a := &Application{
		costs:   c.Costs,
		limits:  limiter,
		tokens:  newTokens(c.Preloaded, c.ValueSize),
		cache:   c.Cache,
		metrics: newMetrics(registry),
	}
	c.Cache.register(registry)
	return a, nil
}

// Handler answers the application's calls.
func (a *Application) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("POST /login", a.call(Login, a.login))
	mux.Handle("POST /logout", a.call(Logout, a.logout))
	mux.Handle("GET /verify", a.call(Verify, a.verify))
	mux.Handle("GET /refresh", a.call(Refresh, a.refresh))
	mux.HandleFunc("GET /health", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusOK)
	})
	return mux
}

// answer replies to a call whose cost has been waited for; it says whether the
// token that the call named is known.
type answer func(w http.ResponseWriter, token string) (known bool)

// call puts the limit, the cost and the metrics around an answer.
func (a *Application) call(name string, reply answer) http.Handler {
	m := a.metrics.calls[name]
	cost := a.costs[name]
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		release, ok := a.limits.Take(name)
		if !ok {
			m.shed.Inc()
			m.outcome[shed].Inc()
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		defer release()
		started := time.Now()
		if !services.Wait(r.Context(), cost) {
			m.outcome[abandoned].Inc()
			return
		}
		outcome := ok200
		if !reply(w, r.URL.Query().Get("token")) {
			outcome = unknownToken
		}
		m.outcome[outcome].Inc()
		m.seconds.Observe(time.Since(started).Seconds())
	})
}

func (a *Application) login(w http.ResponseWriter, _ string) bool {
	token := a.tokens.issue()
	a.write(token)
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, "{\"token\":%q}\n", token)
	return true
}

// logout ends a token if the caller names one. Signing out twice, or of
// nothing, is no error.
func (a *Application) logout(w http.ResponseWriter, token string) bool {
	if a.tokens.end(token) {
		a.cache.Remove(token)
	}
	w.WriteHeader(http.StatusNoContent)
	return true
}

// verify answers a check that the cache did not, and puts the token back.
func (a *Application) verify(w http.ResponseWriter, token string) bool {
	value, known := a.tokens.value(token)
	if !known {
		w.WriteHeader(http.StatusNotFound)
		return false
	}
	a.cache.Put(token, value)
	w.Header().Set("Content-Type", "application/json")
	w.Write(value)
	return true
}

func (a *Application) refresh(w http.ResponseWriter, token string) bool {
	if _, known := a.tokens.value(token); !known {
		w.WriteHeader(http.StatusNotFound)
		return false
	}
	a.write(token)
	w.WriteHeader(http.StatusNoContent)
	return true
}

func (a *Application) write(token string) {
	if value, known := a.tokens.value(token); known {
		a.cache.Put(token, value)
	}
}
