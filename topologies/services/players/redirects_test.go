package players_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"relapse/topologies/services/players"
	"relapse/topologies/services/retry"
)

// host names a server as a generator does.
func host(url string) string { return strings.TrimPrefix(url, "http://") }

func redirected(t *testing.T, g *players.Generator, name, from, to string) {
	t.Helper()
	if err := g.Redirect(name, host(from), host(to)); err != nil {
		t.Fatal(err)
	}
}

// counter is a server that counts its requests.
type counter struct {
	*httptest.Server
	asked atomic.Int64
}

func newCounter(t *testing.T, answer http.HandlerFunc) *counter {
	t.Helper()
	c := &counter{}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.asked.Add(1)
		if answer != nil {
			answer(w, r)
		}
	}))
	t.Cleanup(c.Close)
	return c
}

// A spare gets nothing until a redirect names it, and nothing once that has
// ended; what goes to another target goes there all the while.
func TestARedirectMovesRequests(t *testing.T) {
	a, b, spare := newCounter(t, nil), newCounter(t, nil), newCounter(t, nil)
	c := config("")
	c.Targets, c.Spares = []string{a.URL, b.URL}, []string{spare.URL}
	g := run(t, c)
	setRates(t, g, map[string]float64{"op": 200})
	near := func(url string, want float64) bool {
		have := g.Routing().Targets[host(url)].Sent
		return have >= 0.8*want && have <= 1.2*want
	}
	eventually(t, "half of the requests go to each target", func() bool { return near(a.URL, 100) && near(b.URL, 100) })
	if have := spare.asked.Load(); have != 0 {
		t.Errorf("requests to a spare: have %d, want none", have)
	}
	redirected(t, g, "r", a.URL, spare.URL)
	eventually(t, "those of one target go to the spare", func() bool {
		return near(a.URL, 0) && near(b.URL, 100) && near(spare.URL, 100)
	})
	before := a.asked.Load()
	state := g.Routing().Redirects["r"]
	if state.From != host(a.URL) || state.To != host(spare.URL) || state.Moved < 80 || state.Moved > 120 {
		t.Errorf("redirect: have %+v, want about 100 a second from %s to %s", state, host(a.URL), host(spare.URL))
	}
	eventually(t, "more requests reach the spare", func() bool { return spare.asked.Load() >= 100 })
	if have := a.asked.Load(); have != before {
		t.Errorf("requests to a target that is redirected: have %d, want none", have-before)
	}
	if !g.Routing().Targets[host(spare.URL)].Spare || g.Routing().Targets[host(a.URL)].Spare {
		t.Errorf("targets: have %+v, want one of them marked as a spare", g.Routing().Targets)
	}
	g.DropRedirect("r")
	g.DropRedirect("r")
	eventually(t, "all is as before", func() bool {
		routing := g.Routing()
		return near(a.URL, 100) && near(b.URL, 100) && near(spare.URL, 0) && len(routing.Redirects) == 0
	})
	setRates(t, g, nil)
	eventually(t, "all requests end well", func() bool { return ended(t, g, "op", "ok") == offered(t, g, "op") })
}

// A further attempt goes where the redirect leads as well, also of a request
// whose first attempt went elsewhere.
func TestARedirectMovesFurtherAttempts(t *testing.T) {
	refuse := func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }
	a, b := newCounter(t, refuse), newCounter(t, nil)
	c := config(a.URL)
	c.Spares = []string{b.URL}
	c.Retries = &retry.Config{Count: 1, Backoff: &retry.Backoff{Base: 500 * time.Millisecond, Max: 500 * time.Millisecond}}
	g := run(t, c)
	setRates(t, g, map[string]float64{"op": 200})
	eventually(t, "20 requests are refused and wait", func() bool { return attempted(t, g, "op", "refused") >= 20 })
	setRates(t, g, nil)
	redirected(t, g, "r", a.URL, b.URL)
	before := a.asked.Load()
	eventually(t, "requests are tried again", func() bool { return ended(t, g, "op", "ok") >= 5 })
	eventually(t, "all requests end", func() bool {
		return ended(t, g, "op", "ok")+ended(t, g, "op", "refused") == offered(t, g, "op")
	})
	if have := a.asked.Load(); have > before+3 { // of twenty; a few may have been on their way
		t.Errorf("attempts at a target that is redirected: have %d, want none", have-before)
	}
}

