package platform_test

import (
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"relapse/topologies/services/platform"
	"relapse/topologies/services/platform/api"
)

func TestTokens(t *testing.T) {
	r := start(t, config(platform.Session))
	login := func(player int) string {
		t.Helper()
		var token api.Token
		response := r.ask(t, "POST", fmt.Sprintf("/login?player=%d", player), nil, &token)
		if response.StatusCode != http.StatusOK || token.Token == "" || token.LastsMS != time.Hour.Milliseconds() {
			t.Fatalf("have %d %+v, want a token for an hour", response.StatusCode, token)
		}
		return token.Token
	}
	first, other := login(1), login(2)
	if first == other {
		t.Errorf("have %q for two players", first)
	}
	again := login(1)
	for _, c := range []struct {
		name, query string
		want        int
	}{
		{"the player's own", "player=1&token=" + again, 200},
		{"the same once more", "player=1&token=" + again, 200},
		{"one from before the last login", "player=1&token=" + first, 401},
		{"another player's", "player=1&token=" + other, 401},
		{"of nobody", "player=3&token=" + other, 401},
		{"none", "player=1", 401},
		{"no player", "token=" + again, 400},
		{"no number", "player=x&token=" + again, 400},
	} {
		var token api.Token
		response := r.ask(t, "POST", "/renew?"+c.query, nil, &token)
		if response.StatusCode != c.want {
			t.Errorf("%s: have %d, want %d", c.name, response.StatusCode, c.want)
		}
		if c.want == 200 && token.Token != again {
			t.Errorf("%s: have %q, want the same token", c.name, token.Token)
		}
	}
	r.expect(t, 2, "relapse_tokens")
	r.expect(t, 3, "relapse_handled_total", "login", "ok", "session")
	r.expect(t, 4, "relapse_handled_total", "renew", "unknown", "session")
	r.expect(t, 2, "relapse_handled_total", "renew", "malformed", "session")
	r.expect(t, 8, "relapse_handle_seconds", "renew", "session")
}

func TestATokenRunsOut(t *testing.T) {
	c := config(platform.Session)
	c.Session.TokenLasts = 1 // ns: over before the answer is there
	r := start(t, c)
	var token api.Token
	r.ask(t, "POST", "/login?player=1", nil, &token)
	if have := r.status(t, "POST", "/renew?player=1&token="+token.Token, nil); have != http.StatusUnauthorized {
		t.Errorf("have %d, want 401", have)
	}
}

// cohort finds some players who have the same settings.
func cohort(n, count int) (found []api.Player) {
	for p := api.Player(0); len(found) < count; p++ {
		if p.Partition()%platform.Cohorts == n {
			found = append(found, p)
		}
	}
	return found
}

// origin answers with a version of the settings.
func origin(version int64) func(int, asked) (int, any) {
	return func(_ int, a asked) (int, any) {
		return http.StatusOK, api.Settings{Version: version, Settings: map[string]string{"from": a.path}}
	}
}

