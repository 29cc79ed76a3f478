package relay

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/Shopify/toxiproxy/v2/toxics"
)

// shapedAttributes of a toxic of type "shaped".
type shapedAttributes struct {
	// Bucket names the token bucket. All connections of all toxics that name it
	// share it, on any link of the relay: one network card, one uplink.
	Bucket string `json:"bucket"`
	// Rate in bytes a second.
	Rate float64 `json:"rate"`
	// Burst in bytes: what passes at once after a pause.
	Burst float64 `json:"burst"`
}

func (a shapedAttributes) validate() error {
	switch {
	case a.Bucket == "":
		return errors.New("bucket needs a name")
	case a.Rate < 1 || a.Rate > 1e11:
		return fmt.Errorf("rate is %v bytes a second: must be from 1 to 1e11", a.Rate)
	case a.Burst < 0:
		return fmt.Errorf("burst is %v bytes: must not be below zero", a.Burst)
	}
	return nil
}

// shaped limits bandwidth. A chunk takes its share of the bucket when it
// arrives, in order of arrival over all connections, and is then handed on in
// pieces as that share comes due. The share is never given back, even if the
// receiver is gone by then: bytes on a wire are sent, whoever waits for them. A
// connection takes its next chunk (of up to 32 KiB) when the one before is all
// but through; the rest stays with the sender, whose buffers fill.
type shaped struct {
	settings[shapedAttributes]
	mu     sync.Mutex
	bucket *bucket
}

func init() { register("shaped", new(shaped), func() toxic { return new(shaped) }) }

func (s *shaped) Pipe(stub *toxics.ToxicStub)    { runFlow(stub, s, s.released()) }
func (s *shaped) Cleanup(stub *toxics.ToxicStub) { flush(stub) }
func (s *shaped) NewState() any                  { return &flow{} }

// UnmarshalJSON sets the attributes and, with them, the bucket's rate and
// burst: the last toxic that names a bucket decides for all.
func (s *shaped) UnmarshalJSON(data []byte) error {
	if err := s.settings.UnmarshalJSON(data); err != nil {
		return err
	}
	a := s.get()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.bucket != nil && s.bucket.name == a.Bucket {
		s.bucket.set(a.Rate, a.Burst)
		return nil
	}
	if s.bucket != nil {
		s.bucket.letGo()
	}
	s.bucket = useBucket(a.Bucket, a.Rate, a.Burst)
	return nil
}

// drop lets the bucket go: it is forgotten with its last toxic.
func (s *shaped) drop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.bucket != nil {
		s.bucket.letGo()
	}
}

func (s *shaped) shared() *bucket {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bucket
}

func (s *shaped) window() int                         { return readAhead(s.get().Rate) }
func (s *shaped) end(_ *flow, at time.Time) time.Time { return at }

func (s *shaped) take(f *flow, data []byte, _ time.Time) {
	start, rate := s.shared().reserve(len(data), time.Now())
	// A piece is a packet on an Ethernet, or more where packets would follow
	// each other faster than timers can: 2 ms.
	size := max(1448, int(rate/500))
	for sent := 0; sent < len(data); sent += size {
		end := min(sent+size, len(data))
		f.push(data[sent:end], start.Add(time.Duration(float64(end)/rate*float64(time.Second))))
	}
}

// readAhead is the number of bytes still to go at which the next chunk takes its
// share. It is what passes in 20 ms, which covers the lateness of timers on a
// busy machine: a wire does not rest between the packets of a full queue.
func readAhead(rate float64) int { return min(max(int(rate/50), 1), chunk) }

// bucket is a token bucket, kept as the time at which everything taken so far
// has been paid for (the "theoretical arrival time" of the generic cell rate
// algorithm, ITU-T I.371). That form needs no ticking and loses no fraction of
// a token to rounding of timers.
type bucket struct {
	name string
	uses int // guarded by buckets.mu

	mu    sync.Mutex
	rate  float64 // bytes a second
	burst float64 // bytes
	paid  time.Time
	taken uint64
}

// buckets are those in use in this process. A server puts a prefix of its own
// before their names.
var buckets = struct {
	mu    sync.Mutex
	named map[string]*bucket
}{named: map[string]*bucket{}}

func useBucket(name string, rate, burst float64) *bucket {
	buckets.mu.Lock()
	defer buckets.mu.Unlock()
	b, ok := buckets.named[name]
	if !ok {
		b = &bucket{name: name}
		buckets.named[name] = b
	}
	b.uses++
	b.set(rate, burst)
	return b
}

func (b *bucket) letGo() {
	buckets.mu.Lock()
	defer buckets.mu.Unlock()
	if b.uses--; b.uses == 0 {
		delete(buckets.named, b.name)
	}
}

func (b *bucket) set(rate, burst float64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if now := time.Now(); b.rate > 0 && b.rate != rate && b.paid.After(now) {
		// What is owed stays owed in bytes; it is worth another time now.
		owed := b.paid.Sub(now).Seconds() * b.rate
		b.paid = now.Add(time.Duration(owed / rate * float64(time.Second)))
	}
	b.rate, b.burst = rate, burst
}

// reserve takes n bytes and says when the first of them begins to pass, and at
// what rate. The start may lie in the past, by the burst.
func (b *bucket) reserve(n int, now time.Time) (start time.Time, rate float64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	start = b.paid
	if earliest := now.Add(-time.Duration(b.burst / b.rate * float64(time.Second))); start.Before(earliest) {
		start = earliest
	}
	b.paid = start.Add(time.Duration(float64(n) / b.rate * float64(time.Second)))
	b.taken += uint64(n)
	return start, b.rate
}

func (b *bucket) state() BucketState {
	b.mu.Lock()
	defer b.mu.Unlock()
	return BucketState{
		Bucket: b.name, Rate: b.rate, Burst: b.burst, Taken: b.taken,
		Backlog: max(0, time.Until(b.paid)),
	}
}
