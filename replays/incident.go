// Package replays holds what happened: one folder per documented incident, and
// the engine that plays an incident, records it and judges the record.
//
// [Load] reads an incident file and refuses a bad one with its place. From an
// [Incident], [Incident.Plan] makes the plan of one arm, which is pure and can
// be printed. [Play] carries a plan out and leaves a [Record], a folder.
// [JudgePlay] and [JudgeIncident] read records and give verdicts: they know no
// clock, no network and no engine, so that a record can be judged years later
// on another machine.
package replays

import (
	"io/fs"
	"path"
	"time"

	"github.com/goccy/go-yaml/ast"

	"relapse/faults"
	"relapse/replays/samples"
	"relapse/topologies"
)

// Incident is a documented failure: what was seen, what caused it, what was
// done about it, and the checks that tell whether all that is so here too.
type Incident struct {
	Name       string             `yaml:"incident"`
	Title      string             `yaml:"title"`
	Source     Source             `yaml:"source"`
	Story      string             `yaml:"story"`
	Scale      Scale              `yaml:"scale"`
	Modelled   []string           `yaml:"modelled"` // costs that are modelled, not burnt
	Topology   string             `yaml:"topology"`
	Overlays   []string           `yaml:"overlays"` // of the topology, applied in every arm before those of its changes
	Speed      float64            `yaml:"speed"`    // documented seconds per second played
	Phases     []Phase            `yaml:"phases"`
	Traffic    Traffic            `yaml:"traffic"`
	Faults     Ordered[FaultSpec] `yaml:"faults"`
	Conditions []string           `yaml:"conditions"` // faults held from start to end of every arm: limits that the documented system had
	Symptoms   []Check            `yaml:"symptoms"`
	Objectives []Check            `yaml:"objectives"`
	Invariants []Check            `yaml:"invariants"`
	Unfixed    *Unfixed           `yaml:"unfixed"`
	Triggers   Ordered[Trigger]   `yaml:"triggers"`
	Causes     Ordered[Cause]     `yaml:"causes"`
	Combine    []string           `yaml:"combine"` // causes of which every combination is taken away: the outage needs all of them
	Sweeps     Ordered[Sweep]     `yaml:"sweeps"`
	Fixes      Ordered[Fix]       `yaml:"fixes"`
	Class      *ClassTest         `yaml:"class"`  // how the kind of outage is found out
	Ladder     *Ladder            `yaml:"ladder"` // load that rises step by step
	Alerts     *Alerts            `yaml:"alerts"`
	Charts     []Chart            `yaml:"charts"` // what a report draws

	rules       *samples.Rules           // of Alerts
	files       map[string][]byte        // all files read, by their path in a record's incident folder
	topologies  map[string]loadedOverlay // by overlay set
	topologyFS  fs.FS
	topologyDir string
}

type loadedOverlay struct {
	topology *topologies.Topology
	err      error
}

// Source is where an incident is documented.
type Source struct {
	Publisher string `yaml:"publisher" json:"publisher"`
	Date      string `yaml:"date" json:"date"` // of the incident, 2018-02-04
	Document  string `yaml:"document" json:"document"`
	URL       string `yaml:"url" json:"url"`
}

// Scale sets the documented size beside the one played.
type Scale struct {
	Documented string `yaml:"documented" json:"documented"`
	Here       string `yaml:"here" json:"here"`
}

// Phase is a named stretch of every arm's timeline.
type Phase struct {
	Name  string        `yaml:"name"`
	Lasts time.Duration `yaml:"lasts"`
	// Settle is the time at the phase's start that checks leave out, since the
	// system is still on its way. Half a second where the file is silent.
	Settle  *time.Duration `yaml:"settle"`
	Faults  []string       `yaml:"faults"`
	Traffic Traffic        `yaml:"traffic"` // in place of the incident's, per operation
	// times is what its traffic is multiplied by, in a step that a ladder makes; 0 for
	// once.
	times float64
}

const defaultSettle = 500 * time.Millisecond