// The connections that wait for requests are given up.
func TestARedirectGivesUpIdleConnections(t *testing.T) {
	a, b := newLobby(t), newLobby(t)
	c := config(a.URL)
	c.Spares = []string{b.URL}
	g := run(t, c)
	setRates(t, g, map[string]float64{"op": 100})
	eventually(t, "requests end", func() bool { return ended(t, g, "op", "ok") >= 20 })
	if open, _ := a.connections(); open == 0 {
		t.Fatal("no connection is kept, so that none could be given up")
	}
	redirected(t, g, "r", a.URL, b.URL)
	began := time.Now()
	eventually(t, "no connection to the first target is left", func() bool { open, _ := a.connections(); return open == 0 })
	// Left alone they would be closed after 5 s without a request.
	if took := time.Since(began); took > 3*time.Second {
		t.Errorf("it took %v, want it at once, or within a second or so for what was on its way", took)
	}
}

func TestARedirectMovesSessions(t *testing.T) {
	a, b, spare := newLobby(t), newLobby(t), newLobby(t)
	g := connected(t, time.Hour, func(c *players.Config) { c.Spares = []string{spare.URL} }, a, b)
	at := func(l *lobby) (n int) { n, _ = l.connections(); return n }
	redirected(t, g, "r", a.URL, spare.URL)
	began := time.Now()
	eventually(t, "the sessions of one target are at the spare", func() bool {
		return at(a) == 0 && at(b) == crowd/2 && at(spare) == crowd/2 && g.SessionState().Connected == crowd
	})
	if took := time.Since(began); took > time.Second {
		t.Errorf("it took %v, want it at once", took)
	}
	if have := value(t, g, "relapse_reconnects_total", nil); have != crowd/2 {
		t.Errorf("reconnects: have %v, want the %d that were moved", have, crowd/2)
	}
	routing := g.Routing()
	if have := routing.Redirects["r"].Sessions; have != crowd/2 {
		t.Errorf("moved sessions: have %d, want %d", have, crowd/2)
	}
	for l, want := range map[*lobby]int{a: 0, b: crowd / 2, spare: crowd / 2} {
		if have := routing.Targets[host(l.URL)].Sessions; have != want {
			t.Errorf("sessions at %s: have %d, want %d", host(l.URL), have, want)
		}
	}

	// Moved back gently: they stay until their connection breaks.
	g.DropRedirect("r")
	if have := g.Routing().Redirects["r"].Sessions; have != 0 {
		t.Errorf("sessions of a redirect that has ended: have %d, want none", have)
	}
	began = time.Now()
	eventually(t, "half a second is over", func() bool { return time.Since(began) > 500*time.Millisecond })
	if at(a) != 0 || at(spare) != crowd/2 {
		t.Errorf("sessions after the redirect: have %d at the first and %d at the spare, want them to stay", at(a), at(spare))
	}
	cutOnce(t, g)
	eventually(t, "those who connect again are at the first target", func() bool {
		return at(a) == crowd/2 && at(b) == crowd/2 && at(spare) == 0
	})
}

// cutOnce cuts the connections of all sessions, which is no refusal, however
// young they are.
func cutOnce(t *testing.T, g *players.Generator) {
	t.Helper()
	if err := g.StartWaves("once", time.Hour); err != nil {
		t.Fatal(err)
	}
	g.StopWaves("once")
}

