package gamehosts

import (
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"

	"relapse/topologies/services/matchmaking"
)

// Log is what a service writes down of what it did, for whoever checks it from outside.
// It is kept in memory: what was not read when its process dies is lost with it.
type Log[T any] struct {
	boot    int64
	mu      sync.Mutex
	entries []T
}

// Page is a part of a log.
type Page[T any] struct {
	Boot    int64 `json:"boot"` // another one says that the log began anew
	From    int   `json:"from"` // number of the first entry
	Entries []T   `json:"entries"`
}

// NewLog makes an empty log of a process that starts now.
func NewLog[T any]() *Log[T] { return &Log[T]{boot: time.Now().UnixNano()} }

// Boot tells this process from those before it.
func (l *Log[T]) Boot() int64 { return l.boot }

// Add appends an entry.
func (l *Log[T]) Add(entry T) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.entries = append(l.entries, entry)
}

// mostEntries bounds a page, so that reading a long log does not hold its writer up.
const mostEntries = 500

// Since gives the entries from a number on, up to 500 of them. Of a log that another
// process wrote it gives the first ones of this.
func (l *Log[T]) Since(boot int64, from int) Page[T] {
	l.mu.Lock()
	defer l.mu.Unlock()
	if boot != l.boot || from < 0 || from > len(l.entries) {
		from = 0
	}
	to := min(len(l.entries), from+mostEntries)
	return Page[T]{l.boot, from, append([]T{}, l.entries[from:to]...)}
}

// ServeHTTP answers GET ?boot=N&from=N with a [Page].
func (l *Log[T]) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	boot, err := strconv.ParseInt(query.Get("boot"), 10, 64)
	from, err2 := strconv.Atoi(query.Get("from"))
	if err != nil || err2 != nil {
		http.Error(w, fmt.Sprintf("boot=%q from=%q: want two whole numbers", query.Get("boot"), query.Get("from")), http.StatusBadRequest)
		return
	}
	matchmaking.Answer(w, http.StatusOK, l.Since(boot, from))
}
