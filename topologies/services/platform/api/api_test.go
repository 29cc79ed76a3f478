package api_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"relapse/topologies/services/http1"
	"relapse/topologies/services/matchmaking"
	"relapse/topologies/services/platform/api"
)

func TestPlayersAreSpreadEvenly(t *testing.T) {
	const players = 20_000
	tables, partitions := make([]int, api.Tables), make([]int, api.Partitions)
	both := map[[2]int]int{}
	for p := range api.Player(players) {
		tables[p.Table()]++
		partitions[p.Partition()]++
		both[[2]int{p.Table(), p.Partition() % 4}]++
	}
	// Of a Poisson distribution, which is what a good hash gives, five deviations
	// from the mean are never seen.
	for _, c := range []struct {
		what        string
		have        []int
		least, most int
	}{{"table", tables, 224, 401}, {"partition", partitions, 34, 123}} {
		for n, have := range c.have {
			if have < c.least || have > c.most {
				t.Errorf("%s %d: have %d of %d players, want %d to %d", c.what, n, have, players, c.least, c.most)
			}
		}
	}
	if have, want := len(both), 4*api.Tables; have != want {
		t.Errorf("have %d pairs of a table and a quarter of the partitions, want all %d", have, want)
	}
}

func TestPlayersAsText(t *testing.T) {
	for _, c := range []struct {
		have string
		want api.Player // below zero: refused
	}{{"0", 0}, {"1234567", 1234567}, {"-1", -1}, {"", -1}, {"x", -1}, {"1e3", -1}, {"99999999999999999999", -1}} {
		p, err := api.ParsePlayer(c.have)
		if (err != nil) != (c.want < 0) || err == nil && p != c.want {
			t.Errorf("%q: have %d, %v; want %d", c.have, p, err, c.want)
		}
		if err == nil && p.String() != c.have {
			t.Errorf("%q: have %q back", c.have, p.String())
		}
	}
	if have := api.SeenKey(17); have != "seen:17" {
		t.Errorf("have %q, want seen:17", have)
	}
}

func TestSettingsForOnePlayerLeaveTheOthersAlone(t *testing.T) {
	shared := api.Settings{Version: 3, Settings: map[string]string{"cohort": "1"}}
	a, b := shared.For(1), shared.For(2)
	for _, c := range []struct {
		name string
		have api.Settings
		want string
	}{{"the first player's", a, "1"}, {"the second player's", b, "2"}, {"what they share", shared, ""}} {
		if have := c.have.Settings[api.SettingPlayer]; have != c.want || c.have.Version != 3 || c.have.Settings["cohort"] != "1" {
			t.Errorf("%s: have %+v, want player %q", c.name, c.have, c.want)
		}
	}
}

func newClient(t *testing.T) *api.Client {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("POST /parties", func(w http.ResponseWriter, r *http.Request) {
		var asked api.PartyRequest
		if matchmaking.Read(w, r, &asked) {
			matchmaking.Answer(w, http.StatusOK, api.Party{Party: asked.Op})
		}
	})
	mux.HandleFunc("DELETE /parties/{id}", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	mux.HandleFunc("GET /long", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, strings.Repeat(" ", 2<<20))
	})
	mux.HandleFunc("GET /text", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "no JSON") })
	mux.HandleFunc("GET /taken", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "taken", http.StatusConflict) })
	mux.HandleFunc("GET /full", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "full", http.StatusServiceUnavailable) })
	mux.HandleFunc("GET /never", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	c, err := api.NewClient(strings.TrimPrefix(server.URL, "http://"), "test")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func TestCall(t *testing.T) {
	c := newClient(t)
	for _, tc := range []struct {
		name, method, path string
		body               any
		within             time.Duration
		want               http1.Outcome
		status             int // 0 for success, and for an error that is no answer
		is                 error
	}{
		{"a body", "POST", "/parties", api.PartyRequest{Op: "o-1"}, 5 * time.Second, http1.OK, 0, nil},
		{"no body", "DELETE", "/parties/p-1", nil, 5 * time.Second, http1.OK, 0, nil},
		{"a field that nobody knows", "POST", "/parties", map[string]int{"size": 1}, 5 * time.Second, http1.Failed, 400, nil},
		{"a conflict", "GET", "/taken", nil, 5 * time.Second, http1.Failed, 409, nil},
		{"a refusal", "GET", "/full", nil, 5 * time.Second, http1.Refused, 503, nil},
		{"no path", "GET", "/nowhere", nil, 5 * time.Second, http1.Failed, 404, nil},
		{"no answer", "GET", "/never", nil, 50 * time.Millisecond, http1.TimedOut, 0, nil},
		{"a long answer", "GET", "/long", nil, 5 * time.Second, http1.Failed, 0, api.ErrTooLong},
		{"no JSON", "GET", "/text", nil, 5 * time.Second, http1.Failed, 0, nil},
		{"a body that is no JSON", "POST", "/parties", func() {}, 5 * time.Second, http1.Failed, 0, nil},
	} {
		var said any
		into := any(&said)
		if tc.method == "DELETE" {
			into = nil // there is nothing to read
		}
		err := c.Call(tc.method, tc.path, tc.body, into, time.Now().Add(tc.within))
		if have := api.OutcomeOf(err); have != tc.want {
			t.Errorf("%s: have %s (%v), want %s", tc.name, have, err, tc.want)
		}
		if have := api.StatusOf(err); have != tc.status {
			t.Errorf("%s: have status %d (%v), want %d", tc.name, have, err, tc.status)
		}
		if tc.is != nil && !errors.Is(err, tc.is) {
			t.Errorf("%s: have %v, want %v", tc.name, err, tc.is)
		}
	}
}

func TestClientsMustHaveAPort(t *testing.T) {
	for _, have := range []string{"", "party"} {
		if _, err := api.NewClient(have, "test"); err == nil {
			t.Errorf("%q: no error", have)
		}
	}
}
