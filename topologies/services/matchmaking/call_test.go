package matchmaking_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"relapse/topologies/services/matchmaking"
)

// peer is a service that counts entries, and knows no path but one.
func peer(t *testing.T) *matchmaking.Peer {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("POST /count", func(w http.ResponseWriter, r *http.Request) {
		var listing matchmaking.Listing
		if matchmaking.Read(w, r, &listing) {
			matchmaking.Answer(w, http.StatusOK, len(listing.Entries))
		}
	})
	mux.HandleFunc("GET /text", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "no JSON") })
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	p, err := matchmaking.NewPeer(strings.TrimPrefix(server.URL, "http://"), "test")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

func TestCall(t *testing.T) {
	p := peer(t)
	entries := make([]matchmaking.Entry, 5000)
	for n := range entries {
		entries[n] = matchmaking.Entry{Server: n, Region: "na", Epoch: 1}
	}
	for range 2 { // over one connection
		var have int
		err := p.Call(http.MethodPost, "/count", matchmaking.Listing{Entries: entries}, &have, time.Now().Add(5*time.Second))
		if err != nil || have != len(entries) {
			t.Fatalf("have %d, %v, want %d", have, err, len(entries))
		}
	}
	for _, c := range []struct {
		name, method, path string
		body               any
		status             int // 0 for an error that is no status
	}{
		{"an unknown path", "GET", "/nowhere", nil, 404},
		{"an unknown field", "POST", "/count", map[string]int{"servers": 1}, 400},
		{"no body", "POST", "/count", nil, 400},
		{"an answer that is no JSON", "GET", "/text", nil, 0},
	} {
		var into any
		err := p.Call(c.method, c.path, c.body, &into, time.Now().Add(5*time.Second))
		var status *matchmaking.StatusError
		switch errors.As(err, &status) {
		case true:
			if status.Status != c.status {
				t.Errorf("%s: have status %d, want %d", c.name, status.Status, c.status)
			}
		case false:
			if err == nil || c.status != 0 {
				t.Errorf("%s: have error %v, want status %d", c.name, err, c.status)
			}
		}
	}
}

func TestPeersMustHaveAPort(t *testing.T) {
	for _, have := range []string{"", "mms-1", "127.0.0.1:http1"} {
		if _, err := matchmaking.NewPeer(have, "test"); err == nil {
			t.Errorf("%q: no error", have)
		}
	}
	if p, err := matchmaking.NewPeer("127.0.0.1:8080", "test"); err != nil || p.Name != "127.0.0.1" {
		t.Errorf("have %+v, %v, want the host's name", p, err)
	}
}
