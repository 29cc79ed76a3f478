package history

import (
	"fmt"
	"strings"
	"time"
)

// Names of the invariants; the documentation of the package states them.
const (
	TwoMatches  = "two-matches"
	NotThere    = "not-there"
	Lost        = "lost"
	ListedTwice = "listed-twice"
	Region      = "region"
	Unknown     = "unknown"
	Misrouted   = "misrouted"
)

// Invariants lists all of them.
var Invariants = []string{TwoMatches, NotThere, Lost, ListedTwice, Region, Unknown, Misrouted}

// Violation is one thing that must not be.
type Violation struct {
	Invariant string
	Server    int
	Node      string // whose list or reservation it is
	Says      string
	At        time.Duration
	Events    []Event // the last ones of the server, ten at most; the oldest first
}

// String gives all of a violation in one line.
func (v Violation) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s: server %d, node %s: %s", seconds(v.At), v.Invariant, v.Server, v.Node, v.Says)
	if len(v.Events) == 0 {
		b.WriteString("; nothing had happened to it")
		return b.String()
	}
	between := "; what happened to it: "
	for _, e := range v.Events {
		b.WriteString(between)
		b.WriteString(e.String())
		between = " | "
	}
	return b.String()
}