// Sessions that an earlier redirect left behind are moved from where they are,
// whatever their turn.
func TestARedirectMovesWhatAnotherOneLeft(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		to   int // of the second redirect: a lobby
	}{{"back", 0}, {"on", 2}} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			all := []*lobby{newLobby(t), newLobby(t), newLobby(t)}
			g := connected(t, time.Hour, func(c *players.Config) { c.Spares = []string{all[1].URL, all[2].URL} }, all[0])
			at := func(n int) int { open, _ := all[n].connections(); return open }
			redirected(t, g, "there", all[0].URL, all[1].URL)
			eventually(t, "all sessions are at the first spare", func() bool { return at(1) == crowd && g.SessionState().Connected == crowd })
			g.DropRedirect("there")
			redirected(t, g, "further", all[1].URL, all[tc.to].URL)
			eventually(t, "all sessions have moved", func() bool { return at(1) == 0 && at(tc.to) == crowd })
			eventually(t, "the redirect says so", func() bool { return g.Routing().Redirects["further"].Sessions == crowd })
		})
	}
}

// A connection that is cut is no refusal: the session does not pass its target
// over, so that it is there again once the redirect has ended.
func TestAMovedSessionKeepsItsTurn(t *testing.T) {
	t.Parallel()
	a, b, spare := newLobby(t), newLobby(t), newLobby(t)
	g := connected(t, time.Hour, func(c *players.Config) { c.Spares = []string{spare.URL} }, a, b)
	for range 3 {
		redirected(t, g, "r", a.URL, spare.URL)
		eventually(t, "sessions are moved", func() bool {
			open, _ := spare.connections()
			return open == crowd/2 && g.SessionState().Connected == crowd
		})
		g.DropRedirect("r")
		cutOnce(t, g)
		eventually(t, "sessions are back", func() bool {
			open, _ := a.connections()
			other, _ := b.connections()
			return open == crowd/2 && other == crowd/2 && g.SessionState().Connected == crowd
		})
	}
	if have, want := g.SessionState().Reconnects, 3*(crowd/2+crowd); have != want {
		t.Errorf("reconnects: have %d, want %d: those who moved and then all, three times", have, want)
	}
}

// A call that is cut short has failed, and was not refused.
func TestAMovedSessionsCallIsNoRefusal(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	a := newCounter(t, func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-release:
		case <-r.Context().Done():
		}
	})
	defer close(release)
	b := newCounter(t, nil)
	c := config(a.URL)
	c.Spares = []string{b.URL}
	c.Populations.Sessions = &players.Sessions{Count: crowd, Every: 500 * time.Millisecond, Call: players.Call{Method: "GET", Path: "/alive"}}
	g := run(t, c)
	setRates(t, g, nil)
	eventually(t, "each session has a call on its way", func() bool { return a.asked.Load() == crowd })
	redirected(t, g, "r", a.URL, b.URL)
	eventually(t, "each session has called the other target", func() bool { return b.asked.Load() >= crowd })
	if refused, failed := ended(t, g, "session", "refused"), ended(t, g, "session", "error"); refused != 0 || failed != crowd {
		t.Errorf("calls: have %v refused and %v failed, want none refused and the %d that were on their way failed", refused, failed, crowd)
	}
	if have := g.SessionState().Reconnects; have != crowd {
		t.Errorf("reconnects: have %d, want %d", have, crowd)
	}
}

// The same order again, as by someone whose first answer was lost, moves nobody
// twice.
func TestARedirectThatIsOrderedAgain(t *testing.T) {
	t.Parallel()
	a, b := newLobby(t), newLobby(t)
	g := connected(t, time.Hour, func(c *players.Config) { c.Spares = []string{b.URL} }, a)
	for range 2 {
		redirected(t, g, "r", a.URL, b.URL)
		eventually(t, "all sessions have moved", func() bool { return g.Routing().Redirects["r"].Sessions == crowd })
	}
	if have := g.SessionState().Reconnects; have != crowd {
		t.Errorf("reconnects: have %d, want %d", have, crowd)
	}
}

// A redirect that comes while sessions connect leaves nobody behind: a connection
// that was on its way then is not kept.
func TestARedirectWhileSessionsConnect(t *testing.T) {
	t.Parallel()
	a, spare := newLobby(t), newLobby(t)
	g := connected(t, time.Hour, func(c *players.Config) { c.Spares = []string{spare.URL} }, a)
	all := func(l *lobby) func() bool {
		return func() bool {
			open, _ := l.connections()
			return open == crowd && g.Routing().Targets[host(l.URL)].Sessions == crowd
		}
	}
	for range 10 {
		_, before := a.connections()
		cutOnce(t, g)
		eventually(t, "the first of them connects again", func() bool { _, opened := a.connections(); return opened > before })
		redirected(t, g, "r", a.URL, spare.URL)
		eventually(t, "all sessions are at the spare", all(spare))
		g.DropRedirect("r")
		cutOnce(t, g)
		eventually(t, "all sessions are back", all(a))
	}
}

