package replays

import (
	"fmt"
	"strings"
)

// The ids of the findings that a ladder makes.
const (
	ladderCheck = "ladder"
	driftCheck  = "drift"
)

// ladderFindings hold the ladder and the arm's configuration against what the arm
// should show.
func (j judge) ladderFindings(l *LadderVerdict) []Finding {
	if l == nil || len(l.Steps) == 0 {
		return nil
	}
	p, top := j.Plan.Ladder, l.Steps[len(l.Steps)-1].Step
	f := Finding{
		Check: ladderCheck, Kind: KindLadder, Says: "Every metric stays in its range at every moment of every step", Phase: top,
		Expected: p.Clean, Want: "clean up to " + top, Outcome: Unknown,
	}
	if l.Unknown != "" {
		f.Reason = l.Unknown
	} else {
		f.Got, f.Held = "clean up to "+top, always(l.Breach == nil)
		if b := l.Breach; b != nil {
			f.Phase, f.Got = b.Step, b.String()
			if l.Clean != "" {
				f.Got = "clean up to " + l.Clean + "; " + f.Got
			}
		}
		f.weigh()
	}
	out := []Finding{f}
	if p.Drifted != nil {
		out = append(out, driftFinding(p))
	}
	return out
}

// weigh sets the outcome of a finding that was seen.
func (f *Finding) weigh() {
	f.Outcome = Pass
	if f.Expected != nil && *f.Held != *f.Expected {
		f.Outcome = Fail
	}
}

// toldDifferences is how many settings a finding names; the ladder has all of them.
const toldDifferences = 3

func driftFinding(p *PlannedLadder) Finding {
	f := Finding{
		Check: driftCheck, Kind: KindDrift, Says: fmt.Sprintf("The configuration is another than that of arm %s, which the ladder tests", p.Tested),
		Expected: p.Drifted, Held: always(len(p.Drift) > 0), Got: "no setting differs", Want: "the configuration of arm " + p.Tested,
	}
	if *p.Drifted {
		f.Want = "another configuration than arm " + p.Tested + "'s"
	}
	if n := len(p.Drift); n > 0 {
		var told []string
		for _, d := range p.Drift[:min(n, toldDifferences)] {
			told = append(told, d.String())
		}
		f.Got = strings.Join(told, "; ")
		if n > toldDifferences {
			f.Got += fmt.Sprintf("; and %d more", n-toldDifferences)
		}
	}
	f.weigh()
	return f
}