func TestSettings(t *testing.T) {
	both := platform.Caches{Handler: true, Caller: true}
	for _, c := range []struct {
		name    string
		change  func(*platform.SessionConfig)
		asks    int    // of the origin, for two players of a cohort
		control string // Cache-Control
		leak    bool   // the second player gets the first one's settings
	}{
		{"as documented", func(*platform.SessionConfig) {}, 1, "private, max-age=60", false},
		{"only in the process", func(c *platform.SessionConfig) { c.Caches = platform.Caches{Handler: true} }, 1, "no-store", false},
		{"only with the caller", func(c *platform.SessionConfig) { c.Caches = platform.Caches{Caller: true} }, 2, "private, max-age=60", false},
		{"at the edge too", func(c *platform.SessionConfig) { c.Caches = both; c.Caches.Edge = true }, 1, "public, max-age=60", false},
		{"nowhere", func(c *platform.SessionConfig) { c.Caches = platform.Caches{} }, 2, "no-store", false},
		{"under a shared key", func(c *platform.SessionConfig) { c.SharedKey = true }, 1, "private, max-age=60", true},
		{"under a shared key that nothing is kept by", func(c *platform.SessionConfig) { c.SharedKey, c.Caches.Handler = true, false }, 2, "private, max-age=60", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			conf := config(platform.Session)
			c.change(&conf.Session)
			r := start(t, conf, func(r *rig) { r.peers[platform.Origin].answers(origin(7)) })
			two := cohort(5, 2)
			for n, player := range two {
				var settings api.Settings
				response := r.ask(t, "GET", "/config?player="+player.String(), nil, &settings)
				if have := response.Header.Get("Cache-Control"); have != c.control {
					t.Errorf("Cache-Control: have %q, want %q", have, c.control)
				}
				if settings.Version != 7 || settings.Settings["from"] != "/documents/5" {
					t.Errorf("have %+v, want version 7 of cohort 5", settings)
				}
				want := player
				if c.leak {
					want = two[0]
				}
				if have := settings.Settings[api.SettingPlayer]; have != want.String() {
					t.Errorf("player %d: have the settings of %s, want those of %d", n, have, want)
				}
			}
			if have := len(r.peers[platform.Origin].all("GET", "/documents/5")); have != c.asks {
				t.Errorf("the origin was asked %d times, want %d", have, c.asks)
			}
			r.expect(t, float64(c.asks), "relapse_cache_lookups_total", "miss")
			r.expect(t, float64(2-c.asks), "relapse_cache_lookups_total", "hit")
			r.expect(t, float64(c.asks), "relapse_calls_total", "ok", platform.Origin, platform.Session)
		})
	}
}

func TestErrorsOfTheOrigin(t *testing.T) {
	for _, c := range []struct {
		name   string
		errors bool // are kept
		origin int
		first  int
		second int // once the origin is well again
	}{
		{"an error", false, 500, 502, 200},
		{"a refusal", false, 503, 503, 200},
		{"an error that is kept", true, 500, 502, 502},
	} {
		t.Run(c.name, func(t *testing.T) {
			conf := config(platform.Session)
			conf.Session.CacheErrors = c.errors
			r := start(t, conf)
			at := r.peers[platform.Origin]
			at.answers(func(int, asked) (int, any) { return c.origin, "away" })
			if have := r.status(t, "GET", "/config?player=1", nil); have != c.first {
				t.Errorf("at first: have %d, want %d", have, c.first)
			}
			at.answers(origin(1))
			if have := r.status(t, "GET", "/config?player=1", nil); have != c.second {
				t.Errorf("then: have %d, want %d", have, c.second)
			}
		})
	}
}

func TestAnOriginThatDoesNotAnswer(t *testing.T) {
	conf := config(platform.Session)
	conf.CallTimeout = 50 * time.Millisecond
	r := start(t, conf)
	r.peers[platform.Origin].stuck(t)
	if have := r.status(t, "GET", "/config?player=1", nil); have != http.StatusGatewayTimeout {
		t.Errorf("have %d, want 504", have)
	}
	r.expect(t, 1, "relapse_handled_total", "config", "failed", "session")
	r.expect(t, 1, "relapse_calls_total", "timeout", platform.Origin, platform.Session)
}

func TestStampede(t *testing.T) {
	const callers = 8
	for _, c := range []struct {
		name string
		all  bool // ask the origin
		asks int
	}{{"one asks for all", false, 1}, {"all ask", true, callers}} {
		t.Run(c.name, func(t *testing.T) {
			conf := config(platform.Session)
			conf.Session.NoSingleflight = c.all
			r := start(t, conf)
			at := r.peers[platform.Origin]
			at.answers(origin(1))
			release := at.stuck(t)
			var asking sync.WaitGroup
			for _, player := range cohort(3, callers) {
				asking.Go(func() {
					response, err := r.try(t.Context(), "GET", "/config?player="+player.String(), nil, nil)
					if err != nil || response.StatusCode != http.StatusOK {
						t.Errorf("have %v, %v; want 200", response, err)
					}
				})
			}
			eventually(t, "all are being answered", func() bool {
				return r.value(t, "relapse_in_flight", "all") == callers && len(at.all("", "")) >= c.asks
			})
			release()
			asking.Wait()
			if have := len(at.all("", "")); have != c.asks {
				t.Errorf("the origin was asked %d times, want %d", have, c.asks)
			}
			r.expect(t, float64(c.asks-1), "relapse_cache_stampedes_total")
		})
	}
}

