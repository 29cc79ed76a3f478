package games_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"relapse/topologies/services"
	"relapse/topologies/services/games"
	"relapse/topologies/services/limits"
	"relapse/topologies/services/polltest"
)

func start(t *testing.T, c games.Config) (url string, registry *prometheus.Registry) {
	t.Helper()
	if c.Limits == nil && c.Workers == 0 {
		c.Limits = limits.Limits{limits.All: games.DefaultLimit}
	}
	registry = prometheus.NewRegistry()
	g, err := games.New(c, registry)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(g.Handler())
	t.Cleanup(server.Close)
	return server.URL, registry
}

func call(t *testing.T, method, url string) (status int, body string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	said, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(said)
}

// value reads a counter or gauge by its name and the values of its labels;
// absent is an error.
func value(t *testing.T, registry *prometheus.Registry, name string, labels ...string) float64 {
	t.Helper()
	families, err := registry.Gather()
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
			if strings.Join(have, " ") == strings.Join(labels, " ") {
				return m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	t.Fatalf("no metric %s%v", name, labels)
	return 0
}

var eventually = polltest.Eventually

func TestCalls(t *testing.T) {
	url, registry := start(t, games.Config{})
	for _, c := range []struct {
		name, method, path string
		status             int
		body               string
	}{
		{"a game", "POST", "/games?queue=ranked", 201, `{"game":1}`},
		{"another", "POST", "/games?queue=ranked", 201, `{"game":2}`},
		{"no queue", "POST", "/games?queue=", 400, "queue: name one"},
		{"not even an empty one", "POST", "/games", 400, "queue: name one"},
		{"the wrong method", "GET", "/games?queue=ranked", 405, "Method Not Allowed"},
		{"health", "GET", "/health", 200, ""},
		{"a path that is not there", "GET", "/", 404, "404 page not found"},
	} {
		if status, body := call(t, c.method, url+c.path); status != c.status || strings.TrimSpace(body) != c.body {
			t.Errorf("%s: have %d %q, want %d %q", c.name, status, body, c.status, c.body)
		}
	}
	for outcome, want := range map[string]float64{"ok": 2, "no_queue": 2, "shed": 0, "abandoned": 0, "unclaimed": 0} {
		if have := value(t, registry, "relapse_handled_total", games.Create, outcome); have != want {
			t.Errorf("handled, %s: have %v, want %v", outcome, have, want)
		}
	}
	if have := value(t, registry, "relapse_games_created_total"); have != 2 {
		t.Errorf("games created: have %v, want 2", have)
	}
}

func TestAGameTakesItsTime(t *testing.T) {
	url, _ := start(t, games.Config{Takes: 100 * time.Millisecond})
	began := time.Now()
	call(t, "POST", url+"/games?queue=ranked")
	if took := time.Since(began); took < 100*time.Millisecond {
		t.Errorf("it took %v, want 100 ms at least", took)
	}
}

func TestOverTheLimitIsRefusedAtOnce(t *testing.T) {
	url, registry := start(t, games.Config{Takes: 500 * time.Millisecond, Limits: limits.Limits{limits.All: 2}})
	if have := value(t, registry, "relapse_in_flight_limit", limits.All); have != 2 {
		t.Errorf("limit: have %v, want 2", have)
	}
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			response, err := http.Post(url+"/games?queue=ranked", "", nil)
			if err != nil {
				t.Error(err)
				return
			}
			response.Body.Close()
			if response.StatusCode != 201 {
				t.Errorf("within the limit: have %d, want 201", response.StatusCode)
			}
		})
	}
	eventually(t, "the limit is reached", func() bool { return value(t, registry, "relapse_in_flight", limits.All) == 2 })
	began := time.Now()
	if have, _ := call(t, "POST", url+"/games?queue=ranked"); have != 503 {
		t.Errorf("over the limit: have %d, want 503", have)
	}
	if have, _ := call(t, "GET", url+"/health"); have != 200 {
		t.Errorf("health over the limit: have %d, want 200", have)
	}
	if took := time.Since(began); took > 400*time.Millisecond {
		t.Errorf("the refusal took %v, want it at once", took)
	}
	wg.Wait()
	if have := value(t, registry, "relapse_handled_total", games.Create, "shed"); have != 1 {
		t.Errorf("shed: have %v, want 1", have)
	}
	if have := value(t, registry, "relapse_in_flight", limits.All); have != 0 {
		t.Errorf("in flight afterwards: have %v, want 0", have)
	}
}

func TestACallerWhoLeavesGetsNoGame(t *testing.T) {
	url, registry := start(t, games.Config{Takes: time.Minute})
	client := http.Client{Timeout: 50 * time.Millisecond}
	if _, err := client.Post(url+"/games?queue=ranked", "", nil); err == nil {
		t.Fatal("the caller did not leave")
	}
	eventually(t, "it is counted", func() bool { return value(t, registry, "relapse_handled_total", games.Create, "abandoned") == 1 })
	if have := value(t, registry, "relapse_games_created_total"); have != 0 {
		t.Errorf("games created: have %v, want none", have)
	}
}

func TestTheServiceRefusesBadFlags(t *testing.T) {
	for _, have := range [][]string{
		{"--limit=0"}, {"--limit=verify=3"}, {"--takes=-1ms"}, {"--takes=often"}, {"x"},
		{"--workers=-1"}, {"--workers=1", "--limit=3"}, {"--queue=3"}, {"--drop-abandoned"},
		{"--unnamed-takes=-1ms"}, {"--unnamed-status=200"}, {"--unnamed-status=600"},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second) // what is accepted would serve for ever
		err := services.Run(ctx, "games", have)
		cancel()
		if err == nil {
			t.Errorf("%v: no error", have)
		}
	}
}
