package replays

import (
	"fmt"
	"slices"
	"time"
)

// Ladder is a load rehearsal: steps of load that rise until a metric leaves its
// range. Every step is a phase of every arm. How it is read is written at
// [PlannedLadder].
type Ladder struct {
	Says string `yaml:"says"`
	// Phases are the steps, in the order of the timeline, of those that the file
	// lists; Players is how many players each stands for, for the reader.
	Phases  Names     `yaml:"phases"`
	Players []float64 `yaml:"players"`
	// The rest makes steps instead: the phases step-PLAYERS, in whole numbers, behind
	// those that the file lists.
	From   float64        `yaml:"from"`   // players in the first step; the incident's traffic is of that many
	Times  float64        `yaml:"times"`  // as many as in the step before, 2 where the file is silent; with phases, the most by which a step may rise
	Steps  int            `yaml:"steps"`  // how many
	Lasts  time.Duration  `yaml:"lasts"`  // each
	Settle *time.Duration `yaml:"settle"` // as in a phase
	Faults Names          `yaml:"faults"` // held in all of them

	Metrics Names           `yaml:"metrics"` // objectives that must hold at every moment of a step; all where the file is silent
	Clean   Names           `yaml:"clean"`   // arms in which every step must be clean; healthy where the file is silent. The first one's configuration is the tested one
	Drift   map[string]bool `yaml:"drift"`   // arm -> whether its configuration must differ from the tested one
}

// ladderEvery is how far apart the moments are at which a metric is read: so near
// that every sample is the current one at some of them, as scrapes come every
// [sampleEvery], give or take some milliseconds.
const ladderEvery = sampleEvery / 2

// stepsOf are the steps in which a check is a metric of the ladder.
func (i *Incident) stepsOf(c Check) []string {
	d := i.Ladder
	if d == nil || !slices.Contains(d.Metrics, c.ID) || !slices.Contains(checkIDs(i.Objectives), c.ID) {
		return nil
	}
	return d.Phases
}

// PlannedLadder is the load rehearsal of an arm.
//
// A step is clean if every metric holds for every series at every moment of it,
// once it has settled, with $phase of 1 s; nothing is averaged over the step. What
// cannot be read is a breach as well: a metric without data, and a node that gives
// no sample for over 1 s. The first breach ends the ladder.
type PlannedLadder struct {
	Says    string              `json:"says,omitempty"`
	Steps   []PlannedLadderStep `json:"steps"`
	Metrics []string            `json:"metrics"` // ids of objectives
	Clean   *bool               `json:"clean"`   // true where every step must be; null where the arm promises nothing
	Tested  string              `json:"tested"`  // the arm whose configuration is the tested one
	Drift   []Difference        `json:"drift"`   // what this arm sets otherwise
	Drifted *bool               `json:"drifted"` // whether it should set anything otherwise; null where nothing is said
}

// PlannedLadderStep is one step: a phase with what it asks for.
type PlannedLadderStep struct {
	Phase   string  `json:"phase"`
	Players float64 `json:"players,omitempty"` // that it stands for; 0 where the file does not say
	Load    float64 `json:"load"`              // arrivals per second, of all operations
}

func (i *Incident) planLadder(p *Plan) error {
	d := i.Ladder
	if d == nil {
		return nil
	}
	planned := &PlannedLadder{Says: d.Says, Steps: []PlannedLadderStep{}, Metrics: d.Metrics, Tested: d.Clean[0]}
	for n, name := range d.Phases {
		phase, _ := p.Phase(name)
		step := PlannedLadderStep{Phase: name, Load: p.load(phase)}
		if n < len(d.Players) {
			step.Players = d.Players[n]
		}
		planned.Steps = append(planned.Steps, step)
	}
	if slices.Contains(d.Clean, p.Arm) {
		planned.Clean = always(true)
	}
	if drifted, ok := d.Drift[p.Arm]; ok {
		planned.Drifted = &drifted
	}
	a, err := i.arm(planned.Tested)
	if err != nil {
		return err
	}
	tested, err := i.topologyWith(i.overlays(a))
	if err != nil {
		return fmt.Errorf("arm %s: %w", planned.Tested, err)
	}
	planned.Drift = ConfigurationOf(tested, nil).Drift(p.Configuration(nil))
	p.Ladder = planned
	return nil
}
