package mms

import (
	"context"
	"sync"
	"time"
)

// cpu is a modelled CPU: one worker that does jobs first come first served.
//
// A job begins once it is there and the last one has ended; what it does is done
// then, and says what it costs. Whoever waits for it is told when that cost has
// passed. Times are virtual: a job counts from when the last one should have ended,
// not from when a timer was seen to, so that the capacity is as stated however late
// timers are. Nothing is burnt. What is lost by more than [mostLate] stays lost: a
// process that was stopped does not do in an instant what it would have done.
//
// A job stays in line when its caller leaves, unless what is abandoned is dropped:
// then it is passed over at its turn, at no cost. What has begun is finished.
type cpu struct {
	most     int  // that may wait; below zero for no bound
	perClass bool // of each class of jobs, and not of all together
	drop     bool
	used     func(cost time.Duration) // called once for each job that was done

	mu      sync.Mutex
	working bool
	waiting []*job
	waits   map[string]int // by class
}

// mostLate is more than timers are late on a busy machine.
const mostLate = 50 * time.Millisecond

// job is what one caller waits for.
type job struct {
	caller context.Context // ends when the caller leaves
	class  string
	work   func() (cost time.Duration)
	came   time.Time
	ended  chan fate
}

// fate is what became of a job.
type fate int

const (
	ran        fate = iota
	overfull        // too many wait
	passedOver      // its caller has left
)

func newCPU(most int, perClass, drop bool, used func(cost time.Duration)) *cpu {
	return &cpu{most: most, perClass: perClass, drop: drop, used: used, waits: map[string]int{}}
}

// do waits for the turn of a job, has it done, and returns when its cost has
// passed. It goes on waiting when the caller leaves.
func (c *cpu) do(caller context.Context, class string, work func() (cost time.Duration)) fate {
	j := &job{caller: caller, class: class, work: work, came: time.Now(), ended: make(chan fate, 1)}
	if !c.enter(j) {
		return overfull
	}
	return <-j.ended
}

// enter begins a job or has it wait; false if too many wait already.
func (c *cpu) enter(j *job) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.working {
		c.working = true
		go c.run(j)
		return true
	}
	wait := len(c.waiting)
	if c.perClass {
		wait = c.waits[j.class]
	}
	if c.most >= 0 && wait >= c.most {
		return false
	}
	c.waiting = append(c.waiting, j)
	c.waits[j.class]++
	return true
}

// run does a job and then all that waits.
func (c *cpu) run(j *job) {
	var end time.Time // of the last job
	for ; j != nil; j = c.next() {
		if c.drop && j.caller.Err() != nil {
			j.ended <- passedOver
			continue
		}
		if end.Before(j.came) {
			end = j.came
		}
		if oldest := time.Now().Add(-mostLate); end.Before(oldest) {
			end = oldest
		}
		cost := j.work()
		end = end.Add(cost)
		time.Sleep(time.Until(end))
		c.used(cost)
		j.ended <- ran
	}
}

// next gives the job that waits longest; without any, the worker is at an end.
func (c *cpu) next() *job {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.waiting) == 0 {
		c.working = false
		return nil
	}
	j := c.waiting[0]
	c.waiting[0] = nil
	c.waiting = c.waiting[1:]
	c.waits[j.class]--
	return j
}

// length is how many jobs wait.
func (c *cpu) length() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.waiting)
}
