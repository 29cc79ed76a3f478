package polltest_test

import (
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"relapse/topologies/services/polltest"
)

// recorder is a test that is expected to fail.
type recorder struct {
	testing.TB
	said string
}

func (r *recorder) Helper() {}

func (r *recorder) Fatalf(format string, args ...any) {
	r.said = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

func TestEventually(t *testing.T) {
	const never = 365 * 24 * time.Hour
	for _, tc := range []struct {
		name     string
		after    time.Duration // until the condition holds
		waited   time.Duration
		said     string
		returned bool
	}{
		{"at once", 0, 0, "", true},
		{"soon", 1 * time.Second, 1 * time.Second, "", true},
		{"at the last moment", polltest.Within, polltest.Within, "", true},
		{"too late", polltest.Within + time.Second, polltest.Within + 2*time.Millisecond, "not within 30s: the door opens", false},
		{"never", never, polltest.Within + 2*time.Millisecond, "not within 30s: the door opens", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				r, returned, ended := &recorder{TB: t}, false, make(chan struct{})
				go func() { // which ends where the test would
					defer close(ended)
					polltest.Eventually(r, "the door opens", func() bool { return time.Since(began) >= tc.after })
					returned = true
				}()
				<-ended
				if have := time.Since(began); have != tc.waited {
					t.Errorf("waited %v, want %v", have, tc.waited)
				}
				if r.said != tc.said || returned != tc.returned {
					t.Errorf("said %q and returned: %t, want %q and %t", r.said, returned, tc.said, tc.returned)
				}
			})
		})
	}
}
