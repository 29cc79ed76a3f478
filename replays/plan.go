package replays

import (
	"fmt"
	"maps"
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
)

// Plan is everything that a play of one arm does and what it should show. It is
// pure data: the same incident, arm and seed give the same plan.
type Plan struct {
	Incident string          `json:"incident"`
	Title    string          `json:"title"`
	Arm      string          `json:"arm"`
	Role     Role            `json:"role"`
	Says     string          `json:"says"`
	Expected string          `json:"expected"` // health, outage, cured, or mixed
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
	nodes    *topologies.Topology
	armable  map[string]faults.Fault
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

// Phase finds a phase by name.
func (p *Plan) Phase(name string) (PlannedPhase, bool) {
	for _, ph := range p.Phases {
		if ph.Name == name {
			return ph, true
		}
	}
	return PlannedPhase{}, false
}

// targetError is a fault whose pattern means nothing in an arm's topology.
type targetError struct {
	fault, field  string
	index         int
	problem, hint string
}

func (e *targetError) Error() string {
	return fmt.Sprintf("fault %s: %s: %s", e.fault, e.problem, e.hint)
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
		Overlays: []string{}, Faults: []PlannedFault{}, Proxied: []string{}, Stopped: []string{},
		Alerts: []PlannedAlert{}, Surges: []PlannedSurge{}, armable: map[string]faults.Fault{},
	}
	for _, c := range a.changes {
		for _, o := range c.Overlays {
			if !slices.Contains(p.Overlays, o) {
				p.Overlays = append(p.Overlays, o)
			}
		}
	}
	if p.nodes, err = i.topologyWith(p.Overlays); err != nil {
		return nil, fmt.Errorf("arm %s: %w", arm, err)
	}
	i.planPhases(p, a)
	if err := i.planFaults(p, a); err != nil {
		return nil, err
	}
	if err := i.planLinks(p); err != nil {
		return nil, err
	}
	i.planChecks(p, a)
	i.planAlerts(p)
	return p, nil
}

