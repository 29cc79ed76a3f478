package replays

import (
	"fmt"
	"slices"
	"strings"

	"relapse/faults"
	"relapse/topologies"
)

// Role is what an arm is there to show.
type Role string

// The roles of arms.
const (
	RoleHealthy   Role = "healthy"   // no trigger: objectives hold, symptoms are not seen
	RoleUnfixed   Role = "unfixed"   // the incident: symptoms are seen, an objective fails
	RoleCause     Role = "cause"     // a cause taken away
	RoleFix       Role = "fix"       // a fix, as documented or under another trigger
	RoleChallenge Role = "challenge" // a fix with a further fault thrown at it
	RoleSweep     Role = "sweep"     // the incident at another size of one of its parts
)

// What arms are expected to be.
const (
	expectedHealth   = "health"    // nothing triggers it
	expectedOutage   = "outage"    // as documented
	expectedNoOutage = "no outage" // every objective holds, and of symptoms nothing is said
	expectedCured    = "cured"     // what is promised holds, and nothing is left
	expectedMixed    = "mixed"     // something is left
)

// Plan is everything that a play of one arm does and what it should show. It is
// pure data: the same incident, arm and seed give the same plan.
type Plan struct {
	Incident string          `json:"incident"`
	Title    string          `json:"title"`
	Arm      string          `json:"arm"`
	Role     Role            `json:"role"`
	Says     string          `json:"says"`
	Expected string          `json:"expected"` // health, outage, no outage, cured, or mixed
	Seed     uint64          `json:"seed"`
	Topology string          `json:"topology"`
	Overlays []string        `json:"overlays"`
	Speed    float64         `json:"speed"`
	Phases   []PlannedPhase  `json:"phases"`
	Faults   []PlannedFault  `json:"faults"`
	Proxied  []string        `json:"proxied"` // links with a proxy: the same ones in every arm where they exist
	Checks   []PlannedCheck  `json:"checks"`
	Alerts   []PlannedAlert  `json:"alerts"`
	Rules    string          `json:"rules,omitempty"` // file of the alert rules, beside the incident file
	Stopped  []string        `json:"stopped"`         // nodes that a fault of this plan stops from answering
	Surges   []PlannedSurge  `json:"surges"`          // what faults add to the traffic of the phases
	Load     []PlannedSource `json:"load"`            // load generators
	Measured []string        `json:"measured"`        // nodes that are asked for figures of their own, and hosts
	nodes    *topologies.Topology
	armable  map[string]faults.Fault

	Combination *PlannedCombination `json:"combination,omitempty"` // which of the causes combined are there
	Step        *PlannedStep        `json:"step,omitempty"`        // of a sweep
	Class       *PlannedClass       `json:"class,omitempty"`       // how the kind of outage is found out
	Ladder      *PlannedLadder      `json:"ladder,omitempty"`      // the load rehearsal
}

// PlannedPhase is a phase with its place in the play, in seconds since the
// first phase begins.
type PlannedPhase struct {
	Name    string                        `json:"name"`
	Start   float64                       `json:"start"`
	End     float64                       `json:"end"`
	Settle  float64                       `json:"settle"`
	Traffic map[string]map[string]float64 `json:"traffic"` // node, operation, arrivals per second
}

// PlannedFault is a fault held from Start to End, in seconds. Names are unique
// in a plan. A condition is held from before the first phase until after the
// last.
type PlannedFault struct {
	Name       string  `json:"name"`
	Kind       string  `json:"kind"`
	Says       string  `json:"says,omitempty"`
	Condition  bool    `json:"condition,omitempty"`
	Start      float64 `json:"start"`
	End        float64 `json:"end"`
	Parameters string  `json:"parameters"` // as the incident file writes them
}

// PlannedCheck is a check with the phases in which it is read and what this arm
// should show: true, false, or null where the arm promises nothing.
type PlannedCheck struct {
	ID       string             `json:"id"`
	Kind     string             `json:"kind"`
	Says     string             `json:"says"`
	Fact     string             `json:"fact,omitempty"`
	During   []string           `json:"during"`
	Query    string             `json:"query"`
	Holds    string             `json:"holds"`
	Within   float64            `json:"within,omitempty"` // seconds, for eventually
	Settle   map[string]float64 `json:"settle"`           // phase -> seconds left out
	Expected *bool              `json:"expected"`
}

// PlannedCombination says which of the causes that an outage needs together are
// there in an arm.
type PlannedCombination struct {
	On []string `json:"on"`
	Of []string `json:"of"`
}

