package simulants

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/http"
	"slices"
	"time"

	"relapse/topologies/services"
	"relapse/topologies/services/players"
)

// maxRate refuses a rate that can only be a mistake, and a number of players that the
// engine would refuse as a rate. Scales that multiply beyond it are held at it.
const maxRate = 100_000

// SetRates orders players, in the form in which a replay orders rates:
//
//   - "players" is how many players there are to be, whose unit as a rate is
//     player-seconds a second. Missing ones log in at the rate of the configuration, or
//     at that of "login"; those who are too many leave at once.
//   - "login" is how many players log in a second. Without "players" they do so for as
//     long as there are numbers left, and nobody leaves; a login for which there is no
//     number counts as unsent.
//
// What is not named is not ordered; without either of them everyone leaves. On an
// error nothing has changed.
func (h *Harness) SetRates(rates map[string]float64) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(rates)) {
		if name != orderPlayers && name != orderLogin {
			return unknown(name, orderLogin, orderPlayers)
		}
		if err := checkRate(rates[name]); err != nil {
			return fmt.Errorf("rate of %s: %w", name, err)
		}
	}
	if n := rates[orderPlayers]; n > float64(h.config.Players) {
		return fmt.Errorf("rate of %s: %v: there are %d numbers of players; raise players: in the configuration", orderPlayers, n, h.config.Players)
	}
	h.rates = maps.Clone(rates)
	if h.rates == nil {
		h.rates = map[string]float64{}
	}
	h.changed()
	return nil
}

// SetScale multiplies what is ordered of "players" or "login", or the frequency of a
// scenario, under a name, in place of what the name stood for before. Scales of several
// names multiply, and outlive [Harness.SetRates].
func (h *Harness) SetScale(name, operation string, factor float64) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if known := append([]string{orderLogin, orderPlayers}, kindNames[:]...); !slices.Contains(known, operation) {
		return unknown(operation, known...)
	}
	if err := checkRate(factor); err != nil {
		return fmt.Errorf("scale %s of %s: %w", name, operation, err)
	}
	if n := h.rates[orderPlayers] * factor; operation == orderPlayers && n > float64(h.config.Players) {
		return fmt.Errorf("scale %s of %s: makes %v: there are %d numbers of players; raise players: in the configuration", name, operation, n, h.config.Players)
	}
	h.scales[name] = scale{operation, factor}
	h.changed()
	return nil
}

// DropScale takes a scale away; one that is not there is no error.
func (h *Harness) DropScale(name string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.scales, name)
	h.changed()
}

// Rates says how the harness is loaded: of "players", how many there are; of "login"
// and the scenarios, how many a second begin.
func (h *Harness) Rates() map[string]players.Rate {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := h.now()
	late := h.LatenessP99().Seconds()
	out := map[string]players.Rate{
		orderPlayers: {Base: h.rates[orderPlayers], Offered: h.ordered(orderPlayers), LateP99: late},
		orderLogin:   {Base: h.rates[orderLogin], Offered: h.ordered(orderLogin), LateP99: late},
	}
	for k := range kinds {
		out[kindNames[k]] = players.Rate{LateP99: late, Population: true}
	}
	add := func(name string, base, offered, arrived float64) {
		r := out[name]
		r.Base += base
		r.Offered += offered
		r.Arrived += arrived
		out[name] = r
	}
	for _, s := range h.shards {
		s.mu.Lock()
		add(orderPlayers, 0, 0, float64(s.present()))
		add(orderLogin, 0, 0, s.recent[0].PerSecond(now))
		for k := range kinds {
			rate := float64(s.signedIn()) * h.config.perSecond(k)
			if k == matching {
				rate /= h.config.Match.partySize()
			}
			add(kindNames[k], rate, rate*s.order.factors[k], s.recent[1+k].PerSecond(now))
		}
		s.mu.Unlock()
	}
	return out
}

// LatenessP99 is over all requests since the start.
func (h *Harness) LatenessP99() time.Duration {
	all := newLateness()
	for _, s := range h.shards {
		s.mu.Lock()
		all.Merge(s.lateness)
		s.mu.Unlock()
	}
	return time.Duration(all.ValueAtQuantile(99)) * time.Microsecond
}

// changed has the shards play what is ordered now. The harness is locked.
func (h *Harness) changed() {
	h.share = h.ordered(orderPlayers)
	h.apply()
	// Harnesses that share ranges play what is ordered of all of them together.
	h.keepSoon()
}

// ordered is what was ordered of an operation, times its scales.
func (h *Harness) ordered(operation string) float64 {
	return min(h.rates[operation]*h.factor(operation), maxRate)
}

func (h *Harness) factor(operation string) float64 {
	factor := 1.0
	// Sorted, since products of floats depend on their order.
	for _, name := range slices.Sorted(maps.Keys(h.scales)) {
		if h.scales[name].operation == operation {
			factor *= h.scales[name].factor
		}
	}
	return factor
}

// unlimited says that logins were ordered, and no number of players.
func (h *Harness) unlimited() bool {
	_, named := h.rates[orderPlayers]
	return !named && h.ordered(orderLogin) > 0
}

func unknown(name string, known ...string) error {
	return fmt.Errorf("%w %q; known: %q", players.ErrUnknownOperation, name, known)
}

func checkRate(v float64) error {
	if math.IsNaN(v) || v < 0 || v > maxRate {
		return fmt.Errorf("%v is not between 0 and %d", v, maxRate)
	}
	return nil
}

// Control answers the orders that a replay gives: GET and PUT /rates, PUT and DELETE
// /scales/{name}, and GET /targets and /sessions, which says that there are none.
// Players have no malformed requests, waves and redirects: such orders find nothing
// here (404).
func (h *Harness) Control() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /rates", func(w http.ResponseWriter, _ *http.Request) { say(w, h.Rates()) })
	mux.HandleFunc("PUT /rates", func(w http.ResponseWriter, r *http.Request) {
		var rates map[string]float64
		services.Order(w, r, &rates, func() error { return h.SetRates(rates) })
	})
	mux.HandleFunc("PUT /scales/{name}", func(w http.ResponseWriter, r *http.Request) {
		var s struct {
			Operation string   `json:"operation"`
			Factor    *float64 `json:"factor"`
		}
		services.Order(w, r, &s, func() error {
			if s.Factor == nil {
				return errors.New("factor: give one")
			}
			return h.SetScale(r.PathValue("name"), s.Operation, *s.Factor)
		})
	})
	mux.HandleFunc("DELETE /scales/{name}", func(w http.ResponseWriter, r *http.Request) {
		h.DropScale(r.PathValue("name"))
		w.WriteHeader(http.StatusNoContent)
	})
	mux.HandleFunc("GET /targets", func(w http.ResponseWriter, _ *http.Request) {
		say(w, players.Routing{Targets: h.targets, Redirects: map[string]players.RedirectState{}})
	})
	mux.HandleFunc("GET /sessions", func(w http.ResponseWriter, _ *http.Request) {
		say(w, players.SessionState{Waves: map[string]float64{}})
	})
	return mux
}

func say(w http.ResponseWriter, what any) {
	w.Header().Set("Content-Type", "application/json")
	// An error here means that the asker is gone.
	_ = json.NewEncoder(w).Encode(what)
}
