package mms

import (
	"math/rand/v2"
	"slices"
	"sync"

	"relapse/topologies/services/matchmaking"
)

// list is the servers that are registered with a node, in no order, each once.
//
// What is said of a server names the epoch of its registration, and holds only as
// long as the list has it under that epoch: whoever took an entry out of the list
// may come back when the server was registered anew.
type list struct {
	regions []string
	indexed bool

	mu      sync.Mutex
	random  *rand.Rand // decides where entries are scattered to
	entries []entry
	cursor  int         // where the next reading begins
	at      map[int]int // index of a server's entry
	free    [][]int     // by region: indexes of the free entries, in no order
	all     []int       // by region: how many entries
	// epochs has the newest one known of every server that was ever here, so that
	// a late message about one that has gone does not bring it back.
	epochs map[int]int64
}

type entry struct {
	server int
	epoch  int64
	region int // index
	state  state
	freeAt int // where the region's free ones have it, if it is free
}

type state uint8

const (
	free      state = iota // may be handed out
	reserving              // the server is being asked whether it takes a match
	held                   // on its way to another node
	busy                   // in a match
)

var stateNames = [...]string{free: matchmaking.Free, reserving: matchmaking.Reserving, held: matchmaking.Held}

func newList(regions []string, indexed bool, random *rand.Rand) *list {
	return &list{
		regions: regions, indexed: indexed, random: random,
		at: map[int]int{}, free: make([][]int, len(regions)), all: make([]int, len(regions)), epochs: map[int]int64{},
	}
}

// register puts servers into the list, in the place of older registrations, and
// gives how many. It passes over what is not newer than what was known: a message
// may come twice, and what it says of a server is outdated then. One that is gone
// under the epoch that is known is struck off.
func (l *list) register(entries []matchmaking.Entry) (registered int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range entries {
		if known, ok := l.epochs[e.Server]; ok && (e.Epoch < known || e.Epoch == known && !e.Gone) {
			continue
		}
		if i, listed := l.at[e.Server]; listed {
			l.remove(i)
		}
		if e.Gone {
			l.epochs[e.Server] = e.Epoch
			continue
		}
		l.add(e)
		registered++
	}
	return registered
}

// scatter puts the last entries anywhere in the list, in exchange for what is
// there. What is moved here comes in bulk, is free and of one region: left together
// it would be one place where a server is found, with the whole list on the way to
// the next one. If the list has changed since they were added, others are put
// elsewhere, and nothing but the order is another.
func (l *list) scatter(last int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := max(0, len(l.entries)-last); i < len(l.entries); i++ {
		l.exchange(i, l.random.IntN(len(l.entries)))
	}
}

// find gives a free server of a region, which is marked as reserving, and how many
// entries were visited on the way.
func (l *list) find(region string) (e matchmaking.Entry, visited int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	i, visited := l.read(l.region(region))
	if i < 0 {
		return e, visited, false
	}
	l.set(i, reserving)
	return l.entry(i), visited, true
}

// read looks for a free entry of a region; below zero without one.
func (l *list) read(region int) (i, visited int) {
	if l.indexed {
		of := l.free[region]
		if len(of) == 0 {
			return -1, 1
		}
		return of[len(of)-1], 1
	}
	for visited < len(l.entries) {
		if l.cursor >= len(l.entries) {
			l.cursor = 0
		}
		i, l.cursor = l.cursor, l.cursor+1
		visited++
		if e := &l.entries[i]; e.state == free && e.region == region {
			return i, visited
		}
	}
	return -1, visited
}

// pick gives up to count free servers of a region, which get another state. It
// reads no entry but those.
func (l *list) pick(region string, count int, s state) []matchmaking.Entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	of := l.free[l.region(region)]
	picked := slices.Clone(of[max(0, len(of)-count):])
	entries := make([]matchmaking.Entry, 0, len(picked))
	for _, i := range picked {
		l.set(i, s)
		entries = append(entries, l.entry(i))
	}
	return entries
}

// settle gives a server another state.
func (l *list) settle(e matchmaking.Entry, s state) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if i, ok := l.current(e); ok {
		l.set(i, s)
	}
}

// forget takes servers out of the list.
func (l *list) forget(entries ...matchmaking.Entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range entries {
		if i, ok := l.current(e); ok {
			l.remove(i)
		}
	}
}

// count gives how many servers of a region are free, and how many there are.
func (l *list) count(region string) (unused, all int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.region(region)
	return len(l.free[r]), l.all[r]
}

// snapshot gives all entries that are not busy.
func (l *list) snapshot() []matchmaking.Listed {
	l.mu.Lock()
	defer l.mu.Unlock()
	listed := []matchmaking.Listed{}
	for i, e := range l.entries {
		if e.state != busy {
			listed = append(listed, matchmaking.Listed{Entry: l.entry(i), State: stateNames[e.state]})
		}
	}
	return listed
}

// region gives a region's index; what is not one never gets as far as the list.
func (l *list) region(name string) int { return slices.Index(l.regions, name) }

// current gives the index of a server's entry if it has the epoch still.
func (l *list) current(e matchmaking.Entry) (i int, ok bool) {
	i, ok = l.at[e.Server]
	return i, ok && l.entries[i].epoch == e.Epoch
}

func (l *list) entry(i int) matchmaking.Entry {
	e := &l.entries[i]
	return matchmaking.Entry{Server: e.server, Region: l.regions[e.region], Epoch: e.epoch, Busy: e.state == busy}
}

// set gives an entry another state, and keeps account of the free ones.
func (l *list) set(i int, s state) {
	e := &l.entries[i]
	was := e.state
	e.state = s
	of := l.free[e.region]
	switch {
	case was != free && s == free:
		e.freeAt = len(of)
		l.free[e.region] = append(of, i)
	case was == free && s != free:
		last := of[len(of)-1]
		of[e.freeAt] = last
		l.entries[last].freeAt = e.freeAt
		l.free[e.region] = of[:len(of)-1]
	}
}

func (l *list) add(e matchmaking.Entry) {
	i, r := len(l.entries), l.region(e.Region)
	l.entries = append(l.entries, entry{server: e.Server, epoch: e.Epoch, region: r, state: busy})
	l.at[e.Server] = i
	l.epochs[e.Server] = e.Epoch
	l.all[r]++
	if !e.Busy {
		l.set(i, free)
	}
}

// remove takes an entry out; the last one takes its place.
func (l *list) remove(i int) {
	l.set(i, busy) // and so out of the free ones
	delete(l.at, l.entries[i].server)
	l.all[l.entries[i].region]--
	last := len(l.entries) - 1
	if i != last {
		l.entries[i] = l.entries[last]
		l.placed(i)
	}
	l.entries = l.entries[:last]
}

func (l *list) exchange(i, j int) {
	l.entries[i], l.entries[j] = l.entries[j], l.entries[i]
	l.placed(i)
	l.placed(j)
}

// placed keeps account of an entry that has come to another index.
func (l *list) placed(i int) {
	e := &l.entries[i]
	l.at[e.server] = i
	if e.state == free {
		l.free[e.region][e.freeAt] = i
	}
}
