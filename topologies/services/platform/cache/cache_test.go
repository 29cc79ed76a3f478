package cache_test

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"relapse/topologies/services/platform/cache"
)

var errOrigin = errors.New("the origin is away")

// rig is a cache with a clock of its own, before an origin that counts.
type rig struct {
	*cache.Cache[string, int]
	mu     sync.Mutex
	now    time.Time
	counts map[cache.Event]int
	loads  int
	err    error // of the loads
}

func newRig(t *testing.T, c cache.Config) *rig {
	t.Helper()
	r := &rig{now: time.Unix(1_600_000_000, 0), counts: map[cache.Event]int{}}
	c.Now = func() time.Time {
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.now
	}
	c.Count = func(e cache.Event) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.counts[e]++
	}
	var err error
	if r.Cache, err = cache.New[string, int](c); err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *rig) pass(d time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.now = r.now.Add(d)
}

func (r *rig) count(e cache.Event) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.counts[e]
}

// load gives the number of the load.
func (r *rig) load() (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.loads++
	return r.loads, r.err
}

func (r *rig) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.err = err
}

func TestGet(t *testing.T) {
	type step struct {
		after time.Duration
		key   string
		err   error // of the origin from here on
		want  int   // value, 0 for an error
		as    cache.Event
	}
	minute := cache.Config{Keep: time.Minute}
	for _, c := range []struct {
		name   string
		config cache.Config
		steps  []step
	}{
		{"a value is kept for its time", minute, []step{
			{0, "a", nil, 1, cache.Miss}, {59 * time.Second, "a", nil, 1, cache.Hit}, {time.Second, "a", nil, 2, cache.Miss},
		}},
		{"each key has its own", minute, []step{
			{0, "a", nil, 1, cache.Miss}, {0, "b", nil, 2, cache.Miss}, {0, "a", nil, 1, cache.Hit},
		}},
		{"an error is not kept", minute, []step{
			{0, "a", errOrigin, 0, cache.Failed}, {0, "a", nil, 2, cache.Miss},
		}},
		{"an error that is kept outlasts its cause", cache.Config{Keep: time.Minute, KeepErrors: true}, []step{
			{0, "a", errOrigin, 0, cache.Failed}, {59 * time.Second, "a", nil, 0, cache.Failed}, {time.Second, "a", nil, 2, cache.Miss},
		}},
		{"without time nothing is kept", cache.Config{}, []step{
			{0, "a", nil, 1, cache.Miss}, {0, "a", nil, 2, cache.Miss}, {0, "a", errOrigin, 0, cache.Failed},
		}},
		{"what has run out is given while the origin is away", cache.Config{Keep: time.Minute, StaleFor: time.Hour}, []step{
			{0, "a", nil, 1, cache.Miss}, {time.Minute, "a", errOrigin, 1, cache.Stale}, {0, "b", errOrigin, 0, cache.Failed},
			{59 * time.Minute, "a", errOrigin, 1, cache.Stale}, {time.Minute, "a", errOrigin, 0, cache.Failed}, {0, "a", nil, 6, cache.Miss},
		}},
		{"without that it is not", minute, []step{
			{0, "a", nil, 1, cache.Miss}, {time.Minute, "a", errOrigin, 0, cache.Failed},
		}},
		// The rig's clock begins 20 s before a full minute.
		{"all run out together", cache.Config{Keep: time.Minute, AtOnce: true}, []step{
			{0, "a", nil, 1, cache.Miss}, {10 * time.Second, "b", nil, 2, cache.Miss}, {9 * time.Second, "a", nil, 1, cache.Hit},
			{time.Second, "a", nil, 3, cache.Miss}, {0, "b", nil, 4, cache.Miss}, {59 * time.Second, "b", nil, 4, cache.Hit}, {time.Second, "b", nil, 5, cache.Miss},
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, c.config)
			for n, s := range c.steps {
				r.pass(s.after)
				r.fail(s.err)
				before := r.count(s.as)
				have, err := r.Get(t.Context(), s.key, r.load)
				if have != s.want || (err != nil) != (s.want == 0) || err != nil && !errors.Is(err, errOrigin) {
					t.Errorf("step %d: have %d, %v; want %d", n, have, err, s.want)
				}
				if r.count(s.as) != before+1 {
					t.Errorf("step %d: it does not count as %s", n, s.as)
				}
			}
		})
	}
}

func TestJitterOnlyShortens(t *testing.T) {
	r := newRig(t, cache.Config{Keep: time.Minute, Jitter: 20, Rand: rand.New(rand.NewPCG(1, 0))})
	lasted := map[int]int{} // by tenths of the time, of 1000 values
	for range 1000 {
		first, err := r.Get(t.Context(), "a", r.load)
		if err != nil {
			t.Fatal(err)
		}
		steps := 0
		for ; ; steps++ {
			r.pass(6 * time.Second)
			if v, _ := r.Get(t.Context(), "a", r.load); v != first {
				break
			}
		}
		lasted[steps]++
	}
	// A value that lasts 48 to 60 s is there after 42 s and not after 60.
	for steps, n := range lasted {
		if steps < 8 || steps > 9 {
			t.Errorf("%d values lasted %d s to %d s, want 48 s to 60 s", n, 6*steps, 6*steps+6)
		}
	}
	if len(lasted) < 2 {
		t.Errorf("have %v, want times that differ", lasted)
	}
}

