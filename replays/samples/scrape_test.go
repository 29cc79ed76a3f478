package samples_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"relapse/replays/samples"
)

const (
	stubStatus = "Active connections: 291 \nserver accepts handled requests\n 16630948 16630946 31070465 \nReading: 6 Writing: 179 Waiting: 106 \n"

	memcachedStats = "STAT pid 1\r\nSTAT uptime 3\r\nSTAT version 1.6.18\r\nSTAT pointer_size 64\r\nSTAT rusage_user 0.052000\r\n" +
		"STAT max_connections 4000\r\nSTAT curr_connections 2\r\nSTAT total_connections 3\r\nSTAT rejected_connections 7\r\n" +
		"STAT cmd_set 12\r\nSTAT get_hits 40\r\nSTAT get_misses 2\r\nSTAT bytes_read 1800\r\nSTAT bytes_written 99000\r\n" +
		"STAT listen_disabled_num 5\r\nSTAT accepting_conns 1\r\nSTAT log_watchers 0\r\nEND\r\n"

	exposition = "# HELP haproxy_server_status Current status of the server.\n# TYPE haproxy_server_status gauge\n" +
		"haproxy_server_status{proxy=\"account\",server=\"nginx-1\",state=\"DOWN\"} 0\n" +
		"haproxy_server_status{proxy=\"account\",server=\"nginx-1\",state=\"UP\"} 1\n" +
		"# TYPE h histogram\nh_bucket{le=\"0.1\",node=\"own\"} 3\nh_bucket{le=\"+Inf\",node=\"own\"} 4\nh_sum{node=\"own\"} 0.5\nh_count{node=\"own\"} 4\n" +
		"plain 1.5e3 1395066363000\n"
)

// stored gives the last value of every series, without the time that the scrape
// took, which is another one each time.
func stored(s *samples.Store, at time.Time) []string {
	var out []string
	for _, x := range s.Series() {
		if x.Name == "relapse_scrape_seconds" {
			continue
		}
		var l []string
		for k, v := range x.Labels {
			l = append(l, k+"="+v)
		}
		slices.Sort(l)
		c, err := s.Curves(fmt.Sprintf("{__name__=%q, %s}", x.Name, matchers(x.Labels)), at, at, samples.Period)
		if err != nil || len(c) != 1 {
			out = append(out, fmt.Sprintf("%s: %d curves, %v", x.Name, len(c), err))
			continue
		}
		out = append(out, fmt.Sprintf("%s{%s} %v", x.Name, strings.Join(l, ","), c[0].Points[0].Value))
	}
	return out
}

func matchers(labels map[string]string) string {
	var out []string
	for k, v := range labels {
		out = append(out, fmt.Sprintf("%s=%q", k, v))
	}
	return strings.Join(out, ",")
}

func serveText(t *testing.T, wantPath, text string) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.RequestURI() != wantPath {
			http.NotFound(w, r)
			return
		}
		io.WriteString(w, text)
	}))
	t.Cleanup(server.Close)
	return server.Listener.Addr().String()
}

// serveMemcached answers each line with the text; dialled counts connections.
func serveMemcached(t *testing.T, text string, dialled *atomic.Int32) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			dialled.Add(1)
			go func() {
				defer conn.Close()
				for in := bufio.NewScanner(conn); in.Scan(); {
					if in.Text() != "stats" || text == "" {
						return
					}
					io.WriteString(conn, text)
				}
			}()
		}
	}()
	return l.Addr().String()
}

func target(t *testing.T, e samples.Endpoint) *samples.Target {
	t.Helper()
	target, err := samples.NewTarget(e)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(target.Close)
	return target
}

