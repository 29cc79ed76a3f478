package games

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// line is a finite capacity: so many workers, and work that waits for one, first
// come first served.
//
// Work stays in line when its caller leaves, as it does behind many a real
// server: what waits there is a request that was read, and nobody looks whether
// its caller is still there. A worker then spends its time on it for nothing.
// Where what is abandoned is dropped, a worker looks before it begins; what it
// has begun it finishes.
//
// A job counts from when the one before should have ended, and not from when it was
// seen to: the capacity is as stated, however late timers are. It counts from
// [catchUp] ago at most: a process that stood still for longer has not worked.
type line struct {
	most int // that may wait; below zero for no bound
	drop bool

	mu      sync.Mutex
	idle    int // workers
	waiting []*job
}

// catchUp is how late a timer may be for its worker to make up for it: more than a
// busy machine or the CPU limit of a host (20 ms) holds a process back, and less than
// the pauses that faults make.
const catchUp = 50 * time.Millisecond

// job is the work of one request.
type job struct {
	caller context.Context // ends when the caller leaves
	takes  time.Duration
	came   time.Time
	ended  func(worked, left bool) // called once, by the worker
}

func newLine(workers, most int, drop bool) *line {
	return &line{most: most, drop: drop, idle: workers}
}

// enter gives a job to a worker or has it wait; false if too many wait already.
func (l *line) enter(j *job) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.idle > 0:
		l.idle--
		go l.work(j)
	case l.most >= 0 && len(l.waiting) >= l.most:
		return false
	default:
		l.waiting = append(l.waiting, j)
	}
	return true
}

// work has a worker do a job and then all that waits.
func (l *line) work(j *job) {
	var end time.Time
	for ; j != nil; j = l.next() {
		if l.drop && j.caller.Err() != nil {
			j.ended(false, true)
			continue
		}
		end = latest(end, j.came, time.Now().Add(-catchUp)).Add(j.takes)
		time.Sleep(time.Until(end))
		j.ended(true, j.caller.Err() != nil)
	}
}

func latest(first time.Time, others ...time.Time) time.Time {
	for _, t := range others {
		if t.After(first) {
			first = t
		}
	}
	return first
}

// next gives the job that waits longest; without any, the worker is idle.
func (l *line) next() *job {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.waiting) == 0 {
		l.idle++
		return nil
	}
	j := l.waiting[0]
	l.waiting[0] = nil
	l.waiting = l.waiting[1:]
	return j
}

// length is how many jobs wait; of a nil line none.
func (l *line) length() int {
	if l == nil {
		return 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.waiting)
}

func (l *line) register(registry *prometheus.Registry) {
	registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "relapse_queue_length", Help: "Requests that wait for a worker; always 0 without a number of workers.",
	}, func() float64 { return float64(l.length()) }))
}
