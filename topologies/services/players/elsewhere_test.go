package players_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"relapse/topologies/services/players"
)

func TestAShareGoesElsewhere(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		status int // of what is asked for first
		share  float64
		want   float64
	}{
		{"nobody of those who get it", 200, 1, 0},
		{"nobody who is told something else", 503, 1, 0},
		{"three in five of those who are told that it is closed", 403, 0.6, 0.6},
		{"all of them", 403, 1, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/here" {
					w.WriteHeader(tc.status)
				}
			}))
			t.Cleanup(server.Close)
			c := config(server.URL)
			c.Operations = map[string]players.Operation{
				"here":  {Method: "GET", Path: "/here", Elsewhere: &players.Elsewhere{Status: 403, To: "there", Share: tc.share}},
				"there": {Method: "GET", Path: "/there"},
			}
			g := run(t, c)
			setRates(t, g, map[string]float64{"here": 400})
			eventually(t, "200 requests are made", func() bool { return offered(t, g, "here") >= 200 })
			setRates(t, g, nil)
			outcome := map[int]string{200: "ok", 403: "error", 503: "refused"}[tc.status]
			eventually(t, "all end", func() bool {
				return ended(t, g, "here", outcome) == offered(t, g, "here") && ended(t, g, "here-elsewhere", "ok") == offered(t, g, "here-elsewhere")
			})
			// They are spread evenly: no more than one is missing, or too many.
			all := offered(t, g, "here")
			eventually(t, "those who go elsewhere are there", func() bool {
				have, want := offered(t, g, "here-elsewhere"), tc.want*all
				return have >= want-1 && have <= want+1
			})
			if have := offered(t, g, "there"); have != 0 {
				t.Errorf("asked there in the first place: have %v, want none", have)
			}
		})
	}
}

func TestElsewhereIsSomewhere(t *testing.T) {
	for name, e := range map[string]players.Elsewhere{
		"an unknown operation":      {Status: 403, To: "nowhere", Share: 1},
		"itself":                    {Status: 403, To: "op", Share: 1},
		"one whose players go on":   {Status: 403, To: "wanderers", Share: 1},
		"a status that is no error": {Status: 200, To: "there", Share: 1},
		"nobody":                    {Status: 403, To: "there"},
		"more than everybody":       {Status: 403, To: "there", Share: 1.5},
		"a name that is taken":      {Status: 403, To: "taken-elsewhere", Share: 1},
	} {
		c := config("http://127.0.0.1:1")
		c.Operations["there"] = players.Operation{Method: "GET", Path: "/"}
		c.Operations["wanderers"] = players.Operation{Method: "GET", Path: "/", Elsewhere: &players.Elsewhere{Status: 403, To: "there", Share: 1}}
		c.Operations["taken-elsewhere"] = players.Operation{Method: "GET", Path: "/"}
		at := "op"
		if e.To == "taken-elsewhere" {
			at = "taken" // whose name for it an operation has
		}
		c.Operations[at] = players.Operation{Method: "GET", Path: "/", Elsewhere: &e}
		if _, err := players.New(t.Context(), c); !errors.Is(err, players.ErrConfig) {
			t.Errorf("%s: have error %v, want %v", name, err, players.ErrConfig)
		}
	}
}
