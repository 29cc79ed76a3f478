package players_test

import (
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"relapse/topologies/services/players"
	"relapse/topologies/services/retry"
)

// lobby is a server that sessions are connected to.
type lobby struct {
	*httptest.Server
	mu     sync.Mutex
	open   map[net.Conn]bool
	opened []time.Time // connections, when
	full   bool        // says so to whoever connects
	status int
}

func newLobby(t *testing.T) *lobby {
	t.Helper()
	l := &lobby{open: map[net.Conn]bool{}, status: 200}
	l.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		l.mu.Lock()
		defer l.mu.Unlock()
		w.WriteHeader(l.status)
	}))
	l.Config.ConnState = func(conn net.Conn, state http.ConnState) {
		l.mu.Lock()
		defer l.mu.Unlock()
		switch state {
		case http.StateNew:
			l.opened = append(l.opened, time.Now())
			if l.full {
				_, _ = conn.Write([]byte("HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"))
				conn.Close()
				return
			}
			l.open[conn] = true
		case http.StateClosed, http.StateHijacked:
			delete(l.open, conn)
		}
	}
	l.Start()
	t.Cleanup(l.Close)
	return l
}

func (l *lobby) connections() (open, opened int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.open), len(l.opened)
}

func (l *lobby) breakAll() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for conn := range l.open {
		conn.Close()
	}
}

func (l *lobby) set(full bool, status int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.full, l.status = full, status
}

const crowd = 20

// connected has so many sessions connected to lobbies. It takes a second, over which
// they come, so that tests in which no time is measured run side by side.
func connected(t *testing.T, every time.Duration, change func(*players.Config), lobbies ...*lobby) *players.Generator {
	t.Helper()
	c := config("")
	for _, l := range lobbies {
		c.Targets = append(c.Targets, l.URL)
	}
	c.Populations.Sessions = &players.Sessions{Count: crowd, Every: every, Call: players.Call{Method: "GET", Path: "/alive"}}
	change(&c)
	g := run(t, c)
	setRates(t, g, nil)
	eventually(t, "all sessions are connected", func() bool {
		sum := 0
		for _, l := range lobbies {
			open, _ := l.connections()
			sum += open
		}
		return sum == crowd && g.SessionState().Connected == crowd
	})
	return g
}

func unchanged(*players.Config) {}

func TestASessionHoldsOneConnection(t *testing.T) {
	l := newLobby(t)
	g := connected(t, 100*time.Millisecond, unchanged, l)
	began := time.Now()
	eventually(t, "100 calls are made", func() bool { return ended(t, g, "session", "ok") >= 100 })
	// 20 sessions every 100 ms are 200 in a second.
	if took := time.Since(began); took > 1500*time.Millisecond {
		t.Errorf("100 calls of 200/s took %v", took)
	}
	if open, opened := l.connections(); open != crowd || opened != crowd {
		t.Errorf("connections: have %d open of %d, want %d of %d", open, opened, crowd, crowd)
	}
	if have := value(t, g, "relapse_reconnects_total", nil); have != 0 {
		t.Errorf("reconnects: have %v, want none", have)
	}
	if have := inState(t, g, "relapse_sessions", "connected"); have != crowd {
		t.Errorf("connected: have %v, want %d", have, crowd)
	}
	if !g.Rates()["session"].Population {
		t.Error("session is not marked as a population's")
	}
}

func TestSessionsAreSpreadOverTargets(t *testing.T) {
	t.Parallel()
	a, b := newLobby(t), newLobby(t)
	connected(t, time.Second, unchanged, a, b)
	openA, _ := a.connections()
	openB, _ := b.connections()
	if openA != crowd/2 || openB != crowd/2 {
		t.Errorf("connections: have %d and %d, want %d at each", openA, openB, crowd/2)
	}
}

func TestABrokenConnectionIsOpenedAgainAtOnce(t *testing.T) {
	l := newLobby(t)
	// Nothing is due for an hour: the break itself is what is noticed.
	g := connected(t, time.Hour, unchanged, l)
	began := time.Now()
	l.breakAll()
	eventually(t, "all are connected again", func() bool {
		open, opened := l.connections()
		return open == crowd && opened == 2*crowd
	})
	if took := time.Since(began); took > time.Second {
		t.Errorf("it took %v, want it at once", took)
	}
	if have := value(t, g, "relapse_reconnects_total", nil); have != crowd {
		t.Errorf("reconnects: have %v, want %d", have, crowd)
	}
}

// With jitter they do not come back together.
func TestReconnectsFollowTheRetries(t *testing.T) {
	l := newLobby(t)
	connected(t, time.Hour, func(c *players.Config) {
		c.Retries = &retry.Config{Count: 3, Backoff: &retry.Backoff{Base: 2 * time.Second, Max: 2 * time.Second}}
	}, l)
	l.breakAll()
	eventually(t, "all are connected again", func() bool {
		open, opened := l.connections()
		return open == crowd && opened == 2*crowd
	})
	l.mu.Lock()
	defer l.mu.Unlock()
	first, last := l.opened[crowd], l.opened[2*crowd-1]
	if spread := last.Sub(first); spread < time.Second {
		t.Errorf("they came back within %v, want them spread over 2 s", spread)
	}
}

