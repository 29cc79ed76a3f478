package players_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"relapse/topologies/services/players"
	"relapse/topologies/services/retry"
)

// spoilable loads a server that refuses what is malformed.
func spoilable(t *testing.T, change func(*players.Config)) *players.Generator {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/bad" {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	t.Cleanup(server.Close)
	c := config(server.URL)
	c.Operations["op"] = players.Operation{Method: "GET", Path: "/", Malformed: &players.Call{Method: "POST", Path: "/bad"}}
	c.Operations["plain"] = players.Operation{Method: "GET", Path: "/"}
	change(&c)
	return run(t, c)
}

func TestAShareIsMalformed(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		shares map[string]float64
		want   float64
	}{
		{"none", nil, 0},
		{"none that is set", map[string]float64{"a": 0}, 0},
		{"a quarter", map[string]float64{"a": 0.25}, 0.25},
		{"a quarter and a half", map[string]float64{"a": 0.25, "b": 0.5}, 0.75},
		{"all", map[string]float64{"a": 1}, 1},
		{"more than all", map[string]float64{"a": 0.8, "b": 0.8}, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			g := spoilable(t, func(*players.Config) {})
			for name, share := range tc.shares {
				if err := g.SetMalformed(name, "op", share); err != nil {
					t.Fatal(err)
				}
			}
			setRates(t, g, map[string]float64{"op": 400, "plain": 100})
			sum := func() float64 { return offered(t, g, "op") + offered(t, g, "op-malformed") }
			eventually(t, "200 requests are made", func() bool { return sum() >= 200 })
			setRates(t, g, nil)
			eventually(t, "all end", func() bool {
				return ended(t, g, "op", "ok") == offered(t, g, "op") && ended(t, g, "op-malformed", "refused") == offered(t, g, "op-malformed") &&
					ended(t, g, "plain", "ok") == offered(t, g, "plain")
			})
			// They are spread evenly: no more than one is missing, or too many.
			if have, want := offered(t, g, "op-malformed"), tc.want*sum(); have < want-1 || have > want+1 {
				t.Errorf("malformed: have %v of %v, want %v", have, sum(), want)
			}
		})
	}
}

func TestMalformedIsMeasured(t *testing.T) {
	g := spoilable(t, func(*players.Config) {})
	setRates(t, g, map[string]float64{"op": 200})
	near := func(want float64) func() bool {
		return func() bool {
			rate := g.Rates()["op"]
			return rate.Arrived > 180 && rate.Arrived < 220 && rate.Malformed.Arrived > want-0.05 && rate.Malformed.Arrived < want+0.05
		}
	}
	eventually(t, "200 a second and none malformed are measured", near(0))
	if err := g.SetMalformed("a", "op", 0.5); err != nil {
		t.Fatal(err)
	}
	eventually(t, "200 a second and half of them malformed are measured", near(0.5))
	if have := g.Rates()["op"].Malformed.Asked; have != 0.5 {
		t.Errorf("asked: have %v, want 0.5", have)
	}
	g.DropMalformed("a")
	g.DropMalformed("a")
	eventually(t, "none malformed are measured again", near(0))
	if rate, there := g.Rates()["op-malformed"]; there || g.Rates()["plain"].Malformed != nil {
		t.Errorf("rates: have %v of op-malformed and %v of plain, want neither", rate, g.Rates()["plain"].Malformed)
	}
}

// A malformed request is retried and counted like any other, under its own
// name; what it spends is its operation's, since a client does not know.
func TestMalformedRequestsAreRetried(t *testing.T) {
	g := spoilable(t, func(c *players.Config) { c.Retries = &retry.Config{Count: 4} })
	if err := g.SetMalformed("a", "op", 0.5); err != nil {
		t.Fatal(err)
	}
	setRates(t, g, map[string]float64{"op": 200})
	eventually(t, "20 malformed requests end", func() bool { return ended(t, g, "op-malformed", "refused") >= 20 })
	setRates(t, g, nil)
	eventually(t, "all end", func() bool { return ended(t, g, "op-malformed", "refused") == offered(t, g, "op-malformed") })
	if have, want := attempted(t, g, "op-malformed", "refused"), 5*offered(t, g, "op-malformed"); have != want {
		t.Errorf("attempts of malformed requests: have %v, want %v", have, want)
	}
	if have, want := attempted(t, g, "op", "ok"), offered(t, g, "op"); have != want {
		t.Errorf("attempts of good requests: have %v, want %v", have, want)
	}
}

func TestMalformedRequestsSpendWhatTheirOperationHas(t *testing.T) {
	var broken atomic.Bool
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/bad" || broken.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	defer server.Close()
	c := config(server.URL)
	c.Operations["op"] = players.Operation{Method: "GET", Path: "/", Malformed: &players.Call{Method: "GET", Path: "/bad"}}
	c.Retries = &retry.Config{Count: 4, Tokens: &retry.Tokens{Adds: 0.01, Holds: 10, Per: retry.Class}}
	g := run(t, c)
	if err := g.SetMalformed("a", "op", 1); err != nil {
		t.Fatal(err)
	}
	setRates(t, g, map[string]float64{"op": 200})
	eventually(t, "50 malformed requests end", func() bool { return ended(t, g, "op-malformed", "refused") >= 50 })
	broken.Store(true)
	g.DropMalformed("a")
	eventually(t, "20 good requests fail", func() bool { return ended(t, g, "op", "refused") >= 20 })
	setRates(t, g, nil)
	eventually(t, "all end", func() bool {
		return ended(t, g, "op-malformed", "refused") == offered(t, g, "op-malformed") && ended(t, g, "op", "refused") == offered(t, g, "op")
	})
	if have := attempted(t, g, "op-malformed", "refused") - offered(t, g, "op-malformed"); have != 10 {
		t.Errorf("retries of malformed requests: have %v, want the 10 of a full bucket", have)
	}
	if have := attempted(t, g, "op", "refused") - offered(t, g, "op"); have != 0 {
		t.Errorf("retries of good requests: have %v, want none, as the bucket is empty", have)
	}
}

func TestSetMalformedRefuses(t *testing.T) {
	g := spoilable(t, func(*players.Config) {})
	for _, tc := range []struct {
		name, operation string
		share           float64
		want            error // nil: any
	}{
		{"an unknown operation", "x", 0.5, players.ErrUnknownOperation},
		{"an operation that is never malformed", "plain", 0.5, players.ErrNeverMalformed},
		{"less than none", "op", -0.1, nil},
		{"more than all", "op", 1.1, nil},
	} {
		if err := g.SetMalformed("a", tc.operation, tc.share); err == nil || tc.want != nil && !errors.Is(err, tc.want) {
			t.Errorf("%s: have %v, want an error (%v)", tc.name, err, tc.want)
		}
	}
	if have := g.Rates()["op"].Malformed.Asked; have != 0 {
		t.Errorf("asked after refusals: have %v, want 0", have)
	}
}
