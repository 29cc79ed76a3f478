// Package history checks what became of players whose heartbeats stopped, and of the
// 256 partitions in which instances of the service presence handle them.
//
// The history is read from Redis by somebody who is not under test: the heartbeats as
// sessions wrote them, the log of actions, the log of claims. Under test are the
// instances: whom they mark offline, when, how often, and by what right.
//
// Times are in milliseconds since the epoch. Those of heartbeats and actions are of
// the clock of the lists, those of claims of the clock of the claims' server; package
// presence has the two roles. Both are compared in one place only, which says so.
//
// Words that the invariants use:
//
//   - A player is due at the first tick at or after its last heartbeat and the time
//     after which it is offline. A tick has the number of such times since the epoch.
//   - A heartbeat is known from the first time that it was read.
//
// The invariants:
//
//   - handled-twice: no player is marked for the same tick more than once.
//   - missed: a player is marked, or was heard of again, within late + lease +
//     interval + tick, and the slack, of when it was due, or of when its heartbeat
//     was known if that was later. It is said once of a heartbeat.
//   - without-claim: an action is by the owner of the claim whose number it shows, of
//     the partition that the player is in, and no action of that partition was under a
//     higher number before. Nor had another claim of the partition been made longer than
//     the interval and the slack before: so long may an owner not know yet, and the two
//     clocks differ. A claim that nobody has heard of is none, unless the claims' server
//     has lost what it knew: then one above all that were known is taken for lost.
//   - false-mark: a player is marked at the tick for which it is, or later. Up to that
//     tick it was not heard of within the time after which it is offline; nor after the
//     tick and more than the lag before the mark. The lag is what a heartbeat may take to
//     be written. It is said once of an action.
//   - unowned: no partition is without an owner for longer than the lease and the
//     slack, from when anybody first owned one. It is said once each time.
package history

import (
	"fmt"
	"strconv"
)

// Event is what was read of the history. Events of one reading are given in the order
// claims, actions, heartbeats, holdings; the heartbeats must have been read before the
// actions were, and those before the claims, so that nothing is held against an instance
// that it had done by then.
type Event interface {
	fmt.Stringer
	event() // one of those below
}

// Claimed is an entry of the log of claims.
type Claimed struct {
	At        int64 // the claims' clock
	Partition int
	Number    int64
	Owner     string
	From      string // who had it last; empty for nobody
}

// Lost says that the claims' server is another one, or was started anew, since the last
// reading.
type Lost struct{}

// Acted is an entry of the log of actions: a player was marked offline.
type Acted struct {
	At        int64 // the lists' clock
	Player    int64
	Partition int
	Due       int64 // tick
	Owner     string
	Number    int64 // of its claim
}

// Heard is all heartbeats that are on the lists.
type Heard struct {
	At    int64 // the lists' clock, before they were read
	Beats []Beat
}

// Beat is the last heartbeat of a player.
type Beat struct{ Player, At int64 }

// Held is who has what.
type Held struct {
	At        int64 // the claims' clock, before it was read
	Instances []string
	Claims    []Holding
}

// Holding is a claim as it stands.
type Holding struct {
	Partition int
	Owner     string
	Till      int64 // end of its lease
}

func (Claimed) event() {}
func (Lost) event()    {}
func (Acted) event()   {}
func (Heard) event()   {}
func (Held) event()    {}

func (e Claimed) String() string {
	return fmt.Sprintf("%s partition %d claimed by %s under %d, had last by %q", seconds(e.At), e.Partition, e.Owner, e.Number, e.From)
}

func (Lost) String() string { return "the claims' server has lost what it knew" }

func (e Acted) String() string {
	return fmt.Sprintf("%s player %d of partition %d marked for tick %d by %s under %d", seconds(e.At), e.Player, e.Partition, e.Due, e.Owner, e.Number)
}

func (e Heard) String() string {
	return fmt.Sprintf("%s %d players online", seconds(e.At), len(e.Beats))
}

func (e Held) String() string {
	return fmt.Sprintf("%s %d claims, %d instances", seconds(e.At), len(e.Claims), len(e.Instances))
}

// seconds gives a time with its milliseconds.
func seconds(ms int64) string { return strconv.FormatFloat(float64(ms)/1000, 'f', 3, 64) + "s" }
