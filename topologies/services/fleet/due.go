package fleet

import (
	"container/heap"
	"time"
)

// passEvery is how exactly matches end and servers come back.
const passEvery = 10 * time.Millisecond

// due says when a server's match ends, when it comes back after one, or when it is
// registered after it was added. It is void once the server's turn is another.
type due struct {
	at     time.Duration
	server *server
	turn   int
}

// dueTimes is a heap, the earliest on top.
type dueTimes []due

func (d dueTimes) Len() int           { return len(d) }
func (d dueTimes) Less(i, j int) bool { return d[i].at < d[j].at }
func (d dueTimes) Swap(i, j int)      { d[i], d[j] = d[j], d[i] }
func (d *dueTimes) Push(x any)        { *d = append(*d, x.(due)) }
func (d *dueTimes) Pop() any {
	last := len(*d) - 1
	x := (*d)[last]
	*d = (*d)[:last]
	return x
}

// schedule says until when a server is in its state.
func (f *Fleet) schedule(s *server, at time.Duration) {
	heap.Push(&f.due, due{at, s, s.turn})
}

// pass has everything happen that is due.
func (f *Fleet) pass() {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.now()
	for len(f.due) > 0 && f.due[0].at <= now {
		next := heap.Pop(&f.due).(due)
		if next.turn != next.server.turn {
			continue
		}
		switch next.server.state {
		case inMatch:
			f.end(next.server, next.at)
		case ended:
			f.register(next.server)
		case gone:
			f.arrive(next.server)
		}
	}
}
