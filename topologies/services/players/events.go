package players

import (
	"container/heap"
	"time"
)

// event is something that a population does at a time.
type event struct {
	at   time.Duration
	fire func(at time.Duration)
}

// events is a heap, the soonest first.
type events []event

func (e events) Len() int           { return len(e) }
func (e events) Less(i, j int) bool { return e[i].at < e[j].at }
func (e events) Swap(i, j int)      { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)        { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	last := len(*e) - 1
	x := (*e)[last]
	(*e)[last] = event{}
	*e = (*e)[:last]
	return x
}

// at has something done at a time; the generator is locked then as now.
func (g *Generator) at(when time.Duration, fire func(at time.Duration)) {
	heap.Push(&g.events, event{at: when, fire: fire})
}
