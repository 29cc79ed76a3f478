package platform_test

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"relapse/topologies/services"
	"relapse/topologies/services/limits"
	"relapse/topologies/services/platform"
	"relapse/topologies/services/platform/api"
)

// TestAMatchFromTheQueueToTheStore has all roles in one process, before a store.
func TestAMatchFromTheQueueToTheStore(t *testing.T) {
	c := config(platform.Roles()...)
	c.Games.Length = 200 * time.Millisecond
	r := start(t, c)
	var tickets []string
	for n := range 10 {
		tickets = append(tickets, r.enter(t, fmt.Sprint(n), players(n, 1), nearNA))
	}
	match := r.matched(t, tickets[0])
	for n, p := range players(0, 10) {
		if have := r.lock(t, match, p, api.Agents[n]); have != http.StatusOK {
			t.Errorf("player %d: have %d, want 200", p, have)
		}
	}
	r.until(t, match, api.Playing)
	if have := r.state(t, match); have.Centre != "na" || have.Server == "" {
		t.Errorf("have %+v, want a server in na", have)
	}
	r.expect(t, 1, "relapse_provisions_held", "na")
	r.until(t, match, api.Over)
	eventually(t, "the server is given back", func() bool { return r.value(t, "relapse_provisions_held", "na") == 0 })
	if have := len(r.granted(t)); have != 10 {
		t.Errorf("have %d grants, want 10", have)
	}
	// What has been asked by whom is counted.
	for _, link := range [][2]string{
		{platform.Queue, platform.Agents}, {platform.Agents, platform.Provisioning}, {platform.Agents, platform.Games},
		{platform.Games, platform.Results}, {platform.Games, platform.Provisioning}, {platform.Games, platform.Agents},
	} {
		eventually(t, link[0]+" has asked "+link[1], func() bool {
			return r.value(t, "relapse_calls_total", "ok", link[1], link[0]) >= 1
		})
	}
	r.expect(t, 10, "relapse_calls_total", "ok", platform.Store, platform.Results)
}

// TestARoleThatIsStuck has all workers of one role be stuck, once where it shares them
// with others and once where it does not.
func TestARoleThatIsStuck(t *testing.T) {
	for _, c := range []struct {
		name   string
		limits limits.Limits
		want   int // of a request to another role
	}{
		{"in the monolith", limits.Limits{limits.All: 3}, 503},
		{"with workers of its own", limits.Limits{platform.Party: 3, limits.Other: 3}, 200},
	} {
		t.Run(c.name, func(t *testing.T) {
			conf := config(platform.Party, platform.Session)
			conf.Limits, conf.Costs = c.limits, map[string]time.Duration{platform.Party: time.Hour}
			r := start(t, conf)
			login := func() int { return r.status(t, "POST", "/login?player=1", nil) }
			if have := login(); have != http.StatusOK {
				t.Errorf("before: have %d, want 200", have)
			}
			ctx, leave := context.WithCancel(t.Context())
			for n := range 3 {
				go func() {
					// It has no answer before its caller leaves.
					_, _ = r.try(ctx, "POST", "/parties", api.PartyRequest{Op: fmt.Sprint(n), Players: players(n, 1)}, nil)
				}()
			}
			class := limits.All
			if c.limits[limits.All] == 0 {
				class = platform.Party
			}
			eventually(t, "all its workers are busy", func() bool { return r.value(t, "relapse_in_flight", class) == 3 })
			if have := r.status(t, "POST", "/parties", api.PartyRequest{Op: "4", Players: players(4, 1)}); have != http.StatusServiceUnavailable {
				t.Errorf("another request to it: have %d, want 503", have)
			}
			if have := login(); have != c.want {
				t.Errorf("a request to another role: have %d, want %d", have, c.want)
			}
			if have := r.status(t, "GET", "/health", nil); have != http.StatusOK {
				t.Errorf("health: have %d, want 200", have)
			}
			leave()
			eventually(t, "its workers are free again", func() bool { return r.value(t, "relapse_in_flight", class) == 0 })
			r.expect(t, 3, "relapse_handled_total", "create", "abandoned", platform.Party)
			if have := login(); have != http.StatusOK {
				t.Errorf("afterwards: have %d, want 200", have)
			}
		})
	}
}

