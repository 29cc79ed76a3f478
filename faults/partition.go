package faults

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path"
	"slices"
	"strings"

	"relapse/topologies"
)

func init() {
	Register(Kind{
		Name:    "partition",
		Group:   GroupLink,
		Summary: "Two groups of nodes cannot reach each other",
		Doc: `The packet filter loses every packet of every link between a node of one side and a node
of the other, whichever of them is the client, as the kind blackhole does. Links within a
side, and links of nodes on neither side, stay as they are. At least one link must cross.`,
		Seen: `as with the kind blackhole, on every link that crosses: a connection over it is not
accepted within 200 ms while one straight to the server is. Where the server itself
accepts none, what the relay reads back decides.`,
		Example: `sides: [[client], [server]]`,
	}, func() Fault { return &partition{} })
}

type partition struct {
	Sides [][]string `yaml:"sides" doc:"node patterns of the two groups, such as [[euw-*], [eune-*]]; each must match a node, and no node may be in both"`
}

func (f *partition) Validate() error {
	const hint = "write sides: [[euw-*], [eune-*]]"
	switch {
	case len(f.Sides) == 0:
		return &FieldError{"sides", "is missing", hint}
	case len(f.Sides) != 2:
		return &FieldError{"sides", fmt.Sprintf("has %d groups of nodes: there must be two", len(f.Sides)), hint}
	}
	for _, side := range f.Sides {
		if len(side) == 0 {
			return &FieldError{"sides", "has a group without nodes", hint}
		}
		for _, p := range side {
			// A link pattern is made of it, where these would mean something else.
			if _, err := path.Match(p, ""); err != nil || p == "" || strings.Contains(p, ":") || strings.Contains(p, "->") {
				return &FieldError{"sides", fmt.Sprintf("has the malformed pattern %q", p), hint}
			}
		}
	}
	return nil
}

// NodeSides gives the patterns of the two groups.
func (f *partition) NodeSides() [2][]string { return [2][]string{f.Sides[0], f.Sides[1]} }

// LinkPatterns gives patterns of all links that may cross, in both directions.
func (f *partition) LinkPatterns() []string {
	var out []string
	for _, a := range f.Sides[0] {
		for _, b := range f.Sides[1] {
			out = append(out, a+" -> "+b, b+" -> "+a)
		}
	}
	return out
}

func (f *partition) Arm(ctx context.Context, sys *topologies.System, rng *rand.Rand) (Armed, error) {
	t := sys.Topology()
	var nodes [2][]string
	for n, side := range f.NodeSides() {
		for _, pattern := range side {
			matched := t.MatchNodes(pattern)
			if len(matched) == 0 {
				return nil, fmt.Errorf("sides: %q matches no node of topology %s", pattern, t.Name)
			}
			nodes[n] = append(nodes[n], matched...)
		}
	}
	for _, name := range nodes[0] {
		if slices.Contains(nodes[1], name) {
			return nil, fmt.Errorf("sides: node %s is on both of them", name)
		}
	}
	var links []topologies.Link
	for _, pattern := range f.LinkPatterns() {
		links = append(links, t.MatchLinks(pattern)...)
	}
	if len(links) == 0 {
		return nil, fmt.Errorf("sides: no link of topology %s goes between %s and %s; it has %s",
			t.Name, strings.Join(nodes[0], ", "), strings.Join(nodes[1], ", "), linkNames(t.Links))
	}
	a, name, err := armLinks(sys, links, "partition", rng)
	if err != nil {
		return nil, err
	}
	if err := a.vanish(ctx, name); err != nil {
		return nil, err
	}
	return a, nil
}
