package platform_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"relapse/topologies/services/limits"
	"relapse/topologies/services/platform"
	"relapse/topologies/services/platform/api"
	"relapse/topologies/services/polltest"
)

// asked is a request that a peer got.
type asked struct {
	method, path string
	body         []byte
}

// into reads the body.
func (a asked) into(t *testing.T, v any) {
	t.Helper()
	if err := json.Unmarshal(a.body, v); err != nil {
		t.Fatalf("%s %s: %v", a.method, a.path, err)
	}
}

// peer is another service: it notes what it is asked, and answers as it is told.
type peer struct {
	client *api.Client

	mu       sync.Mutex
	requests []asked
	// answer gives a status and a body for the n-th request, from 0.
	answer func(n int, a asked) (int, any)
	gate   chan struct{} // answers wait until it is closed, if there is one
}

func newPeer(t *testing.T) *peer {
	t.Helper()
	p := &peer{}
	server := httptest.NewServer(p)
	t.Cleanup(server.Close)
	p.client = newClient(t, server.Listener.Addr().String())
	return p
}

func newClient(t *testing.T, address string) *api.Client {
	t.Helper()
	c, err := api.NewClient(address, "test")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func (p *peer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	request := asked{r.Method, r.URL.Path, body}
	p.mu.Lock()
	n, answer, gate := len(p.requests), p.answer, p.gate
	p.requests = append(p.requests, request)
	p.mu.Unlock()
	if gate != nil {
		select {
		case <-gate:
		case <-r.Context().Done():
			return
		}
	}
	status, said := http.StatusOK, any(struct{}{})
	if answer != nil {
		status, said = answer(n, request)
	}
	w.WriteHeader(status)
	if status != http.StatusNoContent {
		_ = json.NewEncoder(w).Encode(said)
	}
}

// all gives what the peer was asked by one method at one path; "" for any.
func (p *peer) all(method, path string) (found []asked) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, a := range p.requests {
		if (method == "" || a.method == method) && (path == "" || a.path == path) {
			found = append(found, a)
		}
	}
	return found
}

// answers has the peer answer so from now on.
func (p *peer) answers(answer func(n int, a asked) (int, any)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.answer = answer
}

// stuck has the peer answer nothing until it is released, which the end of the test
// does too.
func (p *peer) stuck(t *testing.T) (release func()) {
	t.Helper()
	gate := make(chan struct{})
	p.mu.Lock()
	defer p.mu.Unlock()
	p.gate = gate
	release = sync.OnceFunc(func() {
		p.mu.Lock()
		p.gate = nil
		p.mu.Unlock()
		close(gate)
	})
	t.Cleanup(release)
	return release
}

// rig is a process of the platform, between peers.
type rig struct {
	url      string
	http     *http.Client
	registry *prometheus.Registry
	peers    map[string]*peer // that are not in the process
}

// config has nothing happen of its own accord within the time of a test.
func config(roles ...string) platform.Config {
	return platform.Config{
		Roles: roles, Limits: limits.Limits{limits.All: 64},
		Speed: 1, CallTimeout: 2 * time.Second, Remember: time.Minute, Seed: 1,
		Session: platform.SessionConfig{
			TokenLasts: time.Hour, Caches: platform.Caches{Handler: true, Caller: true}, Keep: time.Minute,
			Redis: "127.0.0.1:1", BeatEvery: 10 * time.Millisecond,
		},
		Queue:  platform.QueueConfig{MatchSize: 10, WidenAfter: time.Hour, WaitMost: time.Hour, Senders: 4},
		Agents: platform.AgentsConfig{SelectFor: time.Hour, BeginWithin: 5 * time.Second, OverWithin: time.Hour, Callers: 4},
		Provisioning: platform.ProvisioningConfig{
			Centres: []platform.Centre{{Name: "eu", Capacity: 2}, {Name: "na", Capacity: 2}}, Lease: time.Minute,
		},
		Games:   platform.GamesConfig{Length: time.Hour, Recorders: 4},
		Results: platform.ResultsConfig{Win: 20, Loss: 10},
	}
}

// start runs a process until the test ends. Those of its peers that are not in it are
// made, and can be changed before it runs.
func start(t *testing.T, c platform.Config, change ...func(r *rig)) *rig {
	t.Helper()
	server := httptest.NewUnstartedServer(nil)
	r := &rig{registry: prometheus.NewRegistry(), peers: map[string]*peer{}, url: "http://" + server.Listener.Addr().String()}
	own := newClient(t, server.Listener.Addr().String())
	c.Peers = map[string]*api.Client{}
	for _, name := range platform.Peers(c.Roles) {
		if slices.Contains(c.Roles, name) {
			c.Peers[name] = own
			continue
		}
		r.peers[name] = newPeer(t)
		c.Peers[name] = r.peers[name].client
	}
	for _, change := range change {
		change(r)
	}
	p, err := platform.New(c, r.registry)
	if err != nil {
		server.Close()
		t.Fatal(err)
	}
	server.Config.Handler = p.Handler()
	server.Start()
	t.Cleanup(server.Close)
	r.http = server.Client()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("platform: %v", err)
		}
	})
	return r
}

// ask makes a request and gives the answer; the body is read into something unless
// that is nil, or the answer is an error.
func (r *rig) ask(t *testing.T, method, path string, body, into any) *http.Response {
	t.Helper()
	response, err := r.try(t.Context(), method, path, body, into)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	return response
}

func (r *rig) try(ctx context.Context, method, path string, body, into any) (*http.Response, error) {
	var sent io.Reader
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		sent = bytes.NewReader(b)
	}
	request, err := http.NewRequestWithContext(ctx, method, r.url+path, sent)
	if err != nil {
		return nil, err
	}
	response, err := r.http.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	said, err := io.ReadAll(response.Body)
	if err != nil || into == nil || response.StatusCode/100 != 2 {
		return response, err
	}
	return response, json.Unmarshal(said, into)
}

// status makes a request and gives the status of its answer.
func (r *rig) status(t *testing.T, method, path string, body any) int {
	t.Helper()
	return r.ask(t, method, path, body, nil).StatusCode
}

// value reads a counter or gauge, or how often a histogram has observed something, by
// the name and the values of the labels, which are sorted by the labels' names; absent
// is an error.
func (r *rig) value(t *testing.T, name string, labels ...string) float64 {
	t.Helper()
	families, err := r.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, m := range family.GetMetric() {
			var have []string
			for _, l := range m.GetLabel() {
				have = append(have, l.GetValue())
			}
			if slices.Equal(have, labels) {
				return m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
			}
		}
	}
	t.Fatalf("no metric %s%v", name, labels)
	return 0
}

// expect compares a metric.
func (r *rig) expect(t *testing.T, want float64, name string, labels ...string) {
	t.Helper()
	if have := r.value(t, name, labels...); have != want {
		t.Errorf("%s%v: have %v, want %v", name, labels, have, want)
	}
}

var eventually = polltest.Eventually

// players gives so many players, from a number on.
func players(from, count int) (p []api.Player) {
	for n := range count {
		p = append(p, api.Player(from+n))
	}
	return p
}
