package history_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"relapse/topologies/services/fleet/history"
	"relapse/topologies/services/matchmaking"
)

// Servers below 100 are of the cluster main, the others of side. All are in na but
// for 50, which is in eu.
func checker(t *testing.T) *history.Checker {
	t.Helper()
	c, err := history.New(history.Config{
		Cluster: clusterOf, Modes: map[string]string{"default": "main", "small": "side"},
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func clusterOf(server int) string {
	if server < 100 {
		return "main"
	}
	return "side"
}

func regionOf(server int) string {
	if server == 50 {
		return "eu"
	}
	return "na"
}

// Times of the events below are in milliseconds.
func ms(n int) time.Duration { return time.Duration(n) * time.Millisecond }

func registered(at, server int, node string, epoch int64) history.Event {
	return history.Registered{At: ms(at), Server: server, Region: regionOf(server), Node: node, Epoch: epoch}
}

func acknowledged(at, server int, node string, epoch int64) history.Event {
	return history.Acknowledged{At: ms(at), Server: server, Node: node, Epoch: epoch}
}

func reserved(at, server int, epoch int64, match string) history.Event {
	return history.Reserved{At: ms(at), Server: server, Epoch: epoch, Match: match, Mode: "default", Node: "a"}
}

func reservedFor(mode string, at, server int, epoch int64, match string) history.Event {
	return history.Reserved{At: ms(at), Server: server, Epoch: epoch, Match: match, Mode: mode, Node: "a"}
}

func ended(at, server int, match string) history.Event {
	return history.Ended{At: ms(at), Server: server, Match: match}
}

func moved(at, server int, from, to string, epoch int64) history.Event {
	return history.Moved{At: ms(at), Server: server, From: from, To: to, Epoch: epoch, Transfer: "t"}
}

func gone(at, server int) history.Event {
	return history.Gone{At: ms(at), Server: server}
}

func restarted(at int, node string) history.Event {
	return history.Restarted{At: ms(at), Node: node}
}

// seen is a snapshot that took a hundredth of a second.
func seen(at int, node string, entries ...matchmaking.Listed) history.Event {
	return seenLate(at, at-10, node, entries...)
}

func seenLate(at, began int, node string, entries ...matchmaking.Listed) history.Event {
	return history.Seen{At: ms(at), Began: ms(began), Node: node, Entries: entries}
}

func entry(server int, epoch int64) matchmaking.Listed {
	return entryIn(regionOf(server), server, epoch)
}

func entryIn(region string, server int, epoch int64) matchmaking.Listed {
	return matchmaking.Listed{Entry: matchmaking.Entry{Server: server, Region: region, Epoch: epoch}, State: matchmaking.Free}
}

func is(state string, server int, epoch int64) matchmaking.Listed {
	e := entry(server, epoch)
	e.State = state
	return e
}

type events = []history.Event

func TestInvariants(t *testing.T) {
	for _, tc := range []struct {
		name   string
		events events
		want   []string // invariant and server of each violation
	}{
		// Two matches.
		{"taken in turn, one registration a match", events{
			registered(0, 1, "a", 1), acknowledged(1, 1, "a", 1), reserved(10, 1, 1, "m1"), ended(20, 1, "m1"),
			registered(30, 1, "a", 2), acknowledged(31, 1, "a", 2), reserved(40, 1, 2, "m2"),
		}, nil},
		{"taken while in a match", events{
			registered(0, 1, "a", 1), reserved(10, 1, 1, "m1"), reserved(20, 1, 1, "m2"),
		}, []string{"two-matches 1"}},
		{"taken while in a match that was on from the start", events{
			registered(0, 1, "a", 1), reservedFor("", 0, 1, 1, "m1"), reserved(20, 1, 1, "m2"),
		}, []string{"two-matches 1"}},
		{"taken again by a match that is on", events{
			registered(0, 1, "a", 1), reserved(10, 1, 1, "m1"), reserved(20, 1, 1, "m1"),
		}, nil},
		{"taken again by a match that is over", events{
			registered(0, 1, "a", 1), reserved(10, 1, 1, "m1"), ended(20, 1, "m1"), reserved(30, 1, 1, "m1"),
		}, nil},
		{"taken before the node has acknowledged", events{
			registered(0, 1, "a", 1), reserved(10, 1, 1, "m1"), acknowledged(20, 1, "a", 1),
		}, nil},
		{"taken under the epoch before a move", events{
			registered(0, 1, "a", 1), moved(10, 1, "a", "b", 2), reserved(20, 1, 1, "m1"),
		}, []string{"two-matches 1"}},
		{"taken under the epoch after a move", events{
			registered(0, 1, "a", 1), moved(10, 1, "a", "b", 2), reserved(20, 1, 2, "m1"),
		}, nil},
		{"taken under an epoch before the last registration", events{
			registered(0, 1, "a", 1), reserved(10, 1, 1, "m1"), ended(20, 1, "m1"), registered(30, 1, "a", 2), reserved(40, 1, 1, "m2"),
		}, []string{"two-matches 1"}},
		{"taken under an epoch that nobody gave", events{
			registered(0, 1, "a", 1), reserved(10, 1, 2, "m1"),
		}, []string{"two-matches 1"}},
		{"taken between a match and the next registration", events{
			registered(0, 1, "a", 1), reserved(10, 1, 1, "m1"), ended(20, 1, "m1"), reserved(30, 1, 1, "m2"),
		}, []string{"two-matches 1"}},
		{"taken when the first of its two matches has ended", events{
			registered(0, 1, "a", 1), reserved(10, 1, 1, "m1"), reserved(20, 1, 1, "m2"), ended(30, 1, "m1"), reserved(40, 1, 1, "m3"),
		}, []string{"two-matches 1", "two-matches 1"}},
		{"taken and never registered", events{reserved(10, 1, 1, "m1")}, []string{"two-matches 1"}},

		// Not there.
		{"taken while it is gone", events{
			registered(0, 1, "a", 1), gone(10, 1), reserved(20, 1, 1, "m1"),
		}, []string{"not-there 1"}},
		{"taken while it is gone, under an epoch that nobody gave", events{
			registered(0, 1, "a", 1), gone(10, 1), reserved(20, 1, 2, "m1"),
		}, []string{"not-there 1"}},
		{"taken while it is gone since its match has ended", events{
			registered(0, 1, "a", 1), reserved(10, 1, 1, "m1"), ended(20, 1, "m1"), gone(20, 1), reserved(30, 1, 1, "m2"),
		}, []string{"not-there 1"}},
		{"taken while it is gone, by two matches", events{
			registered(0, 1, "a", 1), gone(10, 1), reserved(20, 1, 1, "m1"), reserved(30, 1, 1, "m2"),
		}, []string{"not-there 1", "not-there 1"}},
		{"taken again by the match after which it has gone", events{
			registered(0, 1, "a", 1), reserved(10, 1, 1, "m1"), ended(20, 1, "m1"), gone(20, 1), reserved(30, 1, 1, "m1"),
		}, nil},
		{"misrouted to one that is gone", events{
			registered(0, 1, "a", 1), gone(10, 1), reservedFor("small", 20, 1, 1, "m1"),
		}, []string{"not-there 1", "misrouted 1"}},
		{"taken when it is back", events{
			registered(0, 1, "a", 1), gone(10, 1), registered(20, 1, "b", 2), reserved(30, 1, 2, "m1"),
		}, nil},
		{"taken when it is back, under the epoch before it went", events{
			registered(0, 1, "a", 1), gone(10, 1), registered(20, 1, "b", 2), reserved(30, 1, 1, "m1"),
		}, []string{"two-matches 1"}},

		// Lost.
		{"in its list", events{
			registered(0, 1, "a", 1), acknowledged(100, 1, "a", 1), seen(1500, "a", entry(1, 1)), seen(2500, "a", entry(1, 1)),
		}, nil},
		{"in no list", events{
			registered(0, 1, "a", 1), acknowledged(100, 1, "a", 1), seen(1500, "a"), seen(2500, "a"),
		}, []string{"lost 1"}},
		{"said once", events{
			registered(0, 1, "a", 1), acknowledged(100, 1, "a", 1), seen(1500, "a"), seen(2500, "a"), seen(3500, "a"), seen(4500, "a"),
		}, []string{"lost 1"}},
		{"lost, found and lost", events{
			registered(0, 1, "a", 1), acknowledged(100, 1, "a", 1), seen(1500, "a"), seen(2500, "a"), seen(3500, "a", entry(1, 1)),
			seen(4500, "a"), seen(5500, "a"),
		}, []string{"lost 1", "lost 1"}},
		{"only under an old epoch", events{
			registered(0, 1, "a", 1), registered(10, 1, "a", 2), acknowledged(100, 1, "a", 2), seen(1500, "a", entry(1, 1)), seen(2500, "a", entry(1, 1)),
		}, []string{"lost 1"}},
		{"only in the list of another node", events{
			registered(0, 1, "a", 1), acknowledged(100, 1, "a", 1), seen(1500, "b", entry(1, 1)), seen(1500, "a"),
			seen(2500, "b", entry(1, 1)), seen(2500, "a"),
		}, []string{"lost 1"}},
		{"moved, and never arrived", events{
			registered(0, 1, "a", 1), acknowledged(100, 1, "a", 1), moved(200, 1, "a", "b", 2), seen(1500, "b"), seen(2500, "b"),
		}, []string{"lost 1"}},
		{"after a restart", events{
			registered(0, 1, "a", 1), acknowledged(100, 1, "a", 1), restarted(500, "a"),
			registered(500, 1, "a", 2), acknowledged(600, 1, "a", 2), seen(2000, "a"), seen(3000, "a"),
		}, []string{"lost 1"}},
		{"of two, one is lost", events{
			registered(0, 1, "a", 1), acknowledged(100, 1, "a", 1), registered(0, 2, "a", 1), acknowledged(100, 2, "a", 1),
			seen(1500, "a", entry(2, 1)), seen(2500, "a", entry(2, 1)),
		}, []string{"lost 1"}},
		{"being given away", events{
			registered(0, 1, "a", 1), acknowledged(100, 1, "a", 1),
			seen(1500, "a", is(matchmaking.Held, 1, 1)), seen(2500, "a", is(matchmaking.Held, 1, 1)),
		}, nil},
		{"being asked", events{
			registered(0, 1, "a", 1), acknowledged(100, 1, "a", 1),
			seen(1500, "a", is(matchmaking.Reserving, 1, 1)), seen(2500, "a", is(matchmaking.Reserving, 1, 1)),
		}, nil},
		{"gone", events{
			registered(0, 1, "a", 1), acknowledged(100, 1, "a", 1), gone(200, 1), seen(1500, "a"), seen(2500, "a"), seen(3500, "a"),
		}, nil},
		{"acknowledged when it is gone", events{
			registered(0, 1, "a", 1), gone(50, 1), acknowledged(100, 1, "a", 1), seen(1500, "a"), seen(2500, "a"),
		}, nil},
		{"gone between two snapshots", events{
			registered(0, 1, "a", 1), acknowledged(100, 1, "a", 1), seen(1500, "a"), gone(1600, 1), seen(2500, "a"), seen(3500, "a"),
		}, nil},
		{"back, and in no list", events{
			registered(0, 1, "a", 1), acknowledged(100, 1, "a", 1), gone(200, 1), registered(300, 1, "b", 2), acknowledged(400, 1, "b", 2),
			seen(1500, "b"), seen(2500, "b"),
		}, []string{"lost 1"}},
		{"back, and only in the list that it was in before", events{
			registered(0, 1, "a", 1), acknowledged(100, 1, "a", 1), gone(200, 1), registered(300, 1, "b", 2), acknowledged(400, 1, "b", 2),
			seen(1500, "a", entry(1, 1)), seen(1500, "b"), seen(2500, "a", entry(1, 1)), seen(2500, "b"),
		}, []string{"lost 1"}},
		{"missed once", events{
			registered(0, 1, "a", 1), acknowledged(100, 1, "a", 1), seen(1500, "a"), seen(2500, "a", entry(1, 1)), seen(3500, "a"),
		}, nil},
		{"missed within the grace", events{
			registered(0, 1, "a", 1), acknowledged(700, 1, "a", 1), seen(1500, "a"), seen(2500, "a"),
		}, nil},
		{"asked for within the grace, and answered after it", events{
			registered(0, 1, "a", 1), acknowledged(100, 1, "a", 1), seenLate(1900, 1000, "a"), seen(2500, "a"),
		}, nil},
		{"asked for just after the grace", events{
			registered(0, 1, "a", 1), acknowledged(100, 1, "a", 1), seenLate(1900, 1100, "a"), seen(2500, "a"),
		}, []string{"lost 1"}},
		{"a snapshot that comes after a later one", events{
			registered(0, 1, "a", 1), acknowledged(100, 1, "a", 1), seen(2500, "a", entry(1, 1)), seenLate(2600, 1500, "a"), seenLate(2700, 1600, "a"),
		}, nil},
		{"not acknowledged", events{
			registered(0, 1, "a", 1), seen(1500, "a"), seen(2500, "a"), seen(3500, "a"),
		}, nil},
		{"acknowledged by a node that it has left", events{
			registered(0, 1, "a", 1), registered(10, 1, "b", 2), acknowledged(20, 1, "a", 1), seen(1500, "b"), seen(2500, "b"),
		}, nil},
		{"taken between two snapshots", events{
			registered(0, 1, "a", 1), acknowledged(100, 1, "a", 1), seen(1500, "a"), reserved(1600, 1, 1, "m1"), seen(2500, "a"), seen(3500, "a"),
		}, nil},
		{"its match has ended", events{
			registered(0, 1, "a", 1), acknowledged(100, 1, "a", 1), reserved(1000, 1, 1, "m1"), ended(1100, 1, "m1"), seen(2500, "a"), seen(3500, "a"),
		}, nil},
		{"moved between two snapshots", events{
			registered(0, 1, "a", 1), acknowledged(100, 1, "a", 1), seen(1500, "b"), seen(1500, "a"), moved(1600, 1, "a", "b", 2),
			seen(2500, "a"), seen(2500, "b"), seen(3500, "a"), seen(3500, "b", entry(1, 2)),
		}, nil},
		{"registered anew between two snapshots", events{
			registered(0, 1, "a", 1), acknowledged(100, 1, "a", 1), seen(1500, "a"), registered(1600, 1, "a", 2), acknowledged(1700, 1, "a", 2),
			seen(2500, "a"), seen(3500, "a", entry(1, 2)),
		}, nil},
		{"its node restarts between two snapshots", events{
			registered(0, 1, "a", 1), acknowledged(100, 1, "a", 1), seen(1500, "a"), restarted(2000, "a"), seen(2500, "a"), seen(3500, "a"),
			seen(4500, "a"), registered(4600, 1, "a", 2), acknowledged(4700, 1, "a", 2), seen(5500, "a"), seen(6500, "a", entry(1, 2)),
		}, nil},
		{"a node that does not answer", events{
			registered(0, 1, "a", 1), acknowledged(100, 1, "a", 1), seen(1500, "a"), seen(1500, "b"), seen(2500, "b"), seen(9500, "b"),
		}, nil},

		// Listed twice.
		{"in two lists", events{
			registered(0, 1, "a", 1), acknowledged(1, 1, "a", 1),
			seen(1000, "a", entry(1, 1)), seen(1001, "b", entry(1, 1)), seen(2000, "a", entry(1, 1)), seen(2001, "b", entry(1, 1)),
		}, []string{"listed-twice 1"}},
		{"in two lists for long", events{
			registered(0, 1, "a", 1), acknowledged(1, 1, "a", 1),
			seen(1000, "a", entry(1, 1)), seen(1001, "b", entry(1, 1)), seen(2000, "a", entry(1, 1)), seen(2001, "b", entry(1, 1)),
			seen(3000, "a", entry(1, 1)), seen(3001, "b", entry(1, 1)), seen(4000, "a", entry(1, 1)), seen(4001, "b", entry(1, 1)),
		}, []string{"listed-twice 1"}},
		{"in two lists, given away by one of them", events{
			registered(0, 1, "a", 1), acknowledged(1, 1, "a", 1),
			seen(1000, "a", is(matchmaking.Held, 1, 1)), seen(1001, "b", entry(1, 1)),
			seen(2000, "a", is(matchmaking.Held, 1, 1)), seen(2001, "b", entry(1, 1)),
		}, []string{"listed-twice 1"}},
		{"in two lists once", events{
			registered(0, 1, "a", 1), acknowledged(1, 1, "a", 1),
			seen(1000, "a", entry(1, 1)), seen(1001, "b", entry(1, 1)), seen(2000, "a", entry(1, 1)), seen(2001, "b"),
			seen(3000, "a", entry(1, 1)), seen(3001, "b", entry(1, 1)),
		}, nil},
		{"in two lists of different lives", events{
			registered(0, 1, "a", 1), acknowledged(1, 1, "a", 1),
			seen(1000, "a", entry(1, 1)), seen(1001, "b", entry(1, 1)), restarted(1500, "b"), seen(2000, "a", entry(1, 1)), seen(2001, "b", entry(1, 1)),
		}, nil},
		{"in one list and then in the other", events{
			registered(0, 1, "a", 1), acknowledged(1, 1, "a", 1),
			seen(1000, "b", entry(1, 1)), seen(2000, "b", entry(1, 1)), seen(3000, "b"), seen(3500, "a", entry(1, 1)), seen(4500, "a", entry(1, 1)),
		}, nil},
		{"moved between two snapshots, listed by both nodes", events{
			registered(0, 1, "a", 1), acknowledged(1, 1, "a", 1), seen(1000, "a", entry(1, 1)), moved(1005, 1, "a", "b", 2),
			seen(1010, "b", entry(1, 2)), seen(2000, "a", is(matchmaking.Held, 1, 1)), seen(2010, "b", entry(1, 2)),
			seen(3000, "a", is(matchmaking.Held, 1, 1)), seen(3010, "b", entry(1, 2)),
		}, nil},
		{"in two lists and in a match", events{
			registered(0, 1, "a", 1), reserved(10, 1, 1, "m1"),
			seen(1000, "a", entry(1, 1)), seen(1001, "b", entry(1, 1)), seen(2000, "a", entry(1, 1)), seen(2001, "b", entry(1, 1)),
		}, nil},
		{"in two lists and gone", events{
			registered(0, 1, "a", 1), acknowledged(1, 1, "a", 1), gone(10, 1),
			seen(1000, "a", entry(1, 1)), seen(1001, "b", entry(1, 1)), seen(2000, "a", entry(1, 1)), seen(2001, "b", entry(1, 1)),
		}, nil},
		{"back, and in two lists", events{
			registered(0, 1, "a", 1), acknowledged(1, 1, "a", 1), gone(10, 1), registered(20, 1, "b", 2), acknowledged(21, 1, "b", 2),
			seen(1000, "a", entry(1, 2)), seen(1001, "b", entry(1, 2)), seen(2000, "a", entry(1, 2)), seen(2001, "b", entry(1, 2)),
		}, []string{"listed-twice 1"}},
		{"twice in one list", events{
			registered(0, 1, "a", 1), acknowledged(1, 1, "a", 1), seen(1000, "a", entry(1, 1), entry(1, 1)), seen(2000, "a", entry(1, 1), entry(1, 1)),
		}, []string{"listed-twice 1"}},
		{"twice in one list once, and once more", events{
			registered(0, 1, "a", 1), acknowledged(1, 1, "a", 1), seen(1000, "a", entry(1, 1), entry(1, 1)), seen(2000, "a", entry(1, 1)),
			seen(3000, "a", entry(1, 1), entry(1, 1)), seen(4000, "a", entry(1, 1)),
		}, nil},
		{"twice in one list, one of them old", events{
			registered(0, 1, "a", 1), registered(1, 1, "a", 2), acknowledged(2, 1, "a", 2),
			seen(1000, "a", entry(1, 1), entry(1, 2)), seen(2000, "a", entry(1, 1), entry(1, 2)),
		}, nil},
		{"twice in one list, registered anew in between", events{
			registered(0, 1, "a", 1), acknowledged(1, 1, "a", 1), seen(1000, "a", entry(1, 1), entry(1, 1)),
			registered(1500, 1, "a", 2), acknowledged(1501, 1, "a", 2), seen(2000, "a", entry(1, 2), entry(1, 2)),
		}, nil},
		{"in two lists again under a later epoch", events{
			registered(0, 1, "a", 1), acknowledged(1, 1, "a", 1), seen(1000, "a", entry(1, 1), entry(1, 1)), seen(2000, "a", entry(1, 1), entry(1, 1)),
			registered(2500, 1, "a", 2), acknowledged(2501, 1, "a", 2), seen(3000, "a", entry(1, 2), entry(1, 2)), seen(4000, "a", entry(1, 2), entry(1, 2)),
		}, []string{"listed-twice 1", "listed-twice 1"}},

		// Region.
		{"in its region", events{
			registered(0, 50, "a", 1), acknowledged(1, 50, "a", 1), seen(1000, "a", entryIn("eu", 50, 1)),
		}, nil},
		{"in another region", events{
			registered(0, 50, "a", 1), acknowledged(1, 50, "a", 1), seen(1000, "a", entryIn("na", 50, 1)),
		}, []string{"region 50"}},
		{"in another region, under an old epoch", events{
			registered(0, 50, "a", 1), registered(1, 50, "a", 2), seen(1000, "a", entryIn("na", 50, 1)),
		}, []string{"region 50"}},
		{"in another region, and gone", events{
			registered(0, 50, "a", 1), gone(1, 50), seen(1000, "a", entryIn("na", 50, 1)),
		}, []string{"region 50"}},
		{"in another region for long", events{
			registered(0, 50, "a", 1), acknowledged(1, 50, "a", 1), seen(1000, "a", entryIn("na", 50, 1)), seen(2000, "a", entryIn("na", 50, 1)),
		}, []string{"region 50"}},
		{"in another region in two lists", events{
			registered(0, 50, "a", 1), acknowledged(1, 50, "a", 1), seen(1000, "a", entryIn("na", 50, 1)), seen(1000, "b", entryIn("na", 50, 1)),
		}, []string{"region 50", "region 50"}},
		{"in another region again", events{
			registered(0, 50, "a", 1), acknowledged(1, 50, "a", 1), seen(1000, "a", entryIn("na", 50, 1)), seen(2000, "a", entryIn("eu", 50, 1)),
			seen(3000, "a", entryIn("na", 50, 1)),
		}, []string{"region 50", "region 50"}},

		// Unknown.
		{"no such server", events{seen(1000, "a", entry(7, 1))}, []string{"unknown 7"}},
		{"no such server, for long", events{seen(1000, "a", entry(7, 1)), seen(2000, "a", entry(7, 1))}, []string{"unknown 7"}},
		{"listed before it is registered", events{
			seen(1000, "a", entry(7, 1)), registered(1500, 7, "a", 1), acknowledged(1501, 7, "a", 1), seen(2000, "a", entry(7, 1)),
		}, []string{"unknown 7"}},
		{"no such server, in the life before", events{restarted(500, "a"), seenLate(600, 450, "a", entry(7, 1))}, nil},
		{"registered with another node", events{
			registered(0, 7, "b", 1), seen(1000, "a", entry(7, 1)),
		}, nil},

		// Misrouted.
		{"on a server of its cluster", events{
			registered(0, 1, "a", 1), reservedFor("default", 10, 1, 1, "m1"), registered(0, 100, "c", 1), reservedFor("small", 10, 100, 1, "m2"),
		}, nil},
		{"on a server of another cluster", events{
			registered(0, 1, "a", 1), reservedFor("small", 10, 1, 1, "m1"), registered(0, 100, "c", 1), reservedFor("default", 10, 100, 1, "m2"),
		}, []string{"misrouted 1", "misrouted 100"}},
		{"of a mode that there is not", events{
			registered(0, 1, "a", 1), reservedFor("large", 10, 1, 1, "m1"),
		}, []string{"misrouted 1"}},
		{"on from the start", events{
			registered(0, 100, "c", 1), reservedFor("", 0, 100, 1, "m1"),
		}, nil},
		{"misrouted and in two matches", events{
			registered(0, 1, "a", 1), reserved(10, 1, 1, "m1"), reservedFor("small", 20, 1, 1, "m2"),
		}, []string{"two-matches 1", "misrouted 1"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var have []string
			c := checker(t)
			for _, e := range tc.events {
				for _, v := range c.Add(e) {
					have = append(have, fmt.Sprintf("%s %d", v.Invariant, v.Server))
				}
			}
			if !slices.Equal(have, tc.want) {
				t.Errorf("have %q, want %q", have, tc.want)
			}
		})
	}
}
