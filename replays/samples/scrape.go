package samples

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// Period is how often every target is scraped, and Deadline is how long one
// scrape may take. Nodes of an outage come and go within half a second; at
// 250 ms one sees that, for under one percent of a core in all.
const (
	Period   = 250 * time.Millisecond
	Deadline = 200 * time.Millisecond
)

// What every scrape writes about itself, beside up{node} for nodes that are
// measured over their own protocol.
const (
	scrapeSuccess = "relapse_scrape_success"      // 1 or 0
	scrapeSeconds = "relapse_scrape_seconds"      // how long it took
	scrapeMissed  = "relapse_scrape_missed_total" // ticks that the scraper itself let pass
)

// Endpoint says where and how a node is measured.
type Endpoint struct {
	Node    string
	Host    string // that the node is on, which all its series say in a label; "" for none
	Kind    string // see [Kinds]
	Address string // host:port
	Path    string // for kinds spoken over HTTP; may hold a query, as in /metrics?scope=server
	// Environment is the node's own, which says how to sign in where a kind asks for
	// that; see its file.
	Environment map[string]string
}

// UnknownKindError says that there is no way of scraping by that name.
type UnknownKindError struct {
	Node, Kind string
	Known      []string
}

func (e *UnknownKindError) Error() string {
	return fmt.Sprintf("node %s: cannot scrape kind %q: want one of %s", e.Node, e.Kind, strings.Join(e.Known, ", "))
}

// source is one way of measuring. It adds all that it reads to the sink, or
// gives an error, and then nothing that it added counts.
type source interface {
	scrape(ctx context.Context, to *sink) error
	close()
}

// downSource is a source with a word of its own for a scrape that failed, such as
// redis_up 0, so that rules written for the usual exporter fire here too.
type downSource interface{ down(to *sink) }

var kinds = map[string]func(Endpoint) (source, error){}

func register(kind string, open func(Endpoint) (source, error)) { kinds[kind] = open }

// Kinds lists the kinds of endpoint that can be scraped, sorted.
func Kinds() []string {
	var out []string
	for k := range kinds {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

// Target is something to scrape. It may be used by one goroutine at a time.
type Target struct {
	node, kind string
	host       string
	up         bool // whether it says up{node}
	source     source
	sink       *sink
	missed     int
}

// NewTarget makes a target of an endpoint. Nothing is dialled yet. An unknown
// kind is an *[UnknownKindError].
func NewTarget(e Endpoint) (*Target, error) {
	open, ok := kinds[e.Kind]
	if !ok {
		return nil, &UnknownKindError{Node: e.Node, Kind: e.Kind, Known: Kinds()}
	}
	src, err := open(e)
	if err != nil {
		return nil, fmt.Errorf("node %s: %w", e.Node, err)
	}
	return &Target{node: e.Node, kind: e.Kind, host: e.Host, up: true, source: src}, nil
}

// NewFunc makes a target of a function that gives values by metric name. It
// must return within [Deadline]. All values get the further labels, given as
// name, value, name, value... Such a target says nothing of up{node}, which is
// about the node's own answers.
func NewFunc(node, kind string, read func() (map[string]float64, error), pairs ...string) *Target {
	return &Target{node: node, kind: kind, source: funcSource{read, pairs}}
}

// Node gives the node that the target's series are labelled with.
func (t *Target) Node() string { return t.node }

// Kind gives how the target is measured.
func (t *Target) Kind() string { return t.kind }

// Close drops kept connections. The target may be scraped again afterwards.
func (t *Target) Close() { t.source.close() }

// Scrape reads the target once and stores what it read, stamped with at, with
// up{node}, relapse_scrape_success, relapse_scrape_seconds and
// relapse_scrape_missed_total. A failed scrape stores only those, with what the
// kind says of a node that is down (redis_up, pg_up), and returns why. If ctx ends
// meanwhile, nothing is stored: that was not the target.
func (t *Target) Scrape(ctx context.Context, s *Store, at time.Time) error {
	if t.sink == nil || t.sink.store != s {
		t.sink = newSink(s, t.node, t.host)
	}
	t.sink.reset()
	began := time.Now()
	limited, cancel := context.WithTimeout(ctx, Deadline)
	err := t.source.scrape(limited, t.sink)
	cancel()
	took := time.Since(began)
	if ctx.Err() != nil {
		return fmt.Errorf("node %s: scraping %s: %w", t.node, t.kind, ctx.Err())
	}
	success := 1.0
	if err == nil && len(t.sink.points) == 0 {
		err = errors.New("it answered without a single sample")
	}
	if err != nil {
		t.sink.reset()
		if d, ok := t.source.(downSource); ok {
			d.down(t.sink)
		}
		success = 0
		err = fmt.Errorf("node %s: scraping %s: %w", t.node, t.kind, err)
	}
	if t.up {
		t.sink.add(success, "up")
	}
	t.sink.add(success, scrapeSuccess, "kind", t.kind)
	t.sink.add(took.Seconds(), scrapeSeconds, "kind", t.kind)
	t.sink.add(float64(t.missed), scrapeMissed, "kind", t.kind)
	t.sink.commit(at)
	return err
}

// Scraper scrapes targets all [Period], each on a goroutine of its own, so that
// one that hangs delays no other. All ticks count from one common start.
type Scraper struct {
	store   *Store
	targets []*Target

	mu       sync.Mutex
	failures []Failure // one a target
}

// Failure is the last failed scrape of a target.
type Failure struct {
	Node, Kind string
	At         time.Time
	Err        error
}

// NewScraper makes a scraper. No targets at all, or two of the same node and
// kind, are an error.
func NewScraper(s *Store, targets ...*Target) (*Scraper, error) {
	if len(targets) == 0 {
		return nil, errors.New("no targets to scrape: nothing would be measured; label nodes with relapse.metrics")
	}
	seen := map[string]bool{}
	for _, t := range targets {
		key := t.node + "\xff" + t.kind
		if seen[key] {
			return nil, fmt.Errorf("node %s: kind %s is scraped twice: keep one of the targets", t.node, t.kind)
		}
		seen[key] = true
	}
	return &Scraper{store: s, targets: targets, failures: make([]Failure, len(targets))}, nil
}

// Run scrapes until ctx ends. When it returns nothing of it runs any more and
// all connections are closed.
func (s *Scraper) Run(ctx context.Context) {
	start := time.Now()
	var wg sync.WaitGroup
	for i := range s.targets {
		wg.Go(func() { s.loop(ctx, i, start) })
	}
	wg.Wait()
}

func (s *Scraper) loop(ctx context.Context, i int, start time.Time) {
	t := s.targets[i]
	defer t.Close()
	timer := time.NewTimer(0)
	defer timer.Stop()
	tick := 0 // the number of the next tick
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		// Stamps come from the monotonic clock: a stepped wall clock must not
		// tear a gap into the series.
		since := time.Since(start)
		now := int(since / Period)
		t.missed += now - tick // woken too late
		at := start.Add(since)
		err := t.Scrape(ctx, s.store, at)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			s.mu.Lock()
			s.failures[i] = Failure{Node: t.node, Kind: t.kind, At: at, Err: err}
			s.mu.Unlock()
		}
		since = time.Since(start)
		tick = int(since/Period) + 1
		t.missed += tick - now - 1 // the scrape took longer than it may
		timer.Reset(time.Duration(tick)*Period - since)
	}
}

// Failures gives the last failure of every target that ever failed.
func (s *Scraper) Failures() []Failure {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []Failure
	for _, f := range s.failures {
		if f.Err != nil {
			out = append(out, f)
		}
	}
	return out
}
