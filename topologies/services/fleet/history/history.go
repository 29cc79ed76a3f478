// Package history checks what happened to a fleet of game servers whose free ones
// are held in the lists of several matchmaking nodes.
//
// The history is written by the fleet, which is the authority on who is
// registered where and who is in which match, and is not under test. Under test
// are the nodes: whom they hand out, and what they have in their lists. Every
// second a list is read as a whole, which is a snapshot.
//
// Words that the invariants use:
//
//   - A server's epoch is the one of its last registration or move. It is current
//     until a match uses it up or the server goes: a server in a match, or whose
//     match has ended, or that is gone, has no current epoch before it is registered
//     anew.
//   - A server is free if it has a current epoch.
//   - A life of a node goes from one restart to the next.
//   - The time of a snapshot is when it was asked for. One that was asked for
//     before the last one of its node, or before its node's last restart was
//     noticed, came late and is passed over.
//
// The invariants:
//
//   - two-matches: no match takes a server that is there under an epoch that is not
//     current. So none takes a server that is in another match, and none takes one
//     that was moved or registered anew in the meantime. A match that takes the same
//     server once more is the same message come twice.
//   - not-there: no match takes a server that is gone, whatever its epoch. That is
//     not said of two matches: there may have been none before.
//   - lost: a free server whose registration its node has acknowledged is in the
//     list of that node under its current epoch, in one at least of the node's
//     two latest snapshots; provided that both were asked for the grace or more
//     after whatever happened to the server last, and in the same life of the
//     node. What has moved counts as acknowledged by the node that it moved to,
//     since that node asked for it. A server is lost once, until it is found:
//     listed again, registered anew, moved or taken.
//   - listed-twice: no server is in the lists of two nodes under its current
//     epoch in the two latest snapshots of both, nor more than once in the list
//     of one node in its two latest snapshots. It is said once for an epoch of
//     a server. Like lost, it is not said of a server that is gone.
//   - region: every entry has the region of its server, so that the totals by
//     region stay the same. It is said once as long as the node's snapshots go on
//     to show it.
//   - unknown: every entry is of a server that was registered some time. It is
//     said once like region.
//   - misrouted: a match of a mode is on a server of the mode's cluster.
//
// An entry that a node would hand out though its epoch is not current breaks no
// invariant: the server refuses, and all that is lost is time. Such stale entries
// are counted, those of servers that are gone among them: whoever goes while it is
// free tells nobody.
package history

import (
	"fmt"
	"time"

	"relapse/topologies/services/matchmaking"
)

// Event is what happened at some time, on one monotonic clock. Events are given
// in the order of their times.
type Event interface {
	fmt.Stringer
	event() // one of those below
}

// Registered says that a server is free from now on and that its node is being
// told. Whoever is told may take the server at once.
type Registered struct {
	At           time.Duration
	Server       int
	Region, Node string
	Epoch        int64
}

// Acknowledged says that the node has answered that it was told of a
// registration.
type Acknowledged struct {
	At     time.Duration
	Server int
	Node   string
	Epoch  int64
}

// Reserved says that a server took a match. Without a mode it is one that was on
// before the history began.
type Reserved struct {
	At          time.Duration
	Server      int
	Epoch       int64 // under which it was asked
	Match, Mode string
	Node        string // that asked
}

// Ended says that a match is over. If the server is in another one, nothing has
// happened.
type Ended struct {
	At     time.Duration
	Server int
	Match  string
}

// Moved says that a free server was registered with another node, which had asked
// for it.
type Moved struct {
	At       time.Duration
	Server   int
	From, To string
	Epoch    int64
	Transfer string
}

// Gone says that a server, which is in no match, is not there any more. It is back
// when it is registered anew.
type Gone struct {
	At     time.Duration
	Server int
}

// Restarted says that a node was found in a new life, in which it knows of no
// server. Registrations follow.
type Restarted struct {
	At   time.Duration
	Node string
}

// Seen is a snapshot of a node's list.
type Seen struct {
	At      time.Duration
	Node    string
	Began   time.Duration // when it was asked for
	Entries []matchmaking.Listed
}

func (Registered) event()   {}
func (Acknowledged) event() {}
func (Reserved) event()     {}
func (Ended) event()        {}
func (Moved) event()        {}
func (Gone) event()         {}
func (Restarted) event()    {}
func (Seen) event()         {}

func (e Registered) String() string {
	return fmt.Sprintf("%s registered with %s, region %s, epoch %d", seconds(e.At), e.Node, e.Region, e.Epoch)
}

func (e Acknowledged) String() string {
	return fmt.Sprintf("%s epoch %d acknowledged by %s", seconds(e.At), e.Epoch, e.Node)
}

func (e Reserved) String() string {
	if e.Mode == "" {
		return fmt.Sprintf("%s in match %s from the start, epoch %d", seconds(e.At), e.Match, e.Epoch)
	}
	return fmt.Sprintf("%s taken by match %s of %s, asked by %s, epoch %d", seconds(e.At), e.Match, e.Mode, e.Node, e.Epoch)
}

func (e Ended) String() string {
	return fmt.Sprintf("%s match %s ended", seconds(e.At), e.Match)
}

func (e Moved) String() string {
	return fmt.Sprintf("%s moved from %s to %s by transfer %s, epoch %d", seconds(e.At), e.From, e.To, e.Transfer, e.Epoch)
}

func (e Gone) String() string {
	return fmt.Sprintf("%s gone", seconds(e.At))
}

func (e Restarted) String() string {
	return fmt.Sprintf("%s %s restarted", seconds(e.At), e.Node)
}

func (e Seen) String() string {
	return fmt.Sprintf("%s list of %s as of %s: %d entries", seconds(e.At), e.Node, seconds(e.Began), len(e.Entries))
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.3fs", d.Seconds()) }
