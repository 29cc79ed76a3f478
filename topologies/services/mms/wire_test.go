package mms_test

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
)

// happens is what becomes of a request on a wire.
type happens int

const (
	arrives   happens = iota
	lost              // and the connection with it
	replyLost         // after it has arrived
	twice             // it arrives two times, one after the other
	stuck             // until it is given up, or the wire is released; then it arrives
)

// wire carries requests to a handler, or does not.
type wire struct {
	mu       sync.Mutex
	handler  http.Handler
	next     map[string][]happens // by path
	always   map[string]happens   // after those
	onIt     map[string]int       // requests on the wire
	came     map[string]int
	released chan struct{}
}

func newWire() *wire {
	return &wire{
		next: map[string][]happens{}, always: map[string]happens{},
		onIt: map[string]int{}, came: map[string]int{}, released: make(chan struct{}),
	}
}

// open gives the address of a wire.
func (w *wire) open(t *testing.T) (url string) {
	t.Helper()
	s := httptest.NewServer(w)
	t.Cleanup(s.Close)
	t.Cleanup(w.release)
	return s.URL
}

func (w *wire) become(h http.Handler) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.handler = h
}

// does says what becomes of the next requests for a path.
func (w *wire) does(path string, next ...happens) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.next[path] = next
}

// keeps says what becomes of all requests for a path from now on.
func (w *wire) keeps(path string, h happens) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.always[path] = h
}

// release lets go what is stuck, for good.
func (w *wire) release() {
	w.mu.Lock()
	defer w.mu.Unlock()
	select {
	case <-w.released:
	default:
		close(w.released)
	}
}

// on gives how many requests for a path are on the wire, and how many there were.
func (w *wire) on(path string) (now, ever int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.onIt[path], w.came[path]
}

func (w *wire) enter(path string) (http.Handler, happens) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.onIt[path]++
	w.came[path]++
	h := w.always[path]
	if next := w.next[path]; len(next) > 0 {
		h = next[0]
		w.next[path] = next[1:]
	}
	return w.handler, h
}

func (w *wire) leave(path string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.onIt[path]--
}

func (w *wire) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	handler, h := w.enter(r.URL.Path)
	defer w.leave(r.URL.Path)
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	arrive := func(rw http.ResponseWriter) {
		again := r.Clone(r.Context())
		again.Body = io.NopCloser(bytes.NewReader(body))
		handler.ServeHTTP(rw, again)
	}
	switch h {
	case lost:
		panic(http.ErrAbortHandler)
	case replyLost:
		arrive(httptest.NewRecorder())
		panic(http.ErrAbortHandler)
	case twice:
		arrive(httptest.NewRecorder())
	case stuck:
		select {
		case <-r.Context().Done():
			panic(http.ErrAbortHandler)
		case <-w.released:
		}
	case arrives:
	}
	arrive(rw)
}
