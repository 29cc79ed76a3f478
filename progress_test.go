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
