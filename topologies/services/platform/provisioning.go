package platform

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"relapse/topologies/services/matchmaking"
	"relapse/topologies/services/platform/api"
)

// DefaultLease is how long a server is held for a match that nothing is heard of. It is
// the time that a crash costs, and longer than a pause that a busy machine makes.
const DefaultLease = 3 * time.Second

// renewals is how often a lease is renewed in its time: a few may be lost.
const renewals = 4

// collectEvery is how often leases that have run out are looked for.
const collectEvery = 100 * time.Millisecond

// Centre is a data centre with a number of game servers.
type Centre struct {
	Name     string
	Capacity int
}

// ProvisioningConfig is what provisioning is made of.
type ProvisioningConfig struct {
	Centres []Centre
	// Lease is how long a server is held without a word of the game on it, real time.
	// The game servers renew theirs every quarter of it.
	Lease time.Duration
}

// provisioning gives matches a game server in the data centre that is best for their
// players: of those with a server free, the one of the lowest sum of pings. Centres
// that not all players have a ping to come last.
//
//	POST   /servers       ServerRequest: 201 Server; 503 if no server is free
//	DELETE /servers/{id}  204, also for one that is not held
//	POST   /leases        Leases: 200 Lost
//
// A server that nothing was heard of for half its lease has leaked: its game is gone
// without giving it back. It is free again at the end of the lease.
type provisioning struct {
	p     *Platform
	lease time.Duration

	given     map[string]prometheus.Counter // by data centre
	exhausted prometheus.Counter
	reclaimed prometheus.Counter

	mu      sync.Mutex
	centres []*centre // by name
	held    map[string]*server
	answers *answers[api.Server]
}

type centre struct {
	Centre
	held int
}

type server struct {
	centre *centre
	heard  time.Time // of the game on it
}

func newProvisioning(p *Platform) (role, error) {
	c := p.config.Provisioning
	if err := positive(map[string]time.Duration{"a lease": c.Lease}); err != nil {
		return nil, err
	}
	if len(c.Centres) == 0 {
		return nil, errors.New("no data centres: give their names and how many servers each has")
	}
	v := &provisioning{p: p, lease: c.Lease, held: map[string]*server{}, answers: newAnswers[api.Server](p.config.Remember)}
	var names []string
	for _, at := range c.Centres {
		switch {
		case at.Name == "":
			return nil, errors.New("a data centre has no name")
		case slices.Contains(names, at.Name):
			return nil, fmt.Errorf("data centre %s is there twice", at.Name)
		case at.Capacity < 1:
			return nil, fmt.Errorf("data centre %s has %d servers: want one at least", at.Name, at.Capacity)
		}
		names = append(names, at.Name)
		v.centres = append(v.centres, &centre{Centre: at})
	}
	slices.SortFunc(v.centres, func(a, b *centre) int { return strings.Compare(a.Name, b.Name) })
	v.given = p.counters("relapse_provisions_total", "Servers given to matches, by data centre.", "dc", names...)
	v.exhausted = p.counter("relapse_provisions_refused_total", "Requests for a server when none was free anywhere.")
	v.reclaimed = p.counter("relapse_provisions_reclaimed_total", "Servers that were taken back since their lease had run out.")
	p.gauge("relapse_provisions_leaked", "Servers held for a game that nothing was heard of for half a lease.", v.leaked)
	v.register(p.registry)
	return v, nil
}

// register shows what each data centre has.
func (v *provisioning) register(registry *prometheus.Registry) {
	for _, c := range v.centres {
		labels := prometheus.Labels{"dc": c.Name}
		registry.MustRegister(
			prometheus.NewGaugeFunc(prometheus.GaugeOpts{
				Name: "relapse_provisions_held", Help: "Servers held for a match, by data centre.", ConstLabels: labels,
			}, func() float64 {
				v.mu.Lock()
				defer v.mu.Unlock()
				return float64(c.held)
			}),
			prometheus.NewGaugeFunc(prometheus.GaugeOpts{
				Name: "relapse_provisions_capacity", Help: "Servers that there are, by data centre.", ConstLabels: labels,
			}, func() float64 { return float64(c.Capacity) }),
		)
	}
}

func (v *provisioning) leaked() float64 {
	v.mu.Lock()
	defer v.mu.Unlock()
	leaked, now := 0, time.Now()
	for _, s := range v.held {
		if now.Sub(s.heard) > v.lease/2 {
			leaked++
		}
	}
	return float64(leaked)
}

func (v *provisioning) routes() []route {
	return []route{
		{"POST /servers", "provision", v.provision},
		{"DELETE /servers/{id}", "release", v.release},
		{"POST /leases", "renew", v.renew},
	}
}

func (v *provisioning) run(ctx context.Context) error {
	return every(ctx, collectEvery, v.collect)
}

func (v *provisioning) provision(w http.ResponseWriter, r *http.Request) error {
	var asked api.ServerRequest
	if err := read(w, r, &asked); err != nil {
		return err
	}
	if err := checkOp(asked.Op); err != nil {
		return bad(err)
	}
	if err := checkPlayers(asked.Players, mostMatch); err != nil {
		return bad(err)
	}
	if err := checkPings(asked.Pings); err != nil {
		return bad(err)
	}
	given, free := v.give(asked)
	if !free {
		v.exhausted.Inc()
		return refuse(http.StatusServiceUnavailable, "no server is free in any data centre")
	}
	matchmaking.Answer(w, http.StatusCreated, given)
	return nil
}

// give gives a server, or the one that the operation was given before.
func (v *provisioning) give(asked api.ServerRequest) (given api.Server, free bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	now := time.Now()
	if given, known := v.answers.get(asked.Op, now); known {
		return given, true
	}
	var best *centre
	lowest := math.Inf(1)
	for _, c := range v.centres {
		if c.held >= c.Capacity {
			continue
		}
		ping, known := asked.Pings[c.Name]
		if !known {
			ping = math.MaxFloat64
		}
		if ping < lowest {
			best, lowest = c, ping
		}
	}
	if best == nil {
		return api.Server{}, false
	}
	given = api.Server{Server: v.p.name("server"), Centre: best.Name}
	best.held++
	v.held[given.Server] = &server{centre: best, heard: now}
	v.answers.put(asked.Op, given, now)
	v.given[best.Name].Inc()
	return given, true
}

func (v *provisioning) release(w http.ResponseWriter, r *http.Request) error {
	v.mu.Lock()
	v.free(r.PathValue("id"))
	v.mu.Unlock()
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// free takes a server back, if it is held. The lock is held.
func (v *provisioning) free(id string) {
	if s := v.held[id]; s != nil {
		s.centre.held--
		delete(v.held, id)
	}
}

func (v *provisioning) renew(w http.ResponseWriter, r *http.Request) error {
	var asked api.Leases
	if err := read(w, r, &asked); err != nil {
		return err
	}
	var lost api.Lost
	v.mu.Lock()
	now := time.Now()
	for _, id := range asked.Servers {
		if s := v.held[id]; s != nil {
			s.heard = now
		} else {
			lost.Lost = append(lost.Lost, id)
		}
	}
	v.mu.Unlock()
	matchmaking.Answer(w, http.StatusOK, lost)
	return nil
}

// collect takes back the servers whose lease has run out.
func (v *provisioning) collect() {
	v.mu.Lock()
	defer v.mu.Unlock()
	now := time.Now()
	for id, s := range v.held {
		if now.Sub(s.heard) > v.lease {
			v.free(id)
			v.reclaimed.Inc()
		}
	}
}