func TestStaleReads(t *testing.T) {
	r := start(t, config(platform.Session))
	at := r.peers[platform.Origin]
	a, b := cohort(1, 1)[0], cohort(2, 1)[0]
	for n, c := range []struct {
		player  api.Player
		version int64 // at the origin
		want    int64 // that is given
		stale   float64
	}{{a, 1, 1, 0}, {a, 2, 1, 0}, {b, 2, 2, 0}, {a, 2, 1, 1}, {b, 3, 2, 1}, {a, 3, 1, 2}} {
		at.answers(origin(c.version))
		var settings api.Settings
		r.ask(t, "GET", "/config?player="+c.player.String(), nil, &settings)
		if settings.Version != c.want {
			t.Errorf("%d: have version %d, want %d", n, settings.Version, c.want)
		}
		if have := r.value(t, "relapse_stale_reads_total"); have != c.stale {
			t.Errorf("%d: have %v stale reads, want %v", n, have, c.stale)
		}
	}
}

func TestTheOriginOfSettings(t *testing.T) {
	r := start(t, config(platform.Origin))
	read := func() api.Settings {
		t.Helper()
		var settings api.Settings
		if have := r.ask(t, "GET", "/documents/3", nil, &settings).StatusCode; have != http.StatusOK {
			t.Fatalf("have %d, want 200", have)
		}
		return settings
	}
	if have := read(); have.Version != 1 || have.Settings["cohort"] != "3" {
		t.Errorf("have %+v, want version 1 of cohort 3", have)
	}
	for _, c := range []struct {
		op   string
		want int64 // version, 0 for a refusal
	}{{"a", 2}, {"a", 2}, {"b", 3}, {"a", 2}, {"", 0}} {
		var version api.Version
		response := r.ask(t, "POST", "/documents", api.Change{Op: c.op}, &version)
		if version.Version != c.want || (response.StatusCode == http.StatusOK) != (c.want != 0) {
			t.Errorf("%q: have %d %+v, want %d", c.op, response.StatusCode, version, c.want)
		}
	}
	if have := read(); have.Version != 3 {
		t.Errorf("have %+v, want version 3", have)
	}
	for _, path := range []string{"/documents/16", "/documents/-1", "/documents/x"} {
		if have := r.status(t, "GET", path, nil); have != http.StatusNotFound {
			t.Errorf("%s: have %d, want 404", path, have)
		}
	}
	r.expect(t, 3, "relapse_config_version")
}

func TestSettingsChangeByTheClock(t *testing.T) {
	c := config(platform.Origin)
	c.Speed, c.Origin.ChangeEvery = 3600, time.Minute // 17 ms
	r := start(t, c)
	eventually(t, "there is a third version", func() bool { return r.value(t, "relapse_config_version") >= 3 })
}

func TestCachesAsAFlagHasThem(t *testing.T) {
	for _, c := range []struct {
		have string
		want platform.Caches
		ok   bool
	}{
		{"none", platform.Caches{}, true},
		{"handler", platform.Caches{Handler: true}, true},
		{"handler, caller,edge", platform.Caches{Handler: true, Caller: true, Edge: true}, true},
		{"", platform.Caches{}, false},
		{"browser", platform.Caches{}, false},
		{"handler,none", platform.Caches{}, false},
	} {
		have, err := platform.ParseCaches(c.have)
		if have != c.want || (err == nil) != c.ok {
			t.Errorf("%q: have %+v, %v; want %+v", c.have, have, err, c.want)
		}
	}
}
