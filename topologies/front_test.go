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

func TestFront(t *testing.T) {
	var seen []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		seen = append(seen, strings.TrimSpace(r.Method+" "+r.URL.EscapedPath()+" "+string(body)))
		switch {
		case r.URL.Path == "/skews/second":
			http.Error(w, "the route is skewed already", http.StatusBadRequest)
		case r.Method == http.MethodGet:
			_, _ = io.WriteString(w, `{
				"nodes": {
					"mms-1": {"requests_per_second": 70, "of_requests_per_second": 100, "even_share": 0.25},
					"mms-2": {"requests_per_second": 10, "of_requests_per_second": 100, "even_share": 0.25}
				},
				"skews": {"skew/1": {"to": "mms-1", "share": 0.7}}
			}`)
		}
	}))
	defer server.Close()
	front := topologies.NewFront("front", strings.TrimPrefix(server.URL, "http://"))
	ctx := t.Context()
	if err := front.Skew(ctx, "skew/1", "mms-1", 0.7); err != nil {
		t.Error(err)
	}
	if err := front.EndSkew(ctx, "skew/1"); err != nil {
		t.Error(err)
	}
	var refused *topologies.RefusedError
	if err := front.Skew(ctx, "second", "mms-2", 0.5); !errors.As(err, &refused) || refused.Said != "the route is skewed already" {
		t.Errorf("a refusal is %v", err)
	}
	if have, err := front.Routed(ctx, "mms-1"); err != nil || have != (topologies.Routed{Sent: 70, Of: 100, Even: 0.25}) {
		t.Errorf("routed to mms-1: %+v, %v", have, err)
	}
	var unrouted *topologies.UnroutedError
	if _, err := front.Routed(ctx, "mms-9"); !errors.As(err, &unrouted) || !slices.Equal(unrouted.Known, []string{"mms-1", "mms-2"}) {
		t.Errorf("routed to a node that is in no route: %v, want an error that names those that are", err)
	}
	want := []string{
		`PUT /skews/skew%2F1 {"to":"mms-1","share":0.7}`,
		`DELETE /skews/skew%2F1`,
		`PUT /skews/second {"to":"mms-2","share":0.5}`,
		`GET /routes`,
		`GET /routes`,
	}
	if !slices.Equal(seen, want) {
		t.Errorf("requests\n%s\nwant\n%s", strings.Join(seen, "\n"), strings.Join(want, "\n"))
	}
}
