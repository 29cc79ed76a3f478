package gamehosts

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"relapse/topologies/services/matchmaking"
)

// step is how often time passes for the games, real time: 6 s of documented time at
// speed 120.
const step = 50 * time.Millisecond

// mostSpeed refuses a speed that can only be a mistake.
const mostSpeed = 1e6

// Config is what a node of hosts is made of.
type Config struct {
	Hosts      []HostConfig
	Speed      float64       // documented seconds in a real one
	OpensAfter time.Duration // until when its hosts are not there, documented time; they are added then
	Trouble    Trouble       // of its readings
}

// Node is hosts behind HTTP, with a clock that the first order starts.
type Node struct {
	config  Config
	clock   *Clock
	log     *Log[Entry]
	metrics *metrics

	mu      sync.Mutex
	hosts   *Hosts
	answers Answers
}

// NewNode makes a node whose clock stands.
func NewNode(c Config, registry *prometheus.Registry) (*Node, error) {
	if !(c.Speed > 0) || c.Speed > mostSpeed {
		return nil, fmt.Errorf("gamehosts: a speed of %v: want more than zero, up to %v", c.Speed, float64(mostSpeed))
	}
	if c.OpensAfter < 0 {
		return nil, fmt.Errorf("gamehosts: hosts that open after %v: want zero or more", c.OpensAfter)
	}
	if err := c.Trouble.Validate(); err != nil {
		return nil, err
	}
	hosts, err := New(c.Hosts)
	if err != nil {
		return nil, err
	}
	n := &Node{config: c, clock: NewClock(c.Speed), log: NewLog[Entry](), hosts: hosts}
	n.answers = Answers{Trouble: c.Trouble, Boot: n.log.Boot()}
	n.metrics = newMetrics(registry, c)
	n.metrics.show(hosts, n.open(0))
	return n, nil
}

// Run has time pass until the context ends.
func (n *Node) Run(ctx context.Context) error {
	ticker := time.NewTicker(step)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		n.mu.Lock()
		now := n.clock.Now()
		n.hosts.Advance(now)
		n.metrics.show(n.hosts, n.open(now))
		n.mu.Unlock()
	}
}

// open says whether the hosts are there.
func (n *Node) open(now time.Duration) bool { return now >= n.config.OpensAfter }

// Handler answers who places games, who limits and who checks:
//
//	POST /games     [Placement]…: 204; 400 with the reason, and none of the rest placed.
//	                Starts the clock, also with no games
//	GET  /hosts     200 and [Inventory]…, none while they are not open
//	GET  /readings  200 and [Answer]
//	GET  /log       see [Log.ServeHTTP]
func (n *Node) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /games", func(w http.ResponseWriter, r *http.Request) {
		var games []Placement
		if !matchmaking.Read(w, r, &games) {
			return
		}
		if err := n.place(games); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	})
	mux.HandleFunc("GET /hosts", func(w http.ResponseWriter, _ *http.Request) { matchmaking.Answer(w, http.StatusOK, n.inventory()) })
	mux.HandleFunc("GET /readings", func(w http.ResponseWriter, _ *http.Request) { matchmaking.Answer(w, http.StatusOK, n.answer()) })
	mux.Handle("GET /log", n.log)
	mux.HandleFunc("GET /health", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
	return mux
}

func (n *Node) place(games []Placement) error {
	n.clock.Start()
	n.mu.Lock()
	defer n.mu.Unlock()
	now := n.clock.Now()
	for _, p := range games {
		began, err := n.hosts.Place(now, p)
		if err != nil {
			return err
		}
		if began && p.Mode == Clash {
			n.log.Add(Entry{Began: &Began{now, p.Game, p.Host}})
		}
	}
	return nil
}

func (n *Node) inventory() []Inventory {
	out := []Inventory{}
	if n.open(n.clock.Now()) {
		for _, c := range n.config.Hosts {
			out = append(out, Inventory{c.Name, c.Kind, c.Capacity})
		}
	}
	return out
}

func (n *Node) answer() Answer {
	n.mu.Lock()
	defer n.mu.Unlock()
	now := n.clock.Now()
	readings := []Reading{}
	if n.open(now) {
		n.hosts.Advance(now)
		readings = n.hosts.Readings()
	}
	answer := n.answers.Next(now, readings)
	n.log.Add(Entry{Answered: &answer})
	return answer
}
