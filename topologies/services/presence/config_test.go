package presence_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"relapse/topologies/services"
	"relapse/topologies/services/presence"
)

func TestNewRefuses(t *testing.T) {
	client := presence.NewClient("127.0.0.1:1", time.Second)
	defer client.Close()
	good := presence.Config{Name: "a", Lists: client, Claims: client}
	if _, err := presence.New(good, prometheus.NewRegistry()); err != nil {
		t.Fatalf("what is changed below: %v", err)
	}
	for name, change := range map[string]change{
		"no name":                       func(c *presence.Config) { c.Name = "" },
		"no lists":                      func(c *presence.Config) { c.Lists = nil },
		"no claims":                     func(c *presence.Config) { c.Claims = nil },
		"a negative lease":              func(c *presence.Config) { c.Lease = -time.Second },
		"parts of a millisecond":        func(c *presence.Config) { c.Tick = 1500 * time.Microsecond },
		"an interval of half a lease":   func(c *presence.Config) { c.Interval = presence.DefaultLease / 2 },
		"a lease of less than three":    func(c *presence.Config) { c.Lease = 2 * presence.DefaultInterval },
		"a negative tick":               func(c *presence.Config) { c.Tick = -time.Millisecond },
		"offline before the last sign":  func(c *presence.Config) { c.OfflineAfter = -time.Second },
		"late by less than zero":        func(c *presence.Config) { c.Late = -time.Second },
		"negative work":                 func(c *presence.Config) { c.Work = -time.Second },
		"work that outlasts half lease": func(c *presence.Config) { c.Work = presence.DefaultLease },
		"a negative number of steals":   func(c *presence.Config) { c.Steals = -1 },
	} {
		c := good
		change(&c)
		if _, err := presence.New(c, prometheus.NewRegistry()); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestTheServiceRefusesBadFlags(t *testing.T) {
	settings := filepath.Join(t.TempDir(), "settings.yaml")
	if err := os.WriteFile(settings, []byte("fenced: false\nrising: false\nending: false\ngreedy: true\nlease: 2s\npartitioned: false\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	good := []string{"--name=a", "--redis=127.0.0.1:1", "--metrics=127.0.0.1:0", "--settings=" + settings}
	run := func(args []string, within time.Duration) error {
		ctx, cancel := context.WithTimeout(t.Context(), within) // what is accepted serves until then
		defer cancel()
		return services.Run(ctx, "presence", args)
	}
	if err := run(good, 200*time.Millisecond); err != nil {
		t.Errorf("%q: %v", good, err)
	}
	if err := run(nil, 10*time.Second); err == nil {
		t.Error("no flags: no error")
	}
	for _, have := range [][]string{
		{"x"}, {"--name="}, {"--lease=-1s"}, {"--lease=1s", "--interval=1s"}, {"--interval=-1s"}, {"--tick=1us"}, {"--offline-after=-1s"},
		{"--late=-1s"}, {"--work=10s"}, {"--steals=-1"}, {"--seed=-1"}, {"--partitioned=perhaps"}, {"--fenced=perhaps"}, {"--ending=perhaps"}, {"--settings=nowhere"},
	} {
		if err := run(slices.Concat(good, have), 10*time.Second); err == nil {
			t.Errorf("%q: no error", have)
		}
	}
}
