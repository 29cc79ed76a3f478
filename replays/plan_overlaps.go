package replays

import (
	"fmt"
	"slices"
	"strings"

	"relapse/faults"
)

// claim is a part of the system that a fault has for itself while it is held.
type claim struct {
	what, name string // node, store
	field      string // of the fault, that names it
	index      int
	// shared is what another fault may name as well, but not have for itself.
	shared bool
}

// planOverlaps refuses faults that are held on one target at once and undo each
// other. The one that is undone first takes the other one's effect away, or gives
// back what that one had changed, and neither can be told from the other from
// outside. One that begins as the other ends is no better: whether it is injected
// before or after the undoing is chance.
func planOverlaps(p *Plan) error {
	for n, f := range p.Faults {
		if err := planStopped(p, f); err != nil {
			return err
		}
		for _, other := range p.Faults[:n] {
			if f.Start > other.End || other.Start > f.End {
				continue
			}
			claimed, hint := claims, "the first of them that is undone undoes the other: leave a phase between them, or make one fault of them"
			if f.Kind != other.Kind {
				claimed, hint = takesDown, "undoing one of them brings back what the other one took down: leave a phase between them, or leave one out"
			}
			if c, found := clashing(claimed(p, f), claimed(p, other)); found {
				return &targetError{nameOf(f), c.field, c.index, fmt.Sprintf("faults %s and %s are both held on %s %s, from %gs to %gs and from %gs to %gs",
					described(other), described(f), c.what, c.name, other.Start, other.End, f.Start, f.End), hint}
			}
		}
	}
	return nil
}

// planStopped refuses a fault that stops a load generator while it has something
// to send, or is told what to send next: no play of it is ever complete.
func planStopped(p *Plan, f PlannedFault) error {
	for _, c := range takesDown(p, f) {
		for _, phase := range p.Phases {
			if len(phase.Traffic[c.name]) > 0 && phase.Start <= f.End && phase.End > f.Start {
				return &targetError{nameOf(f), c.field, c.index, fmt.Sprintf("fault %s stops the load generator %s, which has traffic in phase %s", described(f), c.name, phase.Name),
					"what is not asked for is no load: break what answers, or give the generator no traffic"}
			}
		}
	}
	return nil
}

// clashing finds what two faults would both have for themselves, by the claim of
// the first.
func clashing(a, b []claim) (claim, bool) {
	for _, x := range a {
		if slices.ContainsFunc(b, func(y claim) bool { return x.what == y.what && x.name == y.name && !(x.shared && y.shared) }) {
			return x, true
		}
	}
	return claim{}, false
}

// claims are what a fault has for itself among those of its kind. Links are not
// among them: each fault adds something of its own at the relay, and takes away
// that and nothing else. Neither are operations that are asked for more often:
// factors multiply.
func claims(p *Plan, planned PlannedFault) []claim {
	f := p.armable[planned.Name]
	out := nodeClaims(p, f)
	if hosts, ok := f.(faults.HostFault); ok {
		for n, pattern := range hosts.HostPatterns() {
			for _, h := range p.nodes.MatchHosts(pattern) {
				out = append(out, claim{what: "host", name: h.Name, field: "hosts", index: n})
			}
		}
	}
	if front, ok := f.(faults.FrontFault); ok {
		node, to := front.Front()
		out = append(out, claim{what: "what " + node + " sends to", name: to, field: "to"})
	}
	if fleet, ok := f.(faults.FleetFault); ok {
		out = append(out, claim{what: "fleet", name: fleet.Fleet(), field: "node"})
	}
	traffic, ok := f.(faults.TrafficFault)
	if !ok {
		return out
	}
	node, op := traffic.TrafficTarget()
	switch r, redirects := f.(faults.RedirectingFault); {
	case redirects:
		// To one node load may be led from several, but not on from there.
		from, to := r.Ways()
		out = append(out, claim{what: "what " + node + " sends to", name: from, field: "from"},
			claim{what: "what " + node + " sends to", name: to, field: "to", shared: true})
	case op == "":
		out = append(out, claim{what: "load generator", name: node, field: "node"})
	case traffic.TrafficFactor() <= 1:
		out = append(out, claim{what: "operation", name: op + " of " + node, field: "operation"})
	}
	return out
}

// takesDown are the nodes that a fault stops by its own act, and brings back when
// it is undone. A kind that hosts can have as well is none of these: it takes away
// what nodes may die for want of, and starts none of them.
func takesDown(p *Plan, planned PlannedFault) []claim {
	f := p.armable[planned.Name]
	stopper, ok := f.(faults.Stopper)
	if _, hosts := f.(faults.HostFault); hosts || !ok || !stopper.Stops() {
		return nil
	}
	return nodeClaims(p, f)
}

func nodeClaims(p *Plan, f faults.Fault) (out []claim) {
	nodes, ok := f.(faults.NodeFault)
	if !ok {
		return nil
	}
	for n, pattern := range nodes.NodePatterns() {
		for _, node := range p.nodes.MatchNodes(pattern) {
			out = append(out, claim{what: "node", name: node, field: "nodes", index: n})
		}
	}
	return out
}

// nameOf is a fault's name in the file: one that is held again after a pause has a
// number in the plan.
func nameOf(f PlannedFault) string {
	name, _, _ := strings.Cut(f.Name, "#")
	return name
}

func described(f PlannedFault) string { return fmt.Sprintf("%s (%s)", nameOf(f), f.Kind) }
