package front_test

import (
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"relapse/topologies/services/front"
	"relapse/topologies/services/matchmaking"
)

func skewed(t *testing.T, r *rig, name, to string, share float64) {
	t.Helper()
	if err := r.Skew(name, to, share); err != nil {
		t.Fatal(err)
	}
}

// A skew takes its share of all requests, and the others are spread over the other
// nodes evenly.
func TestSkew(t *testing.T) {
	for _, c := range []struct {
		name  string
		share float64
		want  string // of 100 requests over four nodes
	}{
		{"most", 0.7, "70 10 10 10"},
		{"a little more than even", 0.28, "28 24 24 24"},
		{"all", 1, "100 0 0 0"},
		{"nothing", 0, "0 34 33 33"},
	} {
		r := start(t, makesMatches, func(c *front.Config) { c.Seed = 5; c.Routes["party"] = rotated(c.Routes["party"]) })
		skewed(t, r, "s", "mms-1", c.share)
		for range 100 {
			r.ask(t, "party", "eu")
		}
		if have := r.got(); have != c.want && !sameButForOrder(have, c.want) {
			t.Errorf("%s: requests by node: have %s, want %s", c.name, have, c.want)
		}
		r.DropSkew("s")
		r.DropSkew("s")
		before := r.value(t, "relapse_routed_total", "party", "mms-1")
		for range 40 {
			r.ask(t, "party", "eu")
		}
		if have := r.value(t, "relapse_routed_total", "party", "mms-1") - before; have != 10 {
			t.Errorf("%s: to the node after the skew: have %v of 40, want 10", c.name, have)
		}
	}
}

// rotated has the skewed node in another place than the first.
func rotated(peers []*matchmaking.Peer) []*matchmaking.Peer {
	return []*matchmaking.Peer{peers[2], peers[0], peers[3], peers[1]}
}

// sameButForOrder compares counts of which the first is of the skewed node: which
// of the others has one more is decided by where the round began.
func sameButForOrder(have, want string) bool {
	a, b := strings.Fields(have), strings.Fields(want)
	count := map[string]int{}
	for i := range a {
		count[a[i]]++
		count[b[i]]--
	}
	for _, n := range count {
		if n != 0 {
			return false
		}
	}
	return a[0] == b[0]
}

// At no time is the share off by a whole request.
func TestASkewIsExactAllTheTime(t *testing.T) {
	const share = 0.7
	r := start(t, makesMatches, asItIs)
	skewed(t, r, "s", "mms-2", share)
	for n := 1; n <= 60; n++ {
		r.ask(t, "party", "eu")
		have := float64(len(r.nodes[1].requests()))
		if off := math.Abs(have - float64(n)*share); off >= 1 {
			t.Fatalf("after %d requests: have %v at the node, want %v and less than one off", n, have, float64(n)*share)
		}
	}
}

// A skew is of all modes whose route holds the node, each by itself, and of no
// other.
func TestASkewIsOfAllRoutesOfItsNode(t *testing.T) {
	r := start(t, makesMatches, asItIs)
	skewed(t, r, "s", "mms-4", 0.8)
	for range 30 {
		r.ask(t, "party", "eu")
		r.ask(t, "main", "eu")
	}
	for _, c := range []struct {
		mode, node string
		want       float64
	}{
		{"party", "mms-1", 2}, {"party", "mms-2", 2}, {"party", "mms-3", 2}, {"party", "mms-4", 24},
		{"main", "mms-3", 6}, {"main", "mms-4", 24},
	} {
		if have := r.value(t, "relapse_routed_total", c.mode, c.node); have != c.want {
			t.Errorf("routed, %s to %s: have %v, want %v", c.mode, c.node, have, c.want)
		}
	}
	r.DropSkew("s")
	skewed(t, r, "s", "mms-1", 0.8)
	before := r.value(t, "relapse_routed_total", "main", "mms-3")
	for range 10 {
		r.ask(t, "main", "eu")
	}
	if have := r.value(t, "relapse_routed_total", "main", "mms-3") - before; have != 5 {
		t.Errorf("of a mode that does not go to the node: have %v of 10, want 5", have)
	}
}

