package relay

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/Shopify/toxiproxy/v2/stream"
	"github.com/Shopify/toxiproxy/v2/toxics"
)

// toxic is a type of toxic of our own. Toxiproxy makes one for each toxic that
// is added to a link, and runs its Pipe for each connection.
//
// Types of our own stand in for all of toxiproxy's, for what those do: their
// jitter and slices draw from the global random source, their attributes are
// written while connections read them, they wait for a receiver where they
// cannot be interrupted, and they serialise what a wire would pipeline.
type toxic interface {
	toxics.Toxic
	json.Unmarshaler // strict and complete: an error says which attribute is wrong
	release()        // everything held is delivered at once, from now on
}

// behaviour is what a type of toxic does to a flow. Its methods are called from
// the one goroutine that runs the flow.
type behaviour interface {
	// take puts what has arrived into the flow's queue.
	take(f *flow, data []byte, arrived time.Time)
	// end says when a stream that has ended may be closed.
	end(f *flow, at time.Time) time.Time
	// window is the number of queued bytes at which no more is read, so that
	// the sender feels the receiver.
	window() int
}

// types are the types of toxics, each registered in its own file.
var types = map[string]func() toxic{}

func register(name string, example toxics.Toxic, make func() toxic) {
	types[name] = make
	toxics.Register(name, example)
}

// ToxicTypes are the types of toxics that a relay knows, sorted.
func ToxicTypes() []string {
	out := make([]string, 0, len(types))
	for name := range types {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

// settings holds the attributes of a toxic, which may be changed while
// connections read them.
type settings[T interface{ validate() error }] struct {
	now      atomic.Pointer[T]
	once     sync.Once
	freed    chan struct{}
	freeOnce sync.Once
}

func (s *settings[T]) get() *T { return s.now.Load() }

// UnmarshalJSON replaces all attributes.
func (s *settings[T]) UnmarshalJSON(data []byte) error {
	var next T
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&next); err != nil {
		return fmt.Errorf("attributes: %w", err)
	}
	if err := next.validate(); err != nil {
		return err
	}
	s.now.Store(&next)
	return nil
}

func (s *settings[T]) released() chan struct{} {
	s.once.Do(func() { s.freed = make(chan struct{}) })
	return s.freed
}

func (s *settings[T]) release() {
	s.freeOnce.Do(func() { close(s.released()) })
}

// flow is one direction of one connection in one toxic: what has arrived and
// when it is due. It is kept by toxiproxy between runs of the toxic, so being
// interrupted loses nothing.
type flow struct {
	queue    []piece
	size     int // bytes queued
	ended    bool
	closeDue time.Time
	// sealed is set by a behaviour that ends the stream itself; the rest of
	// what arrives is swallowed.
	sealed bool
	last   time.Time // latest due time so far: order is kept
	state  any       // the behaviour's own, per connection and direction
}

type piece struct {
	data []byte
	due  time.Time
}

// push queues data that is due at a time, or when what is queued before it is.
func (f *flow) push(data []byte, due time.Time) {
	if due.Before(f.last) {
		due = f.last
	}
	f.last = due
	f.queue = append(f.queue, piece{data, due})
	f.size += len(data)
}

func (f *flow) pop() {
	f.size -= len(f.queue[0].data)
	f.queue[0] = piece{}
	f.queue = f.queue[1:]
	if len(f.queue) == 0 {
		f.queue = nil // lets the array go after a burst
	}
}

// runFlow is the Pipe of every type of toxic. It waits only where it can be
// interrupted, which toxiproxy's contract asks for, and that includes waiting
// for the receiver.
func runFlow(stub *toxics.ToxicStub, b behaviour, freed <-chan struct{}) {
	f, ok := stub.State.(*flow)
	if !ok {
		f = &flow{}
		stub.State = f
	}
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	free := false
	select {
	case <-freed:
		free = true
	default:
	}
	for {
		var (
			input  <-chan *stream.StreamChunk
			output chan<- *stream.StreamChunk
			head   *stream.StreamChunk
			wait   <-chan time.Time
			now    = time.Now()
		)
		switch {
		case len(f.queue) > 0:
			if due := f.queue[0].due; free || !due.After(now) {
				output = stub.Output
				head = &stream.StreamChunk{Data: f.queue[0].data, Timestamp: now}
			} else {
				timer.Reset(due.Sub(now))
				wait = timer.C
			}
		case f.ended || f.sealed:
			if free || !f.closeDue.After(now) {
				stub.Close()
				if f.sealed && !f.ended {
					// Nobody can interrupt a closed stub any more; reading on
					// lets the sender's side end by itself.
					for c := range stub.Input {
						_ = c
					}
				}
				return
			}
			timer.Reset(f.closeDue.Sub(now))
			wait = timer.C
		}
		if !f.ended && !f.sealed && f.size < b.window() {
			input = stub.Input
		}
		var freeing <-chan struct{}
		if !free {
			freeing = freed
		}
		select {
		case <-stub.Interrupt:
			return
		case <-freeing:
			free = true
		case <-wait:
		case output <- head:
			f.pop()
		case c := <-input:
			if c == nil {
				f.ended = true
				f.closeDue = b.end(f, now)
			} else {
				b.take(f, c.Data, c.Timestamp)
			}
		}
	}
}

// flush hands on everything that a flow holds: called by toxiproxy when the
// toxic is taken away, after its Pipe has ended.
func flush(stub *toxics.ToxicStub) {
	f, ok := stub.State.(*flow)
	if !ok {
		return
	}
	for len(f.queue) > 0 {
		stub.Output <- &stream.StreamChunk{Data: f.queue[0].data, Timestamp: time.Now()}
		f.pop()
	}
}

// wideWindow bounds what a toxic may hold of one direction of one connection.
// With a delay of 1 s it lets 16 MiB a second through, after which the sender
// waits as it would for a full window.
const wideWindow = 16 << 20

// atOnce is the part of a behaviour that closes without delay and holds a wide
// window.
type atOnce struct{}

func (atOnce) end(_ *flow, at time.Time) time.Time { return at }
func (atOnce) window() int                         { return wideWindow }
