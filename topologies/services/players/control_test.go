package players_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"relapse/topologies/services/players"
)

func controlled(t *testing.T) (g *players.Generator, order func(method, path, body string) (int, string)) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(server.Close)
	c := config(server.URL)
	c.Operations["other"] = players.Operation{Method: "POST", Path: "/"}
	c.Operations["spoilt"] = players.Operation{Method: "GET", Path: "/", Malformed: &players.Call{Method: "GET", Path: "/bad"}}
	c.Populations.Sessions = &players.Sessions{Count: 2, Every: time.Minute, Call: players.Call{Method: "GET", Path: "/"}}
	g = run(t, c)
	control := httptest.NewServer(g.Control())
	t.Cleanup(control.Close)
	return g, ordering(t, control.URL)
}

// ordering gives orders to a generator.
func ordering(t *testing.T, url string) func(method, path, body string) (int, string) {
	return func(method, path, body string) (int, string) {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), method, url+path, strings.NewReader(body))
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
}

func TestOrders(t *testing.T) {
	g, order := controlled(t)
	for _, c := range []struct {
		name, method, path, body string
		status                   int
		op, other                float64 // offered afterwards
	}{
		{"rates", "PUT", "/rates", `{"op": 20, "other": 5}`, 204, 20, 5},
		{"a scale", "PUT", "/scales/surge", `{"operation": "op", "factor": 3}`, 204, 60, 5},
		{"a second one", "PUT", "/scales/more", `{"operation": "op", "factor": 0.5}`, 204, 30, 5},
		{"a scale in another's place", "PUT", "/scales/surge", `{"operation": "op", "factor": 4}`, 204, 40, 5},
		{"new rates keep scales", "PUT", "/rates", `{"op": 10}`, 204, 20, 0},
		{"an unknown operation changes nothing", "PUT", "/rates", `{"op": 99, "x": 1}`, 400, 20, 0},
		{"a negative rate", "PUT", "/rates", `{"op": -1}`, 400, 20, 0},
		{"a rate beyond reason", "PUT", "/rates", `{"op": 1e9}`, 400, 20, 0},
		{"no rates at all", "PUT", "/rates", ``, 400, 20, 0},
		{"a scale of an unknown operation", "PUT", "/scales/s", `{"operation": "x", "factor": 2}`, 400, 20, 0},
		{"a scale without a factor", "PUT", "/scales/s", `{"operation": "op"}`, 400, 20, 0},
		{"a field that means nothing", "PUT", "/scales/s", `{"operation": "op", "factor": 2, "for": "1s"}`, 400, 20, 0},
		{"a scale taken away", "DELETE", "/scales/surge", ``, 204, 5, 0},
		{"a scale taken away again", "DELETE", "/scales/surge", ``, 204, 5, 0},
		{"nothing", "PUT", "/rates", `{}`, 204, 0, 0},
	} {
		if status, said := order(c.method, c.path, c.body); status != c.status {
			t.Errorf("%s: have status %d (%s), want %d", c.name, status, said, c.status)
		}
		rates := g.Rates()
		if rates["op"].Offered != c.op || rates["other"].Offered != c.other {
			t.Errorf("%s: have %v and %v offered, want %v and %v", c.name, rates["op"].Offered, rates["other"].Offered, c.op, c.other)
		}
	}
}

func TestOrdersForMalformedRequestsAndWaves(t *testing.T) {
	g, order := controlled(t)
	for _, c := range []struct {
		name, method, path, body string
		status                   int
		asked                    float64 // afterwards
		waves                    int
	}{
		{"a share", "PUT", "/malformed/bug", `{"operation": "spoilt", "share": 0.5}`, 204, 0.5, 0},
		{"another in its place", "PUT", "/malformed/bug", `{"operation": "spoilt", "share": 0.25}`, 204, 0.25, 0},
		{"a second one", "PUT", "/malformed/more", `{"operation": "spoilt", "share": 0.5}`, 204, 0.75, 0},
		{"new rates keep shares", "PUT", "/rates", `{"spoilt": 10}`, 204, 0.75, 0},
		{"no share", "PUT", "/malformed/bug", `{"operation": "spoilt"}`, 400, 0.75, 0},
		{"more than all", "PUT", "/malformed/bug", `{"operation": "spoilt", "share": 2}`, 400, 0.75, 0},
		{"an operation that is never malformed", "PUT", "/malformed/bug", `{"operation": "op", "share": 0.5}`, 400, 0.75, 0},
		{"a share taken away", "DELETE", "/malformed/bug", ``, 204, 0.5, 0},
		{"a share taken away again", "DELETE", "/malformed/bug", ``, 204, 0.5, 0},
		{"waves", "PUT", "/waves/w", `{"every_seconds": 60}`, 204, 0.5, 1},
		{"waves in their place", "PUT", "/waves/w", `{"every_seconds": 30}`, 204, 0.5, 1},
		{"waves without a period", "PUT", "/waves/x", `{}`, 400, 0.5, 1},
		{"a field that means nothing", "PUT", "/waves/x", `{"every_seconds": 1, "for": 5}`, 400, 0.5, 1},
		{"waves ended", "DELETE", "/waves/w", ``, 204, 0.5, 0},
		{"waves ended again", "DELETE", "/waves/w", ``, 204, 0.5, 0},
	} {
		if status, said := order(c.method, c.path, c.body); status != c.status {
			t.Errorf("%s: have status %d (%s), want %d", c.name, status, said, c.status)
		}
		if have := g.Rates()["spoilt"].Malformed.Asked; have != c.asked {
			t.Errorf("%s: have %v asked to be malformed, want %v", c.name, have, c.asked)
		}
		var state players.SessionState
		_, said := order("GET", "/sessions", "")
		if err := json.Unmarshal([]byte(said), &state); err != nil {
			t.Fatalf("%s: %v in %q", c.name, err, said)
		}
		if state.Count != 2 || len(state.Waves) != c.waves {
			t.Errorf("%s: have %d sessions and waves %v, want 2 and %d", c.name, state.Count, state.Waves, c.waves)
		}
	}
}

