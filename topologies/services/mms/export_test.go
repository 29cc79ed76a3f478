package mms

import (
	"context"
	"time"

	"relapse/topologies/services/matchmaking"
)

// What only tests see of the inside of this package.
type (
	Fate  = fate
	State = state
)

const (
	Ran        = ran
	Overfull   = overfull
	PassedOver = passedOver

	StateFree      = free
	StateReserving = reserving
	StateHeld      = held
	StateBusy      = busy

	MostGiving = mostGiving
)

var (
	NewCPU     = newCPU
	NewList    = newList
	NewAnswers = newAnswers
)

func (c *cpu) Do(caller context.Context, class string, work func() time.Duration) Fate {
	return c.do(caller, class, work)
}

func (c *cpu) Length() int { return c.length() }

func (l *list) Register(entries ...matchmaking.Entry) int { return l.register(entries) }

func (l *list) Scatter(last int) { l.scatter(last) }

func (l *list) Find(region string) (matchmaking.Entry, int, bool) { return l.find(region) }

func (l *list) Pick(region string, count int, s State) []matchmaking.Entry {
	return l.pick(region, count, s)
}

func (l *list) Settle(e matchmaking.Entry, s State) { l.settle(e, s) }

func (l *list) Forget(entries ...matchmaking.Entry) { l.forget(entries...) }

func (l *list) Count(region string) (unused, all int) { return l.count(region) }

func (l *list) Snapshot() []matchmaking.Listed { return l.snapshot() }

// First says whether a transfer is new.
func (as *answers) First(id string) bool {
	_, first := as.to(id)
	return first
}
