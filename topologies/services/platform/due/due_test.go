package due_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"relapse/topologies/services/platform/due"
)

// run runs what is due until the test ends, or until it is told to stop.
func run(t *testing.T, times *due.Times, workers int) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- times.Run(ctx, workers) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("run: %v", err)
		}
	})
	t.Cleanup(stop)
	return stop
}

// wait waits for something that a worker says.
func wait[T any](t *testing.T, what string, said <-chan T) T {
	t.Helper()
	select {
	case v := <-said:
		return v
	case <-time.After(5 * time.Second):
		t.Fatalf("not within 5 s: %s", what)
		panic("unreachable")
	}
}

func TestThingsAreDoneInTheOrderOfTheirTimes(t *testing.T) {
	began := time.Now()
	times := due.New(nil)
	done := make(chan string, 8)
	for _, c := range []struct {
		name  string
		after time.Duration
	}{{"c", 30 * time.Millisecond}, {"a", -time.Second}, {"d", 30 * time.Millisecond}, {"b", 10 * time.Millisecond}} {
		times.At(began.Add(c.after), func() { done <- c.name })
	}
	if have := times.Len(); have != 4 {
		t.Errorf("have %d things to do, want 4", have)
	}
	run(t, times, 1)
	var have []string
	for range 4 {
		have = append(have, wait(t, "the next thing is done", done))
	}
	if took := time.Since(began); took < 30*time.Millisecond {
		t.Errorf("all was done after %v, want 30 ms at least", took)
	}
	if want := []string{"a", "b", "c", "d"}; !slices.Equal(have, want) {
		t.Errorf("have %q, want %q", have, want)
	}
	if have := times.Len(); have != 0 {
		t.Errorf("have %d things left, want none", have)
	}
}

func TestWhatIsEarlierThanTheRestIsNotWaitedFor(t *testing.T) {
	times := due.New(nil)
	run(t, times, 1)
	done := make(chan string, 2)
	times.At(time.Now().Add(time.Hour), func() { done <- "in an hour" })
	times.At(time.Now().Add(5*time.Millisecond), func() { done <- "soon" })
	if have := wait(t, "one of them is done", done); have != "soon" {
		t.Errorf("have %q first, want soon", have)
	}
}

func TestNoMoreIsDoneAtOnceThanThereAreWorkers(t *testing.T) {
	late := make(chan time.Duration, 3)
	times := due.New(func(d time.Duration) { late <- d })
	run(t, times, 2)
	began, release := make(chan int, 3), make(chan struct{})
	at := time.Now()
	for n := range 3 {
		times.At(at, func() {
			began <- n
			<-release
		})
	}
	wait(t, "the first has begun", began)
	wait(t, "the second has begun", began)
	held := time.Now()
	select {
	case n := <-began:
		t.Errorf("%d began while both workers were busy", n)
	case <-time.After(50 * time.Millisecond):
	}
	close(release)
	wait(t, "the third has begun", began)
	wait(t, "the first one's lateness", late)
	wait(t, "the second one's lateness", late)
	if have, least := wait(t, "the third one's lateness", late), held.Sub(at); have < least {
		t.Errorf("the third was %v late, want %v at least", have, least)
	}
}

func TestNothingIsBegunAfterTheEnd(t *testing.T) {
	times := due.New(nil)
	stop := run(t, times, 1)
	began, release := make(chan struct{}), make(chan struct{})
	ended := false // read once the workers have been waited for
	times.At(time.Now(), func() {
		close(began)
		<-release
		ended = true
	})
	wait(t, "it has begun", began)
	times.At(time.Now(), func() { t.Error("it was begun after the end") })
	time.AfterFunc(20*time.Millisecond, func() { close(release) })
	stop()
	if !ended {
		t.Error("what had begun was not waited for")
	}
}
