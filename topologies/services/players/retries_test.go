package players_test

import (
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"relapse/topologies/services/players"
	"relapse/topologies/services/retry"
)

func attempted(t *testing.T, g *players.Generator, op, outcome string) float64 {
	t.Helper()
	return value(t, g, "relapse_attempts_total", map[string]string{"op": op, "outcome": outcome})
}

// after sets a rate until so many requests were offered, then waits until all of
// them have ended.
func after(t *testing.T, g *players.Generator, op string, rate, requests float64) {
	t.Helper()
	setRates(t, g, map[string]float64{op: rate})
	eventually(t, "requests are made", func() bool { return offered(t, g, op) >= requests })
	setRates(t, g, nil)
	eventually(t, "all of them end", func() bool {
		sum := 0.0
		for _, outcome := range []string{"ok", "refused", "error", "timeout", "unsent"} {
			sum += ended(t, g, op, outcome)
		}
		return sum == offered(t, g, op)
	})
}

func TestARequestIsAttemptedOnceOrAsThePolicySays(t *testing.T) {
	for _, c := range []struct {
		name    string
		retries *retry.Config
		status  int
		want    float64 // attempts of each request
	}{
		{"no retries", nil, 503, 1},
		{"none by their count", &retry.Config{}, 503, 1},
		{"four, for nothing", &retry.Config{Count: 4}, 503, 5},
		{"four that are not needed", &retry.Config{Count: 4}, 200, 1},
		{"a permanent error", &retry.Config{Count: 4}, 404, 1},
		{"a permanent error all the same", &retry.Config{Count: 4, Permanent: retry.Retry}, 404, 5},
	} {
		t.Run(c.name, func(t *testing.T) {
			var reached atomic.Int64
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				reached.Add(1)
				w.WriteHeader(c.status)
			}))
			defer server.Close()
			conf := config(server.URL)
			conf.Retries = c.retries
			g := run(t, conf)
			after(t, g, "op", 200, 20)
			requests, sum := offered(t, g, "op"), 0.0
			for _, outcome := range []string{"ok", "refused", "error", "timeout"} {
				sum += attempted(t, g, "op", outcome)
			}
			if sum != c.want*requests || float64(reached.Load()) != sum {
				t.Errorf("have %v attempts of %v requests, of which %d reached the server; want %v of each", sum, requests, reached.Load(), c.want)
			}
		})
	}
}

func TestTheLastAttemptDecides(t *testing.T) {
	var asked atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if asked.Add(1)%3 != 0 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	defer server.Close()
	c := config(server.URL)
	c.Retries = &retry.Config{Count: 2}
	g := run(t, c)
	// Far enough apart for requests not to meet: each has three attempts.
	after(t, g, "op", 50, 10)
	requests := offered(t, g, "op")
	if have := ended(t, g, "op", "ok"); have != requests {
		t.Errorf("requests that ended well: have %v of %v, want all", have, requests)
	}
	if have := attempted(t, g, "op", "refused"); have != 2*requests {
		t.Errorf("attempts that were refused: have %v of %v requests, want two of each", have, requests)
	}
	if have := attempted(t, g, "op", "ok"); have != requests {
		t.Errorf("attempts that succeeded: have %v of %v requests, want one of each", have, requests)
	}
}

// A request's time counts from when it was meant to be sent to the end of its
// last attempt, the waits between them included.
func TestLatencyCountsAllAttempts(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(503) }))
	defer server.Close()
	c := config(server.URL)
	c.Retries = &retry.Config{Count: 2, Backoff: &retry.Backoff{Base: 50 * time.Millisecond, Max: time.Second, Jitter: retry.None}}
	g := run(t, c)
	after(t, g, "op", 100, 10)
	took := metric(t, g, "relapse_request_duration_seconds", map[string]string{"op": "op", "outcome": "refused"}).GetHistogram()
	mean := took.GetSampleSum() / float64(took.GetSampleCount())
	if mean < 0.15 || mean > 0.3 {
		t.Errorf("mean time: have %.3f s, want the 50 and 100 ms of two waits and a little", mean)
	}
}