func TestOrdersForRedirects(t *testing.T) {
	a, b := newCounter(t, nil), newCounter(t, nil)
	c := config(a.URL)
	c.Spares = []string{strings.Replace(b.URL, "127.0.0.1", "localhost", 1)}
	g := run(t, c)
	control := httptest.NewServer(g.Control())
	t.Cleanup(control.Close)
	order := ordering(t, control.URL)
	from, to := host(a.URL), strings.Replace(host(b.URL), "127.0.0.1", "localhost", 1)
	for _, c := range []struct {
		name, method, path, body string
		status                   int
		redirects                string // to where, afterwards
	}{
		{"none", "DELETE", "/redirects/r", ``, 204, ""},
		{"an unknown target", "PUT", "/redirects/r", `{"from": "127.0.0.1", "to": "x"}`, 400, ""},
		{"no target", "PUT", "/redirects/r", `{"from": "127.0.0.1"}`, 400, ""},
		{"a field that means nothing", "PUT", "/redirects/r", `{"from": "127.0.0.1", "to": "localhost", "for": 5}`, 400, ""},
		{"hosts", "PUT", "/redirects/r", `{"from": "127.0.0.1", "to": "localhost"}`, 204, to},
		{"the same with ports", "PUT", "/redirects/r", `{"from": "` + from + `", "to": "` + to + `"}`, 204, to},
		{"new rates keep it", "PUT", "/rates", `{"op": 10}`, 204, to},
		{"a second one of the same target", "PUT", "/redirects/s", `{"from": "127.0.0.1", "to": "localhost"}`, 400, to},
		{"the way back", "PUT", "/redirects/s", `{"from": "localhost", "to": "127.0.0.1"}`, 400, to},
		{"another way in its place", "PUT", "/redirects/r", `{"from": "localhost", "to": "127.0.0.1"}`, 204, from},
	} {
		if status, said := order(c.method, c.path, c.body); status != c.status {
			t.Errorf("%s: have status %d (%s), want %d", c.name, status, said, c.status)
		}
		routing := asked(t, order)
		if len(routing.Targets) != 2 || routing.Redirects["r"].To != c.redirects {
			t.Errorf("%s: have %+v, want two targets and a redirect to %q", c.name, routing, c.redirects)
		}
	}
	for range 2 {
		if status, said := order("DELETE", "/redirects/r", ""); status != 204 {
			t.Errorf("its end: have status %d (%s), want 204", status, said)
		}
	}
	eventually(t, "the redirect is forgotten", func() bool { return len(asked(t, order).Redirects) == 0 })
}

func asked(t *testing.T, order func(method, path, body string) (int, string)) (routing players.Routing) {
	t.Helper()
	_, said := order("GET", "/targets", "")
	if err := json.Unmarshal([]byte(said), &routing); err != nil {
		t.Fatalf("%v in %q", err, said)
	}
	return routing
}

func TestARefusalNamesWhatIsKnown(t *testing.T) {
	_, order := controlled(t)
	if _, said := order("PUT", "/rates", `{"x": 1}`); !strings.Contains(said, `"op" "other" "spoilt"`) {
		t.Errorf("have %q, want the known operations in it", said)
	}
}

func TestArrivalsAreMeasured(t *testing.T) {
	_, order := controlled(t)
	order("PUT", "/rates", `{"op": 100}`)
	arrived := func() (rate players.Rate) {
		_, said := order("GET", "/rates", "")
		var rates map[string]players.Rate
		if err := json.Unmarshal([]byte(said), &rates); err != nil {
			t.Fatalf("%v in %q", err, said)
		}
		return rates["op"]
	}
	eventually(t, "100 arrivals a second are measured", func() bool {
		r := arrived()
		return r.Arrived >= 90 && r.Arrived <= 110 && r.Base == 100
	})
	order("PUT", "/rates", `{}`)
	eventually(t, "no arrivals are measured", func() bool { return arrived().Arrived == 0 })
}
