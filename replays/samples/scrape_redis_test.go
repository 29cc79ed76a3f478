package samples_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"relapse/replays/samples"
)

const redisInfo = "# Server\r\nredis_version:7.0.15\r\nuptime_in_seconds:12\r\n\r\n# Clients\r\nconnected_clients:3\r\nmaxclients:10000\r\n" +
	"# Memory\r\nused_memory:1048576\r\nused_memory_human:1.00M\r\nmem_allocator:jemalloc-5.2.1\r\n" +
	"# Stats\r\ntotal_commands_processed:42\r\nkeyspace_hits:7\r\nkeyspace_misses:2\r\n# CPU\r\nused_cpu_sys:0.125000\r\n" +
	"# Commandstats\r\ncmdstat_get:calls=21,usec=1500,usec_per_call=71.43,rejected_calls=0,failed_calls=1\r\n" +
	"cmdstat_client|setinfo:calls=2,usec=4,usec_per_call=2.00,rejected_calls=0,failed_calls=0\r\n" +
	"# Errorstats\r\nerrorstat_ERR:count=5\r\n# Latencystats\r\nlatency_percentiles_usec_get:p50=1.003,p99=5.023\r\n" +
	"# Keyspace\r\ndb1:keys=12,expires=3,avg_ttl=1500\r\n"

func bulk(text string) string { return fmt.Sprintf("$%d\r\n%s\r\n", len(text), text) }

// serveRedis answers INFO with what reply gives, by the number of the question from
// 0, and all else as a server that knows nothing else. "" hangs up. dialled counts
// connections.
func serveRedis(t *testing.T, dialled *atomic.Int32, reply func(n int) string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	var asked atomic.Int32
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			dialled.Add(1)
			go func() {
				defer conn.Close()
				for in := bufio.NewReader(conn); ; {
					words, err := redisWords(in)
					if err != nil {
						return
					}
					answer := "-ERR unknown command\r\n"
					if strings.EqualFold(words[0], "info") {
						answer = reply(int(asked.Add(1)) - 1)
					}
					if answer == "" {
						return
					}
					if _, err := io.WriteString(conn, answer); err != nil {
						return
					}
				}
			}()
		}
	}()
	return l.Addr().String()
}

// redisWords reads one command: *2 $4 INFO $3 all.
func redisWords(in *bufio.Reader) ([]string, error) {
	number := func(mark byte) (int, error) {
		line, err := in.ReadString('\n')
		if err != nil {
			return 0, err
		}
		if line[0] != mark {
			return 0, fmt.Errorf("want %c, have %q", mark, line)
		}
		return strconv.Atoi(strings.TrimSpace(line[1:]))
	}
	count, err := number('*')
	if err != nil {
		return nil, err
	}
	words := make([]string, count)
	for n := range words {
		size, err := number('$')
		if err != nil {
			return nil, err
		}
		word := make([]byte, size+2)
		if _, err := io.ReadFull(in, word); err != nil {
			return nil, err
		}
		words[n] = string(word[:size])
	}
	return words, nil
}

func TestScrapeRedis(t *testing.T) {
	want := []string{
		`redis_commands_duration_seconds_total{cmd=client|setinfo,node=n} 4e-06`, `redis_commands_duration_seconds_total{cmd=get,node=n} 0.0015`,
		`redis_commands_failed_calls_total{cmd=client|setinfo,node=n} 0`, `redis_commands_failed_calls_total{cmd=get,node=n} 1`,
		`redis_commands_processed_total{node=n} 42`,
		`redis_commands_rejected_calls_total{cmd=client|setinfo,node=n} 0`, `redis_commands_rejected_calls_total{cmd=get,node=n} 0`,
		`redis_commands_total{cmd=client|setinfo,node=n} 2`, `redis_commands_total{cmd=get,node=n} 21`,
		`redis_config_maxclients{node=n} 10000`, `redis_connected_clients{node=n} 3`, `redis_cpu_sys_seconds_total{node=n} 0.125`,
		`redis_db_avg_ttl_seconds{db=db1,node=n} 1.5`,
		`redis_db_keys{db=db0,node=n} 0`, `redis_db_keys{db=db1,node=n} 12`,
		`redis_db_keys_expiring{db=db0,node=n} 0`, `redis_db_keys_expiring{db=db1,node=n} 3`,
		`redis_errors_total{err=ERR,node=n} 5`,
		`redis_keyspace_hits_total{node=n} 7`, `redis_keyspace_misses_total{node=n} 2`, `redis_memory_used_bytes{node=n} 1.048576e+06`,
		`redis_up{node=n} 1`, `redis_uptime_in_seconds{node=n} 12`,
		`relapse_scrape_missed_total{kind=redis,node=n} 0`, `relapse_scrape_success{kind=redis,node=n} 1`, `up{node=n} 1`,
	}
	var dialled atomic.Int32
	address := serveRedis(t, &dialled, func(int) string { return bulk(redisInfo) })
	target, s := target(t, samples.Endpoint{Node: "n", Kind: "redis", Address: address}), samples.NewStore()
	for i := range 3 {
		at := start.Add(time.Duration(i) * samples.Period)
		if err := target.Scrape(t.Context(), s, at); err != nil {
			t.Fatal(err)
		}
		have := stored(s, at)
		slices.Sort(have)
		if diff := cmp.Diff(slices.Sorted(slices.Values(want)), have); diff != "" {
			t.Fatalf("scrape %d (-want +have):\n%s", i, diff)
		}
	}
	if n := dialled.Load(); n != 1 {
		t.Errorf("three scrapes made %d connections, want one", n)
	}
}