// miss has a number of callers miss one key at the same time, and lets the loads go on
// once so many are on or waiting.
func (r *rig) miss(t *testing.T, callers, loads int) (values []int) {
	t.Helper()
	begun, release := make(chan struct{}, callers), make(chan struct{})
	got := make(chan int, callers)
	get := func() {
		v, err := r.Get(t.Context(), "a", func() (int, error) {
			begun <- struct{}{}
			<-release
			return r.load()
		})
		if err != nil {
			t.Errorf("have %v, want no error", err)
		}
		got <- v
	}
	go get()
	receive(t, "the first load is on", begun)
	for range callers - 1 {
		go get()
	}
	for range loads - 1 {
		receive(t, "the other loads are on", begun)
	}
	close(release)
	for range callers {
		values = append(values, receive(t, "everybody has a value", got))
	}
	return values
}

func receive[T any](t *testing.T, what string, from <-chan T) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(5 * time.Second):
		t.Fatalf("not within 5 s: %s", what)
		panic("unreachable")
	}
}

func TestOneLoadsForAll(t *testing.T) {
	r := newRig(t, cache.Config{Keep: time.Minute})
	for _, v := range r.miss(t, 10, 1) {
		if v != 1 {
			t.Errorf("have %d, want the one value", v)
		}
	}
	// Who comes after the load has ended has a hit.
	if have := r.count(cache.Miss); have != 1 {
		t.Errorf("have %d misses, want 1", have)
	}
	if have := r.count(cache.Joined) + r.count(cache.Hit); have != 9 {
		t.Errorf("have %d who joined or came later, want 9", have)
	}
	if have := r.count(cache.Stampede); have != 0 {
		t.Errorf("have %d loads beside another one, want none", have)
	}
}

func TestWithoutSharingAllLoad(t *testing.T) {
	r := newRig(t, cache.Config{Keep: time.Minute, Unshared: true})
	r.miss(t, 10, 10)
	for e, want := range map[cache.Event]int{cache.Miss: 10, cache.Stampede: 9, cache.Joined: 0, cache.Hit: 0} {
		if have := r.count(e); have != want {
			t.Errorf("%s: have %d, want %d", e, have, want)
		}
	}
}

func TestWhoLeavesDoesNotWaitForTheLoad(t *testing.T) {
	r := newRig(t, cache.Config{Keep: time.Minute})
	begun, release, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		_, err := r.Get(context.Background(), "a", func() (int, error) {
			close(begun)
			<-release
			return r.load()
		})
		ended <- err
	}()
	receive(t, "the load is on", begun)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := r.Get(ctx, "a", r.load); !errors.Is(err, context.Canceled) {
		t.Errorf("have %v, want that the caller left", err)
	}
	close(release)
	if err := receive(t, "the load has ended", ended); err != nil {
		t.Errorf("the load itself: have %v, want no error", err)
	}
	if v, err := r.Get(t.Context(), "a", r.load); v != 1 || err != nil {
		t.Errorf("afterwards: have %d, %v; want what was loaded", v, err)
	}
}

func TestALoadThatPanicsHoldsUpNobody(t *testing.T) {
	r := newRig(t, cache.Config{Keep: time.Minute})
	begun, release, panicked := make(chan struct{}), make(chan struct{}), make(chan any, 1)
	go func() {
		defer func() { panicked <- recover() }()
		_, _ = r.Get(context.Background(), "a", func() (int, error) {
			close(begun)
			<-release
			panic("no value")
		})
	}()
	receive(t, "the load is on", begun)
	ended := make(chan error, 1)
	go func() {
		_, err := r.Get(context.Background(), "a", func() (int, error) { return 0, errOrigin })
		ended <- err
	}()
	close(release)
	if have := receive(t, "the panic is on its way", panicked); have != "no value" {
		t.Errorf("have a panic of %v, want that of the load", have)
	}
	// Whoever came too late to wait has loaded instead.
	if err := receive(t, "the other one is told", ended); !errors.Is(err, cache.ErrBroken) && !errors.Is(err, errOrigin) {
		t.Errorf("have %v, want an error", err)
	}
	if v, err := r.Get(t.Context(), "a", r.load); v != 1 || err != nil {
		t.Errorf("afterwards: have %d, %v; want a value", v, err)
	}
}

func TestNewRefuses(t *testing.T) {
	for name, c := range map[string]cache.Config{
		"a negative time":      {Keep: -1},
		"a negative jitter":    {Jitter: -1},
		"a jitter of no":       {Jitter: math.NaN()},
		"a jitter over 100":    {Jitter: 101},
		"a jitter of no seed":  {Jitter: 1},
		"a negative lateness":  {StaleFor: -1},
		"a jitter of infinity": {Jitter: math.Inf(1)},
		"at once, with jitter": {AtOnce: true, Jitter: 1, Rand: rand.New(rand.NewPCG(1, 0))},
	} {
		if _, err := cache.New[string, int](c); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
