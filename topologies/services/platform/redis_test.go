package platform_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// redis answers what heartbeats need of a Redis, over its protocol (RESP2).
type redis struct {
	address string

	mu     sync.Mutex
	ahead  time.Duration // of its clock
	refuse bool
	sets   map[string]map[string]float64
	writes []write
}

// write is one ZADD.
type write struct {
	at      time.Time
	key     string
	members int
}

func newRedis(t *testing.T) *redis {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &redis{address: listener.Addr().String(), sets: map[string]map[string]float64{}}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { r.serve(conn) })
		}
	})
	t.Cleanup(func() {
		listener.Close()
		serving.Wait() // the platform has closed its connections by now
	})
	return r
}

// change changes it, or looks at it.
func (r *redis) change(do func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	do()
}

func (r *redis) serve(conn net.Conn) {
	defer conn.Close()
	in := bufio.NewReader(conn)
	for {
		command, err := readCommand(in)
		if err != nil {
			return
		}
		if _, err := io.WriteString(conn, r.answer(command)); err != nil {
			return
		}
	}
}

// readCommand reads an array of strings.
func readCommand(in *bufio.Reader) (command []string, err error) {
	count, err := readNumber(in, "*")
	if err != nil {
		return nil, err
	}
	for range count {
		length, err := readNumber(in, "$")
		if err != nil {
			return nil, err
		}
		word := make([]byte, length+len("\r\n"))
		if _, err := io.ReadFull(in, word); err != nil {
			return nil, err
		}
		command = append(command, string(word[:length]))
	}
	return command, nil
}

func readNumber(in *bufio.Reader, sign string) (int, error) {
	line, err := in.ReadString('\n')
	if err != nil {
		return 0, err
	}
	number, ok := strings.CutPrefix(strings.TrimSpace(line), sign)
	if !ok {
		return 0, fmt.Errorf("have %q, want %s and a number", line, sign)
	}
	return strconv.Atoi(number)
}

func (r *redis) answer(command []string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch strings.ToLower(command[0]) {
	case "hello":
		return "-ERR unknown command\r\n" // as of one from before version 6
	case "time":
		now := time.Now().Add(r.ahead)
		seconds, micros := strconv.FormatInt(now.Unix(), 10), strconv.Itoa(now.Nanosecond()/1000)
		return fmt.Sprintf("*2\r\n$%d\r\n%s\r\n$%d\r\n%s\r\n", len(seconds), seconds, len(micros), micros)
	case "zadd":
		return r.zadd(command)
	}
	return "+OK\r\n"
}

// zadd carries out ZADD key GT score member [score member …]. The lock is held.
func (r *redis) zadd(command []string) string {
	if r.refuse {
		return "-ERR not now\r\n"
	}
	if len(command) < 5 || len(command)%2 == 0 || strings.ToLower(command[2]) != "gt" {
		return "-ERR syntax error\r\n"
	}
	key, members := command[1], command[3:]
	if r.sets[key] == nil {
		r.sets[key] = map[string]float64{}
	}
	for ; len(members) > 0; members = members[2:] {
		score, err := strconv.ParseFloat(members[0], 64)
		if err != nil {
			return "-ERR value is not a valid float\r\n"
		}
		r.sets[key][members[1]] = max(r.sets[key][members[1]], score)
	}
	r.writes = append(r.writes, write{time.Now(), key, (len(command) - 3) / 2})
	return ":0\r\n"
}

// seen gives the score of a member, in time.
func (r *redis) seen(key, member string) (at time.Time, there bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	score, there := r.sets[key][member]
	return time.UnixMilli(int64(score)), there
}
