// Package reports tells what a verdict says: one file per format, each of which
// registers itself. Formats read a [Report], which is plain data: it can be
// filled from a record on any machine, and from literals in a test.
package reports

import (
	"encoding/json"
	"fmt"
	"math"
	"time"

	"relapse/replays"
)

// Report is everything that a format may tell about one incident.
type Report struct {
	Incident    IncidentInfo    `json:"incident"`
	Verdict     replays.Verdict `json:"verdict"`
	Timelines   []Timeline      `json:"timelines"`
	Environment Environment     `json:"environment"`
	Logs        []LogExcerpt    `json:"logs"`
	// Modelled names each cost that was modelled instead of burnt, as sentences.
	Modelled []string `json:"modelled"`
	// Command is the one command that shows all of it again.
	Command string `json:"command"`
}

// IncidentInfo is the incident as its file states it, before anything is played.
type IncidentInfo struct {
	Name     string  `json:"name"`
	Title    string  `json:"title"`
	Story    string  `json:"story"` // paragraphs are parted by an empty line
	Source   Source  `json:"source"`
	Scale    Scale   `json:"scale"`
	Topology string  `json:"topology"`
	Speed    float64 `json:"speed"` // documented seconds per second played; 0 if unknown

	Checks     []CheckInfo `json:"checks"` // in the file's order
	Causes     []CauseInfo `json:"causes"`
	Fixes      []FixInfo   `json:"fixes"`
	AlertRules string      `json:"alert_rules"` // the rule file's text

	Sweeps []SweepInfo `json:"sweeps,omitempty"`
	Class  *ClassInfo  `json:"class,omitempty"`  // nil where the kind of outage is not looked for
	Ladder *LadderInfo `json:"ladder,omitempty"` // nil where there is no load rehearsal
}

// Source is where the incident is documented.
type Source struct {
	Publisher string `json:"publisher"`
	Date      string `json:"date"` // as the incident's file writes it
	Document  string `json:"document"`
	URL       string `json:"url"`
}

// Scale puts the documented size beside the one that is played.
type Scale struct {
	Documented string `json:"documented"`
	Here       string `json:"here"`
}

// CheckInfo is one symptom, objective, invariant or alert.
type CheckInfo struct {
	ID         string `json:"id"`
	Kind       string `json:"kind"` // one of the replays.Kind… values
	Says       string `json:"says"`
	Fact       string `json:"fact"` // the documented statement; "" where the check is ours
	During     string `json:"during"`
	Query      string `json:"query"`
	Documented bool   `json:"documented"` // the source states it; otherwise it is ours
}

// CauseInfo is a contributing factor; its arm is without-<Name>.
type CauseInfo struct {
	Name      string `json:"name"`
	Says      string `json:"says"`
	Necessary bool   `json:"necessary"` // claimed: without it there is no outage
}

// FixInfo is a fix; its arm is fix-<Name>. Restores, Cures and Leaves hold the
// IDs of checks.
type FixInfo struct {
	Name       string          `json:"name"`
	Says       string          `json:"says"`
	Documented bool            `json:"documented"` // the source names it; otherwise its lesson suggests it
	Restores   []string        `json:"restores"`
	Cures      []string        `json:"cures"`
	Leaves     []string        `json:"leaves"`
	Diff       string          `json:"diff"` // the overlay's text
	On         []ChallengeInfo `json:"on"`   // other triggers
	Challenges []ChallengeInfo `json:"challenges"`
}

// ChallengeInfo is what else is thrown at a fix: a further fault, whose arm is
// fix-<fix>-under-<Name>, or another trigger, whose arm is fix-<fix>-on-<Name>.
type ChallengeInfo struct {
	Name   string   `json:"name"`
	Says   string   `json:"says"`
	Holds  []string `json:"holds"`            // IDs of the checks that must still hold; empty: all that the fix promises
	Breaks []string `json:"breaks,omitempty"` // IDs of the checks that must be seen not to hold
}

// SweepInfo is the incident at several sizes of one of its parts.
type SweepInfo struct {
	Name  string     `json:"name"`
	Says  string     `json:"says"`
	Steps []StepInfo `json:"steps"`
}

// StepInfo is one size; its arm is <sweep>-<Name>.
type StepInfo struct {
	Name   string `json:"name"`
	Says   string `json:"says"`
	Outage bool   `json:"outage"` // stated: it is an outage there
}

// ClassInfo says how the kind of outage is found out.
type ClassInfo struct {
	Unfixed    []string `json:"unfixed"`     // any of which the documented outage must be
	Wait       string   `json:"wait"`        // phase
	WaitFor    float64  `json:"wait_for"`    // seconds that the phase must leave
	WaitReason string   `json:"wait_reason"` // why less than the procedure asks for is enough; "" where it is not less
}

