// Package mms is a node of a matchmaking service: it keeps a list of game servers
// and hands free ones out to matches.
//
// Documented, in the maker's report of an outage, is this: every node has a list
// of its own, of servers spread at random and roughly evenly by region. It serves
// from its own list, and if that has none for the region, it asks every other node,
// each of which reads a list as long. A mode with small matches made the lists 15
// times as long and emptied some of them faster than they filled again; the reading
// then piled up on the CPUs until nothing went. What cured it was to move servers in
// bulk and all the time from nodes with many free ones to nodes with few.
//
// Not documented, and modelled here, is all of the rest:
//
//   - The list (list.go) has all servers that are registered with the node, those in
//     a match too. It is read entry by entry, round from where the last reading
//     ended, up to the first free server of the region; so with none the whole list
//     is read. It really is read. The variant with an index by region finds a server,
//     or that there is none, by one entry. Servers that are moved in are spread over
//     the list at random, so that it stays what the source says of it.
//   - The CPU (cpu.go) is one, and serves first come first served. Reading costs a
//     fixed amount a look-up and an amount for each entry visited. The cost is
//     modelled: it passes as time, and burns nothing. All else that a node does
//     (registering, moving, answering checks) costs nothing.
//   - Peers are asked one after another, each once. What finds nothing anywhere goes
//     back in line after a while, for ever and whether or not its player still waits,
//     unless bounds are set that say otherwise (see [Config]).
//   - A server that was found is asked whether it takes the match. It refuses if its
//     registration is older than the newest, if it is in a match or gone, and the node
//     then drops the entry and looks again (lookup.go). Moving servers (donor.go, receiver.go) rests on the same
//     registrations: whichever messages are lost or come twice, only one node has a
//     server under its newest one. A donor has a bounded number of transfers in flight,
//     more than a rebalancer orders of it in a round, and none waits for another.
//
// Package matchmaking has the calls and what they carry. A node keeps nothing on
// disk: with its process ends all that it knew, and its servers are registered anew.
package mms

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"relapse/topologies/services/matchmaking"
)

// Ways to ask the peers.
const (
	AskSerial = "serial" // one after another
	AskNone   = "none"   // not at all
)

// Defaults; the source gives none of them.
const (
	DefaultLookupCost     = 500 * time.Microsecond
	DefaultEntryCost      = 2 * time.Microsecond
	DefaultAskTimeout     = time.Second
	DefaultReserveTimeout = time.Second
	DefaultPushTimeout    = 500 * time.Millisecond
	DefaultPause          = 50 * time.Millisecond
	DefaultAgainAfter     = 100 * time.Millisecond
)

// Config is what a node is made of.
type Config struct {
	Name    string   // as its peers and the fleet know it
	Regions []string // that servers are in
	Modes   []string // that matches are asked for

	Fleet *matchmaking.Peer   // the game servers
	Peers []*matchmaking.Peer // the other nodes

	// LookupCost is the fixed part of what reading the list costs, and EntryCost
	// what each visited entry adds (modelled).
	LookupCost, EntryCost time.Duration
	// Index has a look-up visit one entry, whatever the list is like.
	Index bool

	// Ask is how the peers are asked, and AskTimeout how long each may take.
	Ask        string
	AskTimeout time.Duration

	// Queue is how many jobs wait for the CPU at most, those over it are refused;
	// below zero there is no bound. With QueuePerMode each mode has as many.
	Queue        int
	QueuePerMode bool
	// DropAbandoned ends what is done for callers who have left, where it is noticed:
	// before a turn on the CPU, before a reservation, a question to a peer and a wait.
	DropAbandoned bool
	// Tries is how often a request looks in all lists before it is given up; 0 for
	// ever.
	Tries int
	// AgainAfter is when a request that found nothing is put back in line.
	AgainAfter time.Duration

	// ReserveTimeout is for each attempt to ask the fleet, and PushTimeout for each
	// one to send servers to a peer. Pause comes before the second attempt, and
	// doubles for each one more.
	ReserveTimeout, PushTimeout, Pause time.Duration

	// Seed decides, with the node's name, where in the list servers go that are moved
	// in.
	Seed uint64

	// Defect is the mistake that the node is built with.
	Defect Defect
}

