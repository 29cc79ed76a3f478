// Package host is the agent on a host: it takes the host's memory and CPU time
// when it is told to, for real, and gives them back.
//
// A leak is a file in a tmpfs that grows. Its pages count against the host, as
// the agent's container is in the host's cgroup, and belong to no process, so
// that killing processes gives none of them back, as with memory that a kernel
// has leaked. It lasts as long as the agent's container: that one's end is the
// host's reboot. The size of the tmpfs bounds it. Where that leaves the agent
// itself enough of the host's memory, the kernel always finds another process
// than the agent to kill.
//
// A hog is a loop that spins.
package host

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"regexp"
	"runtime"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"relapse/topologies/services"
)

// Agent holds leaks and hogs by name.
type Agent struct {
	folder  string
	metrics *metrics

	mu    sync.Mutex
	leaks map[string]*leak
	hogs  map[string]*hog
}

// New makes an agent that leaks into files of a folder.
func New(folder string, registry prometheus.Registerer) *Agent {
	a := &Agent{folder: folder, leaks: map[string]*leak{}, hogs: map[string]*hog{}}
	a.metrics = newMetrics(registry, a)
	return a
}

// nameForm keeps the names of leaks fit for files.
var nameForm = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9_-]{0,99}$`)

func checkName(name string) error {
	if !nameForm.MatchString(name) {
		return fmt.Errorf("%q is not a name: use up to 100 letters, digits, - and _", name)
	}
	return nil
}

// SetLeak begins a leak, or changes the one of that name; what has leaked by
// then stays.
func (a *Agent) SetLeak(name string, rates LeakRates) error {
	if err := errors.Join(checkName(name), rates.check()); err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if l := a.leaks[name]; l != nil && l.change(rates) {
		return nil
	}
	l, err := startLeak(a.folder, name, rates, a.metrics)
	if err != nil {
		return err
	}
	a.leaks[name] = l
	return nil
}

// Leak tells of a leak; false if there is none of that name.
func (a *Agent) Leak(name string) (LeakState, bool) {
	a.mu.Lock()
	l := a.leaks[name]
	a.mu.Unlock()
	if l == nil {
		return LeakState{}, false
	}
	return l.state(), true
}

// DropLeak ends a leak and gives its memory back; one that is not there is no
// error. After an error the leak is still there, and does not grow.
func (a *Agent) DropLeak(name string) error {
	a.mu.Lock()
	l := a.leaks[name]
	a.mu.Unlock()
	if l == nil {
		return nil
	}
	if err := l.end(); err != nil { // not under the lock: the kernel may take its time
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.leaks[name] == l {
		delete(a.leaks, name)
	}
	return nil
}

// SetHog uses that many cores under a name, in place of those that the name
// stood for before.
func (a *Agent) SetHog(name string, cores float64) error {
	if err := checkName(name); err != nil {
		return err
	}
	if !(cores > 0) || cores > float64(runtime.NumCPU()) {
		return fmt.Errorf("cores: %v is not above 0 and up to %d, which this machine has", cores, runtime.NumCPU())
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if h := a.hogs[name]; h != nil {
		h.end()
	}
	a.hogs[name] = startHog(cores)
	return nil
}

// DropHog ends a hog; one that is not there is no error.
func (a *Agent) DropHog(name string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if h := a.hogs[name]; h != nil {
		h.end()
		delete(a.hogs, name)
	}
}

// Close ends all leaks and hogs.
func (a *Agent) Close() {
	a.mu.Lock()
	leaks, hogs := a.leaks, a.hogs
	a.leaks, a.hogs = map[string]*leak{}, map[string]*hog{}
	a.mu.Unlock()
	for _, l := range leaks {
		_ = l.end() // the tmpfs ends with the container
	}
	for _, h := range hogs {
		h.end()
	}
}

// leaked gives the bytes of all leaks.
func (a *Agent) leaked() (sum float64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, l := range a.leaks {
		sum += float64(l.size.Load())
	}
	return sum
}

// connections gives those that leaks counted at their last look. Leaks may count
// the same edges: the one that counts most tells.
func (a *Agent) connections() (most float64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, l := range a.leaks {
		most = math.Max(most, l.counted())
	}
	return most
}

func (a *Agent) hogCores() (sum float64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, h := range a.hogs {
		sum += h.cores
	}
	return sum
}

// Control answers the orders that a replay gives: PUT and DELETE /leaks/{name}
// and /hogs/{name}; GET /leaks/{name} tells of one, and GET /health says that
// orders are taken.
func (a *Agent) Control() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /health", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok\n")) })
	mux.HandleFunc("PUT /leaks/{name}", func(w http.ResponseWriter, r *http.Request) {
		var rates LeakRates
		services.Order(w, r, &rates, func() error { return a.SetLeak(r.PathValue("name"), rates) })
	})
	mux.HandleFunc("GET /leaks/{name}", func(w http.ResponseWriter, r *http.Request) {
		state, ok := a.Leak(r.PathValue("name"))
		if !ok {
			http.Error(w, fmt.Sprintf("no leak %q", r.PathValue("name")), http.StatusNotFound)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(state) // whoever has left is not told
	})
	mux.HandleFunc("DELETE /leaks/{name}", func(w http.ResponseWriter, r *http.Request) {
		if err := a.DropLeak(r.PathValue("name")); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	})
	mux.HandleFunc("PUT /hogs/{name}", func(w http.ResponseWriter, r *http.Request) {
		var order struct {
			Cores float64 `json:"cores"`
		}
		services.Order(w, r, &order, func() error { return a.SetHog(r.PathValue("name"), order.Cores) })
	})
	mux.HandleFunc("DELETE /hogs/{name}", func(w http.ResponseWriter, r *http.Request) {
		a.DropHog(r.PathValue("name"))
		w.WriteHeader(http.StatusNoContent)
	})
	return mux
}
