// Package polltest waits in tests for conditions that come true by themselves.
package polltest

import (
	"testing"
	"time"
)

// Within is how long a condition is waited for. Only a test that fails waits for all
// of it, so that it is long enough for a machine that has more to do.
const Within = 30 * time.Second

// every is the time from one question to the next. What a test waits for often is a
// matter of milliseconds, and what shows it costs little.
const every = 2 * time.Millisecond

// Eventually waits until a condition holds. Where it does not hold [Within] its time,
// the test ends and names it by what.
func Eventually(tb testing.TB, what string, holds func() bool) {
	tb.Helper()
	deadline := time.Now().Add(Within)
	for !holds() {
		if time.Now().After(deadline) {
			tb.Fatalf("not within %v: %s", Within, what)
		}
		time.Sleep(every)
	}
}
