package main

import (
	"context"
	"os/signal"
	"syscall"
	"testing"
	"time"
)

// TestSignalsEndTheToolInOrder holds that whatever asks the tool to end cancels its
// context, so that it undoes what it did, instead of killing it.
func TestSignalsEndTheToolInOrder(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		if signal.Ignored(sig) { // by nohup, for one: it stays so
			continue
		}
		ctx, stop := untilSignalled(t.Context())
		if err := syscall.Kill(syscall.Getpid(), sig); err != nil {
			t.Fatal(err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(5 * time.Second):
			t.Errorf("%s: the context does not end", sig)
		}
		if t.Context().Err() != nil || context.Cause(ctx) == nil {
			t.Errorf("%s: the cause is %v", sig, context.Cause(ctx))
		}
		stop()
	}
}

// TestAHangUpThatIsIgnoredStaysSo holds that a tool that was started to outlive its
// terminal does.
func TestAHangUpThatIsIgnoredStaysSo(t *testing.T) {
	signal.Ignore(syscall.SIGHUP)
	defer signal.Reset(syscall.SIGHUP)
	ctx, stop := untilSignalled(t.Context())
	defer stop()
	if !signal.Ignored(syscall.SIGHUP) {
		t.Error("SIGHUP is heeded again")
	}
	if ctx.Err() != nil {
		t.Errorf("the context has ended: %v", ctx.Err())
	}
}
