package topologies_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

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
