package front_test

import (
	"fmt"
	"testing"

	"relapse/topologies/services/front"
)

func TestParse(t *testing.T) {
	route := func(s string) (string, error) {
		mode, nodes, err := front.ParseRoute(s)
		return fmt.Sprint(mode, " ", nodes), err
	}
	where := func(s string) (string, error) {
		w, err := front.ParseWhere(s)
		return fmt.Sprintf("%q %q, as %s", w.Mode, w.Region, w), err
	}
	limit := func(s string) (string, error) {
		w, n, err := front.ParseLimit(s)
		return fmt.Sprint(w, " ", n), err
	}
	misroute := func(s string) (string, error) {
		mode, m, err := front.ParseMisroute(s)
		return fmt.Sprint(mode, " ", m.To, " ", m.Percent), err
	}
	for _, c := range []struct {
		name  string
		parse func(string) (string, error)
		have  string
		want  string // "" for an error
	}{
		{"a route", route, "party=mms-1:8080, mms-2:8080", "party [mms-1:8080 mms-2:8080]"},
		{"a route of one node", route, "party=mms-1:8080", "party [mms-1:8080]"},
		{"a route of no mode", route, "=mms-1:8080", ""},
		{"a route to nowhere", route, "party=", ""},
		{"no route", route, "party", ""},
		{"a mode", where, "party", `"party" "", as party`},
		{"a region of a mode", where, "party/eu", `"party" "eu", as party/eu`},
		{"a region of no mode", where, "/eu", ""},
		{"a mode of no region", where, "party/", ""},
		{"a limit", limit, "party/eu=100", "party/eu 100"},
		{"a limit of what", limit, "=100", ""},
		{"a limit that is none", limit, "party/eu", ""},
		{"a limit that is no number", limit, "party/eu=1.5", ""},
		{"all misrouted", misroute, "party=main", "party main 100"},
		{"a share misrouted", misroute, "party=main:2.5", "party main 2.5"},
		{"misrouted to nowhere", misroute, "party=:10", ""},
		{"a share that is none", misroute, "party=main:some", ""},
		{"no misroute", misroute, "party", ""},
	} {
		got, err := c.parse(c.have)
		switch {
		case (err != nil) != (c.want == ""):
			t.Errorf("%s: have error %v, want one: %t", c.name, err, c.want == "")
		case err == nil && got != c.want:
			t.Errorf("%s: have %s, want %s", c.name, got, c.want)
		}
	}
}
