package account_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"relapse/topologies/services"
	"relapse/topologies/services/account"
	"relapse/topologies/services/limits"
)

// memcached is as much of one as the application writes to.
type memcached struct {
	listener net.Listener
	stalled  bool // takes connections and never answers

	mu   sync.Mutex
	held map[string]int // key: bytes
}

func startMemcached(t *testing.T, address string, stalled bool) *memcached {
	t.Helper()
	listener, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	m := &memcached{listener: listener, stalled: stalled, held: map[string]int{}}
	var wg sync.WaitGroup
	ctx, cancel := context.WithCancel(context.Background())
	wg.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			stop := context.AfterFunc(ctx, func() { conn.Close() })
			wg.Go(func() { defer stop(); defer conn.Close(); m.answer(conn) })
		}
	})
	t.Cleanup(func() { listener.Close(); cancel(); wg.Wait() })
	return m
}

func (m *memcached) answer(conn net.Conn) {
	r := bufio.NewReader(conn)
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			return
		}
		if m.stalled {
			continue
		}
		words := strings.Fields(line)
		m.mu.Lock()
		switch words[0] {
		case "set":
			var size int
			fmt.Sscan(words[4], &size)
			io.CopyN(io.Discard, r, int64(size)+2)
			m.held[words[1]] = size
			fmt.Fprint(conn, "STORED\r\n")
		case "delete":
			reply := "NOT_FOUND\r\n"
			if _, ok := m.held[words[1]]; ok {
				reply = "DELETED\r\n"
			}
			delete(m.held, words[1])
			fmt.Fprint(conn, reply)
		}
		m.mu.Unlock()
	}
}

func (m *memcached) keys() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.held)
}

func (m *memcached) size(key string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.held[key]
}

func (m *memcached) flush() {
	m.mu.Lock()
	defer m.mu.Unlock()
	clear(m.held)
}

func TestOnlyMissesFillACacheThatCameBackEmpty(t *testing.T) {
	m := startMemcached(t, "127.0.0.1:0", false)
	cache := account.NewCache(m.listener.Addr().String(), slog.New(slog.DiscardHandler))
	registry := prometheus.NewRegistry()
	a, err := account.New(account.Config{
		Preloaded: 50, ValueSize: 2000, Cache: cache, Limits: limits.Limits{"all": 8},
	}, registry)
	if err != nil {
		t.Fatal(err)
	}
	if err := cache.Preload(t.Context(), a, 50); err != nil {
		t.Fatal(err)
	}
	if have := m.keys(); have != 50 {
		t.Fatalf("keys after the start: have %d, want 50", have)
	}
	if have := m.size("token:" + account.TokenName(49)); have != 2000 {
		t.Errorf("value's size: have %d, want 2000", have)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- cache.Run(ctx) }()
	written := func() float64 {
		return value(t, registry, "relapse_cache_writes_total", map[string]string{"outcome": "ok"})
	}
	handle := func(method, path string) {
		request, err := http.NewRequest(method, path, nil)
		if err != nil {
			t.Fatal(err)
		}
		a.Handler().ServeHTTP(discard{http.Header{}}, request)
	}

	m.flush()
	handle("GET", "/health")
	handle("GET", "/verify?token="+account.TokenName(7))
	eventually(t, "the miss is written back", func() bool { return written() == 1 })
	if have := m.keys(); have != 1 || m.size("token:"+account.TokenName(7)) != 2000 {
		t.Errorf("keys after one miss: have %d, want that token's alone", have)
	}
	handle("POST", "/logout?token="+account.TokenName(7))
	eventually(t, "the ended token is removed", func() bool { return m.keys() == 0 })
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// discard is a response that nobody reads.
type discard struct{ header http.Header }

func (d discard) Header() http.Header         { return d.header }
func (d discard) Write(b []byte) (int, error) { return len(b), nil }
func (d discard) WriteHeader(int)             {}

func TestAStalledCacheSlowsNoCall(t *testing.T) {
	m := startMemcached(t, "127.0.0.1:0", true)
	cache := account.NewCache(m.listener.Addr().String(), slog.New(slog.DiscardHandler))
	url, registry := start(t, account.Config{Preloaded: 1, Cache: cache})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- cache.Run(ctx) }()
	began := time.Now()
	const calls = 1500
	for range calls {
		if have, _ := call(t, "GET", url+"/verify?token="+account.TokenName(0)); have != 200 {
			t.Fatalf("have %d, want 200", have)
		}
	}
	// One write alone takes 200 ms to give up.
	if took := time.Since(began); took > calls*10*time.Millisecond {
		t.Errorf("%d checks took %v", calls, took)
	}
	outcome := func(name string) float64 {
		return value(t, registry, "relapse_cache_writes_total", map[string]string{"outcome": name})
	}
	eventually(t, "a write gives up", func() bool { return outcome("failed") >= 1 })
	if dropped := outcome("dropped"); dropped == 0 {
		t.Error("no write was dropped: the queue has no bound")
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestTheServiceListensOnceItsTokensAreInTheCache(t *testing.T) {
	free := func() string {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		return l.Addr().String()
	}
	listen, metrics, cacheAt := free(), free(), free()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- services.Run(ctx, "account", []string{
			"--listen", listen, "--metrics", metrics, "--cache", cacheAt, "--tokens", "20", "--limit", "verify=4,other=4", "--cost", "login=1ms",
		})
	}()
	answers := func(url string) func() bool {
		return func() bool {
			response, err := http.Get(url)
			if err != nil {
				return false
			}
			response.Body.Close()
			return response.StatusCode == 200
		}
	}
	eventually(t, "metrics are shown", answers("http://"+metrics+"/metrics"))
	if conn, err := net.Dial("tcp", listen); err == nil {
		conn.Close()
		t.Error("the application listens before its tokens are in the cache")
	}
	m := startMemcached(t, cacheAt, false)
	eventually(t, "the application answers", answers("http://"+listen+"/health"))
	if have := m.keys(); have != 20 {
		t.Errorf("tokens in the cache: have %d, want 20", have)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("end: have %v, want no error", err)
	}
}

func TestTheServiceRefusesBadFlags(t *testing.T) {
	for _, c := range []struct {
		name string
		have []string
	}{
		{"a limit that refuses all", []string{"--limit", "0"}},
		{"a cost of no call", []string{"--cost", "signin=1ms"}},
		{"a cost without a unit", []string{"--cost", "login=1"}},
		{"an argument", []string{"login"}},
		{"a value too small", []string{"--value-size", "10"}},
	} {
		if err := services.Run(t.Context(), "account", c.have); err == nil {
			t.Errorf("%s: no error", c.name)
		}
	}
}