// A session that is refused tries again ten times a second at most, also where
// the retries are at once.
func TestRefusedSessionsDoNotSpin(t *testing.T) {
	l := newLobby(t)
	g := connected(t, time.Hour, unchanged, l)
	l.set(true, 200)
	l.breakAll()
	_, before := l.connections()
	began := time.Now()
	eventually(t, "each session tries five times", func() bool {
		_, opened := l.connections()
		return opened-before >= 5*crowd
	})
	if took := time.Since(began); took < 350*time.Millisecond {
		t.Errorf("five tries of each took %v, want a tenth of a second between them", took)
	}
	l.set(false, 200)
	eventually(t, "all are connected again", func() bool { return g.SessionState().Connected == crowd })
}

// Where the retries give up, the player waits until the next call is due.
func TestRetriesThatGiveUp(t *testing.T) {
	t.Parallel()
	l := newLobby(t)
	g := connected(t, time.Hour, func(c *players.Config) { c.Retries = &retry.Config{Count: 2} }, l)
	l.set(true, 200)
	l.breakAll()
	eventually(t, "each session tries twice", func() bool { return g.SessionState().Reconnects == 2*crowd })
	began := time.Now()
	eventually(t, "half a second is over", func() bool { return time.Since(began) > 500*time.Millisecond })
	if have := g.SessionState().Reconnects; have != 2*crowd {
		t.Errorf("reconnects: have %d, want the %d of two each", have, 2*crowd)
	}
}

func TestATargetThatRefusesSessionsIsPassedOver(t *testing.T) {
	t.Parallel()
	a, b := newLobby(t), newLobby(t)
	g := connected(t, time.Hour, unchanged, a, b)
	a.set(true, 200)
	a.breakAll()
	eventually(t, "all sessions are at the other target", func() bool {
		open, _ := b.connections()
		return open == crowd
	})
	if have := g.SessionState().Connected; have != crowd {
		t.Errorf("connected: have %d, want %d", have, crowd)
	}
}

// Calls that are due while there is no connection end as timeouts, and not as
// nothing.
func TestCallsWithoutAConnectionTimeOut(t *testing.T) {
	l := newLobby(t)
	g := connected(t, 100*time.Millisecond, func(c *players.Config) { c.Timeout = 200 * time.Millisecond }, l)
	l.Close()
	before := offered(t, g, "session")
	eventually(t, "calls time out", func() bool { return ended(t, g, "session", "timeout") >= 2*crowd })
	if have := offered(t, g, "session") - before; have < 2*crowd {
		t.Errorf("offered meanwhile: have %v, want those that timed out as well", have)
	}
	if have := inState(t, g, "relapse_sessions", "disconnected"); have != crowd {
		t.Errorf("disconnected: have %v, want %d", have, crowd)
	}
}

// An answer that is an error is no reason to connect anew.
func TestAFailedCallKeepsItsConnection(t *testing.T) {
	l := newLobby(t)
	g := connected(t, 50*time.Millisecond, unchanged, l)
	l.set(false, 503)
	eventually(t, "calls are refused", func() bool { return ended(t, g, "session", "refused") >= 2*crowd })
	if _, opened := l.connections(); opened != crowd {
		t.Errorf("connections: have %d, want %d", opened, crowd)
	}
}

func TestWaves(t *testing.T) {
	l := newLobby(t)
	g := connected(t, time.Hour, unchanged, l)
	if err := g.StartWaves("a", 700*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	eventually(t, "all are cut and connected again, three times", func() bool {
		open, opened := l.connections()
		return open == crowd && opened == 4*crowd
	})
	if took := time.Since(began); took < 1300*time.Millisecond || took > 2*time.Second {
		t.Errorf("three waves took %v, want the first at once and two periods of 700 ms", took)
	}
	eventually(t, "the wave's reconnects are measured", func() bool { return g.SessionState().Waves["a"] >= crowd })
	g.StopWaves("a")
	g.StopWaves("a")
	if have := g.SessionState().Waves; len(have) != 0 {
		t.Errorf("waves: have %v, want none", have)
	}
	began = time.Now()
	eventually(t, "more than a period is over", func() bool { return time.Since(began) > 900*time.Millisecond })
	if _, opened := l.connections(); opened != 4*crowd {
		t.Errorf("connections: have %d, want the %d of before", opened, 4*crowd)
	}
}

// What reconnects for another reason is not a wave's doing.
func TestAWaveCountsItsOwnCutsOnly(t *testing.T) {
	t.Parallel()
	l := newLobby(t)
	g := connected(t, time.Hour, unchanged, l)
	if err := g.StartWaves("a", time.Minute); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the wave is measured", func() bool { return g.SessionState().Waves["a"] > 0 })
	eventually(t, "the wave is over", func() bool {
		state := g.SessionState()
		return state.Waves["a"] == 0 && state.Connected == crowd
	})
	l.breakAll()
	eventually(t, "all are connected again", func() bool { return g.SessionState().Reconnects == 2*crowd })
	began := time.Now()
	eventually(t, "a tenth of a second is over", func() bool { return time.Since(began) > 100*time.Millisecond })
	if have := g.SessionState().Waves["a"]; have != 0 {
		t.Errorf("reconnects by the wave: have %v a second, want none", have)
	}
}

func TestWavesRefuse(t *testing.T) {
	t.Parallel()
	l := newLobby(t)
	g := connected(t, time.Hour, unchanged, l)
	if err := g.StartWaves("a", 0); err == nil {
		t.Error("no period: no error")
	}
	without := run(t, config(l.URL))
	if err := without.StartWaves("a", time.Second); !errors.Is(err, players.ErrNoSessions) {
		t.Errorf("without sessions: have %v, want ErrNoSessions", err)
	}
	without.StopWaves("a")
	if have := without.SessionState(); have.Count != 0 || len(have.Waves) != 0 {
		t.Errorf("state without sessions: have %+v", have)
	}
}