func (p Phase) settle() time.Duration {
	if p.Settle != nil {
		return *p.Settle
	}
	return defaultSettle
}

func (p Phase) factor() float64 {
	if p.times == 0 {
		return 1
	}
	return p.times
}

// Traffic is what players ask for: node, operation, rate per second.
type Traffic map[string]map[string]Rate

// FaultSpec is a fault as the file states it.
type FaultSpec struct {
	Kind  string
	Says  string
	Fault faults.Fault
	Text  string // the parameters as written, for plans and reports
	node  ast.Node
}

// Check is a symptom, an objective or an invariant: a PromQL comparison over
// what was measured.
type Check struct {
	ID     string         `yaml:"id"`
	Says   string         `yaml:"says"`
	Fact   string         `yaml:"fact"` // the documented statement, with its figure
	During Names          `yaml:"during"`
	Query  string         `yaml:"query"`
	Holds  Holds          `yaml:"holds"`
	Settle *time.Duration `yaml:"settle"` // in place of the phases' own
	query  *samples.Query
}

// settleIn is how long of a phase the check leaves out.
func (c Check) settleIn(p Phase) time.Duration {
	if c.Settle != nil {
		return *c.Settle
	}
	return p.settle()
}

// Unfixed is what was wrong from the start, where no fault brings it about: a load
// rehearsal has nothing that triggers it. Every arm but healthy has this change, before
// its own ones, so that a fix takes back its part of it.
type Unfixed struct {
	Says   string `yaml:"says"`
	Change Change `yaml:"change"`
}

// Change is the one mechanism behind triggers, causes, fixes and challenges.
type Change struct {
	Overlays []string          `yaml:"overlays"` // of the topology, applied in order
	Remove   []string          `yaml:"remove"`   // faults that do not happen
	Replace  map[string]string `yaml:"replace"`  // fault -> the fault that happens in its place
	Add      map[string]Names  `yaml:"add"`      // phase -> faults that happen as well
	Traffic  Traffic           `yaml:"traffic"`  // in place of the incident's, in every phase
	// Load is what all rates are multiplied by, in every phase and after traffic was
	// put in their place: 0.5 for half as many players.
	Load *float64 `yaml:"load"`
}

// Trigger is another way into the same outage than the one in the phases.
type Trigger struct {
	Says   string `yaml:"says"`
	Change Change `yaml:"change"`
	Lacks  Names  `yaml:"lacks"` // symptoms of the documented trigger that this one does not show
}

// Promise says how the checks come out in an arm. Checks that no list names are
// shown without an expectation.
type Promise struct {
	Restores Names `yaml:"restores"` // objectives that hold
	Cures    Names `yaml:"cures"`    // symptoms that are not seen
	Leaves   Names `yaml:"leaves"`   // objectives that still fail, symptoms that are still seen
	Breaks   Names `yaml:"breaks"`   // invariants and objectives that must be seen not to hold: what the arm is there to show
	Class    Names `yaml:"class"`    // kinds of outage, any of which it may be; not looked at where none is named
}

// empty says whether nothing is said of any check.
func (p Promise) empty() bool {
	return len(p.Restores)+len(p.Cures)+len(p.Leaves)+len(p.Breaks) == 0
}

// Cause is a contributing factor that can be taken away.
type Cause struct {
	Says      string `yaml:"says"`
	Without   Change `yaml:"without"`
	Necessary bool   `yaml:"necessary"` // without it there is no outage
	Promise   `yaml:",inline"`
}

// Fix is a change that the source documents or that its lesson suggests.
type Fix struct {
	Says       string `yaml:"says"`
	Documented bool   `yaml:"documented"`
	Change     Change `yaml:"change"`
	Promise    `yaml:",inline"`
	On         Ordered[Promise]   `yaml:"on"` // trigger -> how the fix comes out under it
	Challenges Ordered[Challenge] `yaml:"challenges"`
}