// Sessions are moved while they call and reconnect, and are asked after.
func TestRedirectsAndWavesTogether(t *testing.T) {
	t.Parallel()
	a, b, spare := newLobby(t), newLobby(t), newLobby(t)
	g := connected(t, 20*time.Millisecond, func(c *players.Config) { c.Spares = []string{spare.URL} }, a, b)
	setRates(t, g, map[string]float64{"op": 200})
	if err := g.StartWaves("w", 50*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	for range 10 {
		redirected(t, g, "r", a.URL, spare.URL)
		eventually(t, "nobody is at the first target", func() bool { return g.Routing().Targets[host(a.URL)].Sessions == 0 })
		g.DropRedirect("r")
		eventually(t, "some are at the first target", func() bool { return g.Routing().Targets[host(a.URL)].Sessions > 0 })
	}
	redirected(t, g, "r", a.URL, spare.URL)
	g.StopWaves("w")
	eventually(t, "all are connected, none of them to the first target", func() bool {
		open, _ := a.connections()
		return open == 0 && g.SessionState().Connected == crowd && g.Routing().Targets[host(a.URL)].Sent == 0
	})
}

func TestRedirectRefuses(t *testing.T) {
	var urls []string
	for range 5 {
		urls = append(urls, host(newCounter(t, nil).URL))
	}
	c := config("")
	for n := range urls {
		url := "http://" + urls[n]
		if n < 3 {
			c.Targets = append(c.Targets, url)
		} else {
			c.Spares = append(c.Spares, url)
		}
	}
	g := run(t, c)
	if err := g.Redirect("held", urls[0], urls[3]); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name, from, to string
		want           error
		says           []string
	}{
		{"an unknown target", "x:80", urls[1], players.ErrUnknownTarget, append([]string{`"x:80"`, "from"}, urls...)},
		{"no target", urls[1], "", players.ErrUnknownTarget, append([]string{"to"}, urls...)},
		{"one of several at a host", "127.0.0.1", urls[1], players.ErrUnknownTarget, []string{"port"}},
		{"a target to itself", urls[1], urls[1], players.ErrRedirected, []string{urls[1]}},
		{"a target that is redirected", urls[0], urls[1], players.ErrRedirected, []string{urls[0], urls[3], "held"}},
		{"to a target that is redirected", urls[1], urls[0], players.ErrRedirected, []string{urls[0], urls[3], "held"}},
		{"what another redirect leads to", urls[3], urls[4], players.ErrRedirected, []string{urls[0], urls[3], "held"}},
	} {
		err := g.Redirect("another", tc.from, tc.to)
		if !errors.Is(err, tc.want) {
			t.Errorf("%s: have %v, want %v", tc.name, err, tc.want)
			continue
		}
		for _, says := range tc.says {
			if !strings.Contains(err.Error(), says) {
				t.Errorf("%s: have %v, want %s in it", tc.name, err, says)
			}
		}
	}
	if have := g.Routing().Redirects; len(have) != 1 {
		t.Errorf("redirects after refusals: have %v, want the one that was there", have)
	}
	// Under its own name it may lead elsewhere, and two may lead to one target.
	for _, tc := range []struct{ name, from, to string }{{"held", urls[0], urls[4]}, {"another", urls[1], urls[4]}} {
		if err := g.Redirect(tc.name, tc.from, tc.to); err != nil {
			t.Errorf("%s: %v", tc.name, err)
		}
	}
	g.DropRedirect("held")
	if err := g.Redirect("back", urls[2], urls[0]); err != nil {
		t.Errorf("to a target whose redirect has ended: %v", err)
	}
}
