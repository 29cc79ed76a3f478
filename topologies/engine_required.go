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
	require(tb, "a container engine", err)
}

// RequireHosts is [RequireEngine] for a test that needs hosts, which not every
// engine can hold: see [CheckHosts].
func RequireHosts(tb TB) {
	tb.Helper()
	require(tb, "an engine that holds hosts", CheckHosts(context.Background()))
}

// RequireNamespaces is [RequireEngine] for a test of nodes that are processes; program
// is a build that can try it, see [CheckNamespaces].
func RequireNamespaces(tb TB, program string) {
	tb.Helper()
	require(tb, "namespaces for processes", CheckNamespaces(program))
}

// RequireProcessLimits is [RequireEngine] for a test that limits nodes which are
// processes, see [CheckProcessLimits].
func RequireProcessLimits(tb TB) {
	tb.Helper()
	require(tb, "limits for processes", CheckProcessLimits())
}

func require(tb TB, what string, err error) {
	tb.Helper()
	switch {
	case err == nil:
	case os.Getenv("CI") == "true":
		tb.Fatal("this test needs "+what+", and CI promises one:", err)
	default:
		tb.Skip("this test needs "+what+":", err)
	}
}
