package faults

import (
	"fmt"
	"slices"
	"strings"

	"relapse/topologies"
)

// The groups of kinds: what a fault breaks.
const (
	GroupLink    = "link"
	GroupNode    = "node"
	GroupHost    = "host"
	GroupTraffic = "traffic"
)

var groups = []string{GroupLink, GroupNode, GroupHost, GroupTraffic}

// Kind describes a kind of fault. Its texts make the reference page, and its
// example drives the contract suite, so none of them may be missing.
type Kind struct {
	Name    string // as incident files write it
	Group   string // one of the Group constants
	Summary string // one line
	Doc     string // what it changes, what it leaves alone, what to know before using it
	Seen    string // how it is seen from outside
	Example string // the parameters in yaml, without the kind

	make func() Fault
}

var registry = map[string]Kind{}

// Register makes a kind known. A fault made by new holds the defaults of its
// parameters. It panics on a kind that is incomplete or known already: both are
// mistakes in the kind's own file, seen by the first test that runs.
func Register(k Kind, new func() Fault) {
	if _, known := registry[k.Name]; known {
		panic(fmt.Sprintf("faults: kind %q is registered twice", k.Name))
	}
	for field, text := range map[string]string{
		"name": k.Name, "summary": k.Summary, "doc": k.Doc, "seen": k.Seen, "example": k.Example,
	} {
		if strings.TrimSpace(text) == "" {
			panic(fmt.Sprintf("faults: kind %q has no %s", k.Name, field))
		}
	}
	if !slices.Contains(groups, k.Group) {
		panic(fmt.Sprintf("faults: kind %q is in the unknown group %q", k.Name, k.Group))
	}
	k.make = new
	registry[k.Name] = k
}

// Kinds gives all kinds by group (link, node, host, traffic), then by name.
func Kinds() []Kind {
	out := make([]Kind, 0, len(registry))
	for _, k := range registry {
		out = append(out, k)
	}
	slices.SortFunc(out, func(a, b Kind) int {
		if d := slices.Index(groups, a.Group) - slices.Index(groups, b.Group); d != 0 {
			return d
		}
		return strings.Compare(a.Name, b.Name)
	})
	return out
}

// UnknownKindError is a kind that nobody registered.
type UnknownKindError struct {
	Kind  string
	Known []string
}

func (e *UnknownKindError) Error() string {
	if near := topologies.Nearest(e.Kind, e.Known); near != "" {
		return fmt.Sprintf("unknown fault kind %q: did you mean %s?", e.Kind, near)
	}
	return fmt.Sprintf("unknown fault kind %q: there are %s", e.Kind, strings.Join(e.Known, ", "))
}

func lookup(name string) (Kind, error) {
	k, known := registry[name]
	if known {
		return k, nil
	}
	e := &UnknownKindError{Kind: name}
	for _, k := range Kinds() {
		e.Known = append(e.Known, k.Name)
	}
	return Kind{}, e
}
