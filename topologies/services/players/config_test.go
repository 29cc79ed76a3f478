package players_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"relapse/topologies/services"
	"relapse/topologies/services/http1"
	"relapse/topologies/services/players"
)

const plain = `
target: http://127.0.0.1:8080
operations:
  verify: {method: GET, path: /verify}
`

func TestParseConfigFillsInDefaults(t *testing.T) {
	c, err := players.ParseConfig([]byte(plain))
	if err != nil {
		t.Fatal(err)
	}
	if c.Timeout != 2*time.Second || c.Arrivals != players.Even || c.InFlight == 0 {
		t.Errorf("have timeout %v, arrivals %q, in flight %d; want 2s, even and some", c.Timeout, c.Arrivals, c.InFlight)
	}
	if c.Populations.Match != nil || c.Populations.Launchers != nil {
		t.Error("populations that no one asked for")
	}
}

func TestALaterDocumentChangesWhatItNames(t *testing.T) {
	first := plain + `
populations:
  launchers:
    count: 60
    check: {method: GET, path: /verify}
    every: 5s
    login: {method: POST, path: /login}
    back_after_min: 1s
    back_after_max: 3s
    sign_out_on_error: true
`
	c, err := players.ParseConfig([]byte(first), []byte("populations: {launchers: {sign_out_on_error: false}}"))
	if err != nil {
		t.Fatal(err)
	}
	l := c.Populations.Launchers
	if l.SignOutOnError || l.Count != 60 || l.BackAfterMax != 3*time.Second || l.Check.Path != "/verify" {
		t.Errorf("have %+v, want all of the first document but sign_out_on_error", l)
	}
}

func TestRetriesAreChangedByALaterDocument(t *testing.T) {
	first := plain + "retries: {count: 4, budget: {share: 0.2, minimum: 1}}\n"
	for _, tc := range []struct {
		name, later string
		want        string // count, share; none without retries
	}{
		{"another share", "retries: {budget: {share: 0.1}}", "4 0.1 1"},
		{"no budget", "retries: {budget: null}", "4"},
		{"none", "retries: {count: 0, budget: null}", "0"},
		{"none at all", "retries: null", "none"},
	} {
		c, err := players.ParseConfig([]byte(first), []byte(tc.later))
		if err != nil {
			t.Errorf("%s: %v", tc.name, err)
			continue
		}
		have := "none"
		if r := c.Retries; r != nil {
			have = fmt.Sprint(r.Count)
			if r.Budget != nil {
				have += fmt.Sprint(" ", r.Budget.Share, " ", r.Budget.Minimum)
			}
		}
		if have != tc.want {
			t.Errorf("%s: have %s, want %s", tc.name, have, tc.want)
		}
	}
}