func TestScrape(t *testing.T) {
	var dialled atomic.Int32
	for _, tt := range []struct {
		name     string
		endpoint samples.Endpoint
		want     []string
	}{
		{"nginx", samples.Endpoint{Kind: "nginx", Address: serveText(t, "/status", stubStatus), Path: "/status"}, []string{
			"nginx_connections_accepted{node=n} 1.6630948e+07", "nginx_connections_active{node=n} 291",
			"nginx_connections_handled{node=n} 1.6630946e+07", "nginx_connections_reading{node=n} 6",
			"nginx_connections_waiting{node=n} 106", "nginx_connections_writing{node=n} 179",
			"nginx_http_requests_total{node=n} 3.1070465e+07",
			"relapse_scrape_missed_total{kind=nginx,node=n} 0", "relapse_scrape_success{kind=nginx,node=n} 1", "up{node=n} 1",
		}},
		{"memcached", samples.Endpoint{Kind: "memcached", Address: serveMemcached(t, memcachedStats, &dialled)}, []string{
			"memcached_accepting_connections{node=n} 1", "memcached_commands_total{command=get,node=n,status=hit} 40",
			"memcached_commands_total{command=get,node=n,status=miss} 2", "memcached_commands_total{command=set,node=n,status=hit} 12",
			"memcached_connections_listener_disabled_total{node=n} 5", "memcached_connections_rejected_total{node=n} 7",
			"memcached_connections_total{node=n} 3", "memcached_current_connections{node=n} 2", "memcached_max_connections{node=n} 4000",
			"memcached_process_user_cpu_seconds_total{node=n} 0.052", "memcached_read_bytes_total{node=n} 1800",
			"memcached_uptime_seconds{node=n} 3", "memcached_written_bytes_total{node=n} 99000",
			"relapse_scrape_missed_total{kind=memcached,node=n} 0", "relapse_scrape_success{kind=memcached,node=n} 1", "up{node=n} 1",
		}},
		{"haproxy", samples.Endpoint{Kind: "haproxy", Address: serveText(t, "/metrics?scope=server", exposition), Path: "/metrics?scope=server"}, []string{
			"h_bucket{exported_node=own,le=+Inf,node=n} 4", "h_bucket{exported_node=own,le=0.1,node=n} 3",
			"h_count{exported_node=own,node=n} 4", "h_sum{exported_node=own,node=n} 0.5",
			"haproxy_server_status{node=n,proxy=account,server=nginx-1,state=DOWN} 0",
			"haproxy_server_status{node=n,proxy=account,server=nginx-1,state=UP} 1", "plain{node=n} 1500",
			"relapse_scrape_missed_total{kind=haproxy,node=n} 0", "relapse_scrape_success{kind=haproxy,node=n} 1", "up{node=n} 1",
		}},
		{"prometheus", samples.Endpoint{Kind: "prometheus", Address: serveText(t, "/metrics", "x 1"), Path: "/metrics"}, []string{
			"relapse_scrape_missed_total{kind=prometheus,node=n} 0", "relapse_scrape_success{kind=prometheus,node=n} 1", "up{node=n} 1", "x{node=n} 1",
		}},
		{"on a host", samples.Endpoint{Kind: "prometheus", Host: "h", Address: serveText(t, "/metrics", "x{host=\"own\"} 1"), Path: "/metrics"}, []string{
			"relapse_scrape_missed_total{host=h,kind=prometheus,node=n} 0", "relapse_scrape_success{host=h,kind=prometheus,node=n} 1",
			"up{host=h,node=n} 1", "x{exported_host=own,host=h,node=n} 1",
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.endpoint.Node = "n"
			target, s := target(t, tt.endpoint), samples.NewStore()
			for i := range 3 { // what is kept between scrapes must not change what is read
				at := start.Add(time.Duration(i) * samples.Period)
				if err := target.Scrape(t.Context(), s, at); err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(tt.want, stored(s, at)); diff != "" {
					t.Fatalf("scrape %d (-want +have):\n%s", i, diff)
				}
			}
		})
	}
	if n := dialled.Load(); n != 1 {
		t.Errorf("three scrapes of memcached made %d connections, want one", n)
	}
}

