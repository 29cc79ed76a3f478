package players_test

import (
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"relapse/topologies/services/players"
)

// script answers each path with 200, or with 500 as long as it is broken.
type script struct {
	mu     sync.Mutex
	broken map[string]int // failures left, by path; -1 for all
	asked  map[string]int
}

func (s *script) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked[r.URL.Path]++
	if left := s.broken[r.URL.Path]; left != 0 {
		if left > 0 {
			s.broken[r.URL.Path]--
		}
		w.WriteHeader(http.StatusInternalServerError)
	}
}

func (s *script) set(path string, failures int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.broken[path] = failures
}

func (s *script) count(path string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked[path]
}

func populate(t *testing.T, change func(*players.Config)) (*script, *players.Generator) {
	t.Helper()
	s := &script{broken: map[string]int{}, asked: map[string]int{}}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	c := config(server.URL)
	change(&c)
	return s, run(t, c)
}

func withMatch(c *players.Config) {
	c.Populations.Match = &players.Match{
		Players: 20, Refresh: players.Call{Method: "GET", Path: "/refresh"},
		Every: 200 * time.Millisecond, RetryAfter: 60 * time.Millisecond, DroppedAfter: 2,
	}
}

func inState(t *testing.T, g *players.Generator, population, state string) float64 {
	t.Helper()
	return value(t, g, population, map[string]string{"state": state})
}

func TestPopulationsBeginWithTheFirstRates(t *testing.T) {
	s, g := populate(t, withMatch)
	began := time.Now()
	eventually(t, "more than a period is over", func() bool { return time.Since(began) > 250*time.Millisecond })
	if have := s.count("/refresh"); have != 0 {
		t.Errorf("refreshes before the first rates: have %d, want none", have)
	}
	setRates(t, g, nil)
	eventually(t, "refreshes are made", func() bool { return s.count("/refresh") > 0 })
}

func TestPlayersInAMatchRefreshEvenly(t *testing.T) {
	s, g := populate(t, withMatch)
	began := time.Now()
	setRates(t, g, nil)
	eventually(t, "100 refreshes are made", func() bool { return s.count("/refresh") >= 100 })
	// 20 players every 200 ms are 100 in a second.
	if took := time.Since(began); took < 900*time.Millisecond || took > 1500*time.Millisecond {
		t.Errorf("100 refreshes of 100/s took %v", took)
	}
	if have := inState(t, g, "relapse_players", "in_match"); have != 20 {
		t.Errorf("in match: have %v, want 20", have)
	}
}

func TestOneFailedRefreshDropsNobody(t *testing.T) {
	s, g := populate(t, withMatch)
	// Five failures are used up by first tries, which come every 10 ms, before
	// the first second try, which comes after 60 ms.
	s.set("/refresh", 5)
	setRates(t, g, nil)
	eventually(t, "all have refreshed", func() bool { return ended(t, g, "refresh", "ok") >= 40 })
	if have := ended(t, g, "refresh", "error"); have != 5 {
		t.Errorf("failed: have %v, want 5", have)
	}
	if have := inState(t, g, "relapse_players", "dropped"); have != 0 {
		t.Errorf("dropped: have %v, want none", have)
	}
}

func TestTwoFailedRefreshesInARowDropThePlayer(t *testing.T) {
	s, g := populate(t, withMatch)
	s.set("/refresh", -1)
	setRates(t, g, nil)
	eventually(t, "all are dropped", func() bool { return inState(t, g, "relapse_players", "dropped") == 20 })
	if have := s.count("/refresh"); have != 40 {
		t.Errorf("refreshes: have %d, want 40, two of each", have)
	}
	if have := inState(t, g, "relapse_players", "in_match"); have != 0 {
		t.Errorf("in match: have %v, want none", have)
	}
	s.set("/refresh", 0)
	began := time.Now()
	eventually(t, "two more periods are over", func() bool { return time.Since(began) > 400*time.Millisecond })
	if have := s.count("/refresh"); have != 40 {
		t.Errorf("refreshes once all were dropped: have %d, want 40 still", have)
	}
}

func withLaunchers(signOut bool) func(c *players.Config) {
	return func(c *players.Config) {
		c.Populations.Launchers = &players.Launchers{
			Count: 10, Every: 100 * time.Millisecond, SignOutOnError: signOut,
			Check: players.Call{Method: "GET", Path: "/verify"}, Login: players.Call{Method: "POST", Path: "/login"},
			BackAfterMin: 20 * time.Millisecond, BackAfterMax: 60 * time.Millisecond,
		}
	}
}

func TestAFailedCheckSignsOutUntilALoginSucceeds(t *testing.T) {
	s, g := populate(t, withLaunchers(true))
	setRates(t, g, nil)
	eventually(t, "checks succeed", func() bool { return ended(t, g, "check", "ok") >= 10 })
	s.set("/login", -1)
	s.set("/verify", -1)
	eventually(t, "all are signed out", func() bool { return inState(t, g, "relapse_launchers", "signed_out") == 10 })
	checks := s.count("/verify")
	eventually(t, "they try to sign in again and again", func() bool { return ended(t, g, "relogin", "error") >= 30 })
	if have := s.count("/verify"); have != checks {
		t.Errorf("checks by launchers that are signed out: have %d, want none", have-checks)
	}
	s.set("/verify", 0)
	s.set("/login", 0)
	eventually(t, "all are signed in", func() bool { return inState(t, g, "relapse_launchers", "signed_in") == 10 })
	if have := value(t, g, "relapse_forced_signouts_total", nil); have != 10 {
		t.Errorf("forced sign-outs: have %v, want 10, one each", have)
	}
	if have := ended(t, g, "relogin", "ok"); have != 10 {
		t.Errorf("logins that succeeded: have %v, want 10", have)
	}
	succeeded := ended(t, g, "check", "ok")
	eventually(t, "checks go on", func() bool { return ended(t, g, "check", "ok") > succeeded })
}

func TestAPatientLauncherStaysSignedIn(t *testing.T) {
	s, g := populate(t, withLaunchers(false))
	s.set("/verify", -1)
	setRates(t, g, nil)
	eventually(t, "checks fail, several of each launcher", func() bool { return ended(t, g, "check", "error") >= 30 })
	if have := inState(t, g, "relapse_launchers", "signed_in"); have != 10 {
		t.Errorf("signed in: have %v, want 10", have)
	}
	if signouts, logins := value(t, g, "relapse_forced_signouts_total", nil), s.count("/login"); signouts != 0 || logins != 0 {
		t.Errorf("have %v forced sign-outs and %d logins, want none", signouts, logins)
	}
}

func TestNoRateCanBeSetForAPopulation(t *testing.T) {
	_, g := populate(t, withLaunchers(true))
	if err := g.SetRates(map[string]float64{"check": 1}); err == nil {
		t.Error("a rate: no error")
	}
	if err := g.SetScale("x", "relogin", 2); err == nil {
		t.Error("a scale: no error")
	}
	if !g.Rates()["check"].Population {
		t.Error("check is not marked as a population's")
	}
}
