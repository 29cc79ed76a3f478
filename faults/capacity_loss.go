package faults

import (
	"context"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"relapse/topologies"
	"relapse/topologies/services/fleet"
)

func init() {
	Register(Kind{
		Name:    "capacity-loss",
		Group:   GroupNode,
		Summary: "A share of the game servers goes away, and comes back as new ones",
		Doc: `A share of the servers of each region goes, to within one server; which ones the fleet's own
seed decides. Those that are free go at once and tell nobody: they stay in the lists that they are
in and refuse every match. Those in a match play it to the end and are not listed again. When the
fault ends, all that are gone by then are added to the fleet: each registers anew, with a node and
after a time that are settings of the fleet (--joins, --join-after). Those that are still in a match
were never gone. A fleet has one loss at a time: leave a phase between two of them.`,
		Seen: `the fleet itself says how many of its servers are ordered away; they are the ordered share, to
within one server. That is seen at once: those in a match count, though they are gone only
when it ends. The metric relapse_servers{state="gone"} has those that are gone. The fault is over
when none is ordered away, whether or not those that were added have joined by then.`,
		Example: `node: fleet
share: 40%`,
	}, func() Fault { return &capacityLoss{} })
}

type capacityLoss struct {
	Node    string  `yaml:"node" doc:"the fleet"`
	Share   Percent `yaml:"share" doc:"of the servers of each region, those in a match too"`
	Cluster string  `yaml:"cluster" doc:"whose servers go; those of all clusters if not given"`
}

func (f *capacityLoss) Validate() error {
	const hint = "write share: 40%"
	switch {
	case f.Node == "":
		return &FieldError{"node", "is missing", "write node: fleet"}
	case f.Share == 0:
		return &FieldError{"share", "is missing or zero", hint}
	case f.Share < 0:
		return &FieldError{"share", fmt.Sprintf("is %s: it cannot be less than none", f.Share), hint}
	case f.Share > 100:
		return &FieldError{"share", fmt.Sprintf("is %s: it cannot be more than all of them", f.Share), "write share: 100% or less"}
	}
	return nil
}

// Fleet gives the fleet's node.
func (f *capacityLoss) Fleet() (node string) { return f.Node }

func (f *capacityLoss) share() float64 { return float64(f.Share) / 100 }

// NeverBites says that the fleet has no such cluster, or that the share comes to no
// server of it, by what its command and settings state, which the fleet's own flags
// read. Of a fleet whose command cannot be read so, the one that runs says it.
func (f *capacityLoss) NeverBites(t *topologies.Topology, _ time.Duration) *FieldError {
	node, _ := t.Node(f.Node)
	if node == nil || node.Image != topologies.OwnImage || len(node.Entrypoint) > 0 ||
		len(node.Command) < 2 || node.Command[0] != "service" || node.Command[1] != "fleet" {
		return nil
	}
	stated, err := fleet.Stated(node.Command[2:], node.ReadFile)
	if err != nil {
		return nil
	}
	clusters := slices.Sorted(maps.Keys(stated))
	var servers topologies.Servers
	for _, name := range clusters {
		if f.Cluster == "" || f.Cluster == name {
			servers.All += stated[name]
		}
	}
	switch {
	case f.Cluster != "" && !slices.Contains(clusters, f.Cluster):
		hint := "it has " + strings.Join(clusters, ", ")
		if near := topologies.Nearest(f.Cluster, clusters); near != "" {
			hint = fmt.Sprintf("did you mean %s?", near)
		}
		return &FieldError{"cluster", fmt.Sprintf("is %s: %s has no cluster of that name", f.Cluster, f.Node), hint}
	case servers.All > 0 && f.ordered(servers) < 1:
		return &FieldError{"share", fmt.Sprintf("is %s: of %d servers that is less than one", f.Share, servers.All),
			fmt.Sprintf("write share: %.4g%% or more", math.Ceil(1e4/float64(servers.All))/100)}
	}
	return nil
}

type armedCapacityLoss struct {
	capacityLoss
	name     string // of the order, by which it is taken back
	instance *topologies.Instance
	fleet    *topologies.Fleet
}

func (f *capacityLoss) Arm(ctx context.Context, sys *topologies.System, rng *rand.Rand) (Armed, error) {
	instance, err := sys.Instance(f.Node)
	if err != nil {
		return nil, err
	}
	fleet, err := sys.Fleet(f.Node)
	if err != nil {
		return nil, err
	}
	servers, err := fleet.Servers(ctx, f.Cluster)
	if err != nil {
		return nil, err
	}
	if f.ordered(servers) < 1 {
		return nil, fmt.Errorf("node %s: %s of its %d servers is less than one: order a larger share", f.Node, f.Share, servers.All)
	}
	return &armedCapacityLoss{*f, fmt.Sprintf("loss-%08x", rng.Uint32()), instance, fleet}, nil
}

// ordered is how many of a fleet's servers the share comes to.
func (f *capacityLoss) ordered(servers topologies.Servers) float64 {
	return f.share() * float64(servers.All)
}

// Inject orders the servers away.
func (a *armedCapacityLoss) Inject(ctx context.Context) error {
	ctx, cancel := settled(ctx)
	defer cancel()
	return a.fleet.Lose(ctx, a.name, a.Cluster, a.share())
}

// InEffect asks the fleet how many are ordered away: as many as the share comes to,
// which is in whole servers.
func (a *armedCapacityLoss) InEffect(ctx context.Context) (bool, error) {
	servers, err := a.fleet.Servers(ctx, a.Cluster)
	if err != nil {
		return false, err
	}
	return float64(servers.Gone+servers.Going) > a.ordered(servers)-1, nil
}

// Undo has the servers added again. A fleet that died has taken the loss along.
func (a *armedCapacityLoss) Undo(ctx context.Context) error {
	err := a.fleet.EndLoss(ctx, a.name)
	if err == nil {
		return nil
	}
	if state, asked := a.instance.State(ctx); asked == nil && !state.Running {
		return nil
	}
	return fmt.Errorf("node %s may still be without %s of its servers: %w", a.Node, a.Share, err)
}