func TestScrapeFailures(t *testing.T) {
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	// Nobody accepts here: the kernel does, and then nothing answers, as with a
	// paused container.
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	var dialled atomic.Int32
	for _, tt := range []struct {
		name     string
		endpoint samples.Endpoint
	}{
		{"nginx refuses", samples.Endpoint{Kind: "nginx", Address: closed.Addr().String(), Path: "/"}},
		{"nginx is silent", samples.Endpoint{Kind: "nginx", Address: silent.Addr().String(), Path: "/"}},
		{"nginx has another page", samples.Endpoint{Kind: "nginx", Address: serveText(t, "/", "<html>"), Path: "/"}},
		{"nginx has no such page", samples.Endpoint{Kind: "nginx", Address: serveText(t, "/", stubStatus), Path: "/status"}},
		{"memcached refuses", samples.Endpoint{Kind: "memcached", Address: closed.Addr().String()}},
		{"memcached is silent", samples.Endpoint{Kind: "memcached", Address: silent.Addr().String()}},
		{"memcached hangs up", samples.Endpoint{Kind: "memcached", Address: serveMemcached(t, "", &dialled)}},
		{"memcached says error", samples.Endpoint{Kind: "memcached", Address: serveMemcached(t, "ERROR\r\n", &dialled)}},
		{"memcached says too little", samples.Endpoint{Kind: "memcached", Address: serveMemcached(t, "STAT uptime 3\r\n", &dialled)}},
		{"memcached says nothing known", samples.Endpoint{Kind: "memcached", Address: serveMemcached(t, "STAT pid 3\r\nEND\r\n", &dialled)}},
		{"prometheus refuses", samples.Endpoint{Kind: "prometheus", Address: closed.Addr().String(), Path: "/"}},
		{"prometheus is silent", samples.Endpoint{Kind: "prometheus", Address: silent.Addr().String(), Path: "/"}},
		{"prometheus breaks off", samples.Endpoint{Kind: "prometheus", Address: serveText(t, "/", "x 1\ny{l=\"v"), Path: "/"}},
		{"prometheus is empty", samples.Endpoint{Kind: "prometheus", Address: serveText(t, "/", "# TYPE x counter\n"), Path: "/"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tt.endpoint.Node = "n"
			target, s := target(t, tt.endpoint), samples.NewStore()
			began := time.Now()
			if err := target.Scrape(context.Background(), s, start); err == nil {
				t.Error("want an error, got none")
			}
			if took := time.Since(began); took > 2*time.Second {
				t.Errorf("it took %s, with a deadline of %s", took, samples.Deadline)
			}
			want := []string{"relapse_scrape_missed_total{kind=" + tt.endpoint.Kind + ",node=n} 0",
				"relapse_scrape_success{kind=" + tt.endpoint.Kind + ",node=n} 0", "up{node=n} 0"}
			if diff := cmp.Diff(want, stored(s, start)); diff != "" {
				t.Errorf("-want +have:\n%s", diff)
			}
		})
	}
}

// TestScrapeFollowsNoRedirect holds that a node cannot send the tool, which is on no
// closed network, to an address of its choice.
func TestScrapeFollowsNoRedirect(t *testing.T) {
	for _, kind := range []string{"nginx", "prometheus", "haproxy"} {
		t.Run(kind, func(t *testing.T) {
			var asked atomic.Int32
			elsewhere := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				asked.Add(1)
				io.WriteString(w, stubStatus)
			}))
			defer elsewhere.Close()
			for _, status := range []int{http.StatusMovedPermanently, http.StatusFound, http.StatusTemporaryRedirect} {
				node := httptest.NewServer(http.RedirectHandler(elsewhere.URL, status))
				s := samples.NewStore()
				err := target(t, samples.Endpoint{Node: "n", Kind: kind, Address: node.Listener.Addr().String(), Path: "/"}).Scrape(t.Context(), s, start)
				node.Close()
				if err == nil {
					t.Errorf("%d: want an error, got none", status)
				}
			}
			if n := asked.Load(); n > 0 {
				t.Errorf("the other address was asked %d times, want never", n)
			}
		})
	}
}

