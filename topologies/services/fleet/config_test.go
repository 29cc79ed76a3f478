package fleet_test

import (
	"context"
	"io/fs"
	"maps"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"relapse/topologies/services"
	"relapse/topologies/services/fleet"
	"relapse/topologies/services/matchmaking"
)

func TestNewRefuses(t *testing.T) {
	peer := func(name string) *matchmaking.Peer { return &matchmaking.Peer{Name: name} }
	for name, change := range map[string]func(*fleet.Config){
		"no clusters":            func(c *fleet.Config) { c.Clusters = nil },
		"a cluster without name": func(c *fleet.Config) { c.Clusters[0].Name = "" },
		"a cluster twice": func(c *fleet.Config) {
			c.Clusters = append(c.Clusters, fleet.Cluster{Name: "main", Servers: 1, Nodes: []*matchmaking.Peer{peer("z")}})
		},
		"no nodes":                func(c *fleet.Config) { c.Clusters[0].Nodes = nil },
		"a node without name":     func(c *fleet.Config) { c.Clusters[0].Nodes = []*matchmaking.Peer{peer("")} },
		"a node twice":            func(c *fleet.Config) { c.Clusters[0].Nodes = []*matchmaking.Peer{peer("z"), peer("z")} },
		"too few servers":         func(c *fleet.Config) { c.Clusters[0].Servers = 1 },
		"no modes":                func(c *fleet.Config) { c.Modes = nil },
		"a mode without name":     func(c *fleet.Config) { c.Modes = map[string]string{"": "main"} },
		"a mode without cluster":  func(c *fleet.Config) { c.Modes = map[string]string{"default": "side"} },
		"no regions":              func(c *fleet.Config) { c.Regions = nil },
		"a region without name":   func(c *fleet.Config) { c.Regions[0].Name = "" },
		"a region twice":          func(c *fleet.Config) { c.Regions[0].Name = "eu" },
		"a region without weight": func(c *fleet.Config) { c.Regions[0].Weight = 0 },
		"a weight of no number":   func(c *fleet.Config) { c.Regions[0].Weight = math.NaN() },
		"no length":               func(c *fleet.Config) { c.Length = 0 },
		"a spread of all":         func(c *fleet.Config) { c.LengthSpread = 100 },
		"a negative spread":       func(c *fleet.Config) { c.LengthSpread = -1 },
		"a negative delay":        func(c *fleet.Config) { c.RelistAfter = -1 },
		"no speed":                func(c *fleet.Config) { c.Speed = 0 },
		"an infinite speed":       func(c *fleet.Config) { c.Speed = math.Inf(1) },
		"too many in matches":     func(c *fleet.Config) { c.Occupied = 101 },
		"an unknown way to join":  func(c *fleet.Config) { c.Joins = "anywhere" },
		"a negative time to join": func(c *fleet.Config) { c.JoinAfter = -1 },
		"a negative interval":     func(c *fleet.Config) { c.AuditEvery = -1 },
		"a negative grace":        func(c *fleet.Config) { c.Grace = -1 },
	} {
		// The clusters and regions are the test's own: what changes them changes
		// nothing for the next one.
		c := fleet.Config{
			Clusters: []fleet.Cluster{{Name: "main", Servers: 10, Nodes: []*matchmaking.Peer{peer("a"), peer("b")}}},
			Modes:    map[string]string{"default": "main"},
			Regions:  []fleet.Region{{Name: "na", Weight: 50}, {Name: "eu", Weight: 50}},
			Length:   time.Hour, Speed: 180,
		}
		if _, err := fleet.New(c, prometheus.NewRegistry()); err != nil {
			t.Fatalf("what is changed below: %v", err)
		}
		change(&c)
		if _, err := fleet.New(c, prometheus.NewRegistry()); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestTheServiceRefusesBadFlags(t *testing.T) {
	good := []string{
		"--listen=127.0.0.1:0", "--control=127.0.0.1:0", "--metrics=127.0.0.1:0",
		"--cluster=main=127.0.0.1:1", "--servers=main=3", "--mode=default=main",
	}
	run := func(args []string, within time.Duration) error {
		ctx, cancel := context.WithTimeout(t.Context(), within) // what is accepted serves until then
		defer cancel()
		return services.Run(ctx, "fleet", args)
	}
	if err := run(good, 200*time.Millisecond); err != nil {
		t.Errorf("%q: %v", good, err)
	}
	if err := run(nil, 10*time.Second); err == nil {
		t.Error("no flags: no error")
	}
	for _, have := range [][]string{
		{"x"},
		{"--cluster=side"}, {"--cluster=side=127.0.0.1:2"}, {"--cluster=side=127.0.0.1", "--servers=side=3"}, {"--cluster=main=127.0.0.1:2"},
		{"--servers=main=4"}, {"--servers=side=3"}, {"--servers=side=many", "--cluster=side=127.0.0.1:2"}, {"--servers=3"},
		{"--mode=small=side"}, {"--mode=default=main"}, {"--mode=small"},
		{"--regions=na"}, {"--regions=na=x"}, {"--regions=na=0"}, {"--regions="},
		{"--length=0s"}, {"--length-spread=100"}, {"--relist-after=-1s"}, {"--speed=0"}, {"--speed=NaN"},
		{"--occupied=101"}, {"--seed=-1"}, {"--audit-every=-1s"}, {"--grace=-1s"}, {"--unfenced=perhaps"},
		{"--joins=anywhere"}, {"--join-after=-1s"}, {"--join-after=soon"},
	} {
		if err := run(slices.Concat(good, have), 10*time.Second); err == nil {
			t.Errorf("%q: no error", have)
		}
	}
}

// TestStated holds what is known of a fleet that does not run.
func TestStated(t *testing.T) {
	files := map[string]string{
		"/size.yaml":  "cluster: [main=nowhere-1:8080, side=nowhere-2:8080]\nservers: [main=18000, side=20]\n",
		"/speed.yaml": "speed: 180\n",
		"/typo.yaml":  "sped: 180\n",
	}
	read := func(path string) ([]byte, error) {
		content, ok := files[path]
		if !ok {
			return nil, fs.ErrNotExist
		}
		return []byte(content), nil
	}
	for _, tc := range []struct {
		name string
		args []string
		want map[string]int // nil for an error
	}{
		{"flags", []string{"--cluster=main=nowhere:8080", "--servers=main=3", "--mode=default=main"}, map[string]int{"main": 3}},
		{"files", []string{"--settings=/speed.yaml", "--settings=/size.yaml"}, map[string]int{"main": 18000, "side": 20}},
		{"nothing", nil, map[string]int{}},
		{"no servers", []string{"--cluster=main=nowhere:8080"}, nil},
		{"no such file", []string{"--settings=/none.yaml"}, nil},
		{"no such setting", []string{"--settings=/typo.yaml"}, nil},
		{"no such flag", []string{"--sped=180"}, nil},
		{"no flag", []string{"main"}, nil},
	} {
		have, err := fleet.Stated(tc.args, read)
		if (err != nil) != (tc.want == nil) || err == nil && !maps.Equal(have, tc.want) {
			t.Errorf("%s: have %v, %v, want %v", tc.name, have, err, tc.want)
		}
	}
}
