package topologies_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"relapse/topologies"
)

func TestPlayers(t *testing.T) {
	var seen []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		seen = append(seen, strings.TrimSpace(r.Method+" "+r.URL.EscapedPath()+" "+string(body)))
		switch {
		case r.URL.Path == "/scales/refused":
			http.Error(w, "no operation \"x\"", http.StatusBadRequest)
		case r.Method == http.MethodGet:
			_, _ = io.WriteString(w, `{"verify": {"base": 750, "arrived_per_second": 748.5}}`)
		}
	}))
	defer server.Close()
	players := topologies.NewPlayers("players", strings.TrimPrefix(server.URL, "http://"))
	ctx := t.Context()
	if err := players.SetRates(ctx, map[string]float64{"verify": 750, "login": 40}); err != nil {
		t.Error(err)
	}
	if err := players.Scale(ctx, "surge/1", "verify", 12.5); err != nil {
		t.Error(err)
	}
	if err := players.Unscale(ctx, "surge/1"); err != nil {
		t.Error(err)
	}
	if rate, err := players.Arrivals(ctx, "verify"); err != nil || rate != 748.5 {
		t.Errorf("arrivals %g, %v", rate, err)
	}
	if _, err := players.Arrivals(ctx, "dance"); err == nil || !strings.Contains(err.Error(), "dance") {
		t.Errorf("arrivals of no operation: %v", err)
	}
	if err := players.Scale(ctx, "refused", "x", 2); err == nil || !strings.Contains(err.Error(), `no operation "x"`) {
		t.Errorf("a refusal reads %v", err)
	}
	want := []string{
		`PUT /rates {"login":40,"verify":750}`,
		`PUT /scales/surge%2F1 {"operation":"verify","factor":12.5}`,
		`DELETE /scales/surge%2F1`,
		`GET /rates`,
		`GET /rates`,
		`PUT /scales/refused {"operation":"x","factor":2}`,
	}
	if !slices.Equal(seen, want) {
		t.Errorf("requests\n%s\nwant\n%s", strings.Join(seen, "\n"), strings.Join(want, "\n"))
	}
}

func TestPlayersOfRedirects(t *testing.T) {
	var seen []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		seen = append(seen, strings.TrimSpace(r.Method+" "+r.URL.EscapedPath()+" "+string(body)))
		if r.Method == http.MethodGet {
			_, _ = io.WriteString(w, `{
				"targets": {
					"edge-1:8080": {"requests_per_second": 40, "sessions": 10},
					"edge-2:8080": {"spare": true, "requests_per_second": 12.5, "sessions": 3},
					"edge-3:8080": {}, "edge-3:8081": {}
				},
				"redirects": {"move": {"from": "edge-1:8080", "to": "edge-2:8080", "requests_per_second": 10, "sessions": 2}}
			}`)
		}
	}))
	defer server.Close()
	players := topologies.NewPlayers("players", strings.TrimPrefix(server.URL, "http://"))
	ctx := t.Context()
	if err := players.Redirect(ctx, "move/1", "edge-1", "edge-2"); err != nil {
		t.Error(err)
	}
	if err := players.EndRedirect(ctx, "move/1"); err != nil {
		t.Error(err)
	}
	routing, err := players.Routing(ctx)
	if want := (topologies.Redirected{From: "edge-1:8080", To: "edge-2:8080", Moved: 10, Sessions: 2}); err != nil || routing.Redirects["move"] != want {
		t.Errorf("redirect %+v, %v; want %+v", routing.Redirects["move"], err, want)
	}
	for _, tc := range []struct {
		host string
		want topologies.Target
		says string // in the error; "" for none
	}{
		{"edge-1", topologies.Target{Sent: 40, Sessions: 10}, ""},
		{"edge-2", topologies.Target{Spare: true, Sent: 12.5, Sessions: 3}, ""},
		{"edge-2:8080", topologies.Target{Spare: true, Sent: 12.5, Sessions: 3}, ""},
		{"edge-3", topologies.Target{}, "edge-3:8080, edge-3:8081"},
		{"edge-3:8081", topologies.Target{}, ""},
		{"edge", topologies.Target{}, "edge-1:8080, edge-2:8080 (a spare), edge-3:8080"},
	} {
		have, err := players.Target(ctx, tc.host)
		if have != tc.want || (err != nil) != (tc.says != "") || err != nil && !strings.Contains(err.Error(), tc.says) {
			t.Errorf("target %s: have %+v, %v; want %+v, an error with %q", tc.host, have, err, tc.want, tc.says)
		}
	}
	want := []string{`PUT /redirects/move%2F1 {"from":"edge-1","to":"edge-2"}`, `DELETE /redirects/move%2F1`, `GET /targets`}
	if !slices.Equal(seen[:3], want) {
		t.Errorf("requests\n%s\nwant\n%s", strings.Join(seen[:3], "\n"), strings.Join(want, "\n"))
	}
}

