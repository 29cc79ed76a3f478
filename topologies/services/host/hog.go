package host

import (
	"context"
	"sync"
	"time"
)

// hogPeriod is the time in which a part of a core is used up and then left.
const hogPeriod = 10 * time.Millisecond

// hog is a number of loops that spin.
type hog struct {
	cores    float64
	cancel   context.CancelFunc
	spinning sync.WaitGroup
}

func startHog(cores float64) *hog {
	ctx, cancel := context.WithCancel(context.Background())
	h := &hog{cores: cores, cancel: cancel}
	for left := cores; left > 0; left-- {
		h.spinning.Go(func() { spin(ctx, min(left, 1)) })
	}
	return h
}

func (h *hog) end() {
	h.cancel()
	h.spinning.Wait()
}

// spin keeps a share of one core busy. What a timer that fires late has left
// out is made up for in the next period, but no more than one period: after a
// time in which the kernel gave no CPU at all there is nothing to catch up on.
func spin(ctx context.Context, share float64) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	last, owed := time.Now(), time.Duration(0)
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		now := time.Now()
		owed = min(owed+time.Duration(share*float64(now.Sub(last))), hogPeriod)
		last = now
		for time.Since(now) < owed {
		}
		spun := time.Since(now)
		owed -= spun
		timer.Reset(max(0, hogPeriod-spun))
	}
}
