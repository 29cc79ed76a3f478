package http1_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"relapse/topologies/services/http1"
)

func client(t *testing.T, handler http.HandlerFunc) (c *http1.Client, opened *atomic.Int64) {
	t.Helper()
	opened = new(atomic.Int64)
	server := httptest.NewUnstartedServer(handler)
	server.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			opened.Add(1)
		}
	}
	server.Start()
	t.Cleanup(server.Close)
	c = &http1.Client{Address: netip.MustParseAddrPort(server.Listener.Addr().String()), Host: "here:80", Agent: "test"}
	t.Cleanup(c.Close)
	return c, opened
}

func soon() time.Time { return time.Now().Add(5 * time.Second) }

func TestDo(t *testing.T) {
	c, opened := client(t, func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusAccepted)
		_, _ = io.WriteString(w, strings.Join([]string{r.Method, r.RequestURI, r.Host, r.UserAgent()}, " "))
	})
	for _, method := range []string{"GET", "POST"} {
		request := c.Request(method, "/a?b=c")
		for range 2 {
			var body strings.Builder
			status, err := c.Do(request, soon(), &body)
			if err != nil {
				t.Fatal(err)
			}
			if want := method + " /a?b=c here:80 test"; status != 202 || body.String() != want {
				t.Errorf("have %d %q, want 202 %q", status, body.String(), want)
			}
		}
	}
	if have := opened.Load(); have != 1 {
		t.Errorf("connections: have %d, want 1", have)
	}
}

// TestNoRedirectIsFollowed holds that a reply cannot send load anywhere else.
func TestNoRedirectIsFollowed(t *testing.T) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("the other address was asked to %s %s", r.Method, r.URL)
	}))
	defer elsewhere.Close()
	for _, want := range []int{301, 302, 303, 307, 308} {
		c, opened := client(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", elsewhere.URL)
			w.WriteHeader(want)
		})
		for _, method := range []string{"GET", "POST"} {
			if have, err := c.Do(c.Request(method, "/"), soon(), io.Discard); have != want || err != nil {
				t.Errorf("%s: have %d, %v; want %d", method, have, err, want)
			}
		}
		if have := opened.Load(); have != 1 {
			t.Errorf("%d: have %d connections, want the one to the server", want, have)
		}
	}
}

func TestAConnectionIsKeptAsLongAsItIsOfUse(t *testing.T) {
	for _, tc := range []struct {
		name    string
		between func(*http1.Client)
		header  string // of the reply
		want    int64  // connections of two requests
	}{
		{"at once", func(*http1.Client) {}, "", 1},
		{"pruned while young", func(c *http1.Client) { c.Prune(time.Now()) }, "", 1},
		{"pruned when old", func(c *http1.Client) { c.Prune(time.Now().Add(time.Minute)) }, "", 2},
		{"closed by us", func(c *http1.Client) { c.Close() }, "", 2},
		{"closed by the server", func(*http1.Client) {}, "close", 2},
	} {
		c, opened := client(t, func(w http.ResponseWriter, _ *http.Request) {
			if tc.header != "" {
				w.Header().Set("Connection", tc.header)
			}
		})
		for n := range 2 {
			if n > 0 {
				tc.between(c)
			}
			if _, err := c.Do(c.Request("GET", "/"), soon(), io.Discard); err != nil {
				t.Errorf("%s: request %d: %v", tc.name, n, err)
			}
		}
		if have := opened.Load(); have != tc.want {
			t.Errorf("%s: have %d connections, want %d", tc.name, have, tc.want)
		}
	}
}

func TestIdle(t *testing.T) {
	ours := make(chan net.Conn, 1)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			ours <- conn
		}
	}()
	c := &http1.Client{Address: netip.MustParseAddrPort(listener.Addr().String()), Host: "here", Agent: "test"}
	for _, tc := range []struct {
		name string
		does func(theirs net.Conn, mine *http1.Conn)
		want error // nil: it stays quiet
	}{
		{"nothing", func(net.Conn, *http1.Conn) {}, nil},
		{"closed by the server", func(theirs net.Conn, _ *http1.Conn) { theirs.Close() }, io.EOF},
		{"reset by the server", func(theirs net.Conn, _ *http1.Conn) { _ = theirs.(*net.TCPConn).SetLinger(0); theirs.Close() }, syscall.ECONNRESET},
		{"unasked", func(theirs net.Conn, _ *http1.Conn) { _, _ = io.WriteString(theirs, "x") }, http1.ErrUnasked},
		{"closed by us", func(_ net.Conn, mine *http1.Conn) { mine.Close() }, net.ErrClosed},
		{"reset by us", func(_ net.Conn, mine *http1.Conn) { mine.Reset() }, net.ErrClosed},
	} {
		mine, err := c.Open(soon())
		if err != nil {
			t.Fatal(err)
		}
		theirs := <-ours
		later := time.AfterFunc(20*time.Millisecond, func() { tc.does(theirs, mine) })
		until := time.Now().Add(200 * time.Millisecond)
		err = mine.Idle(until)
		if tc.want == nil && (err != nil || time.Now().Before(until)) || tc.want != nil && !errors.Is(err, tc.want) {
			t.Errorf("%s: have %v, want %v", tc.name, err, tc.want)
		}
		if tc.want == nil {
			// It is of use still.
			go func() { _, _ = io.WriteString(theirs, "HTTP/1.1 204 No Content\r\n\r\n") }()
			if status, keep, err := mine.Do(c.Request("GET", "/"), soon(), io.Discard); status != 204 || !keep || err != nil {
				t.Errorf("%s: afterwards have %d, %t, %v; want 204 and that it is kept", tc.name, status, keep, err)
			}
		}
		later.Stop()
		mine.Close()
		theirs.Close()
	}
}

// timeout is an error of a deadline that passed while connecting.
type timeout struct{}

func (timeout) Error() string   { return "i/o timeout" }
func (timeout) Timeout() bool   { return true }
func (timeout) Temporary() bool { return true }

func TestOutcomeOf(t *testing.T) {
	for _, tc := range []struct {
		status int
		err    error
		want   http1.Outcome
	}{
		{200, nil, http1.OK},
		{204, nil, http1.OK},
		{302, nil, http1.Failed},
		{404, nil, http1.Failed},
		{429, nil, http1.Refused},
		{502, nil, http1.Failed},
		{503, nil, http1.Refused},
		{0, syscall.ECONNREFUSED, http1.Refused},
		{0, syscall.ETIMEDOUT, http1.TimedOut},
		{0, &net.OpError{Op: "dial", Err: timeout{}}, http1.TimedOut},
		{0, context.DeadlineExceeded, http1.TimedOut},
		{0, io.ErrUnexpectedEOF, http1.Failed},
		{0, syscall.ECONNRESET, http1.Failed},
	} {
		if have := http1.OutcomeOf(tc.status, tc.err); have != tc.want {
			t.Errorf("%d, %v: have %s, want %s", tc.status, tc.err, have, tc.want)
		}
	}
}