func TestPlayersOfFaults(t *testing.T) {
	var seen []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		seen = append(seen, strings.TrimSpace(r.Method+" "+r.URL.EscapedPath()+" "+string(body)))
		switch r.Method + " " + r.URL.Path {
		case "GET /rates":
			_, _ = io.WriteString(w, `{"create": {"base": 50, "malformed": {"asked": 0.5, "arrived": 0.48}}, "plain": {"base": 5}}`)
		case "GET /sessions":
			_, _ = io.WriteString(w, `{"count": 100, "connected": 98, "reconnects": 7, "waves": {"w": 14}}`)
		}
	}))
	defer server.Close()
	players := topologies.NewPlayers("players", strings.TrimPrefix(server.URL, "http://"))
	ctx := t.Context()
	for _, err := range []error{
		players.Spoil(ctx, "bug/1", "create", 0.5),
		players.Unspoil(ctx, "bug/1"),
		players.StartWaves(ctx, "wave/1", 1500*time.Millisecond),
		players.StopWaves(ctx, "wave/1"),
	} {
		if err != nil {
			t.Error(err)
		}
	}
	if share, err := players.Spoiled(ctx, "create"); err != nil || share != 0.48 {
		t.Errorf("malformed share %g, %v", share, err)
	}
	if _, err := players.Spoiled(ctx, "plain"); err == nil || !strings.Contains(err.Error(), "malformed: {method") {
		t.Errorf("an operation that is never malformed: %v, want an error that says how it could be", err)
	}
	if _, err := players.Spoiled(ctx, "dance"); err == nil || !strings.Contains(err.Error(), "dance") {
		t.Errorf("malformed share of no operation: %v", err)
	}
	want := topologies.Sessions{Count: 100, Connected: 98, Reconnects: 7, Waves: map[string]float64{"w": 14}}
	if have, err := players.Sessions(ctx); err != nil || !reflect.DeepEqual(have, want) {
		t.Errorf("sessions %+v, %v; want %+v", have, err, want)
	}
	requests := []string{
		`PUT /malformed/bug%2F1 {"operation":"create","share":0.5}`,
		`DELETE /malformed/bug%2F1`,
		`PUT /waves/wave%2F1 {"every_seconds":1.5}`,
		`DELETE /waves/wave%2F1`,
		`GET /rates`, `GET /rates`, `GET /rates`,
		`GET /sessions`,
	}
	if !slices.Equal(seen, requests) {
		t.Errorf("requests\n%s\nwant\n%s", strings.Join(seen, "\n"), strings.Join(requests, "\n"))
	}
}

// TestOrdersFollowNoRedirect holds that what answers in a node's place cannot send
// the tool, which is on no closed network, to another address.
func TestOrdersFollowNoRedirect(t *testing.T) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("the other address was asked to %s %s", r.Method, r.URL)
	}))
	defer elsewhere.Close()
	server := httptest.NewServer(http.RedirectHandler(elsewhere.URL, http.StatusTemporaryRedirect))
	defer server.Close()
	err := topologies.NewPlayers("players", strings.TrimPrefix(server.URL, "http://")).SetRates(t.Context(), map[string]float64{"verify": 1})
	var refused *topologies.RefusedError
	if !errors.As(err, &refused) {
		t.Errorf("have %v, want that the redirect is taken for a refusal", err)
	}
}