// Challenge is a further fault thrown at a fix.
type Challenge struct {
	Says    string `yaml:"says"`
	Change  Change `yaml:"change"`
	Promise `yaml:",inline"`
	Holds   Names `yaml:"holds"` // objectives that hold and symptoms that stay cured, in one list
}

// Sweep plays the incident at several sizes of one of its parts, to show where
// it turns into an outage.
type Sweep struct {
	Says  string `yaml:"says"`
	Steps []Step `yaml:"steps"`
}

// Step is one size; its arm is SWEEP-STEP.
type Step struct {
	Name   string `yaml:"name"`
	Says   string `yaml:"says"`
	Change Change `yaml:"change"` // none at the documented size
	Outage *bool  `yaml:"outage"` // every symptom and a failing objective as documented; otherwise every objective holds, and of symptoms nothing is said
	Class  Names  `yaml:"class"`  // as in a Promise
}

// ClassTest says how the kind of an outage is found out: what is measured, and
// in which phases the trigger comes and goes. See [Classify].
type ClassTest struct {
	Goodput  string `yaml:"goodput"`  // PromQL that gives one series, per second: what players got of what they asked for
	Offered  string `yaml:"offered"`  // the same of what they asked for, each request once; without an outage all of it can be answered
	Attempts string `yaml:"attempts"` // the same with what was sent again
	Latency  string `yaml:"latency"`  // seconds, the 99th percentile
	Baseline string `yaml:"baseline"` // phase before the trigger
	Trigger  string `yaml:"trigger"`  // phase of the trigger
	Wait     string `yaml:"wait"`     // phase after it: the trigger is gone, the load is the baseline's
	Push     string `yaml:"push"`     // phase in which the load is cut to near nothing
	Again    string `yaml:"again"`    // phase in which the load is back
	// ClientTimeout is how long a client waits for an answer: a wait shorter than
	// ten of them shows nothing, and neither does load that is back for less.
	ClientTimeout time.Duration `yaml:"client_timeout"`
	WaitAtLeast   *ShortWait    `yaml:"wait_at_least"`
	Unfixed       Names         `yaml:"unfixed"` // kinds of outage, any of which the documented one must be
}

// ShortWait allows a shorter wait than the procedure asks for, and says why that
// is long enough here.
type ShortWait struct {
	Lasts  time.Duration `yaml:"lasts"`
	Reason string        `yaml:"reason"`
}

// Alerts are ordinary Prometheus rules, and when they should fire.
type Alerts struct {
	Rules  string  `yaml:"rules"`  // file beside the incident file
	Fire   []Fires `yaml:"fire"`   // un-fixed
	Silent Names   `yaml:"silent"` // phases of the un-fixed arm in which none fires; the healthy arm is silent throughout
}

// Fires says that an alert fires during a phase of the un-fixed arm.
type Fires struct {
	Alert  string        `yaml:"alert"`
	During string        `yaml:"during"`
	Within time.Duration `yaml:"within"` // of the phase's start
}

// Chart is a quantity that a report draws over time, arm beside arm.
type Chart struct {
	Name  string `yaml:"name"`
	Unit  string `yaml:"unit"`  // "ratio" is drawn as percent
	Step  bool   `yaml:"step"`  // a value holds until the next one, as of a count of nodes
	Query string `yaml:"query"` // PromQL that gives one series
}

// NeedsHosts says whether an arm has nodes on hosts, which not every engine can
// hold: see [topologies.CheckHosts].
func (i *Incident) NeedsHosts() bool {
	for _, loaded := range i.topologies {
		if loaded.topology != nil && len(loaded.topology.Hosts) > 0 {
			return true
		}
	}
	return false
}

// OverlayText is an overlay of the incident's topology as its file writes it.
func (i *Incident) OverlayText(name string) string {
	return string(i.files[path.Join(i.Topology, "overlays", name+".yaml")])
}

// RulesText is the incident's alert rules as their file writes them.
func (i *Incident) RulesText() string {
	if i.Alerts == nil {
		return ""
	}
	return string(i.files[i.Alerts.Rules])
}
