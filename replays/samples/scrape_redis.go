package samples

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"
)

func init() { register("redis", openRedis) }

// redisInfo names what is kept of the answer to INFO, after redis_exporter. Units
// are those of the names: bytes, seconds.
var redisInfo = map[string]string{
	"uptime_in_seconds":           "redis_uptime_in_seconds",
	"connected_clients":           "redis_connected_clients",
	"blocked_clients":             "redis_blocked_clients",
	"maxclients":                  "redis_config_maxclients",
	"used_memory":                 "redis_memory_used_bytes",
	"used_memory_rss":             "redis_memory_used_rss_bytes",
	"used_memory_peak":            "redis_memory_used_peak_bytes",
	"used_memory_dataset":         "redis_memory_used_dataset_bytes",
	"maxmemory":                   "redis_memory_max_bytes",
	"loading":                     "redis_loading_dump_file",
	"rdb_changes_since_last_save": "redis_rdb_changes_since_last_save",
	"rdb_bgsave_in_progress":      "redis_rdb_bgsave_in_progress",
	"aof_enabled":                 "redis_aof_enabled",
	"connected_slaves":            "redis_connected_slaves",
	"total_connections_received":  "redis_connections_received_total",
	"rejected_connections":        "redis_rejected_connections_total",
	"total_commands_processed":    "redis_commands_processed_total",
	"total_net_input_bytes":       "redis_net_input_bytes_total",
	"total_net_output_bytes":      "redis_net_output_bytes_total",
	"expired_keys":                "redis_expired_keys_total",
	"evicted_keys":                "redis_evicted_keys_total",
	"keyspace_hits":               "redis_keyspace_hits_total",
	"keyspace_misses":             "redis_keyspace_misses_total",
	"used_cpu_sys":                "redis_cpu_sys_seconds_total",
	"used_cpu_user":               "redis_cpu_user_seconds_total",
}

// redisCommand names what is kept of a command's line, as in
// cmdstat_get:calls=21,usec=175,usec_per_call=8.33,rejected_calls=0,failed_calls=0.
var redisCommand = map[string]redisPart{
	"calls":          {"redis_commands_total", 1},
	"usec":           {"redis_commands_duration_seconds_total", 1e6},
	"rejected_calls": {"redis_commands_rejected_calls_total", 1},
	"failed_calls":   {"redis_commands_failed_calls_total", 1},
}

// redisDatabase names what is kept of a database's line, as in
// db0:keys=12,expires=3,avg_ttl=1500.
var redisDatabase = map[string]redisPart{
	"keys":    {"redis_db_keys", 1},
	"expires": {"redis_db_keys_expiring", 1},
	"avg_ttl": {"redis_db_avg_ttl_seconds", 1e3},
}

// redisPart is a metric and what its value in a line is divided by.
type redisPart struct {
	name string
	per  float64
}

// redisNode asks INFO over a kept connection, which takes one of the server's
// clients for as long as the target lives and counts in its commands.
type redisNode struct {
	dialer  net.Dialer
	options redis.Options
	client  *redis.Client // nil until the first scrape, and after one that failed
	// databases that ever held a key. INFO leaves out those that hold none, and a
	// series that ends would read as missing where it is zero.
	databases map[string]bool
}

func openRedis(e Endpoint) (source, error) {
	if _, _, err := net.SplitHostPort(e.Address); err != nil {
		return nil, fmt.Errorf("kind %s: address %q: want host:port: %w", e.Kind, e.Address, err)
	}
	silenceRedis()
	r := &redisNode{databases: map[string]bool{"db0": true}}
	// One connection, one try: a scrape that fails is a sample too, and nothing is
	// asked of the node but what is measured.
	r.options = redis.Options{
		Addr: e.Address, Dialer: r.dial, Protocol: 2, DisableIdentity: true,
		PoolSize: 1, MaxRetries: -1, DialerRetries: 1,
		DialTimeout: Deadline, ReadTimeout: Deadline, WriteTimeout: Deadline, PoolTimeout: Deadline,
		ContextTimeoutEnabled: true,
	}
	return r, nil
}

func (r *redisNode) dial(ctx context.Context, network, address string) (net.Conn, error) {
	return r.dialer.DialContext(ctx, network, address)
}

func (r *redisNode) scrape(ctx context.Context, to *sink) error {
	if r.client == nil {
		options := r.options // the client fills in what is left open
		r.client = redis.NewClient(&options)
	}
	text, err := r.client.Info(ctx, "all").Result()
	if err != nil {
		r.close() // the rest of a late answer must not be read as the next one
		return fmt.Errorf("INFO: %w", err)
	}
	if err := r.read(text, to); err != nil {
		return fmt.Errorf("INFO: %w", err)
	}
	to.add(1, "redis_up")
	return nil
}

// down says what redis_exporter would of a server that it cannot ask.
func (*redisNode) down(to *sink) { to.add(0, "redis_up") }

func (r *redisNode) read(text string, to *sink) error {
	known := 0
	holds := map[string]bool{}
	for line := range strings.SplitSeq(text, "\n") {
		name, value, ok := strings.Cut(strings.TrimRight(line, "\r"), ":")
		if !ok { // empty, or the title of a section
			continue
		}
		if metric, ok := redisInfo[name]; ok {
			v, err := strconv.ParseFloat(value, 64)
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			to.add(v, metric)
			known++
			continue
		}
		var err error
		switch kind, of, _ := strings.Cut(name, "_"); {
		case kind == "cmdstat":
			err = redisLine(value, redisCommand, to, "cmd", of)
		case kind == "errorstat":
			err = redisLine(value, map[string]redisPart{"count": {"redis_errors_total", 1}}, to, "err", of)
		case isRedisDatabase(name):
			holds[name], r.databases[name] = true, true
			err = redisLine(value, redisDatabase, to, "db", name)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	if known == 0 {
		return errors.New("none of the values that a Redis gives")
	}
	for db := range r.databases {
		if !holds[db] {
			to.add(0, "redis_db_keys", "db", db)
			to.add(0, "redis_db_keys_expiring", "db", db)
		}
	}
	return nil
}

// redisLine adds the parts of a line such as keys=12,expires=3 that are kept.
func redisLine(line string, parts map[string]redisPart, to *sink, label, of string) error {
	for field := range strings.SplitSeq(line, ",") {
		name, text, _ := strings.Cut(field, "=")
		part, ok := parts[name]
		if !ok {
			continue
		}
		v, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		to.add(v/part.per, part.name, label, of)
	}
	return nil
}

func isRedisDatabase(name string) bool {
	number, ok := strings.CutPrefix(name, "db")
	if !ok {
		return false
	}
	_, err := strconv.ParseUint(number, 10, 16)
	return err == nil
}

func (r *redisNode) close() {
	if r.client != nil {
		_ = r.client.Close() // of no use any more, whatever it says
		r.client = nil
	}
}

// silenceRedis drops what the client's package logs, once and before there is a
// client: a scrape that fails is told already, and a line of it on the terminal
// would tear the progress apart.
var silenceRedis = sync.OnceFunc(func() { redis.SetLogger(silent{}) })

type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}
