package replays

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"relapse/faults"
	"relapse/topologies"
)

// targetError is a fault whose pattern means nothing in an arm's topology.
type targetError struct {
	fault, field  string
	index         int
	problem, hint string
}

func (e *targetError) Error() string {
	return fmt.Sprintf("fault %s: %s: %s", e.fault, e.problem, e.hint)
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
		conditions = replaced(conditions, c.Replace)
		for ph := range phases {
			phases[ph] = replaced(phases[ph], c.Replace)
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
		if err := i.planTargets(p, name, spec, start, end); err != nil {
			return err
		}
		return planBite(p, p.Faults[len(p.Faults)-1], spec)
	}
	for _, name := range conditions {
		if err := add(name, true, 0, p.Length()); err != nil {
			return err
		}
	}
	for n, ph := range p.Phases {
		for _, name := range phases[ph.Name] {
			if slices.Contains(conditions, name) || n > 0 && slices.Contains(phases[p.Phases[n-1].Name], name) {
				continue // held already
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

// replaced puts faults in the place of others, all at once: what comes in is
// not replaced again, so that two faults can change places.
func replaced(held []string, by map[string]string) []string {
	var out []string
	for _, f := range held {
		if to, ok := by[f]; ok {
			f = to
		}
		if !slices.Contains(out, f) {
			out = append(out, f)
		}
	}
	return out
}

// endangered are the nodes of a host that a fault on it may kill. Its agent is
// none of them: with it dies what it does to the host, and so does the play.
func endangered(t *topologies.Topology, host string) (out []string) {
	for _, name := range t.OnHost(host) {
		if n, _ := t.Node(name); n.Agent == 0 {
			out = append(out, name)
		}
	}
	return out
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
	if f, ok := spec.Fault.(faults.HostFault); ok {
		for n, pattern := range f.HostPatterns() {
			hosts := p.nodes.MatchHosts(pattern)
			if len(hosts) == 0 {
				return &targetError{name, "hosts", n, fmt.Sprintf("unknown host %q", pattern), nearHost(pattern, p.nodes)}
			}
			for _, h := range hosts {
				if lacks := f.Lacks(p.nodes, h); lacks != nil {
					return &targetError{name, "hosts", n, fmt.Sprintf("host %s %s", h.Name, lacks.Problem), lacks.Hint}
				}
				if s, ok := spec.Fault.(faults.Stopper); ok && s.Stops() {
					p.Stopped = append(p.Stopped, endangered(p.nodes, h.Name)...)
				}
			}
		}
	}
	switch f := spec.Fault.(type) {
	case faults.DividingFault:
		if err := planSides(p, name, f); err != nil {
			return err
		}
	case faults.LinkFault:
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
			return &targetError{name, "node", 0, fmt.Sprintf("unknown load generator %q", node), near(node, generators(p.nodes))}
		}
		if r, ok := f.(faults.RedirectingFault); ok {
			if err := planWays(p, name, node, r); err != nil {
				return err
			}
		}
		if op == "" {
			return nil // of no operation, so that no rate changes
		}
		if !slices.Contains(target.Operations, op) {
			return &targetError{name, "operation", 0, fmt.Sprintf("unknown operation %q", op), near(op, target.Operations)}
		}
		p.Surges = append(p.Surges, PlannedSurge{name, node, op, f.TrafficFactor(), start, end})
	}
	if f, ok := spec.Fault.(faults.FrontFault); ok {
		return planFront(p, name, f)
	}
	if f, ok := spec.Fault.(faults.FleetFault); ok {
		return planFleet(p, name, f)
	}
	return nil
}

// planBite refuses a fault that its file and the topology's show never to bite where it
// is held: its play could only come out as unknown.
func planBite(p *Plan, planned PlannedFault, spec FaultSpec) error {
	f, ok := spec.Fault.(faults.ForeseeableFault)
	if !ok {
		return nil
	}
	held := time.Duration((planned.End - planned.Start) * float64(time.Second)).Round(time.Millisecond)
	if never := f.NeverBites(p.nodes, held); never != nil {
		return &targetError{nameOf(planned), never.Field, 0, fmt.Sprintf("fault %s: %s %s", nameOf(planned), never.Field, never.Problem), never.Hint}
	}
	return nil
}

// planWays checks the two nodes of a fault that redirects a generator's load.
// Whether they are its targets only the generator can say, when the fault is armed.
func planWays(p *Plan, name, generator string, f faults.RedirectingFault) error {
	from, to := f.Ways()
	for _, end := range []struct{ field, node string }{{"from", from}, {"to", to}} {
		if err := planLinked(p, name, end.field, generator, end.node, "as a target or spare in its configuration"); err != nil {
			return err
		}
	}
	return nil
}

// planFront checks the two nodes of a fault in how a front spreads requests.
// Whether the second is in one of its routes only the front can say, when the fault
// is armed.
func planFront(p *Plan, name string, f faults.FrontFault) error {
	front, to := f.Front()
	if n, exists := p.nodes.Node(front); !exists || !isFront(n) {
		return &targetError{name, "node", 0, fmt.Sprintf("unknown front %q", front), nearService(front, "front", p.nodes, isFront)}
	}
	return planLinked(p, name, "to", front, to, "in a route of its command or settings")
}

// planFleet checks the node of a fault in what servers a fleet has. Which clusters it
// has the kind asks its command; of one that cannot be read, the fleet says it when the
// fault is armed.
func planFleet(p *Plan, name string, f faults.FleetFault) error {
	fleet := f.Fleet()
	if n, exists := p.nodes.Node(fleet); !exists || !isFleet(n) {
		return &targetError{name, "node", 0, fmt.Sprintf("unknown fleet %q", fleet), nearService(fleet, "fleet", p.nodes, isFleet)}
	}
	return nil
}

func isFront(n *topologies.Node) bool { return n.Front != 0 }

func isFleet(n *topologies.Node) bool { return n.Fleet != 0 }

// planLinked checks that a node which a fault names in a field is there and that a
// client is linked to it; also is where the client must name it as well.
func planLinked(p *Plan, name, field, client, node, also string) error {
	if _, exists := p.nodes.Node(node); !exists {
		return &targetError{name, field, 0, fmt.Sprintf("unknown node %q", node), near(node, nodeNames(p.nodes))}
	}
	var linked []string
	for _, l := range p.nodes.Links {
		if l.Client == client && !slices.Contains(linked, l.Server) {
			linked = append(linked, l.Server)
		}
	}
	if slices.Contains(linked, node) {
		return nil
	}
	hint := "name it under links: of " + client + ", and " + also
	if len(linked) > 0 {
		hint = fmt.Sprintf("it is linked to %s; or %s", strings.Join(linked, ", "), hint)
	}
	return &targetError{name, field, 0, fmt.Sprintf("%s is not linked to %s, so that it sends nothing there", client, node), hint}
}

// planSides checks the two groups of nodes of a fault that divides them.
func planSides(p *Plan, name string, f faults.DividingFault) error {
	var sides [2][]string
	for n, patterns := range f.NodeSides() {
		for _, pattern := range patterns {
			nodes := p.nodes.MatchNodes(pattern)
			if len(nodes) == 0 {
				return &targetError{name, "sides", n, fmt.Sprintf("unknown node %q", pattern), near(pattern, nodeNames(p.nodes))}
			}
			sides[n] = append(sides[n], nodes...)
		}
	}
	for _, node := range sides[1] {
		if slices.Contains(sides[0], node) {
			return &targetError{name, "sides", 1, fmt.Sprintf("node %s is on both sides", node), "write patterns that have no node in common"}
		}
	}
	for _, pattern := range f.LinkPatterns() {
		if len(p.nodes.MatchLinks(pattern)) > 0 {
			return nil
		}
	}
	return &targetError{name, "sides", 0,
		fmt.Sprintf("no link goes between %s and %s", strings.Join(sides[0], ", "), strings.Join(sides[1], ", ")),
		"the topology has " + strings.Join(linkNames(p.nodes), ", ")}
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

func generators(t *topologies.Topology) []string {
	var out []string
	for _, n := range t.Nodes {
		if len(n.Operations) > 0 {
			out = append(out, n.Name)
		}
	}
	return out
}

func nodeNames(t *topologies.Topology) []string {
	out := make([]string, len(t.Nodes))
	for n := range t.Nodes {
		out[n] = t.Nodes[n].Name
	}
	return out
}

// nearHost says which host may be meant.
func nearHost(pattern string, t *topologies.Topology) string {
	if len(t.Hosts) == 0 {
		return "the topology has none: declare it under x-hosts and place services on it with cgroup_parent:"
	}
	names := make([]string, len(t.Hosts))
	for n := range t.Hosts {
		names[n] = t.Hosts[n].Name
	}
	return near(pattern, names)
}

// nearService says which node may be meant of those that take orders as a service of
// our own.
func nearService(name, service string, t *topologies.Topology, is func(*topologies.Node) bool) string {
	var names []string
	for n := range t.Nodes {
		if is(&t.Nodes[n]) {
			names = append(names, t.Nodes[n].Name)
		}
	}
	if len(names) == 0 {
		return fmt.Sprintf(`the topology has none: give the service of image relapse, with command: [service, %s], the label relapse.%[1]s: "9091"`, service)
	}
	return near(name, names)
}

func linkNames(t *topologies.Topology) []string {
	out := make([]string, len(t.Links))
	for n, l := range t.Links {
		out[n] = l.Client + " -> " + l.Server
	}
	return out
}
