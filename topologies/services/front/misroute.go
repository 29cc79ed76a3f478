package front

import (
	"fmt"
	"maps"
	"slices"
)

// Misroute has a share of a mode's requests carry the flag of another mode: they go
// by that mode's route, and their nodes take them for it. Whether the mode is
// closed, and what is admitted of it, goes by the mode that the player asked for,
// and so do metrics.
type Misroute struct {
	To      string  // the other mode
	Percent float64 // of the requests, above 0 and up to 100
}

// misroute is one in force.
type misroute struct {
	to    *route
	share share
}

func (f *Front) addMisroutes(c Config) error {
	for _, mode := range slices.Sorted(maps.Keys(c.Misroutes)) {
		m := c.Misroutes[mode]
		for _, named := range []string{mode, m.To} {
			if err := f.known(named); err != nil {
				return fmt.Errorf("misroute of %s to %s: %w", mode, m.To, err)
			}
		}
		switch {
		case mode == m.To:
			return fmt.Errorf("misroute of %s to itself: name another mode", mode)
		case !(m.Percent > 0) || m.Percent > 100:
			return fmt.Errorf("misroute of %s to %s: %v percent: want more than 0 and 100 at most", mode, m.To, m.Percent)
		}
		owed := random(c.Seed, "misrouted requests of "+mode).IntN(whole)
		f.misroutes[mode] = &misroute{f.routes[m.To], newShare(m.Percent/100, owed)}
	}
	return nil
}
