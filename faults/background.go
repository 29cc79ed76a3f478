package faults

import (
	"context"
	"fmt"
	"sync"
)

// background is what a fault goes on doing after Inject has returned, until Undo.
type background struct {
	mu     sync.Mutex
	cancel context.CancelFunc // nil before begin
	ended  chan struct{}      // closed when nothing is to come any more
	failed error              // of what came
}

// begin has run go on after the call, whatever becomes of ctx, until end. An error of
// it is kept for err.
func (b *background) begin(ctx context.Context, run func(context.Context) error) {
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan struct{})
	b.mu.Lock()
	b.cancel, b.ended, b.failed = cancel, ended, nil
	b.mu.Unlock()
	go func() {
		defer close(ended)
		if err := run(running); err != nil && running.Err() == nil {
			b.mu.Lock()
			b.failed = err
			b.mu.Unlock()
		}
	}()
}

// end cancels what is to come and waits until nothing is; what could still happen to
// the nodes is said where ctx ends first. Without begin it does nothing.
func (b *background) end(ctx context.Context, still string) error {
	b.mu.Lock()
	cancel, ended := b.cancel, b.ended
	b.mu.Unlock()
	if cancel == nil {
		return nil
	}
	cancel()
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("the nodes may still be %s: %w", still, ctx.Err())
	}
}

// err is what went wrong in the background so far.
func (b *background) err() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.failed
}
