package replays

import (
	"time"
)

// LinkNames gives the links of the incident's topology under some overlays.
func (i *Incident) LinkNames(overlays []string) ([]string, error) {
	t, err := i.topologyWith(overlays)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, l := range t.Links {
		out = append(out, l.String())
	}
	return out, nil
}

// NodeEvent is what is told of a node at the end of a play.
var NodeEvent = nodeEvent

// Journal is a play's journal, to be written to without a play.
type Journal = journal

// OpenJournal opens one.
func OpenJournal(path string, observe func(Event)) (*Journal, error) {
	return openJournal(path, time.Now(), observe)
}

// Write writes an event.
func (j *journal) Write(e Event) { j.write(e) }

// Close closes the journal and gives what was written.
func (j *journal) Close() ([]Event, error) { return j.close() }