// Each attempt has the whole timeout.
func TestAnAttemptThatTimesOutIsFollowedByAnother(t *testing.T) {
	var asked atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if asked.Add(1) == 1 {
			<-r.Context().Done()
		}
	}))
	defer server.Close()
	c := config(server.URL)
	c.Timeout, c.Retries = 200*time.Millisecond, &retry.Config{Count: 1}
	g := run(t, c)
	after(t, g, "op", 20, 1)
	if have := attempted(t, g, "op", "timeout"); have != 1 {
		t.Errorf("attempts that timed out: have %v, want 1", have)
	}
	if have, want := ended(t, g, "op", "ok"), offered(t, g, "op"); have != want {
		t.Errorf("requests that ended well: have %v of %v", have, want)
	}
}

// What is waiting for its next attempt when the generator stops is not sent.
func TestStoppingEndsRetries(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(503) }))
	defer server.Close()
	c := config(server.URL)
	c.Retries = &retry.Config{Count: 1, Backoff: &retry.Backoff{Base: time.Minute, Max: time.Minute, Jitter: retry.None}}
	began := time.Now()
	t.Run("run", func(t *testing.T) {
		g := run(t, c)
		setRates(t, g, map[string]float64{"op": 100})
		eventually(t, "an attempt is refused", func() bool { return attempted(t, g, "op", "refused") > 0 })
	})
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("stopping took %v, want it at once", took)
	}
}

func countingServer(t *testing.T, status int) (url string, count *atomic.Int64) {
	t.Helper()
	count = new(atomic.Int64)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		count.Add(1)
		w.WriteHeader(status)
	}))
	t.Cleanup(server.Close)
	return server.URL, count
}

func TestTargetsTakeTurns(t *testing.T) {
	a, countA := countingServer(t, 200)
	b, countB := countingServer(t, 200)
	c := config("")
	c.Targets = []string{a, b}
	c.Operations["other"] = players.Operation{Method: "GET", Path: "/"}
	g := run(t, c)
	// Two operations of one rate, each of which must reach both.
	setRates(t, g, map[string]float64{"op": 100, "other": 100})
	eventually(t, "100 requests end", func() bool { return ended(t, g, "op", "ok")+ended(t, g, "other", "ok") >= 100 })
	setRates(t, g, nil)
	eventually(t, "all end", func() bool {
		return ended(t, g, "op", "ok") == offered(t, g, "op") && ended(t, g, "other", "ok") == offered(t, g, "other")
	})
	if d := countA.Load() - countB.Load(); d < -2 || d > 2 {
		t.Errorf("requests: have %d and %d, want as many at each", countA.Load(), countB.Load())
	}
}

func TestATargetThatRefusesIsPassedOverByTheRetry(t *testing.T) {
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	good, _ := countingServer(t, 200)
	for _, tc := range []struct {
		name    string
		retries *retry.Config
		want    float64 // share of the requests that end well
	}{
		{"not within an attempt", nil, 0.5},
		{"on the retry", &retry.Config{Count: 1}, 1},
	} {
		c := config("")
		c.Targets, c.Retries = []string{"http://" + closed.Addr().String(), good}, tc.retries
		g := run(t, c)
		after(t, g, "op", 200, 40)
		share := ended(t, g, "op", "ok") / offered(t, g, "op")
		if share < tc.want-0.05 || share > tc.want+0.05 {
			t.Errorf("%s: %.2f of the requests ended well, want %.1f", tc.name, share, tc.want)
		}
	}
}

// A retry asks for what the request asked for, at another target as well.
func TestARetryKeepsItsToken(t *testing.T) {
	tokens := make(chan string, 1000)
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		tokens <- r.Host + " " + r.URL.Query().Get("token")
		w.WriteHeader(503)
	})
	a, b := httptest.NewServer(handler), httptest.NewServer(handler)
	defer a.Close()
	defer b.Close()
	c := config("")
	c.Targets, c.Retries = []string{a.URL, b.URL}, &retry.Config{Count: 1}
	g := run(t, c)
	after(t, g, "op", 20, 5)
	var first, second []string
	for len(tokens) > 0 {
		host, token, _ := strings.Cut(<-tokens, " ")
		if "http://"+host == a.URL {
			first = append(first, token)
		} else {
			second = append(second, token)
		}
	}
	slices.Sort(first)
	slices.Sort(second)
	if len(first) < 5 || !slices.Equal(first, second) {
		t.Errorf("tokens asked for: %v at one target, %v at the other; want the same", first, second)
	}
}
