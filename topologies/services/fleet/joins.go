package fleet

import (
	"errors"
	"fmt"
	"math"
	"net/http"

	"relapse/topologies/services"
	"relapse/topologies/services/matchmaking"
)

// ControlAddress is where a fleet takes orders.
const ControlAddress = ":9091"

// Joins says how many servers that were held at the start have joined.
type Joins struct {
	Held     int `json:"held"` // still
	Joined   int `json:"joined"`
	Reserved int `json:"reserved"` // of those that joined, at least once since
}

// Join has a share of the servers that were held at the start join, as far as there
// are any left: above 0, at most 1. They are registered at once, spread over
// nodes and regions like all others, and stay for good. A name that has joined
// already changes nothing.
func (f *Fleet) Join(name string, share float64) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if before, again := f.joins[name]; again {
		if before != share {
			return fmt.Errorf("join %s: it was ordered with a share of %v; give another name for %v", name, before, share)
		}
		return nil
	}
	if !within(share, math.SmallestNonzeroFloat64, 1) {
		return fmt.Errorf("join %s: a share of %v: want more than 0, at most 1", name, share)
	}
	joined := 0
	for _, cl := range f.clusters {
		n := min(int(math.Round(share*float64(cl.kept))), len(cl.held))
		for _, s := range cl.held[:n] {
			s.joined = true
			f.register(s)
		}
		cl.held = cl.held[n:]
		joined += n
	}
	if joined == 0 {
		return fmt.Errorf("join %s: a share of %v is no server; hold more of them at the start", name, share)
	}
	f.joins[name] = share
	return nil
}

// Joins says how many have joined.
func (f *Fleet) Joins() (j Joins) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, s := range f.servers {
		switch {
		case s.state == held:
			j.Held++
		case s.joined:
			j.Joined++
		}
		if s.wanted {
			j.Reserved++
		}
	}
	return j
}

// Control answers the orders that a replay gives: GET /joins, PUT and DELETE
// /joins/{name}. Taking a join away takes no server away.
func (f *Fleet) Control() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /joins", func(w http.ResponseWriter, _ *http.Request) {
		matchmaking.Answer(w, http.StatusOK, f.Joins())
	})
	mux.HandleFunc("PUT /joins/{name}", func(w http.ResponseWriter, r *http.Request) {
		var join struct {
			Share *float64 `json:"share"`
		}
		services.Order(w, r, &join, func() error {
			if join.Share == nil {
				return errors.New("share: give one")
			}
			return f.Join(r.PathValue("name"), *join.Share)
		})
	})
	mux.HandleFunc("DELETE /joins/{name}", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusNoContent)
	})
	return mux
}
