package front

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Where is a mode, or one region of it.
type Where struct {
	Mode   string
	Region string // "" for all regions
}

// String writes the place as flags do: playground, or playground/eu.
func (w Where) String() string {
	if w.Region == "" {
		return w.Mode
	}
	return w.Mode + "/" + w.Region
}

func compareWhere(a, b Where) int { return strings.Compare(a.String(), b.String()) }

func (f *Front) addClosed(c Config) error {
	for _, w := range c.Closed {
		if err := f.known(w.Mode); err != nil {
			return fmt.Errorf("closed: %s: %w", w, err)
		}
		f.closed[w] = true
	}
	return nil
}

func (f *Front) addLimits(c Config) error {
	for _, w := range slices.SortedFunc(maps.Keys(c.Limits), compareWhere) {
		n := c.Limits[w]
		switch err := f.known(w.Mode); {
		case err != nil:
			return fmt.Errorf("limit: %s: %w", w, err)
		case w.Region == "":
			return fmt.Errorf("limit: %s: no region: want a limit for each region of the mode", w)
		case n < 1:
			return fmt.Errorf("limit: %s: %d requests a second: want 1 or more; to let nobody in, close it", w, n)
		}
		f.limits[w] = &bucket{perSecond: float64(n), tokens: float64(n)}
	}
	return nil
}

// known refuses a mode that no route is for: what is said of it would change
// nothing.
func (f *Front) known(mode string) error {
	if f.routes[mode] == nil {
		return fmt.Errorf("no route for mode %q; there are: %s", mode, strings.Join(f.modes, ", "))
	}
	return nil
}

// bucket admits so many requests a second. It holds what is left of one second
// and is full at the start.
type bucket struct {
	perSecond float64
	tokens    float64
	at        time.Duration // of the last request
}

// take admits a request, or does not. Time does not go back.
func (b *bucket) take(now time.Duration) bool {
	b.tokens = min(b.perSecond, b.tokens+(now-b.at).Seconds()*b.perSecond)
	b.at = now
	if b.tokens < 1 {
		return false
	}
	b.tokens--
	return true
}