// PlannedStep is an arm's place in a sweep, and whether it should be an outage
// there.
type PlannedStep struct {
	Sweep  string `json:"sweep"`
	Step   string `json:"step"`
	Outage bool   `json:"outage"`
}

// PlannedClass says what tells the kind of an outage: PromQL without $phase, and
// the names of phases. Attempts, latency, push and again may be missing.
type PlannedClass struct {
	Goodput     string   `json:"goodput"`
	Offered     string   `json:"offered"`
	Attempts    string   `json:"attempts,omitempty"`
	Latency     string   `json:"latency,omitempty"`
	Baseline    string   `json:"baseline"`
	Trigger     string   `json:"trigger"`
	Wait        string   `json:"wait"`
	Push        string   `json:"push,omitempty"`
	Again       string   `json:"again,omitempty"`
	WaitAtLeast float64  `json:"wait_at_least"`         // seconds
	WaitReason  string   `json:"wait_reason,omitempty"` // why less than the procedure asks for is enough
	Expected    []string `json:"expected"`              // any of these kinds; none where the arm says nothing
}

// PlannedAlert is an alert that should fire, or should not.
type PlannedAlert struct {
	Alert    string  `json:"alert"`
	During   string  `json:"during"`
	Within   float64 `json:"within,omitempty"` // seconds after the phase's start
	Expected *bool   `json:"expected"`
}

// PlannedSurge is a fault in what players ask for.
type PlannedSurge struct {
	Fault     string  `json:"fault"`
	Node      string  `json:"node"`
	Operation string  `json:"operation"`
	Times     float64 `json:"times"`
	Start     float64 `json:"start"`
	End       float64 `json:"end"`
}

// PlannedSource is a load generator of the topology.
type PlannedSource struct {
	Node       string   `json:"node"`
	Operations []string `json:"operations"`
}

// Length is the sum of the phases, in seconds.
func (p *Plan) Length() float64 {
	if len(p.Phases) == 0 {
		return 0
	}
	return p.Phases[len(p.Phases)-1].End
}

// surge is what faults multiply an operation's rate by over a whole phase.
func (p *Plan) surge(node, op string, phase PlannedPhase) float64 {
	factor := 1.0
	for _, s := range p.Surges {
		if s.Node == node && s.Operation == op && s.Start <= phase.Start && s.End >= phase.End {
			factor *= s.Times
		}
	}
	return factor
}

// arrivals is what faults multiply all arrivals of an operation by over a whole
// phase. A factor below one takes none of them away: it is the share that the
// operation still counts, and the others are counted as malformed ones.
func (p *Plan) arrivals(node, op string, phase PlannedPhase) float64 {
	factor := 1.0
	for _, s := range p.Surges {
		if s.Node == node && s.Operation == op && s.Start <= phase.Start && s.End >= phase.End {
			factor *= max(1, s.Times)
		}
	}
	return factor
}

// asked is what a phase asks for, with what faults add to it, by node and
// operation, per second.
func (p *Plan) asked(phase PlannedPhase) map[string]float64 {
	out := map[string]float64{}
	for node, rates := range phase.Traffic {
		for op, rate := range rates {
			out[node+" "+op] = rate * p.surge(node, op, phase)
		}
	}
	return out
}

// Phase finds a phase by name.
func (p *Plan) Phase(name string) (PlannedPhase, bool) {
	for _, ph := range p.Phases {
		if ph.Name == name {
			return ph, true
		}
	}
	return PlannedPhase{}, false
}

// Plan makes the plan of one arm; see [Incident.Arms] for the names.
func (i *Incident) Plan(arm string, seed uint64) (*Plan, error) {
	a, err := i.arm(arm)
	if err != nil {
		return nil, err
	}
	p := &Plan{
		Incident: i.Name, Title: i.Title, Arm: arm, Role: a.role, Says: a.says, Expected: a.expected,
		Seed: seed, Topology: i.Topology, Speed: i.Speed,
		Overlays: i.overlays(a), Faults: []PlannedFault{}, Proxied: []string{}, Stopped: []string{},
		Alerts: []PlannedAlert{}, Surges: []PlannedSurge{}, armable: map[string]faults.Fault{},
		Combination: a.combines, Step: a.step, Class: i.planClass(a),
	}
	if p.nodes, err = i.topologyWith(p.Overlays); err != nil {
		return nil, fmt.Errorf("arm %s: %w", arm, err)
	}
	p.Measured = measuredOf(p.nodes)
	i.planPhases(p, a)
	if err := i.planFaults(p, a); err != nil {
		return nil, err
	}
	if err := planOverlaps(p); err != nil {
		return nil, err
	}
	if err := i.planLinks(p); err != nil {
		return nil, err
	}
	i.planChecks(p, a)
	i.planAlerts(p)
	if err := i.planLadder(p); err != nil {
		return nil, err
	}
	return p, nil
}