func (c *Config) validate() error {
	if c.Name == "" {
		return errors.New("mms: a node without a name: its servers could not say where they are registered")
	}
	if err := named("regions", c.Regions); err != nil {
		return err
	}
	if err := named("modes", c.Modes); err != nil {
		return err
	}
	switch {
	case c.Fleet == nil:
		return errors.New("mms: no fleet: nobody could say whether a server is free")
	case c.LookupCost < 0 || c.EntryCost < 0:
		return fmt.Errorf("mms: a look-up costs %v and %v an entry: want zero or more", c.LookupCost, c.EntryCost)
	case c.Ask != AskSerial && c.Ask != AskNone:
		return fmt.Errorf("mms: ask %q: want %s or %s", c.Ask, AskSerial, AskNone)
	case c.Queue < 0 && c.QueuePerMode:
		return errors.New("mms: a queue for each mode, and no bound: say how many wait in each at most")
	case c.Tries < 0:
		return fmt.Errorf("mms: %d tries: want 1 or more, or 0 for no bound", c.Tries)
	case !slices.Contains(Defects, c.Defect):
		return fmt.Errorf("mms: no defect %q; known: %q", c.Defect, Defects)
	}
	for what, d := range map[string]time.Duration{
		"an ask timeout": c.AskTimeout, "a wait before going again": c.AgainAfter,
		"a reserve timeout": c.ReserveTimeout, "a push timeout": c.PushTimeout, "a pause": c.Pause,
	} {
		if d <= 0 {
			return fmt.Errorf("mms: %s of %v: want more than zero", what, d)
		}
	}
	nodes := []string{c.Name}
	for _, peer := range c.Peers {
		if slices.Contains(nodes, peer.Name) {
			return fmt.Errorf("mms: %s has the peer %s: want the other nodes, each once", c.Name, peer.Name)
		}
		nodes = append(nodes, peer.Name)
	}
	return nil
}

func named(what string, names []string) error {
	for i, name := range names {
		if name == "" || slices.Contains(names[:i], name) {
			return fmt.Errorf("mms: %s %q: want names, each once", what, names)
		}
	}
	if len(names) == 0 {
		return fmt.Errorf("mms: no %s", what)
	}
	return nil
}

// Node is a running node.
type Node struct {
	Config
	// boot tells this life of the node from others. It is part of all that the node
	// gives a name to, since the fleet remembers such names over the node's lives.
	boot     string
	list     *list
	cpu      *cpu
	metrics  *metrics
	giving   chan struct{} // holds one for each transfer in flight
	received *answers

	matches, transfers atomic.Int64  // numbers of the last ones
	rounds             atomic.Uint64 // of asking the peers
	again              atomic.Int64  // requests that wait to go again
	told               atomic.Bool   // of its servers, since the start

	// life ends with [Node.Close]. It is no request's: what a node does for a match
	// or a transfer goes on after whoever asked for it has left.
	life context.Context
	end  context.CancelFunc
}

// New makes a node whose list is empty; its metrics go to the registry. Whoever
// makes one closes it.
func New(c Config, registry *prometheus.Registry) (*Node, error) {
	if err := c.validate(); err != nil {
		return nil, err
	}
	n := &Node{
		Config: c, boot: strconv.FormatInt(time.Now().UnixNano(), 36),
		list: newList(c.Regions, c.Index, random(c.Seed, c.Name)), metrics: newMetrics(registry, c.Modes),
		giving: make(chan struct{}, mostGiving), received: newAnswers(mostAnswers),
	}
	n.cpu = newCPU(c.Queue, c.QueuePerMode, c.DropAbandoned, func(cost time.Duration) { n.metrics.cpu.Add(cost.Seconds()) })
	n.life, n.end = context.WithCancel(context.Background())
	n.show(registry)
	return n, nil
}

// random gives each node a source of its own: with one seed for all of them, lists
// would otherwise be scattered alike.
func random(seed uint64, name string) *rand.Rand {
	hash := fnv.New64a()
	_, _ = io.WriteString(hash, name) // never fails
	return rand.New(rand.NewPCG(seed, hash.Sum64()))
}

// Close ends what goes on without anybody waiting for it. It does not wait for the
// end.
func (n *Node) Close() { n.end() }

// Handler answers the front, the peers, the fleet and the rebalancer.
func (n *Node) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /matches", n.serveMatch)
	mux.HandleFunc("POST /take", n.serveTake)
	mux.HandleFunc("POST /servers", n.serveServers)
	mux.HandleFunc("GET /boot", n.serveBoot)
	mux.HandleFunc("GET /entries", n.serveEntries)
	mux.HandleFunc("GET /counts", n.serveCounts)
	mux.HandleFunc("POST /gives", n.serveGive)
	mux.HandleFunc("POST /transfers", n.serveTransfer)
	mux.HandleFunc("GET /health", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
	return mux
}

// known refuses entries in regions that the node does not have.
func (n *Node) known(entries []matchmaking.Entry) error {
	for _, e := range entries {
		if !slices.Contains(n.Regions, e.Region) {
			return fmt.Errorf("server %d is in the region %q: want one of %s", e.Server, e.Region, strings.Join(n.Regions, ", "))
		}
	}
	return nil
}
