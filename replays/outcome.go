package replays

import "fmt"

// Outcome is three-valued. Worst wins: fail, then unknown, then pass. Unknown
// is never a pass.
type Outcome string

const (
	Pass    Outcome = "pass"
	Fail    Outcome = "fail"
	Unknown Outcome = "unknown"
)

func (o Outcome) rank() int {
	switch o {
	case Pass:
		return 0
	case Fail:
		return 2
	default: // an outcome that nobody set is unknown
		return 1
	}
}

// Worst gives the worst of some outcomes. Of none it is Unknown: zero checks
// prove nothing.
func Worst(outcomes ...Outcome) Outcome {
	if len(outcomes) == 0 {
		return Unknown
	}
	worst := Pass
	for _, o := range outcomes {
		if o.rank() > worst.rank() {
			worst = o
		}
	}
	if worst.rank() == 1 {
		return Unknown
	}
	return worst
}

// UnmarshalText refuses what is not an outcome.
func (o *Outcome) UnmarshalText(b []byte) error {
	switch v := Outcome(b); v {
	case Pass, Fail, Unknown:
		*o = v
		return nil
	}
	return fmt.Errorf("outcome %q: want pass, fail or unknown", b)
}