func TestScrapeRecovers(t *testing.T) {
	var broken atomic.Bool
	var dialled atomic.Int32
	good := serveMemcached(t, memcachedStats, &dialled)
	// In front of it a link that can be cut.
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	cut := make(chan net.Conn, 8)
	go func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", good)
			if err != nil || broken.Load() {
				in.Close()
				continue
			}
			cut <- in
			go func() { io.Copy(out, in); out.Close() }()
			go func() { io.Copy(in, out); in.Close() }()
		}
	}()
	target, s := target(t, samples.Endpoint{Node: "n", Kind: "memcached", Address: l.Addr().String()}), samples.NewStore()
	scrape := func(want bool) {
		t.Helper()
		if err := target.Scrape(t.Context(), s, start); (err == nil) != want {
			t.Errorf("success %v, want %v: %v", err == nil, want, err)
		}
	}
	scrape(true)
	broken.Store(true)
	(<-cut).Close()
	scrape(false)
	broken.Store(false)
	scrape(true)
}

func TestScrapeCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s := samples.NewStore()
	err := target(t, samples.Endpoint{Node: "n", Kind: "prometheus", Address: serveText(t, "/", "x 1"), Path: "/"}).Scrape(ctx, s, start)
	if !errors.Is(err, context.Canceled) || len(s.Series()) != 0 {
		t.Errorf("want it cancelled and nothing stored, got %v and %v", err, s.Series())
	}
}

func TestNewTargetErrors(t *testing.T) {
	_, err := samples.NewTarget(samples.Endpoint{Node: "n", Kind: "cassandra", Address: "127.0.0.1:1"})
	e, ok := errors.AsType[*samples.UnknownKindError](err)
	if !ok || !slices.Contains(e.Known, "memcached") || !slices.IsSorted(e.Known) {
		t.Errorf("unknown kind: got %v", err)
	}
	for _, kind := range samples.Kinds() {
		if _, err := samples.NewTarget(samples.Endpoint{Node: "n", Kind: kind, Address: "127.0.0.1", Path: "/"}); err == nil {
			t.Errorf("%s: an address without a port: want an error, got none", kind)
		}
	}
	if _, err := samples.NewScraper(samples.NewStore()); err == nil {
		t.Error("no targets: want an error, got none")
	}
	f := samples.NewFunc("n", "container", nil)
	if _, err := samples.NewScraper(samples.NewStore(), f, f); err == nil {
		t.Error("a target twice: want an error, got none")
	}
}

func TestFuncWithLabels(t *testing.T) {
	s := samples.NewStore()
	f := samples.NewFunc("host-1", "host", func() (map[string]float64, error) {
		return map[string]float64{"relapse_host_memory_bytes": 3}, nil
	}, "host", "host-1", "zone", "a")
	if err := f.Scrape(t.Context(), s, start); err != nil {
		t.Fatal(err)
	}
	if got := stored(s, start); !slices.Contains(got, "relapse_host_memory_bytes{host=host-1,node=host-1,zone=a} 3") {
		t.Errorf("stored %q", got)
	}
}

// BenchmarkScrape reads a page as large as HAProxy's whole one.
func BenchmarkScrape(b *testing.B) {
	var page strings.Builder
	for i := range 187 {
		fmt.Fprintf(&page, "# HELP haproxy_metric_%d What it is about, at some length, as HAProxy says it.\n# TYPE haproxy_metric_%d counter\n", i, i)
		for j := range 2 {
			fmt.Fprintf(&page, "haproxy_metric_%d{proxy=\"account\",server=\"nginx-%d\",state=\"UP\"} %d\n", i, j, i*j)
		}
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, page.String()) }))
	defer server.Close()
	target, err := samples.NewTarget(samples.Endpoint{Node: "n", Kind: "haproxy", Address: server.Listener.Addr().String(), Path: "/metrics"})
	if err != nil {
		b.Fatal(err)
	}
	defer target.Close()
	s := samples.NewStore()
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if err := target.Scrape(b.Context(), s, start.Add(time.Duration(i)*time.Millisecond)); err != nil {
			b.Fatal(err)
		}
	}
}
