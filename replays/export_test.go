package replays

import (
	"context"
	"errors"
	"io"
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

// EndEvent is what is told of all nodes once a play has ended.
var EndEvent = endEvent

// Journal is a play's journal, to be written to without a play.
type Journal = journal

// OpenJournal opens one.
func OpenJournal(path string, observe func(Event)) (*Journal, error) {
	return openJournal(path, time.Now(), observe)
}

// Timeline goes through the phases of a plan without nodes, traffic and faults,
// and gives what the journal then holds.
func Timeline(ctx context.Context, plan *Plan, path string, observe func(Event)) ([]Event, error) {
	log, err := OpenJournal(path, observe)
	if err != nil {
		return nil, err
	}
	p := &play{plan: plan, log: log}
	origin := log.now()
	loaded := map[float64]chan struct{}{}
	for _, phase := range plan.Phases {
		loaded[phase.Start] = make(chan struct{})
	}
	err = p.timeline(ctx, func(s float64) time.Time { return origin.Add(time.Duration(s * float64(time.Second))) }, loaded)
	events, closeErr := log.close()
	return events, errors.Join(err, closeErr)
}

// Write writes an event.
func (j *journal) Write(e Event) { j.write(e) }

// Mask has the journal take secrets out.
func (j *journal) Mask(secrets []string) { j.mask = masker(secrets) }

// Masking is what logs are written through, and what ends it.
func Masking(to io.Writer, secrets []string) (w io.Writer, end func() error) {
	m := newMaskWriter(to, secrets)
	return m, m.end
}

// Close closes the journal and gives what was written.
func (j *journal) Close() ([]Event, error) { return j.close() }

// FirstTrigger is when an arm's outage may begin.
func FirstTrigger(p *Plan) float64 { return p.firstTrigger() }

// SetLockFolder puts the lock of the machine elsewhere, and gives what puts it back.
func SetLockFolder(dir string) (undo func()) {
	before := lockFolder
	lockFolder = dir
	return func() { lockFolder = before }
}