func TestSkewsThatAreRefused(t *testing.T) {
	r := start(t, makesMatches, func(c *front.Config) { c.Routes["alone"] = c.Routes["party"][:1] })
	skewed(t, r, "first", "mms-4", 0.5)
	for _, c := range []struct {
		name, skew, to string
		share          float64
		want           error // nil for any
	}{
		{"an unknown node", "s", "mms-5", 0.5, front.ErrUnknownNode},
		{"no node", "s", "", 0.5, front.ErrUnknownNode},
		{"a second one on the same route", "s", "mms-2", 0.5, front.ErrSkewed},
		{"the same one under another name", "s", "mms-4", 0.5, front.ErrSkewed},
		{"a route of one node", "s", "mms-1", 0.5, front.ErrAlone},
		{"more than all", "first", "mms-4", 1.1, nil},
		{"less than nothing", "first", "mms-4", -0.1, nil},
		{"a share that is no number", "first", "mms-4", math.NaN(), nil},
	} {
		if err := r.Skew(c.skew, c.to, c.share); err == nil || c.want != nil && !errors.Is(err, c.want) {
			t.Errorf("%s: have %v, want an error that is %v", c.name, err, c.want)
		}
		if have := r.State().Skews; len(have) != 1 || have["first"] != (front.SkewState{To: "mms-4", Share: 0.5}) {
			t.Errorf("%s: skews afterwards: have %+v, want the first one alone", c.name, have)
		}
	}
}

// ordering gives orders to a front.
func ordering(t *testing.T, r *rig) func(method, path, body string) (int, string) {
	t.Helper()
	server := httptest.NewServer(r.Control())
	t.Cleanup(server.Close)
	return func(method, path, body string) (int, string) {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), method, server.URL+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		var said json.RawMessage
		if response.StatusCode == http.StatusOK {
			if err := json.NewDecoder(response.Body).Decode(&said); err != nil {
				t.Fatal(err)
			}
		}
		return response.StatusCode, string(said)
	}
}

func TestOrders(t *testing.T) {
	r := start(t, makesMatches, asItIs)
	order := ordering(t, r)
	for _, c := range []struct {
		name, method, path, body string
		status                   int
		to                       string // of skew s afterwards
		share                    float64
	}{
		{"none", "DELETE", "/skews/s", ``, 204, "", 0},
		{"a skew", "PUT", "/skews/s", `{"to": "mms-1", "share": 0.7}`, 204, "mms-1", 0.7},
		{"another share in its place", "PUT", "/skews/s", `{"to": "mms-1", "share": 0.5}`, 204, "mms-1", 0.5},
		{"another node in its place", "PUT", "/skews/s", `{"to": "mms-4", "share": 0.5}`, 204, "mms-4", 0.5},
		{"a second one on the same route", "PUT", "/skews/more", `{"to": "mms-3", "share": 0.7}`, 400, "mms-4", 0.5},
		{"no share", "PUT", "/skews/s", `{"to": "mms-1"}`, 400, "mms-4", 0.5},
		{"no node", "PUT", "/skews/s", `{"share": 0.7}`, 400, "mms-4", 0.5},
		{"a field that means nothing", "PUT", "/skews/s", `{"to": "mms-1", "share": 0.7, "for": "5s"}`, 400, "mms-4", 0.5},
		{"its end", "DELETE", "/skews/s", ``, 204, "", 0},
		{"its end again", "DELETE", "/skews/s", ``, 204, "", 0},
	} {
		if status, _ := order(c.method, c.path, c.body); status != c.status {
			t.Errorf("%s: have status %d, want %d", c.name, status, c.status)
		}
		var state front.State
		_, said := order("GET", "/routes", "")
		if err := json.Unmarshal([]byte(said), &state); err != nil {
			t.Fatalf("%s: %v in %q", c.name, err, said)
		}
		if have := state.Skews["s"]; have.To != c.to || have.Share != c.share {
			t.Errorf("%s: have skew %+v, want %v to %q", c.name, have, c.share, c.to)
		}
		if len(state.Nodes) != 4 || state.Nodes["mms-1"].Even != 0.25 || state.Nodes["mms-3"].Even != 0.5 {
			t.Errorf("%s: have nodes %+v, want four, of which mms-1 has a quarter and mms-3 half of one route", c.name, state.Nodes)
		}
	}
}

func TestRoutesAreMeasured(t *testing.T) {
	r := start(t, makesMatches, asItIs)
	skewed(t, r, "s", "mms-2", 0.7)
	ticks := time.NewTicker(4 * time.Millisecond)
	defer ticks.Stop()
	near := func(have, want float64) bool { return have > 0.9*want && have < 1.1*want }
	eventually(t, "seven of ten requests are measured at the node", func() bool {
		<-ticks.C
		r.ask(t, "party", "eu")
		s := r.State().Nodes
		return s["mms-2"].Of >= 40 && near(s["mms-2"].Sent, 0.7*s["mms-2"].Of) && near(s["mms-1"].Sent, 0.1*s["mms-1"].Of)
	})
	eventually(t, "none are measured", func() bool {
		s := r.State().Nodes["mms-2"]
		return s.Sent == 0 && s.Of == 0
	})
}
