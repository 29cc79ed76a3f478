package limiter

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"relapse/topologies/services/gamehosts"
	"relapse/topologies/services/matchmaking"
)

// PollEvery is how often every game server is asked, documented time.
const PollEvery = time.Minute

// OldestReading is the age at which a reading counts for nothing any more: two polls.
const OldestReading = 2 * PollEvery

// answerWithin bounds a question to hosts, real time: a poll comes every half second.
const answerWithin = 200 * time.Millisecond

// Limit is what a poll came to.
type Limit struct {
	Boot     int64         `json:"boot"`
	Number   int64         `json:"number"` // of the poll, from 1 on
	At       time.Duration `json:"at"`     // documented time, by the hosts' clocks
	Rule     string        `json:"rule"`   // in force; "override" while one is
	Limit    float64       `json:"limit"`  // games of Clash that may begin in a minute
	Cap      float64       `json:"cap"`    // the part of it that knows nothing of hosts
	Sources  []Source      `json:"sources"`
	Override bool          `json:"override"`
}

// Source is the answer of a node that a limit goes by.
type Source struct {
	Node   string        `json:"node"`
	Boot   int64         `json:"boot"`
	Number int64         `json:"number"` // 0 before it has ever answered
	Since  time.Duration `json:"since"`  // from the answer to the limit, documented time
}

// Config is what a limiter is made of.
type Config struct {
	Rule     Rule
	History  []float64 // starts in usual minutes
	SampleAt time.Duration
	Override *Override
	Nodes    []*matchmaking.Peer // of hosts
	Speed    float64             // documented seconds in a real one
}

// Limiter polls hosts and keeps the limit.
type Limiter struct {
	config  Config
	log     *gamehosts.Log[Limit]
	metrics *metrics
	known   []*known // of each node

	mu      sync.Mutex
	limit   Limit
	sampled *float64
}

// known is what a node answered last, and all hosts that it ever named.
type known struct {
	answer  gamehosts.Answer
	arrived time.Time
	hosts   map[string]string // kind by host
}

// New makes a limiter that has asked nobody yet, and allows nothing.
func New(c Config, registry *prometheus.Registry) (*Limiter, error) {
	if err := c.Rule.Validate(); err != nil {
		return nil, err
	}
	switch {
	case len(c.Nodes) == 0:
		return nil, errors.New("limiter: no nodes of hosts: give --hosts HOST:PORT,…")
	case !(c.Speed > 0):
		return nil, fmt.Errorf("limiter: a speed of %v: want more than zero", c.Speed)
	case c.Override != nil && !(c.Override.Limit >= 0):
		return nil, fmt.Errorf("limiter: an override of %v: want zero or more", c.Override.Limit)
	}
	l := &Limiter{config: c, log: gamehosts.NewLog[Limit](), metrics: newMetrics(registry)}
	for range c.Nodes {
		l.known = append(l.known, &known{hosts: map[string]string{}})
	}
	l.limit = Limit{Boot: l.log.Boot(), Rule: c.Rule.Name}
	return l, nil
}

// Run polls until the context ends.
func (l *Limiter) Run(ctx context.Context) error {
	ticker := time.NewTicker(time.Duration(float64(PollEvery) / l.config.Speed))
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		l.poll()
	}
}

// poll asks all nodes at once and works the limit out.
func (l *Limiter) poll() {
	var asked sync.WaitGroup
	for n, peer := range l.config.Nodes {
		asked.Go(func() {
			var answer gamehosts.Answer
			if peer.Call(http.MethodGet, "/readings", nil, &answer, time.Now().Add(answerWithin)) != nil {
				l.metrics.failures.Inc()
				return // its last answer grows old
			}
			k := l.known[n]
			k.answer, k.arrived = answer, time.Now()
			for _, r := range answer.Readings {
				k.hosts[r.Host] = r.Kind
			}
		})
	}
	asked.Wait()
	limit, hosts, oldest := l.work(time.Now())
	l.mu.Lock()
	limit.Number = l.limit.Number + 1
	l.limit = limit
	l.mu.Unlock()
	l.log.Add(limit)
	l.metrics.show(limit, hosts, oldest)
}

// work gives the limit of now, the hosts that it is made of, and the age of the oldest
// reading among them.
func (l *Limiter) work(now time.Time) (Limit, []Host, time.Duration) {
	c := l.config
	limit := Limit{Boot: l.log.Boot(), Rule: c.Rule.Name, Cap: c.Rule.Cap(c.History)}
	var hosts []Host
	oldest := time.Duration(0)
	for n, k := range l.known {
		since := time.Duration(0)
		if k.answer.Number > 0 {
			since = time.Duration(float64(now.Sub(k.arrived)) * c.Speed)
		}
		limit.At = max(limit.At, k.answer.Now+since)
		limit.Sources = append(limit.Sources, Source{c.Nodes[n].Name, k.answer.Boot, k.answer.Number, since})
		of, age := HostsOf(k.answer, since, k.hosts)
		hosts = append(hosts, of...)
		oldest = max(oldest, age)
	}
	if c.Rule.Name == RuleSampled && l.sampled == nil && limit.At >= c.SampleAt {
		if sample, ok := c.Rule.Sampled(hosts); ok {
			l.sampled = &sample
		}
	}
	limit.Limit = c.Rule.Limit(hosts, c.History, l.sampled)
	if c.Override.Active(limit.At) {
		limit.Rule, limit.Limit, limit.Override = "override", c.Override.Limit, true
	}
	return limit, hosts, oldest
}

// HostsOf gives what is known of the hosts of a node: those of its answer, which was
// given some time ago, and those that it named before and does not any more. A reading
// older than [OldestReading], one of the future and one that is missing make a full
// host. The age is that of the oldest reading, OldestReading and more where one is missing.
func HostsOf(answer gamehosts.Answer, since time.Duration, known map[string]string) (hosts []Host, oldest time.Duration) {
	named := map[string]bool{}
	for _, r := range answer.Readings {
		named[r.Host] = true
		age := answer.Now - r.At + since
		h := Host{Kind: r.Kind, CPU: r.CPU, Full: age > OldestReading || r.At > answer.Now+PollEvery}
		for mode, n := range r.Games {
			if mode == gamehosts.Clash {
				h.Clash += n
			} else {
				h.Other += n
			}
		}
		oldest = max(oldest, age)
		hosts = append(hosts, h)
	}
	for host, kind := range known {
		if !named[host] {
			hosts = append(hosts, Host{Kind: kind, Full: true})
			oldest = max(oldest, OldestReading+since+PollEvery)
		}
	}
	// A sum of floating-point numbers depends on its order, and maps have none.
	slices.SortStableFunc(hosts, func(a, b Host) int { return compareBools(a.Full, b.Full) })
	return hosts, oldest
}

func compareBools(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// Handler answers GET /limit with the latest [Limit], whose number is 0 before the
// first poll, GET /log with what there was, and GET /health.
func (l *Limiter) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /limit", func(w http.ResponseWriter, _ *http.Request) {
		l.mu.Lock()
		limit := l.limit
		l.mu.Unlock()
		matchmaking.Answer(w, http.StatusOK, limit)
	})
	mux.Handle("GET /log", l.log)
	mux.HandleFunc("GET /health", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
	return mux
}
