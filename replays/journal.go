package replays

import (
	"encoding/json"
	"fmt"
	"os"
	"sync"
	"time"
)

// journal writes the events of a play as they happen, so that a record can be
// read after a crash. All its times come from one monotonic clock.
type journal struct {
	mu      sync.Mutex
	file    *os.File
	started time.Time
	events  []Event
	observe func(Event)
	mask    func(string) string // takes secrets out of what is written; nil where there are none
	err     error               // the first write that failed
}

func openJournal(path string, started time.Time, observe func(Event)) (*journal, error) {
	f, err := os.Create(path)
	if err != nil {
		return nil, fmt.Errorf("open the record's journal: %w", err)
	}
	return &journal{file: f, started: started, observe: observe}, nil
}

// now is the present on the play's clock, as a wall time that cannot jump.
func (j *journal) now() time.Time { return j.started.Add(time.Since(j.started)) }

func (j *journal) write(e Event) {
	j.mu.Lock()
	defer j.mu.Unlock()
	// Stamped under the lock: the file's order is the order of the times.
	e.At = j.now()
	e.T = e.At.Sub(j.started).Seconds()
	if j.mask != nil {
		e.Detail = j.mask(e.Detail)
	}
	j.events = append(j.events, e)
	line, err := json.Marshal(e)
	// Nothing is written after a write that failed, as of a full disk: it may have left
	// half a line, and only the last line of a journal may be cut short.
	if err == nil && j.err == nil {
		_, err = j.file.Write(append(line, '\n'))
	}
	if err != nil && j.err == nil {
		j.err = fmt.Errorf("write the record's journal: %w", err)
	}
	if j.observe != nil {
		j.observe(e)
	}
}

func (j *journal) close() ([]Event, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := j.file.Close(); err != nil && j.err == nil {
		j.err = err
	}
	return j.events, j.err
}
