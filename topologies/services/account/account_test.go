package account_test

import (
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"relapse/topologies/services/account"
	"relapse/topologies/services/limits"
	"relapse/topologies/services/polltest"
)

// start serves an application over a cache; what is left open in the
// configuration is as small as it can be.
func start(t *testing.T, c account.Config) (url string, registry *prometheus.Registry) {
	t.Helper()
	if c.Limits == nil {
		c.Limits = limits.Limits{"all": account.DefaultLimit}
	}
	if c.Cache == nil {
		c.Cache = account.NewCache("127.0.0.1:1", slog.New(slog.DiscardHandler))
	}
	c.ValueSize = 2000
	registry = prometheus.NewRegistry()
	a, err := account.New(c, registry)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(a.Handler())
	t.Cleanup(server.Close)
	return server.URL, registry
}

func call(t *testing.T, method, url string) (status int, body []byte) {
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
	body, err = io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, body
}

// value reads a counter or gauge by its name and labels; absent is an error.
func value(t *testing.T, registry *prometheus.Registry, name string, labels map[string]string) float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
	next:
		for _, m := range family.GetMetric() {
			for _, l := range m.GetLabel() {
				if labels[l.GetName()] != l.GetValue() {
					continue next
				}
			}
			return m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	t.Fatalf("no metric %s%v", name, labels)
	return 0
}

var eventually = polltest.Eventually

func TestCalls(t *testing.T) {
	url, registry := start(t, account.Config{Preloaded: 3})
	for _, c := range []struct {
		name, method, path string
		want               int
	}{
		{"a token known from the start", "GET", "/verify?token=" + account.TokenName(2), 200},
		{"a token beyond them", "GET", "/verify?token=" + account.TokenName(3), 404},
		{"no token", "GET", "/verify", 404},
		{"refresh", "GET", "/refresh?token=" + account.TokenName(0), 204},
		{"refresh of an unknown token", "GET", "/refresh?token=x", 404},
		{"sign out of nothing", "POST", "/logout", 204},
		{"sign out", "POST", "/logout?token=" + account.TokenName(1), 204},
		{"check after signing out", "GET", "/verify?token=" + account.TokenName(1), 404},
		{"sign in by the wrong method", "GET", "/login", 405},
		{"health", "GET", "/health", 200},
		{"a path that is not there", "GET", "/", 404},
	} {
		if have, _ := call(t, c.method, url+c.path); have != c.want {
			t.Errorf("%s: have %d, want %d", c.name, have, c.want)
		}
	}
	if have := value(t, registry, "relapse_handled_total", map[string]string{"op": "verify", "outcome": "unknown_token"}); have != 3 {
		t.Errorf("checks of unknown tokens: have %v, want 3", have)
	}
	if _, body := call(t, "GET", url+"/verify?token="+account.TokenName(0)); len(body) != 2000 || !json.Valid(body) {
		t.Errorf("value: have %d bytes, valid JSON %v; want 2000 of JSON", len(body), json.Valid(body))
	}
}

func TestLoginGivesATokenThatVerifies(t *testing.T) {
	url, _ := start(t, account.Config{})
	_, body := call(t, "POST", url+"/login")
	var reply struct{ Token string }
	if err := json.Unmarshal(body, &reply); err != nil {
		t.Fatalf("%v in %q", err, body)
	}
	if have, _ := call(t, "GET", url+"/verify?token="+reply.Token); have != 200 {
		t.Errorf("have %d, want 200", have)
	}
}

// hold keeps n calls in flight, by their modelled cost, until they are seen
// there; it gives how many were answered with 200 once all are done.
func hold(t *testing.T, n int, url, class string, registry *prometheus.Registry) (answered func() int) {
	t.Helper()
	var wg sync.WaitGroup
	var mu sync.Mutex
	count := 0
	for range n {
		wg.Go(func() {
			response, err := http.Get(url)
			if err != nil {
				t.Error(err)
				return
			}
			response.Body.Close()
			mu.Lock()
			defer mu.Unlock()
			if response.StatusCode == 200 {
				count++
			}
		})
	}
	eventually(t, "the limit is reached", func() bool {
		return value(t, registry, "relapse_in_flight", map[string]string{"class": class}) == float64(n)
	})
	return func() int { wg.Wait(); return count }
}

func TestOverTheLimitIsRefusedAtOnce(t *testing.T) {
	url, registry := start(t, account.Config{
		Preloaded: 1, Limits: limits.Limits{"all": 2},
		Costs: map[string]time.Duration{account.Verify: 500 * time.Millisecond},
	})
	verify := url + "/verify?token=" + account.TokenName(0)
	answered := hold(t, 2, verify, "all", registry)
	began := time.Now()
	if have, _ := call(t, "POST", url+"/login"); have != 503 {
		t.Errorf("login over the limit: have %d, want 503", have)
	}
	if have, _ := call(t, "GET", url+"/health"); have != 200 {
		t.Errorf("health over the limit: have %d, want 200", have)
	}
	if took := time.Since(began); took > 400*time.Millisecond {
		t.Errorf("refusal took %v, want it at once", took)
	}
	if have := answered(); have != 2 {
		t.Errorf("calls within the limit that were answered: have %d, want 2", have)
	}
	if have := value(t, registry, "relapse_shed_total", map[string]string{"op": "login"}); have != 1 {
		t.Errorf("shed logins: have %v, want 1", have)
	}
	if have, _ := call(t, "POST", url+"/login"); have != 200 {
		t.Errorf("login once there is room: have %d, want 200", have)
	}
}

func TestAClassDoesNotCrowdOutAnother(t *testing.T) {
	url, registry := start(t, account.Config{
		Preloaded: 1, Limits: limits.Limits{account.Verify: 2, "other": 1},
		Costs: map[string]time.Duration{account.Verify: 300 * time.Millisecond},
	})
	verify := url + "/verify?token=" + account.TokenName(0)
	answered := hold(t, 2, verify, account.Verify, registry)
	if have, _ := call(t, "GET", verify); have != 503 {
		t.Errorf("third check: have %d, want 503", have)
	}
	if have, _ := call(t, "POST", url+"/login"); have != 200 {
		t.Errorf("login beside full checks: have %d, want 200", have)
	}
	answered()
}

func TestAPlaceComesBackFromACallerWhoLeft(t *testing.T) {
	url, registry := start(t, account.Config{
		Limits: limits.Limits{"all": 1},
		Costs:  map[string]time.Duration{account.Login: time.Minute},
	})
	client := http.Client{Timeout: 50 * time.Millisecond}
	if _, err := client.Post(url+"/login", "", nil); err == nil {
		t.Fatal("the caller did not give up")
	}
	eventually(t, "the place is free again", func() bool {
		return value(t, registry, "relapse_in_flight", map[string]string{"class": "all"}) == 0
	})
	if have := value(t, registry, "relapse_handled_total", map[string]string{"op": "login", "outcome": "abandoned"}); have != 1 {
		t.Errorf("abandoned: have %v, want 1", have)
	}
}
