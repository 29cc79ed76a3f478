// Package matchmaking is what the services of a matchmaking topology say to each
// other: the fleet of game servers, the nodes that hold lists of free ones, the
// rebalancer between them and the front.
//
// A game server is registered with one node at a time, under an epoch that rises
// with every registration. Who wants a server names the epoch that it knows; the
// server itself, which is the fleet's part, refuses one that is not current, so
// that a node which has slept through a move cannot hand out what it gave away. A
// server that is gone refuses every epoch.
//
//	players -> front -> node: POST /matches?mode=M&region=R&players=N
//	                    node -> node:  POST /take?mode=M&region=R&players=N&match=ID
//	                    node -> fleet: POST /reserve?server=N&epoch=N&match=ID&mode=M&players=N&node=NAME
//	fleet -> node:      POST /servers [Listing], GET /boot [Boot], GET /entries [Snapshot]
//	rebalancer -> node: GET /counts [Counts], POST /gives [Give]
//	donor -> receiver:  POST /transfers [Transfer], which answers [Moved]
//	node -> fleet:      POST /moves [Move], which answers [Moved]
package matchmaking

// Entry is one game server in a list.
type Entry struct {
	Server int    `json:"s"`
	Region string `json:"r"`
	Epoch  int64  `json:"e"`
	// Busy marks a server that is registered here and in a match. It is in the
	// list, and passed over by whoever reads it.
	Busy bool `json:"b,omitempty"`
	// Gone marks a server that is registered here no longer, since it is not there.
	// It stands in a [Listing] alone.
	Gone bool `json:"g,omitempty"`
}

// Listing registers servers with a node, and strikes off those that are gone. An
// entry takes the place of an older one of the same server; one that is older than
// what the node knows is passed over.
type Listing struct {
	Entries []Entry `json:"entries"`
}

// Boot tells one life of a node from the next: what was registered in the last
// one is forgotten.
type Boot struct {
	Boot string `json:"boot"`
}

// States of an entry in a [Snapshot].
const (
	Free      = "free"      // may be handed out
	Reserving = "reserving" // the server is being asked whether it takes a match
	Held      = "held"      // given away, and not yet known to have arrived
)

// Listed is an entry in a snapshot.
type Listed struct {
	Entry
	State string `json:"state"`
}

// Snapshot is all that a node has in its list, without what is busy.
type Snapshot struct {
	Boot    string   `json:"boot"`
	Entries []Listed `json:"entries"`
}

// Counts is how many entries a node has, by region.
type Counts struct {
	Node string         `json:"node"`
	Free map[string]int `json:"free"`
	All  map[string]int `json:"all"` // with what is busy
}

// Give orders a node to move free servers of a region to another one.
type Give struct {
	Region string `json:"region"`
	Count  int    `json:"count"`
	To     string `json:"to"` // name of one of its peers
}

// Transfer carries servers from one node to another. It may arrive more than
// once.
type Transfer struct {
	ID      string  `json:"id"`
	From    string  `json:"from"`
	Entries []Entry `json:"entries"`
}

// Move asks the servers themselves to be registered with another node. It is
// answered alike however often it is asked.
type Move struct {
	Transfer string  `json:"transfer"`
	To       string  `json:"to"`   // name of the node
	Boot     string  `json:"boot"` // its life: what one that has ended still asked for would be listed nowhere
	Entries  []Entry `json:"entries"`
}

// Moved says which servers moved, with their new epochs. The others were taken,
// have ended, are gone or were moved otherwise in the meantime.
type Moved struct {
	Entries []Entry `json:"entries"`
}
