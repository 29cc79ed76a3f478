package limits_test

import (
	"errors"
	"maps"
	"testing"

	"relapse/topologies/services/limits"
)

var calls = []string{"login", "logout", "verify", "refresh"}

func TestParse(t *testing.T) {
	for _, c := range []struct {
		have string
		want limits.Limits // nil: refused
	}{
		{"64", limits.Limits{"all": 64}},
		{"verify=48,other=16", limits.Limits{"verify": 48, "other": 16}},
		{"verify=48, login=8, logout=4, refresh=4", limits.Limits{"verify": 48, "login": 8, "logout": 4, "refresh": 4}},
		{"verify=48", nil},
		{"64,verify=8", nil},
		{"verify=8,verify=9,other=1", nil},
		{"veryfy=8,other=1", nil},
		{"0", nil},
		{"-1", nil},
	} {
		have, err := limits.Parse(c.have, calls)
		if c.want == nil {
			if !errors.Is(err, limits.ErrUnusable) {
				t.Errorf("%q: have %v, %v; want ErrUnusable", c.have, have, err)
			}
			continue
		}
		if err != nil || !maps.Equal(have, c.want) {
			t.Errorf("%q: have %v, %v; want %v", c.have, have, err, c.want)
		}
	}
	if _, err := limits.Parse("many", calls); err == nil {
		t.Error(`"many": no error`)
	}
}

func TestTake(t *testing.T) {
	l, err := limits.New(limits.Limits{"verify": 1, "other": 2}, calls)
	if err != nil {
		t.Fatal(err)
	}
	take := func(call string, want bool) func() {
		t.Helper()
		release, ok := l.Take(call)
		if ok != want {
			t.Errorf("%s: have a place %t, want %t", call, ok, want)
		}
		return release
	}
	verify := take("verify", true)
	take("verify", false)
	login := take("login", true)
	take("logout", true)
	take("refresh", false)
	login()
	take("refresh", true)
	verify()
	take("verify", true)
}