// TestScrapeRedisForgotten holds that a database without a key reads as zero once
// it had some, also where the server lost them all.
func TestScrapeRedisForgotten(t *testing.T) {
	var dialled atomic.Int32
	const empty = "uptime_in_seconds:1\r\n"
	address := serveRedis(t, &dialled, func(n int) string {
		return []string{bulk(redisInfo), "", bulk(empty)}[n]
	})
	target := target(t, samples.Endpoint{Node: "n", Kind: "redis", Address: address})
	for n, want := range []string{"redis_db_keys{db=db1,node=n} 12", "redis_up{node=n} 0", "redis_db_keys{db=db1,node=n} 0"} {
		s := samples.NewStore()
		err := target.Scrape(t.Context(), s, start)
		if (err != nil) != (n == 1) {
			t.Errorf("scrape %d: error %v", n, err)
		}
		if have := stored(s, start); !slices.Contains(have, want) {
			t.Errorf("scrape %d: there is no %s in:\n%s", n, want, strings.Join(have, "\n"))
		}
	}
	if n := dialled.Load(); n != 2 {
		t.Errorf("%d connections, want a second one after the failure", n)
	}
}

func TestScrapeRedisFailures(t *testing.T) {
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	// The kernel accepts here, and then nothing answers, as with a paused container.
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	var dialled atomic.Int32
	serve := func(reply string) string { return serveRedis(t, &dialled, func(int) string { return reply }) }
	for _, tt := range []struct{ name, address string }{
		{"refuses", closed.Addr().String()},
		{"is silent", silent.Addr().String()},
		{"hangs up", serve("")},
		{"asks for a password", serve("-NOAUTH Authentication required.\r\n")},
		{"breaks off", serve("$900\r\nuptime_in_seconds:1\r\n")},
		{"says what no Redis says", serve("+OK\r\n")},
		{"says nothing known", serve(bulk("# Server\r\nredis_version:7\r\n"))},
		{"says no number", serve(bulk("uptime_in_seconds:soon\r\n"))},
		{"says no number of keys", serve(bulk("uptime_in_seconds:1\r\ndb0:keys=many\r\n"))},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			target, s := target(t, samples.Endpoint{Node: "n", Kind: "redis", Address: tt.address}), samples.NewStore()
			began := time.Now()
			if err := target.Scrape(t.Context(), s, start); err == nil {
				t.Error("want an error, got none")
			}
			if took := time.Since(began); took > 2*time.Second {
				t.Errorf("it took %s, with a deadline of %s", took, samples.Deadline)
			}
			want := []string{"redis_up{node=n} 0", "relapse_scrape_missed_total{kind=redis,node=n} 0",
				"relapse_scrape_success{kind=redis,node=n} 0", "up{node=n} 0"}
			if diff := cmp.Diff(want, stored(s, start)); diff != "" {
				t.Errorf("-want +have:\n%s", diff)
			}
		})
	}
}

// TestScrapeRedisItself holds the names against a real server.
func TestScrapeRedisItself(t *testing.T) {
	address := startRedis(t)
	target := target(t, samples.Endpoint{Node: "n", Kind: "redis", Address: address})
	before := scraped(t, target, "Redis answers", func([]string) bool { return true })
	if err := has(before, "redis_up{node=n}", "redis_connected_clients{node=n}", "redis_memory_used_bytes{node=n}", "redis_db_keys{db=db0,node=n}",
		"redis_commands_processed_total{node=n}", "redis_keyspace_hits_total{node=n}", "redis_cpu_user_seconds_total{node=n}"); err != nil {
		t.Error(err)
	}
	client := redis.NewClient(&redis.Options{Addr: address})
	defer client.Close()
	if err := client.Set(t.Context(), "a", 1, time.Minute).Err(); err != nil {
		t.Fatal(err)
	}
	if err := client.Get(t.Context(), "a").Err(); err != nil {
		t.Fatal(err)
	}
	after := scraped(t, target, "a key is there", func(lines []string) bool {
		keys, _ := value(lines, "redis_db_keys{db=db0,node=n}")
		return keys == 1
	})
	for series, want := range map[string]float64{
		"redis_db_keys_expiring{db=db0,node=n}": 1, "redis_keyspace_hits_total{node=n}": 1, "redis_commands_total{cmd=get,node=n}": 1,
	} {
		if have, _ := value(after, series); have != want {
			t.Errorf("%s is %v, want %v", series, have, want)
		}
	}
}
