// Package due has things done at their time by a fixed number of workers: thousands
// of matches that wait for their end are entries of a heap, and not goroutines.
package due

import (
	"container/heap"
	"context"
	"sync"
	"time"
)

// idle is how long nothing is looked at where nothing is due.
const idle = time.Hour

// Times is what is to be done, and when. Many goroutines can use it.
type Times struct {
	late func(time.Duration)
	wake chan struct{}

	mu   sync.Mutex
	next entries
	last uint64
}

// New makes an empty list. Late is told of everything that is begun, and how long
// after its time: because all workers were busy, or the machine was; nil for nobody.
func New(late func(time.Duration)) *Times {
	if late == nil {
		late = func(time.Duration) {}
	}
	return &Times{late: late, wake: make(chan struct{}, 1)}
}

// At has something done at a time, by one of the workers. What is due at the same
// time is begun in the order in which it was asked for.
func (t *Times) At(at time.Time, do func()) {
	t.mu.Lock()
	t.last++
	heap.Push(&t.next, entry{at: at, number: t.last, do: do})
	first := t.next[0].number == t.last
	t.mu.Unlock()
	if first {
		select {
		case t.wake <- struct{}{}:
		default: // it is to wake up already
		}
	}
}

// Len is how many things have not been begun.
func (t *Times) Len() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.next)
}

// Run has things done until the context ends, and waits for the workers then.
// Nothing is begun after that.
func (t *Times) Run(ctx context.Context, workers int) error {
	ready := make(chan entry)
	var working sync.WaitGroup
	for range workers {
		working.Go(func() {
			for e := range ready {
				t.late(max(0, time.Since(e.at)))
				e.do()
			}
		})
	}
	t.hand(ctx, ready)
	close(ready)
	working.Wait()
	return nil
}

// hand gives what is due to the workers until the context ends.
func (t *Times) hand(ctx context.Context, ready chan<- entry) {
	timer := time.NewTimer(idle)
	defer timer.Stop()
	for ctx.Err() == nil {
		e, wait := t.pop(time.Now())
		if wait == 0 {
			select {
			case ready <- e:
			case <-ctx.Done():
			}
			continue
		}
		timer.Reset(wait)
		select {
		case <-timer.C:
		case <-t.wake:
		case <-ctx.Done():
		}
	}
}

// pop takes the first thing that is due, or says how long to wait for it.
func (t *Times) pop(now time.Time) (e entry, wait time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.next) == 0 {
		return entry{}, idle
	}
	if wait := t.next[0].at.Sub(now); wait > 0 {
		return entry{}, wait
	}
	return heap.Pop(&t.next).(entry), 0
}

// entry is one thing to do.
type entry struct {
	at     time.Time
	number uint64
	do     func()
}

// entries is a heap, the earliest on top.
type entries []entry

func (e entries) Len() int { return len(e) }
func (e entries) Less(i, j int) bool {
	if e[i].at.Equal(e[j].at) {
		return e[i].number < e[j].number
	}
	return e[i].at.Before(e[j].at)
}
func (e entries) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *entries) Push(x any)   { *e = append(*e, x.(entry)) }
func (e *entries) Pop() any {
	last := len(*e) - 1
	x := (*e)[last]
	(*e)[last] = entry{} // what it would do is not kept
	*e = (*e)[:last]
	return x
}
