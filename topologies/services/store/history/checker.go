package history

import (
	"fmt"
	"slices"
	"time"
)

// DefaultGrace is how far apart the two rounds are that a violation takes: longer than
// a purchase is under way.
const DefaultGrace = time.Second

// noPlayer is the player of what is a table's.
const noPlayer = -1

// Config is what a checker must know of the store.
type Config struct {
	Initial  int64         // what every wallet begins with
	Bound    time.Duration // that a purchase may be unfinished
	NoLedger bool          // there is none
	ByRow    bool          // rows of one table are on several databases: hash-mod-n
	Grace    time.Duration // 0 for [DefaultGrace]
}

// Checker checks rounds as they come. It is used by one goroutine at a time. A round
// costs time in proportion to its rows.
type Checker struct {
	config Config
	tables map[int]*table
}

// table is what earlier rounds have shown of one.
type table struct {
	known    map[int64]known // by player
	standing map[finding]*seen
}

// known is the most that a player was seen to have.
type known struct {
	version        int64
	items, entries int
}

// finding is what a round shows; it is the same in the next one if nothing of it
// changes.
type finding struct {
	invariant string
	player    int64
	says      string
}

// seen is since when a finding stands.
type seen struct {
	since time.Duration
	said  bool
}

// New makes a checker that has seen nothing.
func New(c Config) (*Checker, error) {
	switch {
	case c.Initial < 0:
		return nil, fmt.Errorf("history: wallets begin with %d: want zero or more", c.Initial)
	case c.Bound <= 0:
		return nil, fmt.Errorf("history: a purchase may be unfinished for %v: want more than zero", c.Bound)
	case c.Grace < 0:
		return nil, fmt.Errorf("history: a grace of %v: want zero or more", c.Grace)
	}
	if c.Grace == 0 {
		c.Grace = DefaultGrace
	}
	return &Checker{config: c, tables: map[int]*table{}}, nil
}

// Add takes the next round of a table and gives what it violates. A round in which no
// database serves the table, since it is between two, says nothing.
func (c *Checker) Add(r Round) (violations []Violation) {
	serving := slices.DeleteFunc(slices.Clone(r.Homes), func(h Home) bool { return h.Old })
	if len(serving) == 0 {
		return nil
	}
	t := c.tables[r.Table]
	if t == nil {
		t = &table{known: map[int64]known{}, standing: map[finding]*seen{}}
		c.tables[r.Table] = t
	}
	found := c.doubledTable(serving)
	if !c.config.ByRow && len(serving) > 1 {
		serving = []Home{newest(serving)}
	}
	people, doubled := gather(serving)
	found = append(found, doubled...)
	for _, p := range people {
		found = append(found, c.person(p)...)
	}
	found = append(found, t.compare(r, people)...)

	standing := map[finding]*seen{}
	for _, f := range found {
		s := t.standing[f]
		if s == nil {
			s = &seen{since: r.At}
		}
		standing[f] = s
		if !s.said && s.since != r.At && r.At-s.since >= c.config.Grace {
			s.said = true
			violations = append(violations, Violation{f.invariant, r.Table, f.player, f.says, r.At})
		}
	}
	t.standing = standing
	return violations
}

// doubledTable finds two databases that serve one table.
func (c *Checker) doubledTable(serving []Home) []finding {
	if c.config.ByRow || len(serving) < 2 {
		return nil
	}
	a, b := serving[0], serving[1]
	return []finding{{Doubled, noPlayer, fmt.Sprintf("it is served by %s under epoch %d and by %s under epoch %d", a.Database, a.Epoch, b.Database, b.Epoch)}}
}

func newest(homes []Home) Home {
	return slices.MaxFunc(homes, func(a, b Home) int { return int(a.Epoch - b.Epoch) })
}

// compare holds a round against what was known of the players, and against what was
// left behind.
func (t *table) compare(r Round, people []person) (found []finding) {
	here := map[int64]person{}
	for _, p := range people {
		here[p.player] = p
		was, is := t.known[p.player], p.known()
		for _, n := range []struct {
			of      string
			was, is int64
		}{
			{"the wallet's version", was.version, is.version},
			{"the number of items", int64(was.items), int64(is.items)},
			{"the number of entries", int64(was.entries), int64(is.entries)},
		} {
			if n.is < n.was {
				found = append(found, finding{RolledBack, p.player, fmt.Sprintf("%s is %d and was %d", n.of, n.is, n.was)})
			}
		}
		t.known[p.player] = known{max(was.version, is.version), max(was.items, is.items), max(was.entries, is.entries)}
	}
	if !r.Incomplete {
		for player := range t.known {
			if _, there := here[player]; !there {
				found = append(found, finding{Lost, player, "the player was there and is on no database"})
			}
		}
	}
	for _, h := range r.Homes {
		if !h.Old {
			continue
		}
		for _, w := range h.Wallets {
			if now := here[w.Player].wallet.Version; now < w.Version && !r.Incomplete {
				found = append(found, finding{LeftBehind, w.Player, fmt.Sprintf("the wallet's version is %d, and %d at %s, where it was before", now, w.Version, h.Database)})
			}
		}
	}
	slices.SortFunc(found, order)
	return found
}

// order makes what one round violates come in the same order each time.
func order(a, b finding) int {
	switch {
	case a.player != b.player:
		if a.player < b.player {
			return -1
		}
		return 1
	case a.says < b.says:
		return -1
	case a.says > b.says:
		return 1
	}
	return 0
}
