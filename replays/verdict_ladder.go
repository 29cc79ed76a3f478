package replays

import (
	"fmt"
	"strings"
)

// Ladder states of a step.
const (
	StepClean      = "clean"       // every metric held at every moment
	StepBreached   = "breached"    // the first that was not clean
	StepNotReached = "not reached" // it comes after that one: what was seen in it is not looked at
	StepUnknown    = "unknown"     // nothing can be said of it
)

// LadderVerdict is what became of a load rehearsal in one play.
type LadderVerdict struct {
	Clean   string       `json:"clean"`             // the highest clean step; "" where the first one was not
	Breach  *Breach      `json:"breach"`            // the first; null where there is none
	Unknown string       `json:"unknown,omitempty"` // why the ladder ended without a breach below its top
	Steps   []LadderStep `json:"steps"`
	// Ignored says what was played after the first breach and is not looked at; ""
	// where nothing was.
	Ignored string `json:"ignored,omitempty"`
	// Drift is what the arm sets otherwise than the tested configuration, where the
	// incident says whether there should be anything.
	Drift []Difference `json:"drift,omitempty"`
}

// LadderStep is what became of one step.
type LadderStep struct {
	Step    string  `json:"step"`              // its phase
	Players float64 `json:"players,omitempty"` // that it stands for; 0 where the incident does not say
	Load    float64 `json:"load"`              // asked for, arrivals per second
	State   string  `json:"state"`             // clean, breached, not reached, unknown
	// Nearest is the metric that came the nearest to its limit in a clean step, or
	// that breached it; null where no metric has a limit that is one number.
	Nearest *LadderRoom `json:"nearest"`
}

// LadderRoom is how far a metric stayed from its limit, at the moment at which it
// was the nearest.
type LadderRoom struct {
	Metric string  `json:"metric"` // id of the objective
	Node   string  `json:"node"`   // as in a Breach
	At     float64 `json:"at"`     // seconds since the first phase began
	Got    string  `json:"got"`
	Want   string  `json:"want"`
	Margin float64 `json:"margin"` // as in a Finding
}

// Breach is the first moment at which a step was not clean.
type Breach struct {
	Step   string  `json:"step"`
	Metric string  `json:"metric"` // id of the objective; "" where a node gave no samples
	At     float64 `json:"at"`     // seconds since the first phase began
	Into   float64 `json:"into"`   // seconds since the step began
	// Node is the service that breached: the label node of the series beyond the
	// limit, else the one node that the metric reads. Where it adds up several, which
	// of them cannot be told: Node is "" and Of names them.
	Node    string   `json:"node"`
	Of      []string `json:"of,omitempty"`
	Series  string   `json:"series,omitempty"`  // its labels, as far as the metric keeps them
	Missing bool     `json:"missing,omitempty"` // there were no data
	Reason  string   `json:"reason,omitempty"`  // what was missing
	Got     string   `json:"got"`
	Want    string   `json:"want"`
}

// String says in one line what breached the step, where and when.
func (b *Breach) String() string {
	what := b.Metric
	if what == "" {
		what = "samples"
	}
	switch {
	case b.Node != "":
		what += " of " + b.Node
	case len(b.Of) > 1:
		what += " of one of " + strings.Join(b.Of, ", ")
	}
	seen := strings.TrimSpace(b.Got + ", want " + b.Want)
	if b.Missing {
		seen = "missing: " + b.Reason
	}
	return fmt.Sprintf("%s breached %.2f s in by %s: %s", b.Step, b.Into, what, seen)
}
