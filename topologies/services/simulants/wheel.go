package simulants

import "time"

// tick is a time since a harness's start in milliseconds, of which 49 days fit. 0 is
// no time at all: what is due at the start is due a tick later.
type tick uint32

// ticks gives the tick that a time is in.
func ticks(d time.Duration) tick { return tick(d / time.Millisecond) }

// tickAfter gives the first tick that does not begin before a time.
func tickAfter(d time.Duration) tick { return ticks(d + time.Millisecond - 1) }

func (t tick) time() time.Duration { return time.Duration(t) * time.Millisecond }

// wheelSize is how many ticks a wheel takes to go round. With 16 s of them a poll
// every minute is looked at four times before it is due, which is nothing.
const wheelSize = 1 << 14

// wheel keeps when entries are due: a hashed timing wheel. An entry is a number from
// 0; it takes eight bytes, and time that hardly grows with how many there are.
type wheel struct {
	done    tick             // everything up to it has been given out
	heads   [wheelSize]int32 // the first entry of each slot, plus one; 0 for none
	due     []tick           // by entry; 0 for one that is not in the wheel
	next    []int32          // by entry: what is behind it in its slot, plus one
	waiting int
}

// due is an entry whose time has come.
type due struct {
	entry int32
	at    tick
}

// grow makes room for entries below a number.
func (w *wheel) grow(entries int) {
	more := entries - len(w.due)
	if more <= 0 {
		return
	}
	w.due = append(w.due, make([]tick, more)...)
	w.next = append(w.next, make([]int32, more)...)
}

// set has an entry due at a time, whether or not it was due at another. One that is
// over stands for the next tick: a slot that was given out is not looked at again
// before the wheel comes round.
func (w *wheel) set(entry int32, at tick) {
	w.drop(entry)
	at = max(at, w.done+1)
	head := &w.heads[at&(wheelSize-1)]
	w.due[entry], w.next[entry] = at, *head
	*head = entry + 1
	w.waiting++
}

// at says when an entry is due; 0 if it is not in the wheel.
func (w *wheel) at(entry int32) tick { return w.due[entry] }

// drop takes an entry out; one that is not there is no error.
func (w *wheel) drop(entry int32) {
	if w.due[entry] == 0 {
		return
	}
	link := &w.heads[w.due[entry]&(wheelSize-1)]
	for *link != entry+1 {
		link = &w.next[*link-1]
	}
	*link = w.next[entry]
	w.due[entry] = 0
	w.waiting--
}

// advance takes out what is due by a time, and appends it.
func (w *wheel) advance(now tick, to []due) []due {
	for w.done < now {
		if w.waiting == 0 {
			w.done = now
			break
		}
		w.done++
		link := &w.heads[w.done&(wheelSize-1)]
		for *link != 0 {
			entry := *link - 1
			if w.due[entry] > w.done { // when the wheel comes round again
				link = &w.next[entry]
				continue
			}
			*link = w.next[entry]
			to = append(to, due{entry, w.due[entry]})
			w.due[entry] = 0
			w.waiting--
		}
	}
	return to
}

// upcoming gives the next tick at which something may be due, so many ticks after
// the last one that was given out at most.
func (w *wheel) upcoming(within tick) tick {
	if w.waiting > 0 {
		for n := tick(1); n < within; n++ {
			if w.heads[(w.done+n)&(wheelSize-1)] != 0 {
				return w.done + n
			}
		}
	}
	return w.done + within
}
