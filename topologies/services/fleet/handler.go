package fleet

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"relapse/topologies/services/matchmaking"
)

// Handler answers nodes:
//
//	POST /reserve?server=&epoch=&match=&mode=&players=&node=
//	     201; 409 with the reason if the server is in a match or gone, or the epoch
//	     is not current; 404 if there is no such server
//	POST /moves     Move: 200 and Moved; 409 if another life of the node asks
//	     than the one that the fleet knows of
//
// Both answer 400 to what is malformed, which includes a mode and a node that no
// cluster has. GET /health is answered always, GET /ready once every node has
// acknowledged its servers: before, the connection is closed without an answer.
func (f *Fleet) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /reserve", func(w http.ResponseWriter, r *http.Request) {
		asked, err := f.readReservation(r.URL.Query())
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		switch outcome, why := f.reserve(asked); outcome {
		case accepted:
			w.WriteHeader(http.StatusCreated)
		case unknown:
			http.Error(w, why, http.StatusNotFound)
		default:
			http.Error(w, outcome+": "+why, http.StatusConflict)
		}
	})
	mux.HandleFunc("POST /moves", func(w http.ResponseWriter, r *http.Request) {
		var m matchmaking.Move
		if !matchmaking.Read(w, r, &m) {
			return
		}
		moved, err := f.move(m)
		switch {
		case errors.Is(err, errOtherLife):
			http.Error(w, err.Error(), http.StatusConflict)
			return
		case err != nil:
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		matchmaking.Answer(w, http.StatusOK, matchmaking.Moved{Entries: moved})
	})
	mux.HandleFunc("GET /health", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
	mux.HandleFunc("GET /ready", func(w http.ResponseWriter, _ *http.Request) {
		if !f.Ready() {
			// Whoever waits for a node takes any answer for one, a 503 too.
			panic(http.ErrAbortHandler)
		}
	})
	return mux
}

func (f *Fleet) readReservation(query url.Values) (r reservation, err error) {
	if r.server, err = strconv.Atoi(query.Get("server")); err != nil {
		return r, fmt.Errorf("server: %w", err)
	}
	if r.epoch, err = strconv.ParseInt(query.Get("epoch"), 10, 64); err != nil {
		return r, fmt.Errorf("epoch: %w", err)
	}
	if r.players, err = strconv.Atoi(query.Get("players")); err != nil {
		return r, fmt.Errorf("players: %w", err)
	}
	r.match, r.mode, r.node = query.Get("match"), query.Get("mode"), query.Get("node")
	switch {
	case r.players < 1:
		return r, fmt.Errorf("players: %d: want 1 or more", r.players)
	case r.match == "":
		return r, errors.New("match: name one")
	case f.config.Modes[r.mode] == "":
		return r, fmt.Errorf("mode: no mode %q", r.mode)
	case f.byName[r.node] == nil:
		return r, fmt.Errorf("node: no node %q", r.node)
	}
	return r, nil
}
