package main

import (
	"fmt"
	"io"
	"math"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"

	"relapse/replays"
	"relapse/replays/samples"
	"relapse/reports"
)

// progress tells a person what a play does while it does it: a line for every
// event, and on a terminal one more that is rewritten four times a second with
// what the players get. Elsewhere, as in CI, lines are all there is.
type progress struct {
	w        io.Writer
	rewrites bool // a terminal that can be rewritten
	total    int  // plays
	mu       sync.Mutex
	count    int
	started  time.Time
	origin   time.Time // of the phases
	phase    string
	drawn    bool // a live line stands on the screen
	stop     func()
}

func newProgress(w io.Writer, total int) *progress {
	f, isFile := w.(*os.File)
	return &progress{w: w, rewrites: isFile && term.IsTerminal(int(f.Fd())) && os.Getenv("TERM") != "dumb", total: total, stop: func() {}}
}

// colour says whether to colour what is written to a file: on a terminal, unless
// NO_COLOR asks not to.
func colour(f *os.File) bool {
	return term.IsTerminal(int(f.Fd())) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}

func (p *progress) playing(plan *replays.Plan, round, attempt int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if attempt == 0 {
		p.count++
	}
	p.started, p.origin, p.phase = time.Now(), time.Time{}, ""
	what := fmt.Sprintf("%s · %s", plan.Incident, plan.Arm)
	if p.total > 1 {
		what = fmt.Sprintf("[%d/%d] %s", min(p.count, p.total), p.total, what)
	}
	if round > 0 {
		what += fmt.Sprintf(" · round %d", round+1)
	}
	if attempt > 0 {
		what += fmt.Sprintf(" · again, since the last play was unknown (%d)", attempt)
	}
	p.line("%s · seed %d · %.0f s of phases", what, plan.Seed, plan.Length())
	if p.total == 1 {
		p.line("  %s", plan.Says)
	}
}

// resumed takes up the count of a run that is gone on with.
func (p *progress) resumed(m replays.Matrix) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.total = len(m.Arms) * m.Repeat
	for _, name := range m.Plays {
		if !strings.Contains(name, "-again-") {
			p.count++
		}
	}
	p.line("going on after %d plays", len(m.Plays))
}

// event writes one line for what a person would want to know of. In a matrix
// that is little: plays follow each other every few seconds.
func (p *progress) event(e replays.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := fmt.Sprintf("%6.2fs", e.At.Sub(p.started).Seconds())
	if !p.origin.IsZero() {
		at = fmt.Sprintf("%6.2fs", e.At.Sub(p.origin).Seconds())
	}
	switch e.Event {
	case replays.EventStarting:
		if p.total == 1 || strings.HasPrefix(e.Detail, "image") {
			p.line("%s  %s", at, e.Detail)
		}
	case replays.EventStarted:
		if p.total == 1 {
			p.line("%s  every node is ready", at)
		}
	case replays.EventPhase:
		if p.origin.IsZero() {
			p.origin, at = e.At, "  0.00s"
		}
		p.phase = e.Phase
		if p.total == 1 {
			p.line("%s  phase %s", at, e.Phase)
		}
	case replays.EventFault:
		if p.total == 1 && (e.Step == "in-effect" || e.Step == "gone") || e.Step == "failed" {
			p.line("%s", strings.TrimRight(fmt.Sprintf("%s  fault %s: %s %s", at, e.Fault, strings.ReplaceAll(e.Step, "-", " "), e.Detail), " "))
		}
	case replays.EventNodeDead:
		p.line("%s  node %s is dead: %s", at, e.Node, e.Detail)
	case replays.EventNodeRestarted:
		p.line("%s  node %s was %s", at, e.Node, e.Detail)
	case replays.EventTrouble:
		p.line("%s  %s", at, e.Detail)
	case replays.EventPhasesEnd, replays.EventPhasesCut:
		p.stop()
		p.phase = "stopping"
	case replays.EventStopped:
		if p.total == 1 {
			p.line("%s  every node is gone", at)
		}
	case replays.EventKept:
		if p.total == 1 {
			p.line("%s  the nodes still run", at)
		}
	}
}

// live draws what the players get until the phases end.
func (p *progress) live(store *samples.Store) {
	if !p.rewrites {
		return
	}
	done := make(chan struct{})
	p.mu.Lock()
	p.stop = sync.OnceFunc(func() { close(done) })
	p.mu.Unlock()
	go func() {
		ticker := time.NewTicker(samples.Period)
		defer ticker.Stop()
		for {
			select {
			case <-done:
				return
			case now := <-ticker.C:
				p.draw(store, now)
			}
		}
	}()
}

func (p *progress) draw(store *samples.Store, now time.Time) {
	curves, err := store.Curves(`sum by (op) (rate(relapse_requests_total{outcome="ok"}[1s])) / sum by (op) (rate(relapse_offered_total[1s]))`, now, now, time.Second)
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil || p.origin.IsZero() {
		return
	}
	var parts []string
	for _, c := range curves {
		if len(c.Points) == 0 {
			continue
		}
		// Nothing asked for gives no share. Answers to what was asked for earlier
		// can be more than all of what is asked for now.
		if share := c.Points[len(c.Points)-1].Value; !math.IsNaN(share) {
			parts = append(parts, fmt.Sprintf("%s %3.0f%%", c.Labels["op"], 100*min(share, 1)))
		}
	}
	p.clear()
	// Operations are named by what a node tells of itself.
	fmt.Fprint(p.w, reports.Printable(fmt.Sprintf("%6.2fs  %-10s ok: %s", now.Sub(p.origin).Seconds(), p.phase, strings.Join(parts, "  "))))
	p.drawn = true
}

func (p *progress) played(plan *replays.Plan, v replays.PlayVerdict) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stop()
	if p.total == 1 {
		return
	}
	p.line("  %s in %.1f s%s", v.Outcome, v.Seconds, why(v))
}

// why names what decided a play that did not pass.
func why(v replays.PlayVerdict) string {
	if len(v.Validity) > 0 {
		return ": " + v.Validity[0].Reason
	}
	for _, f := range v.Findings {
		if f.Outcome == v.Outcome && f.Outcome != replays.Pass && f.Expected != nil {
			should := "should hold"
			if !*f.Expected {
				should = "should not hold"
			}
			return fmt.Sprintf(": %s %s during %s: got %s%s, want %s", f.Check, should, f.Phase, f.Got, f.Reason, f.Want)
		}
	}
	return ""
}

func (p *progress) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stop()
	p.clear()
}

// line writes a line for good; mu is held.
func (p *progress) line(format string, args ...any) {
	p.clear()
	// An event may quote what a node printed.
	fmt.Fprintln(p.w, reports.Printable(fmt.Sprintf(format, args...)))
}

// clear takes the live line away; mu is held.
func (p *progress) clear() {
	if p.drawn {
		fmt.Fprint(p.w, "\r\x1b[K")
		p.drawn = false
	}
}
