package platform

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"relapse/topologies/services/platform/api"
)

// ticket is a party that waits for a match.
type ticket struct {
	id      string
	players []api.Player
	pings   map[string]float64
	choice  string // the data centre that is nearest
	since   time.Time
	match   string // that it is in; players are told once it is there
}

// nearest is the data centre of the lowest ping; of several the first by name.
func nearest(pings map[string]float64) string {
	return slices.MinFunc(slices.Sorted(maps.Keys(pings)), func(a, b string) int { return cmp.Compare(pings[a], pings[b]) })
}

// same says whether a ticket is for the same players.
func (t *ticket) same(players []api.Player) bool {
	return slices.Equal(slices.Sorted(slices.Values(t.players)), slices.Sorted(slices.Values(players)))
}

// forming is a match that is put together: two teams, in which parties stay together.
type forming struct {
	room  [2]int
	teams [2][]*ticket
}

func newForming(size int) *forming { return &forming{room: [2]int{size / 2, size / 2}} }

// add takes a ticket into the first team that has room for it, if there is one.
func (f *forming) add(t *ticket) bool {
	for n := range f.room {
		if len(t.players) <= f.room[n] {
			f.room[n] -= len(t.players)
			f.teams[n] = append(f.teams[n], t)
			return true
		}
	}
	return false
}

func (f *forming) full() bool { return f.room == [2]int{} }

// tickets gives those of the first team, then those of the second.
func (f *forming) tickets() []*ticket { return slices.Concat(f.teams[0], f.teams[1]) }

// players gives those of the first team, then those of the second.
func (f *forming) players() (players []api.Player) {
	for _, t := range f.tickets() {
		players = append(players, t.players...)
	}
	return players
}

// pings sums the pings of all players to each data centre that all of them know.
func (f *forming) pings() map[string]float64 {
	sums, know := map[string]float64{}, map[string]int{}
	tickets := f.tickets()
	for _, t := range tickets {
		for centre, ping := range t.pings {
			sums[centre] += ping * float64(len(t.players))
			know[centre]++
		}
	}
	maps.DeleteFunc(sums, func(centre string, _ float64) bool { return know[centre] < len(tickets) })
	return sums
}

// fill makes as many full matches of some tickets as it can. Who has waited longest,
// which is who comes first, is in the next match; others only as far as their parties
// fit in.
func fill(tickets []*ticket, size int) (made []*forming) {
	for {
		f := newForming(size)
		var left []*ticket
		for n, t := range tickets {
			if !f.add(t) {
				left = append(left, t)
				continue
			}
			if f.full() {
				left = append(left, tickets[n+1:]...)
				break
			}
		}
		if !f.full() {
			return made
		}
		made, tickets = append(made, f), left
	}
}
