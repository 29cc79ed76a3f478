package simulants_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"relapse/topologies/services"
	"relapse/topologies/services/http1"
	"relapse/topologies/services/platform/api"
	"relapse/topologies/services/simulants"
)

const plain = "target: http://127.0.0.1:8080"

func TestParseConfigFillsInDefaults(t *testing.T) {
	c, err := simulants.ParseConfig([]byte(plain))
	if err != nil {
		t.Fatal(err)
	}
	if c.Speed != 1 || c.Timeout != 2*time.Second || c.Polls.Heartbeat == 0 || len(c.Match.Agents) != len(api.Agents) {
		t.Errorf("have %+v, want all that a file need not say", c)
	}
	if c.Lockstep || c.Closed || c.Polls.Off || c.Shared != nil {
		t.Error("have a trap that no one asked for, or ranges that are shared")
	}
}

func TestALaterDocumentChangesWhatItNames(t *testing.T) {
	c, err := simulants.ParseConfig([]byte(plain), []byte("polls: {heartbeat: 5s}\nmatch: {grants: [20, 10]}"), []byte("polls: {off: true}\nmatch: {grants: [5]}"))
	if err != nil {
		t.Fatal(err)
	}
	if !c.Polls.Off || c.Polls.Heartbeat != 5*time.Second || c.Polls.Config != time.Minute || len(c.Match.Grants) != 1 || c.Match.Ask == 0 {
		t.Errorf("have %+v and %+v, want what each document names, and the defaults of the rest", c.Polls, c.Match)
	}
}

func TestConfigsThatCannotBePlayed(t *testing.T) {
	for _, c := range []struct{ name, document string }{
		{"no target", "seed: 1"},
		{"a part without a target", "targets: {session: 'http://a:1', party: 'http://a:1', queue: 'http://a:1', agents: 'http://a:1'}"},
		{"a target that is no address", "target: a:1"},
		{"a target with a path", "target: http://a:1/x"},
		{"a field that means nothing", plain + "\nplayerz: 1"},
		{"no speed", plain + "\nspeed: 0"},
		{"no players", plain + "\nplayers: 0"},
		{"more ranges than players", plain + "\nplayers: 10\nranges: 11"},
		{"no logins", plain + "\nlogin_rate: 0"},
		{"nothing in flight", plain + "\nin_flight: 0"},
		{"no timeout", plain + "\ntimeout: 0s"},
		{"arrivals of another kind", plain + "\narrivals: odd"},
		{"jitter of all", plain + "\njitter: 1"},
		{"polls all the time", plain + "\nspeed: 10000"},
		{"a scenario before the last", plain + "\nscenarios: {buy: -1s}"},
		{"no tries", plain + "\ntries: 0"},
		{"no party", plain + "\nmatch: {parties: []}"},
		{"parties larger than a team", plain + "\nmatch: {parties: [1, 1, 1, 1, 1, 1]}"},
		{"parties of nobody", plain + "\nmatch: {parties: [0, 0]}"},
		{"no agents", plain + "\nmatch: {agents: []}"},
		{"no data centre", plain + "\nmatch: {data_centres: []}"},
		{"a grant of nothing", plain + "\nmatch: {grants: [0]}"},
		{"a wallet read for ever", plain + "\nmatch: {granted_within: 10m}"},
		{"shared nowhere", plain + "\nshared: {lease: 1s}"},
		{"a lease of nothing", plain + "\nshared: {redis: 'redis:6379'}"},
	} {
		if _, err := simulants.ParseConfig([]byte(c.document)); !errors.Is(err, simulants.ErrConfig) {
			t.Errorf("%s: have %v, want %v", c.name, err, simulants.ErrConfig)
		}
	}
}

func TestScenariosNeedNoMatchWhereThereIsNone(t *testing.T) {
	if _, err := simulants.ParseConfig([]byte(plain + "\nscenarios: {match: 0s}\nmatch: {parties: []}")); err != nil {
		t.Errorf("have %v, want none: no match is ever played", err)
	}
}

func TestService(t *testing.T) {
	dir := t.TempDir()
	write := func(name, document string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(document), 0o600); err != nil {
			t.Fatal(err)
		}
		return "--config=" + path
	}
	good, foreign := write("good.yaml", plain), write("foreign.yaml", "target: http://203.0.113.1:80")
	for _, c := range []struct {
		name string
		args []string
		want error // nil for any
	}{
		{"no configuration", nil, nil},
		{"a file that is not there", []string{"--config=" + filepath.Join(dir, "none")}, nil},
		{"one that cannot be played", []string{write("bad.yaml", "seed: 1")}, simulants.ErrConfig},
		{"an argument", []string{good, "x"}, nil},
		{"a foreign target", []string{foreign}, http1.ErrForeignTarget},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second) // for one that is not refused
		err := services.Run(ctx, "simulants", c.args)
		cancel()
		if err == nil || c.want != nil && !errors.Is(err, c.want) {
			t.Errorf("%s: have %v, want an error (%v)", c.name, err, c.want)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := services.Run(ctx, "simulants", []string{good, "--control=127.0.0.1:0", "--metrics=127.0.0.1:0"}); err != nil {
		t.Errorf("a service that is told to end: have %v, want none", err)
	}
}
