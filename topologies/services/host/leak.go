package host

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"
)

const (
	leakStep  = 50 * time.Millisecond // between two writes
	leakWrite = 256 << 10             // bytes of one write, so that an end need not wait for a large one
	countStep = 250 * time.Millisecond
	// mostLeak refuses a rate that can only be a mistake: memory is not written
	// that fast. It is topologies.MostLeak, which files are refused by.
	mostLeak = 64 << 30
)

// LeakRates say how fast a leak grows.
type LeakRates struct {
	PerSecond float64 `json:"per_second"` // bytes per second
	// PerConnection comes on top: bytes per second and open connection.
	PerConnection float64 `json:"per_connection"`
	// Edges are where connections are counted: address:port/path of metrics, all
	// 250 ms. One that does not answer has none.
	Edges []string `json:"edges"`
}

func (r LeakRates) check() error {
	for name, v := range map[string]float64{"per_second": r.PerSecond, "per_connection": r.PerConnection} {
		if math.IsNaN(v) || v < 0 || v > mostLeak {
			return fmt.Errorf("%s: %v is not between 0 and %d bytes", name, v, mostLeak)
		}
	}
	switch {
	case r.PerSecond == 0 && r.PerConnection == 0:
		return errors.New("per_second and per_connection are both 0: nothing would leak")
	case r.PerConnection > 0 && len(r.Edges) == 0:
		return errors.New("per_connection without edges: there is nothing to count connections at")
	}
	for _, edge := range r.Edges {
		if _, err := edgeURL(edge); err != nil {
			return err
		}
	}
	return nil
}

// leak is a file that grows.
type leak struct {
	metrics *metrics
	file    *os.File
	size    atomic.Int64 // bytes that the kernel has given for it
	cancel  context.CancelFunc
	running sync.WaitGroup
	ending  sync.Mutex // held while the file is taken away

	mu    sync.Mutex
	rates LeakRates
	open  float64 // connections at the last look
	heard int     // of the edges, at the look that heard most of them
	ended bool
}

// LeakState is what an agent tells of one leak, beside its metrics of all.
type LeakState struct {
	// Heard is how many of its edges told of their connections, at the look that
	// heard most of them: an edge that has died since was heard, one without the
	// gauge never is.
	Heard int `json:"heard"`
}

func startLeak(folder, name string, rates LeakRates, m *metrics) (*leak, error) {
	file, err := os.OpenFile(filepath.Join(folder, name), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, fmt.Errorf("leak %s: %w", name, err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	l := &leak{metrics: m, file: file, rates: rates, cancel: cancel}
	l.running.Go(func() { l.count(ctx) })
	l.running.Go(func() { l.grow(ctx) })
	return l, nil
}

// change gives a leak other rates; false if it is about to end.
func (l *leak) change(rates LeakRates) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		return false
	}
	l.rates = rates
	return true
}

func (l *leak) state() LeakState {
	l.mu.Lock()
	defer l.mu.Unlock()
	return LeakState{Heard: l.heard}
}

// perSecond is how fast the leak grows now, in bytes.
func (l *leak) perSecond() float64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.rates.PerSecond + l.rates.PerConnection*l.open
}

func (l *leak) counted() float64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.open
}

// grow writes what is due, all [leakStep].
func (l *leak) grow(ctx context.Context) {
	ticker := time.NewTicker(leakStep)
	defer ticker.Stop()
	last, due := time.Now(), 0.0
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		now := time.Now()
		due += l.perSecond() * now.Sub(last).Seconds()
		last = now
		whole := math.Floor(due)
		due -= whole
		l.write(ctx, int64(whole))
	}
}

var zeros [leakWrite]byte

// write makes the file longer. Memory that the kernel does not give is counted
// and not asked for again: it would come all at once when some is free.
func (l *leak) write(ctx context.Context, bytes int64) {
	for bytes > 0 && ctx.Err() == nil {
		n, err := l.file.Write(zeros[:min(bytes, leakWrite)])
		l.size.Add(int64(n))
		bytes -= int64(n)
		if err != nil {
			l.metrics.refused.Inc()
			return
		}
	}
}

// count keeps the number of open connections, all [countStep].
func (l *leak) count(ctx context.Context) {
	ticker := time.NewTicker(countStep)
	defer ticker.Stop()
	for {
		l.mu.Lock()
		edges, wanted := l.rates.Edges, l.rates.PerConnection > 0
		l.mu.Unlock()
		open, heard := 0.0, 0
		if wanted {
			open, heard = l.metrics.edges.connections(ctx, edges)
		}
		l.mu.Lock()
		l.open, l.heard = open, max(l.heard, heard)
		l.mu.Unlock()
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// end stops the growth and gives the memory back. It is idempotent.
func (l *leak) end() error {
	l.mu.Lock()
	l.ended = true
	l.mu.Unlock()
	l.cancel()
	l.running.Wait()
	l.ending.Lock()
	defer l.ending.Unlock()
	if err := l.file.Truncate(0); errors.Is(err, fs.ErrClosed) {
		return nil
	} else if err != nil {
		return fmt.Errorf("give back what has leaked: %w", err)
	}
	l.size.Store(0)
	err := os.Remove(l.file.Name())
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return errors.Join(err, l.file.Close())
}
