package topologies_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"relapse/topologies"
)

func TestFleet(t *testing.T) {
	var seen []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		seen = append(seen, strings.TrimSpace(r.Method+" "+r.URL.EscapedPath()+" "+string(body)))
		switch {
		case r.URL.Path == "/losses/second":
			http.Error(w, "too few servers are left", http.StatusBadRequest)
		case r.Method == http.MethodGet:
			_, _ = io.WriteString(w, `{
				"clusters": {
					"main": {"servers": 1200, "gone": 100, "going": 380, "joining": 0},
					"playground": {"servers": 16800, "gone": 0, "going": 0, "joining": 7}
				},
				"losses": {"loss/1": {"cluster": "main", "share": 0.4}}
			}`)
		}
	}))
	defer server.Close()
	fleet := topologies.NewFleet("fleet", strings.TrimPrefix(server.URL, "http://"))
	ctx := t.Context()
	if err := fleet.Lose(ctx, "loss/1", "main", 0.4); err != nil {
		t.Error(err)
	}
	if err := fleet.EndLoss(ctx, "loss/1"); err != nil {
		t.Error(err)
	}
	var refused *topologies.RefusedError
	if err := fleet.Lose(ctx, "second", "", 0.9); !errors.As(err, &refused) || refused.Said != "too few servers are left" {
		t.Errorf("a refusal is %v", err)
	}
	for cluster, want := range map[string]topologies.Servers{
		"main": {All: 1200, Gone: 100, Going: 380}, "playground": {All: 16800}, "": {All: 18000, Gone: 100, Going: 380},
	} {
		if have, err := fleet.Servers(ctx, cluster); err != nil || have != want {
			t.Errorf("servers of cluster %q: have %+v, %v, want %+v", cluster, have, err, want)
		}
	}
	var unknown *topologies.UnknownClusterError
	if _, err := fleet.Servers(ctx, "side"); !errors.As(err, &unknown) || !slices.Equal(unknown.Known, []string{"main", "playground"}) {
		t.Errorf("servers of a cluster that is not there: %v, want an error that names those that are", err)
	}
	want := []string{
		`PUT /losses/loss%2F1 {"cluster":"main","share":0.4}`,
		`DELETE /losses/loss%2F1`,
		`PUT /losses/second {"cluster":"","share":0.9}`,
		`GET /losses`, `GET /losses`, `GET /losses`, `GET /losses`,
	}
	if !slices.Equal(seen, want) {
		t.Errorf("requests\n%s\nwant\n%s", strings.Join(seen, "\n"), strings.Join(want, "\n"))
	}
}