// measuredOf are the nodes and the hosts that measuring asks, but for links, which
// follow from Proxied.
func measuredOf(t *topologies.Topology) []string {
	out := []string{}
	for _, n := range t.Nodes {
		if n.Metrics != nil {
			out = append(out, n.Name)
		}
	}
	for _, h := range t.Hosts {
		out = append(out, h.Name)
	}
	return out
}

func (i *Incident) planPhases(p *Plan, a armSpec) {
	start := 0.0
	for _, ph := range i.Phases {
		rates := map[string]map[string]float64{}
		layers, load := []Traffic{i.Traffic, ph.Traffic}, ph.factor()
		for _, c := range a.changes {
			layers = append(layers, c.Traffic)
			if c.Load != nil {
				load *= *c.Load
			}
		}
		for _, layer := range layers {
			for node, ops := range layer {
				if rates[node] == nil {
					rates[node] = map[string]float64{}
				}
				for op, rate := range ops {
					rates[node][op] = float64(rate) * load
				}
			}
		}
		end := start + ph.Lasts.Seconds()
		p.Phases = append(p.Phases, PlannedPhase{ph.Name, start, end, ph.settle().Seconds(), rates})
		start = end
	}
	for _, n := range p.nodes.Nodes {
		if len(n.Operations) > 0 {
			p.Load = append(p.Load, PlannedSource{n.Name, n.Operations})
		}
	}
}

func (i *Incident) planChecks(p *Plan, a armSpec) {
	for _, group := range []struct {
		kind   string
		checks []Check
	}{{KindSymptom, i.Symptoms}, {KindObjective, i.Objectives}, {KindInvariant, i.Invariants}} {
		for _, c := range group.checks {
			planned := PlannedCheck{
				ID: c.ID, Kind: group.kind, Says: c.Says, Fact: c.Fact, During: c.During, Query: strings.TrimSpace(c.Query),
				Holds: c.Holds.Mode, Within: c.Holds.Within.Seconds(), Settle: map[string]float64{}, Expected: a.expects(group.kind, c.ID),
			}
			if planned.Holds == "" {
				planned.Holds = HoldsOver
			}
			for _, name := range slices.Concat(c.During, i.stepsOf(c)) {
				planned.Settle[name] = c.settleIn(i.phase(name)).Seconds()
			}
			p.Checks = append(p.Checks, planned)
		}
	}
}

// planClass says how the kind of outage is found out; every arm is looked at, and
// held to the kinds that it names.
func (i *Incident) planClass(a armSpec) *PlannedClass {
	c := i.Class
	if c == nil {
		return nil
	}
	p := &PlannedClass{
		Goodput: strings.TrimSpace(c.Goodput), Offered: strings.TrimSpace(c.Offered),
		Attempts: strings.TrimSpace(c.Attempts), Latency: strings.TrimSpace(c.Latency),
		Baseline: c.Baseline, Trigger: c.Trigger, Wait: c.Wait, Push: c.Push, Again: c.Again,
		WaitAtLeast: c.WaitFor().Seconds(), Expected: append([]string{}, a.class...),
	}
	if c.WaitAtLeast != nil {
		p.WaitReason = c.WaitAtLeast.Reason
	}
	return p
}

// planAlerts asks for alerts where the incident is played as documented and for
// silence where nothing is wrong. Other arms show what fired, and no more.
func (i *Incident) planAlerts(p *Plan) {
	if i.Alerts == nil {
		return
	}
	p.Rules = i.Alerts.Rules
	yes, no := true, false
	for _, f := range i.Alerts.Fire {
		planned := PlannedAlert{f.Alert, f.During, f.Within.Seconds(), nil}
		switch p.Role {
		case RoleUnfixed:
			planned.Expected = &yes
		case RoleHealthy:
			planned.Expected = &no
		}
		p.Alerts = append(p.Alerts, planned)
	}
	for _, phase := range i.Alerts.Silent {
		for _, alert := range i.rules.Alerts() {
			planned := PlannedAlert{alert, phase, 0, nil}
			if p.Role == RoleUnfixed || p.Role == RoleHealthy {
				planned.Expected = &no
			}
			p.Alerts = append(p.Alerts, planned)
		}
	}
}

// proxied gives the links that get a proxy.
func (p *Plan) proxied() []topologies.Link {
	var out []topologies.Link
	for _, l := range p.nodes.Links {
		if slices.Contains(p.Proxied, l.String()) {
			out = append(out, l)
		}
	}
	return out
}
