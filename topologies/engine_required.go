package topologies

import (
	"context"
	"os"
)

// TB is what [RequireEngine] needs of a *testing.T or *testing.B. It is spelt
// out so that no program needs package testing for it.
type TB interface {
	Helper()
	Skip(args ...any)
	Fatal(args ...any)
}

// RequireEngine ends a test that needs a container engine where there is none.
// On a developer's machine that is a skip. With CI=true it is a failure: an
// engine was promised there, and a skipped test would read as a passed one.
func RequireEngine(tb TB) {
	tb.Helper()
	_, err := Preflight(context.Background())
	switch {
	case err == nil:
	case os.Getenv("CI") == "true":
		tb.Fatal("this test needs a container engine, and CI promises one:", err)
	default:
		tb.Skip("this test needs a container engine:", err)
	}
}

// RequireHosts ends a test that needs hosts where they cannot be made. That is a
// skip even with CI=true: most CI machines have engines that manage cgroups by
// systemd.
func RequireHosts(tb TB) {
	tb.Helper()
	RequireEngine(tb)
	if err := CheckHosts(context.Background()); err != nil {
		tb.Skip("this test needs hosts:", err)
	}
}