func TestParseConfigRefuses(t *testing.T) {
	for _, c := range []struct {
		name, have string
	}{
		{"nothing", ""},
		{"an unknown field", plain + "rate: 5\n"},
		{"no operation", "target: http://127.0.0.1:80\n"},
		{"no target", "operations: {a: {method: GET, path: /}}\n"},
		{"https", strings.Replace(plain, "http:", "https:", 1)},
		{"a target with a path", strings.Replace(plain, "8080", "8080/x", 1)},
		{"a method that has no reply", strings.Replace(plain, "GET", "CONNECT", 1)},
		{"a path that would end the request line", strings.Replace(plain, "path: /verify", `path: "/a b"`, 1)},
		{"a token without tokens", strings.Replace(plain, "path: /verify", `path: "/verify?token={token}"`, 1)},
		{"no time to wait", plain + "timeout: 0s\n"},
		{"nothing in flight", plain + "in_flight: 0\n"},
		{"other arrivals", plain + "arrivals: bursty\n"},
		{"a population's operation", strings.Replace(plain, "verify:", "refresh:", 1)},
		{"a match without players", plain + "populations: {match: {refresh: {method: GET, path: /}, every: 1s, retry_after: 1s, dropped_after: 2}}\n"},
		{"a target and targets", plain + "targets: ['http://127.0.0.1:8081']\n"},
		{"targets that are one", strings.Replace(plain, "target: http://127.0.0.1:8080", "targets: ['http://127.0.0.1:1', 'http://127.0.0.1:1/']", 1)},
		{"one of the targets with a path", strings.Replace(plain, "target: http://127.0.0.1:8080", "targets: ['http://127.0.0.1:1', 'http://127.0.0.1:2/x']", 1)},
		{"a spare with a path", plain + "spares: ['http://127.0.0.1:8081/x']\n"},
		{"a spare over https", plain + "spares: ['https://127.0.0.1:8081']\n"},
		{"a spare that is there twice", plain + "spares: ['http://127.0.0.1:8081', 'http://127.0.0.1:8081/']\n"},
		{"a spare that is the target", plain + "spares: ['http://127.0.0.1:8080']\n"},
		{"a spare that is one of the targets", strings.Replace(plain, "target: http://127.0.0.1:8080", "targets: ['http://127.0.0.1:1', 'http://127.0.0.1:2']\nspares: ['http://127.0.0.1:2']", 1)},
		{"spares without a target", strings.Replace(plain, "target: http://127.0.0.1:8080", "spares: ['http://127.0.0.1:1']", 1)},
		{"retries that make no sense", plain + "retries: {count: -1}\n"},
		{"retries with an unknown field", plain + "retries: {count: 1, times: 2}\n"},
		{"a malformed call without a method", strings.Replace(plain, "path: /verify", "path: /verify, malformed: {path: /}", 1)},
		{"an operation with the name of malformed requests", strings.Replace(plain, "path: /verify}", "path: /verify, malformed: {method: GET, path: /}}\n  verify-malformed: {method: GET, path: /}", 1)},
		{"an operation with the name of sessions", strings.Replace(plain, "verify:", "session:", 1)},
		{"sessions of nobody", plain + "populations: {sessions: {call: {method: GET, path: /}, every: 1s}}\n"},
		{"sessions that are never heard of", plain + "populations: {sessions: {count: 1, call: {method: GET, path: /}}}\n"},
		{"sessions without a call", plain + "populations: {sessions: {count: 1, every: 1s}}\n"},
		{"launchers that come back before they left", plain + "populations: {launchers: {count: 1, check: {method: GET, path: /}, login: {method: POST, path: /}, every: 1s, sign_out_on_error: true, back_after_min: 2s, back_after_max: 1s}}\n"},
	} {
		if _, err := players.ParseConfig([]byte(c.have)); !errors.Is(err, players.ErrConfig) {
			t.Errorf("%s: have %v, want ErrConfig", c.name, err)
		}
	}
}

func TestAForeignTargetIsRefused(t *testing.T) {
	for _, target := range []string{
		"http://203.0.113.1:80",          // set aside for documentation: no interface has it
		"http://[2001:db8::1]:80",        // likewise
		"http://198.51.100.7",            // no port
		"http://[::ffff:203.0.113.1]:80", // one of the above in other clothes
	} {
		c, err := players.ParseConfig([]byte(strings.Replace(plain, "http://127.0.0.1:8080", target, 1)))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := players.New(t.Context(), c); !errors.Is(err, http1.ErrForeignTarget) {
			t.Errorf("%s: have %v, want ErrForeignTarget", target, err)
		}
		c.Target, c.Targets = "", []string{"http://127.0.0.1:8080", target}
		if _, err := players.New(t.Context(), c); !errors.Is(err, http1.ErrForeignTarget) {
			t.Errorf("%s, as the second one: have %v, want ErrForeignTarget", target, err)
		}
		c.Targets, c.Spares = []string{"http://127.0.0.1:8080"}, []string{target}
		if _, err := players.New(t.Context(), c); !errors.Is(err, http1.ErrForeignTarget) {
			t.Errorf("%s, as a spare: have %v, want ErrForeignTarget", target, err)
		}
	}
}

func TestTheServiceRefusesBadFlags(t *testing.T) {
	foreign := t.TempDir() + "/players.yaml"
	if err := os.WriteFile(foreign, []byte(strings.Replace(plain, "127.0.0.1", "203.0.113.1", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		have []string
		want error // nil: any
	}{
		{"no configuration", nil, nil},
		{"a file that is not there", []string{"--config", foreign + ".x"}, nil},
		{"an argument", []string{"--config", foreign, "x"}, nil},
		{"a foreign target", []string{"--config", foreign}, http1.ErrForeignTarget},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second) // one that is accepted would serve for ever
		err := services.Run(ctx, "players", c.have)
		cancel()
		if err == nil || (c.want != nil && !errors.Is(err, c.want)) {
			t.Errorf("%s: have %v, want an error (%v)", c.name, err, c.want)
		}
	}
}
