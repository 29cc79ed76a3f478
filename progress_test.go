package main

import (
	"strings"
	"testing"

	"relapse/replays"
)

// TestProgressOfTheEnd holds that nodes that were kept are not told to be gone.
func TestProgressOfTheEnd(t *testing.T) {
	for event, want := range map[string]string{
		replays.EventStopped: "every node is gone",
		replays.EventKept:    "the nodes still run",
	} {
		var b strings.Builder
		newProgress(&b, 1).event(replays.Event{Event: event})
		if _, have, _ := strings.Cut(strings.TrimSpace(b.String()), "s  "); have != want {
			t.Errorf("%s: have %q, want %q", event, have, want)
		}
	}
}

// TestProgressIsShownAsText holds that what a node printed reaches no control of the
// terminal.
func TestProgressIsShownAsText(t *testing.T) {
	var b strings.Builder
	newProgress(&b, 1).event(replays.Event{Event: replays.EventTrouble, Detail: "node lb said:\n\x1b]0;mine\x07\x1b[2J\u009b1m done"})
	if have := b.String(); strings.ContainsAny(have, "\x1b\x07\u009b") || !strings.Contains(have, "node lb said:\n") || !strings.Contains(have, " done") {
		t.Errorf("have %q, want the text in its lines, and no control characters", have)
	}
}