// LadderInfo is a load rehearsal as its file states it.
type LadderInfo struct {
	Says    string   `json:"says"`
	Metrics []string `json:"metrics"` // IDs of objectives that must hold at every moment of a step
	Clean   []string `json:"clean"`   // arms in which every step must be clean
}

// Timeline is what was measured in one play of an arm. All times are seconds
// since the first phase began.
type Timeline struct {
	Arm    string   `json:"arm"`
	Phases []Span   `json:"phases"`
	Faults []Span   `json:"faults"`
	Series []Series `json:"series"`
	Alerts []Span   `json:"alerts"` // stretches in which an alert fired
	Events []Event  `json:"events"`
}

// Span is a named stretch of time, in seconds.
type Span struct {
	Name string  `json:"name"`
	From float64 `json:"from"`
	To   float64 `json:"to"`
}

// Series is one measured quantity. Series of one name are drawn in one panel,
// arm over arm.
type Series struct {
	Name   string  `json:"name"`
	Unit   string  `json:"unit"` // "ratio" is drawn as percent; else it is shown as it is
	Step   bool    `json:"step"` // a value holds until the next one, as of a count of nodes
	Points []Point `json:"points"`
}

// Point is a value V at T seconds. A V that is not a number is a sample that is
// known to be missing: lines break there. In JSON a point is [t, v], v null
// where it is missing.
type Point struct{ T, V float64 }

// MarshalJSON writes [t, v].
func (p Point) MarshalJSON() ([]byte, error) {
	if math.IsNaN(p.V) || math.IsInf(p.V, 0) {
		return json.Marshal([2]any{p.T, nil})
	}
	return json.Marshal([2]float64{p.T, p.V})
}

// UnmarshalJSON reads what MarshalJSON writes.
func (p *Point) UnmarshalJSON(b []byte) error {
	var pair [2]*float64
	if err := json.Unmarshal(b, &pair); err != nil {
		return fmt.Errorf("point: want [seconds, value]: %w", err)
	}
	if pair[0] == nil {
		return fmt.Errorf("point %s: want [seconds, value]", b)
	}
	p.T, p.V = *pair[0], math.NaN()
	if pair[1] != nil {
		p.V = *pair[1]
	}
	return nil
}

// Event is something that happened at one moment.
type Event struct {
	At   float64 `json:"at"`
	Says string  `json:"says"`
}

// Environment is what a reader needs in order to trust, and to repeat, a run.
type Environment struct {
	Run     string    `json:"run"`     // the record's name
	Tool    string    `json:"tool"`    // version of relapse
	Commit  string    `json:"commit"`  //
	Dirty   bool      `json:"dirty"`   // built from a tree with uncommitted changes
	Date    time.Time `json:"date"`    //
	Command string    `json:"command"` // the command line of this run
	Seed    uint64    `json:"seed"`    //
	Machine Machine   `json:"machine"`
	Images  []Image   `json:"images"`
	// Resumed tells, in order, of every time that the run had ended early and was
	// gone on with; none for a run that went through.
	Resumed []Resumption `json:"resumed,omitempty"`
}

// Resumption is that a run was gone on with. The plays after it are those of its
// own build, which may be another than that of the plays before.
type Resumption struct {
	At     time.Time `json:"at"`
	After  int       `json:"after"`  // plays
	Tool   string    `json:"tool"`   // version of relapse
	Commit string    `json:"commit"` //
	Dirty  bool      `json:"dirty"`  // built from a tree with uncommitted changes
}

// Machine is where it was played.
type Machine struct {
	OS          string `json:"os"`
	Kernel      string `json:"kernel"`
	CPUs        int    `json:"cpus"`
	MemoryBytes int64  `json:"memory_bytes"`
	Engine      string `json:"engine"` // container engine and version, or the driver that needs none
	Cgroup      string `json:"cgroup"` // v1 or v2
}

// Image is what a node was made from.
type Image struct {
	Ref      string   `json:"ref"`
	Source   string   `json:"source"` // local, pulled, or built from packages
	Digest   string   `json:"digest"`
	Versions []string `json:"versions"` // programs within, each with its version
}

// LogExcerpt is a few lines that a node wrote. Nothing in them is trusted.
type LogExcerpt struct {
	Node  string   `json:"node"`
	Arm   string   `json:"arm"`
	Says  string   `json:"says"` // why these lines matter
	Lines []string `json:"lines"`
}
