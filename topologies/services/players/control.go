package players

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
)

// ErrUnknownOperation says that an order names an operation that no rate can be
// set for.
var ErrUnknownOperation = errors.New("unknown operation")

// maxRate refuses a rate that can only be a mistake, far over what one machine
// can send. Scales that multiply beyond it are held at it.
const maxRate = 100_000

// Rate is what a generator says of one operation.
type Rate struct {
	Base    float64 `json:"base"`    // as set, per second
	Offered float64 `json:"offered"` // base times the scales, per second
	// Arrived is what was handed to the network over the last half second, per
	// second; so a step of it is 2/s.
	Arrived float64 `json:"arrived_per_second"`
	LateP99 float64 `json:"late_p99_seconds"` // since the start
	// Population marks an operation that a population makes: no rate sets it.
	Population bool `json:"population,omitempty"`
	// Malformed is there for an operation whose requests can be malformed. They
	// count as its arrivals.
	Malformed *Malformed `json:"malformed,omitempty"`
}

// SetRates sets the base rates, in arrivals per second. Operations that are not
// named get none. The first call starts the populations: before it, nobody is
// there. On an error nothing has changed.
func (g *Generator) SetRates(rates map[string]float64) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(rates)) {
		if _, err := g.settable(name); err != nil {
			return err
		}
		if err := checkRate(rates[name]); err != nil {
			return fmt.Errorf("rate of %s: %w", name, err)
		}
	}
	now := g.now()
	g.dispatch(now) // what was due by the old rates
	g.begin(now)
	for _, o := range g.operations {
		o.base = rates[o.name]
	}
	g.apply(now)
	return nil
}

// SetScale multiplies an operation's rate under a name, in place of what the
// name stood for before. Scales of several names multiply, and outlive
// [Generator.SetRates].
func (g *Generator) SetScale(name, operation string, factor float64) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	o, err := g.settable(operation)
	if err != nil {
		return err
	}
	if err := checkRate(factor); err != nil {
		return fmt.Errorf("scale %s of %s: %w", name, operation, err)
	}
	if err := checkRate(o.base * factor); err != nil {
		return fmt.Errorf("scale %s of %s: %w", name, operation, err)
	}
	now := g.now()
	g.dispatch(now)
	g.scales[name] = scale{operation, factor}
	g.apply(now)
	return nil
}

// DropScale takes a scale away; one that is not there is no error.
func (g *Generator) DropScale(name string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.now()
	g.dispatch(now)
	delete(g.scales, name)
	g.apply(now)
}

// Rates says of every operation how it is loaded.
func (g *Generator) Rates() map[string]Rate {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.now()
	out := map[string]Rate{}
	for _, o := range g.operations {
		rate := Rate{
			Base: o.base, Offered: g.offered(o),
			Arrived: o.recent.PerSecond(now), LateP99: o.latenessP99().Seconds(),
			Population: o.schedule == nil, Malformed: g.malformedOf(o, now),
		}
		if o.malformed != nil {
			rate.Arrived += o.malformed.recent.PerSecond(now)
		}
		out[o.name] = rate
	}
	return out
}

func (g *Generator) apply(now time.Duration) {
	for _, o := range g.operations {
		if o.schedule != nil {
			o.schedule.SetRate(now, g.offered(o))
		}
	}
	g.poke()
}

func (g *Generator) offered(o *operation) float64 {
	rate := o.base
	// Sorted, since products of floats depend on their order.
	for _, name := range slices.Sorted(maps.Keys(g.scales)) {
		if g.scales[name].operation == o.name {
			rate *= g.scales[name].factor
		}
	}
	return min(rate, maxRate)
}

func (g *Generator) settable(name string) (*operation, error) {
	var known []string
	for _, o := range g.operations {
		if o.schedule == nil {
			continue
		}
		if o.name == name {
			return o, nil
		}
		known = append(known, o.name)
	}
	return nil, fmt.Errorf("%w %q; known: %q", ErrUnknownOperation, name, known)
}

func checkRate(v float64) error {
	if math.IsNaN(v) || v < 0 || v > maxRate {
		return fmt.Errorf("%v is not between 0 and %d", v, maxRate)
	}
	return nil
}

// Control answers the orders that a replay gives: GET and PUT /rates, GET
// /sessions and /targets, PUT and DELETE /scales/{name}, /malformed/{name},
// /waves/{name} and /redirects/{name}.
func (g *Generator) Control() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /rates", func(w http.ResponseWriter, _ *http.Request) { answer(w, g.Rates()) })
	mux.HandleFunc("GET /sessions", func(w http.ResponseWriter, _ *http.Request) { answer(w, g.SessionState()) })
	mux.HandleFunc("GET /targets", func(w http.ResponseWriter, _ *http.Request) { answer(w, g.Routing()) })
	mux.HandleFunc("PUT /rates", func(w http.ResponseWriter, r *http.Request) {
		var rates map[string]float64
		services.Order(w, r, &rates, func() error { return g.SetRates(rates) })
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
			return g.SetScale(r.PathValue("name"), s.Operation, *s.Factor)
		})
	})
	mux.HandleFunc("DELETE /scales/{name}", func(w http.ResponseWriter, r *http.Request) {
		g.DropScale(r.PathValue("name"))
		w.WriteHeader(http.StatusNoContent)
	})
	mux.HandleFunc("PUT /malformed/{name}", func(w http.ResponseWriter, r *http.Request) {
		var m struct {
			Operation string   `json:"operation"`
			Share     *float64 `json:"share"`
		}
		services.Order(w, r, &m, func() error {
			if m.Share == nil {
				return errors.New("share: give one")
			}
			return g.SetMalformed(r.PathValue("name"), m.Operation, *m.Share)
		})
	})
	mux.HandleFunc("DELETE /malformed/{name}", func(w http.ResponseWriter, r *http.Request) {
		g.DropMalformed(r.PathValue("name"))
		w.WriteHeader(http.StatusNoContent)
	})
	mux.HandleFunc("PUT /waves/{name}", func(w http.ResponseWriter, r *http.Request) {
		var wave struct {
			Every float64 `json:"every_seconds"`
		}
		services.Order(w, r, &wave, func() error {
			return g.StartWaves(r.PathValue("name"), time.Duration(wave.Every*float64(time.Second)))
		})
	})
	mux.HandleFunc("DELETE /waves/{name}", func(w http.ResponseWriter, r *http.Request) {
		g.StopWaves(r.PathValue("name"))
		w.WriteHeader(http.StatusNoContent)
	})
	mux.HandleFunc("PUT /redirects/{name}", func(w http.ResponseWriter, r *http.Request) {
		var redirect struct {
			From string `json:"from"`
			To   string `json:"to"`
		}
		services.Order(w, r, &redirect, func() error {
			return g.Redirect(r.PathValue("name"), redirect.From, redirect.To)
		})
	})
	mux.HandleFunc("DELETE /redirects/{name}", func(w http.ResponseWriter, r *http.Request) {
		g.DropRedirect(r.PathValue("name"))
		w.WriteHeader(http.StatusNoContent)
	})
	return mux
}

func answer(w http.ResponseWriter, with any) {
	w.Header().Set("Content-Type", "application/json")
	// An error here means that the asker is gone.
	_ = json.NewEncoder(w).Encode(with)
}
