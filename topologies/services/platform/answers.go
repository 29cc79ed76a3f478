package platform

import "time"

// answers keeps for a time, by name, what cannot change any more: what an operation was
// answered, so that it is answered alike again, and what has ended. Its user locks it.
type answers[V any] struct {
	keep  time.Duration
	named map[string]V
	order []kept // the oldest first
}

type kept struct {
	name string
	at   time.Time
}

func newAnswers[V any](keep time.Duration) *answers[V] {
	return &answers[V]{keep: keep, named: map[string]V{}}
}

func (a *answers[V]) get(name string, now time.Time) (V, bool) {
	a.forget(now)
	v, ok := a.named[name]
	return v, ok
}

// put keeps something under a name that has nothing yet.
func (a *answers[V]) put(name string, v V, now time.Time) {
	a.forget(now)
	a.named[name] = v
	a.order = append(a.order, kept{name, now})
}

func (a *answers[V]) forget(now time.Time) {
	n := 0
	for n < len(a.order) && now.Sub(a.order[n].at) > a.keep {
		delete(a.named, a.order[n].name)
		n++
	}
	a.order = a.order[n:]
}
