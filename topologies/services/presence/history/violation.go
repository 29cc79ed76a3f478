package history

import "fmt"

// Names of the invariants; the documentation of the package states them.
const (
	HandledTwice = "handled-twice"
	Missed       = "missed"
	WithoutClaim = "without-claim"
	FalseMark    = "false-mark"
	Unowned      = "unowned"
)

// Invariants lists all of them.
var Invariants = []string{HandledTwice, Missed, WithoutClaim, FalseMark, Unowned}

// Violation is one thing that must not be.
type Violation struct {
	Invariant string
	Player    int64 // -1 where it is of none
	Partition int
	At        int64 // ms, the clock of what it is about
	Says      string
}

// String gives all of a violation in one line.
func (v Violation) String() string {
	player := ""
	if v.Player >= 0 {
		player = fmt.Sprintf("player %d, ", v.Player)
	}
	return fmt.Sprintf("%s: %s: %spartition %d: %s", seconds(v.At), v.Invariant, player, v.Partition, v.Says)
}
