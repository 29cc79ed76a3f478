package samples

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
)

func init() { register("memcached", openMemcached) }

// memcachedStats names what is kept of the answer to "stats", after
// memcached_exporter.
var memcachedStats = map[string]stat{
	"uptime":               {"memcached_uptime_seconds", nil},
	"rusage_user":          {"memcached_process_user_cpu_seconds_total", nil},
	"rusage_system":        {"memcached_process_system_cpu_seconds_total", nil},
	"max_connections":      {"memcached_max_connections", nil},
	"curr_connections":     {"memcached_current_connections", nil},
	"total_connections":    {"memcached_connections_total", nil},
	"rejected_connections": {"memcached_connections_rejected_total", nil},
	"conn_yields":          {"memcached_connections_yielded_total", nil},
	"listen_disabled_num":  {"memcached_connections_listener_disabled_total", nil},
	"accepting_conns":      {"memcached_accepting_connections", nil},
	"bytes_read":           {"memcached_read_bytes_total", nil},
	"bytes_written":        {"memcached_written_bytes_total", nil},
	"bytes":                {"memcached_current_bytes", nil},
	"limit_maxbytes":       {"memcached_limit_bytes", nil},
	"curr_items":           {"memcached_current_items", nil},
	"total_items":          {"memcached_items_total", nil},
	"evictions":            {"memcached_items_evicted_total", nil},
	"reclaimed":            {"memcached_items_reclaimed_total", nil},
	"threads":              {"memcached_threads", nil},
	"response_obj_oom":     {"memcached_response_oom_total", nil},
	"read_buf_oom":         {"memcached_read_buffer_oom_total", nil},
	"store_too_large":      {"memcached_item_too_large_total", nil},
	"store_no_memory":      {"memcached_item_no_memory_total", nil},
	"get_hits":             command("get", "hit"),
	"get_misses":           command("get", "miss"),
	"cmd_set":              command("set", "hit"),
	"cmd_flush":            command("flush", "hit"),
	"delete_hits":          command("delete", "hit"),
	"delete_misses":        command("delete", "miss"),
	"incr_hits":            command("incr", "hit"),
	"incr_misses":          command("incr", "miss"),
	"decr_hits":            command("decr", "hit"),
	"decr_misses":          command("decr", "miss"),
	"cas_hits":             command("cas", "hit"),
	"cas_misses":           command("cas", "miss"),
	"cas_badval":           command("cas", "badval"),
	"touch_hits":           command("touch", "hit"),
	"touch_misses":         command("touch", "miss"),
}

// stat is the name and the labels that one value of the answer goes by.
type stat struct {
	name  string
	pairs []string
}

func command(name, status string) stat {
	return stat{"memcached_commands_total", []string{"command", name, "status", status}}
}

// memcached asks "stats" over a kept connection, which takes one of the server's
// connections for as long as the target lives.
type memcached struct {
	address string
	dialer  net.Dialer
	conn    net.Conn
	in      *bufio.Reader
}

func openMemcached(e Endpoint) (source, error) {
	if _, _, err := net.SplitHostPort(e.Address); err != nil {
		return nil, fmt.Errorf("kind %s: address %q: want host:port: %w", e.Kind, e.Address, err)
	}
	return &memcached{address: e.Address}, nil
}

func (m *memcached) scrape(ctx context.Context, to *sink) error {
	if m.conn == nil {
		conn, err := m.dialer.DialContext(ctx, "tcp", m.address)
		if err != nil {
			return err
		}
		m.conn, m.in = conn, bufio.NewReaderSize(conn, 8<<10)
	}
	err := m.exchange(ctx, to)
	if err != nil {
		m.close() // the rest of a late answer must not be read as the next one
	}
	return err
}

func (m *memcached) exchange(ctx context.Context, to *sink) error {
	if deadline, ok := ctx.Deadline(); ok {
		if err := m.conn.SetDeadline(deadline); err != nil {
			return err
		}
	}
	if _, err := m.conn.Write([]byte("stats\r\n")); err != nil {
		return err
	}
	for {
		b, err := m.in.ReadSlice('\n')
		if err != nil {
			return fmt.Errorf("reading stats: %w", err)
		}
		line := strings.TrimRight(string(b), "\r\n")
		if line == "END" {
			if len(to.points) == 0 {
				return errors.New("stats: none of the values that a memcached gives")
			}
			return nil
		}
		rest, ok := strings.CutPrefix(line, "STAT ")
		name, text, two := strings.Cut(rest, " ")
		if !ok || !two {
			return fmt.Errorf("stats: want STAT name value, got %q", line)
		}
		metric, ok := memcachedStats[name]
		if !ok {
			continue
		}
		v, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return fmt.Errorf("stats: %s: %w", name, err)
		}
		to.add(v, metric.name, metric.pairs...)
	}
}

func (m *memcached) close() {
	if m.conn != nil {
		m.conn.Close()
		m.conn, m.in = nil, nil
	}
}
