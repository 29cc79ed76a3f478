package mms_test

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"sync"

	"relapse/topologies/services/matchmaking"
)

// fleet keeps the rules of game servers.
type fleet struct {
	mu      sync.Mutex
	servers map[int]*server
	moves   map[string][]matchmaking.Entry // answers, by transfer and receiver
	asked   int                            // reservations
}

type server struct {
	node  string
	epoch int64
	match string // that it is in
	gone  bool
}

func (f *fleet) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /reserve", func(w http.ResponseWriter, r *http.Request) {
		if err := f.reserve(r); err != nil {
			http.Error(w, err.Error(), http.StatusConflict)
			return
		}
		w.WriteHeader(http.StatusCreated)
	})
	mux.HandleFunc("POST /moves", func(w http.ResponseWriter, r *http.Request) {
		var move matchmaking.Move
		if matchmaking.Read(w, r, &move) {
			matchmaking.Answer(w, http.StatusOK, matchmaking.Moved{Entries: f.move(move)})
		}
	})
	return mux
}

func (f *fleet) reserve(r *http.Request) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked++
	query := r.URL.Query()
	id, err := strconv.Atoi(query.Get("server"))
	if err != nil {
		return err
	}
	s, match := f.servers[id], query.Get("match")
	switch {
	case match == "" || query.Get("mode") == "" || query.Get("players") == "" || query.Get("node") == "":
		return fmt.Errorf("%s does not say all", r.URL)
	case s == nil:
		return errors.New("nobody has the number")
	case s.gone:
		return errors.New("it is not there")
	case strconv.FormatInt(s.epoch, 10) != query.Get("epoch"):
		return errors.New("registered under another epoch")
	case s.match != "" && s.match != match:
		return errors.New("in a match")
	}
	s.match = match
	return nil
}

func (f *fleet) move(m matchmaking.Move) []matchmaking.Entry {
	f.mu.Lock()
	defer f.mu.Unlock()
	key := m.Transfer + " " + m.To
	if answered, again := f.moves[key]; again {
		return answered
	}
	var moved []matchmaking.Entry
	for _, e := range m.Entries {
		if s := f.servers[e.Server]; s != nil && s.match == "" && !s.gone && s.epoch == e.Epoch {
			s.epoch++
			s.node = m.To
			moved = append(moved, matchmaking.Entry{Server: e.Server, Region: e.Region, Epoch: s.epoch})
		}
	}
	f.moves[key] = moved
	return moved
}

func (f *fleet) add(node string, count int) (entries []matchmaking.Entry) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for range count {
		id := len(f.servers)
		f.servers[id] = &server{node: node, epoch: 1}
		entries = append(entries, matchmaking.Entry{Server: id, Region: "eu", Epoch: 1})
	}
	return entries
}

// plays has servers take a match that no node knows of.
func (f *fleet) plays(match string, ids ...int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, id := range ids {
		f.servers[id].match = match
	}
}

// leave has servers go, and tell nobody.
func (f *fleet) leave(ids ...int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, id := range ids {
		f.servers[id].gone = true
	}
}

// free gives the epochs of those in no match.
func (f *fleet) free() map[int]int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	epochs := map[int]int64{}
	for id, s := range f.servers {
		if s.match == "" && !s.gone {
			epochs[id] = s.epoch
		}
	}
	return epochs
}

// matches gives the servers of each match.
func (f *fleet) matches() map[string][]int {
	f.mu.Lock()
	defer f.mu.Unlock()
	servers := map[string][]int{}
	for _, id := range slices.Sorted(maps.Keys(f.servers)) {
		if match := f.servers[id].match; match != "" {
			servers[match] = append(servers[match], id)
		}
	}
	return servers
}

func (f *fleet) reservations() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.asked
}