func TestCostsAreWaitedFor(t *testing.T) {
	c := config(platform.Party)
	c.Costs = map[string]time.Duration{platform.Party: 60 * time.Millisecond}
	r := start(t, c)
	began := time.Now()
	var party api.Party
	if have := r.ask(t, "POST", "/parties", api.PartyRequest{Op: "1", Players: players(0, 2)}, &party).StatusCode; have != http.StatusOK || party.Party == "" {
		t.Errorf("have %d %+v, want a party", have, party)
	}
	if took := time.Since(began); took < 60*time.Millisecond {
		t.Errorf("it took %v, want 60 ms at least", took)
	}
}

func TestWhoAsksWhom(t *testing.T) {
	for _, c := range []struct {
		roles, want []string
	}{
		{[]string{platform.Party}, nil},
		{[]string{platform.Queue, platform.Agents}, []string{platform.Agents, platform.Games, platform.Provisioning}},
		{platform.Roles(), []string{platform.Agents, platform.Origin, platform.Games, platform.Provisioning, platform.Results, platform.Store}},
	} {
		if have := platform.Peers(c.roles); !slices.Equal(have, c.want) {
			t.Errorf("%v: have %v, want %v", c.roles, have, c.want)
		}
	}
}

func TestNewRefuses(t *testing.T) {
	somewhere := newClient(t, "127.0.0.1:1")
	for name, change := range map[string]func(*platform.Config){
		"no roles":          func(c *platform.Config) { c.Roles = nil },
		"an unknown role":   func(c *platform.Config) { c.Roles = append(c.Roles, "chat") },
		"a role twice":      func(c *platform.Config) { c.Roles = append(c.Roles, platform.Party) },
		"a missing peer":    func(c *platform.Config) { delete(c.Peers, platform.Store) },
		"no workers":        func(c *platform.Config) { c.Limits = nil },
		"workers of nobody": func(c *platform.Config) { c.Limits = limits.Limits{"chat": 1, limits.Other: 1} },
		"a cost of nobody":  func(c *platform.Config) { c.Costs = map[string]time.Duration{"chat": 1} },
		"a negative cost":   func(c *platform.Config) { c.Costs = map[string]time.Duration{platform.Party: -1} },
		"no speed":          func(c *platform.Config) { c.Speed = 0 },
		"an endless speed":  func(c *platform.Config) { c.Speed = math.Inf(1) },
		"a speed of no":     func(c *platform.Config) { c.Speed = math.NaN() },
		"no timeout":        func(c *platform.Config) { c.CallTimeout = 0 },
		"no memory":         func(c *platform.Config) { c.Remember = 0 },

		"tokens that do not last":        func(c *platform.Config) { c.Session.TokenLasts = 0 },
		"settings that are not kept":     func(c *platform.Config) { c.Session.Keep = 0 },
		"callers' seconds of no length":  func(c *platform.Config) { c.Speed = 3600 },
		"a jitter over all":              func(c *platform.Config) { c.Session.Jitter = 101 },
		"a negative lateness of reads":   func(c *platform.Config) { c.Session.StaleFor = -1 },
		"no Redis":                       func(c *platform.Config) { c.Session.Redis = "" },
		"heartbeats at no time":          func(c *platform.Config) { c.Session.BeatEvery = 0 },
		"heartbeats held back below":     func(c *platform.Config) { c.Session.HoldBeats = -1 },
		"changes before the present":     func(c *platform.Config) { c.Origin.ChangeEvery = -1 },
		"a match of an odd number":       func(c *platform.Config) { c.Queue.MatchSize = 9 },
		"a match of nobody":              func(c *platform.Config) { c.Queue.MatchSize = 0 },
		"a match of thousands":           func(c *platform.Config) { c.Queue.MatchSize = 1000 },
		"no patience":                    func(c *platform.Config) { c.Queue.WidenAfter = 0 },
		"no longest wait":                func(c *platform.Config) { c.Queue.WaitMost = 0 },
		"no senders":                     func(c *platform.Config) { c.Queue.Senders = 0 },
		"no time to select":              func(c *platform.Config) { c.Agents.SelectFor = 0 },
		"no time to begin":               func(c *platform.Config) { c.Agents.BeginWithin = 0 },
		"no time to play":                func(c *platform.Config) { c.Agents.OverWithin = 0 },
		"no callers":                     func(c *platform.Config) { c.Agents.Callers = 0 },
		"no data centres":                func(c *platform.Config) { c.Provisioning.Centres = nil },
		"a data centre without a name":   func(c *platform.Config) { c.Provisioning.Centres[0].Name = "" },
		"a data centre twice":            func(c *platform.Config) { c.Provisioning.Centres[0].Name = "na" },
		"a data centre without a server": func(c *platform.Config) { c.Provisioning.Centres[0].Capacity = 0 },
		"no lease":                       func(c *platform.Config) { c.Provisioning.Lease = 0 },
		"no length":                      func(c *platform.Config) { c.Games.Length = 0 },
		"lengths of nothing":             func(c *platform.Config) { c.Games.LengthSpread = 100 },
		"more crashes than matches":      func(c *platform.Config) { c.Games.CrashShare = 101 },
		"a share of late results of no":  func(c *platform.Config) { c.Games.LateShare = math.NaN() },
		"late results by nothing":        func(c *platform.Config) { c.Games.LateShare = 1 },
		"no recorders":                   func(c *platform.Config) { c.Games.Recorders = 0 },
		"a win that costs":               func(c *platform.Config) { c.Results.Win = -1 },
		"a loss that costs":              func(c *platform.Config) { c.Results.Loss = -1 },
	} {
		// What is changed is the test's own, and changes nothing for the next one.
		c := config(platform.Roles()...)
		c.Peers = map[string]*api.Client{}
		for _, peer := range platform.Peers(c.Roles) {
			c.Peers[peer] = somewhere
		}
		if _, err := platform.New(c, prometheus.NewRegistry()); err != nil {
			t.Fatalf("what is changed below: %v", err)
		}
		change(&c)
		if _, err := platform.New(c, prometheus.NewRegistry()); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestTheServiceRefusesBadFlags(t *testing.T) {
	good := []string{"--listen=127.0.0.1:0", "--metrics=127.0.0.1:0", "--peer=store=127.0.0.1:1", "--redis=127.0.0.1:1"}
	run := func(args []string, within time.Duration) error {
		ctx, cancel := context.WithTimeout(t.Context(), within) // what is accepted serves until then
		defer cancel()
		return services.Run(ctx, "platform", args)
	}
	for _, have := range [][]string{
		nil, {"--roles=party"}, {"--roles=queue, agents", "--peer=provisioning=127.0.0.1:1", "--peer=games=127.0.0.1:1", "--limit=queue=8,other=4"},
		{"--cost=results=1h", "--cache=none", "--centres=eu=1", "--crash-share=1", "--no-singleflight", "--cache-at-once"},
	} {
		if err := run(slices.Concat(good, have), 50*time.Millisecond); err != nil {
			t.Errorf("%q: %v", have, err)
		}
	}
	for _, have := range [][]string{
		{"x"}, {"--roles="}, {"--roles=chat"}, {"--roles=party,party"},
		{"--limit=0"}, {"--limit=party=3"}, {"--limit=chat=3,other=1"}, {"--limit=many"},
		{"--cost=party"}, {"--cost=party=often"}, {"--cost=chat=1s"}, {"--cost=party=-1s"},
		{"--peer=store"}, {"--peer=store=127.0.0.1"}, {"--speed=0"}, {"--speed=NaN"},
		{"--cache=browser"}, {"--cache-for=1s"}, {"--cache-jitter=101"}, {"--redis="},
		{"--centres=eu"}, {"--centres=eu=many"}, {"--centres=eu=0"}, {"--centres="}, {"--centres=eu=1,eu=1"},
		{"--match-size=9"}, {"--length=0s"}, {"--late-share=101"}, {"--seed=-1"}, {"--settings=nowhere.yaml"},
		{"--listen=127.0.0.1:-1"},
	} {
		if err := run(slices.Concat(good, have), 10*time.Second); err == nil {
			t.Errorf("%q: no error", have)
		}
	}
}