func (i *Incident) planPhases(p *Plan, a armSpec) {
	start := 0.0
	for _, ph := range i.Phases {
		rates := map[string]map[string]float64{}
		layers := []Traffic{i.Traffic, ph.Traffic}
		for _, c := range a.changes {
			layers = append(layers, c.Traffic)
		}
		for _, layer := range layers {
			for node, ops := range layer {
				if rates[node] == nil {
					rates[node] = map[string]float64{}
				}
				for op, rate := range ops {
					rates[node][op] = float64(rate)
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

// planFaults decides which faults are held when. A fault that neighbouring
// phases list is held through, not undone and injected again between them.
func (i *Incident) planFaults(p *Plan, a armSpec) error {
	conditions := slices.Clone(i.Conditions)
	phases := map[string][]string{}
	for _, ph := range i.Phases {
		if a.role != RoleHealthy {
			phases[ph.Name] = slices.Clone(ph.Faults)
		}
	}
	for _, c := range a.changes {
		for _, name := range c.Remove {
			gone := func(f string) bool { return f == name }
			conditions = slices.DeleteFunc(conditions, gone)
			for ph := range phases {
				phases[ph] = slices.DeleteFunc(phases[ph], gone)
			}
		}
		for from, to := range c.Replace {
			swap := func(list []string) {
				if k := slices.Index(list, from); k >= 0 {
					list[k] = to
				}
			}
			swap(conditions)
			for ph := range phases {
				swap(phases[ph])
			}
		}
		for ph, added := range c.Add {
			for _, f := range added {
				if !slices.Contains(phases[ph], f) {
					phases[ph] = append(phases[ph], f)
				}
			}
		}
	}
	add := func(name string, condition bool, start, end float64) error {
		spec, _ := i.Faults.Get(name)
		for n, base := 2, name; p.armable[name] != nil; n++ {
			name = fmt.Sprintf("%s#%d", base, n) // held a second time, after a pause
		}
		p.Faults = append(p.Faults, PlannedFault{name, spec.Kind, spec.Says, condition, start, end, spec.Text})
		p.armable[name] = spec.Fault
		return i.planTargets(p, name, spec, start, end)
	}
	for _, name := range conditions {
		if err := add(name, true, 0, p.Length()); err != nil {
			return err
		}
	}
	for n, ph := range p.Phases {
		for _, name := range phases[ph.Name] {
			if n > 0 && slices.Contains(phases[p.Phases[n-1].Name], name) {
				continue // held since an earlier phase
			}
			last := n
			for last+1 < len(p.Phases) && slices.Contains(phases[p.Phases[last+1].Name], name) {
				last++
			}
			if err := add(name, false, ph.Start, p.Phases[last].End); err != nil {
				return err
			}
		}
	}
	return nil
}

// planTargets checks that a fault's patterns mean something in this arm and
// notes what the validity gates must know of it.
func (i *Incident) planTargets(p *Plan, name string, spec FaultSpec, start, end float64) error {
	if f, ok := spec.Fault.(faults.NodeFault); ok {
		for n, pattern := range f.NodePatterns() {
			nodes := p.nodes.MatchNodes(pattern)
			if len(nodes) == 0 {
				return &targetError{name, "nodes", n, fmt.Sprintf("unknown node %q", pattern), near(pattern, nodeNames(p.nodes))}
			}
			if s, ok := spec.Fault.(faults.Stopper); ok && s.Stops() {
				p.Stopped = append(p.Stopped, nodes...)
			}
		}
	}
	if f, ok := spec.Fault.(faults.LinkFault); ok {
		for n, pattern := range f.LinkPatterns() {
			if len(p.nodes.MatchLinks(pattern)) == 0 {
				return &targetError{name, "links", n, fmt.Sprintf("unknown link %q", pattern), near(pattern, linkNames(p.nodes))}
			}
		}
	}
	if f, ok := spec.Fault.(faults.TrafficFault); ok {
		node, op := f.TrafficTarget()
		target, exists := p.nodes.Node(node)
		if !exists || len(target.Operations) == 0 {
			return &targetError{name, "node", 0, fmt.Sprintf("unknown load generator %q", node), near(node, nodeNames(p.nodes))}
		}
		if !slices.Contains(target.Operations, op) {
			return &targetError{name, "operation", 0, fmt.Sprintf("unknown operation %q", op), near(op, target.Operations)}
		}
		if s, ok := spec.Fault.(interface{ Factor() float64 }); ok {
			p.Surges = append(p.Surges, PlannedSurge{name, node, op, s.Factor(), start, end})
		}
	}
	return nil
}

// planLinks finds the links to proxy: those that any fault of the incident
// names, whether or not this arm holds it, so that arms differ in their changes
// alone and not in their paths.
func (i *Incident) planLinks(p *Plan) error {
	found := map[string]bool{}
	for _, spec := range i.Faults {
		f, ok := spec.Value.Fault.(faults.LinkFault)
		if !ok {
			continue
		}
		for _, pattern := range f.LinkPatterns() {
			for _, l := range p.nodes.MatchLinks(pattern) {
				found[l.String()] = true
			}
		}
	}
	p.Proxied = slices.Sorted(maps.Keys(found))
	return nil
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
			for _, name := range c.During {
				settle := i.phase(name).settle()
				if c.Settle != nil {
					settle = *c.Settle
				}
				planned.Settle[name] = settle.Seconds()
			}
			p.Checks = append(p.Checks, planned)
		}
	}
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

func near(name string, known []string) string {
	if n := topologies.Nearest(name, known); n != "" {
		return fmt.Sprintf("did you mean %s?", n)
	}
	return "there are: " + strings.Join(known, ", ")
}

func nodeNames(t *topologies.Topology) []string {
	out := make([]string, len(t.Nodes))
	for n := range t.Nodes {
		out[n] = t.Nodes[n].Name
	}
	return out
}

func linkNames(t *topologies.Topology) []string {
	out := make([]string, len(t.Links))
	for n, l := range t.Links {
		out[n] = l.String()
	}
	return out
}
