package replays

import (
	"fmt"

	"github.com/goccy/go-yaml/ast"
)

// aliasBound is how many nodes the aliases of a file may stand for: far more
// than anybody writes, and few enough that a file of aliases of aliases cannot
// fill the memory.
const aliasBound = 100_000

// anchors puts what YAML's anchors stand for in their aliases' place, and the
// entries of merged mappings into those that merge them (<<). Everything after
// it sees a file without either; a place inside of an alias is the place where
// its anchor is written.
type anchors struct {
	values map[string]ast.Node
	sizes  map[string]int
	size   int // nodes so far, with what aliases stand for
}

func resolveAnchors(root ast.Node) (ast.Node, error) {
	a := &anchors{values: map[string]ast.Node{}, sizes: map[string]int{}}
	return a.resolve(root)
}

func (a *anchors) resolve(node ast.Node) (ast.Node, error) {
	a.size++
	switch n := node.(type) {
	case *ast.AnchorNode:
		before := a.size
		value, err := a.resolve(n.Value)
		if err != nil {
			return nil, err
		}
		name := n.Name.GetToken().Value
		a.values[name], a.sizes[name] = value, a.size-before
		return value, nil
	case *ast.AliasNode:
		name := n.Value.GetToken().Value
		value, ok := a.values[name]
		if !ok {
			return nil, &placedError{n, fmt.Sprintf("no anchor &%s stands before this alias", name), fmt.Sprintf("mark the first use with &%s, or put the text in quotes if it is no alias", name)}
		}
		if a.size += a.sizes[name]; a.size > aliasBound {
			return nil, &placedError{n, fmt.Sprintf("the aliases of this file stand for more than %d values", aliasBound), "write out what is meant"}
		}
		return value, nil
	case *ast.SequenceNode:
		for k, v := range n.Values {
			value, err := a.resolve(v)
			if err != nil {
				return nil, err
			}
			n.Values[k] = value
		}
	case *ast.MappingNode:
		values, err := a.entries(n.Values)
		if err != nil {
			return nil, err
		}
		n.Values = values
	case *ast.MappingValueNode:
		values, err := a.entries([]*ast.MappingValueNode{n})
		if err != nil {
			return nil, err
		}
		if len(values) == 1 {
			return values[0], nil
		}
		return ast.Mapping(n.GetToken(), false, values...), nil
	}
	return node, nil
}

// entries resolves a mapping's values. What it says itself goes before what it
// merges, and what it merges first before what it merges later.
func (a *anchors) entries(values []*ast.MappingValueNode) ([]*ast.MappingValueNode, error) {
	var own []*ast.MappingValueNode
	var merged []ast.Node
	for _, v := range values {
		value, err := a.resolve(v.Value)
		if err != nil {
			return nil, err
		}
		if !v.Key.IsMergeKey() {
			v.Value = value
			own = append(own, v)
			continue
		}
		list := []ast.Node{value}
		if s, ok := value.(*ast.SequenceNode); ok {
			list = s.Values
		}
		merged = append(merged, list...)
	}
	seen := map[string]bool{}
	for _, v := range own {
		seen[v.Key.GetToken().Value] = true
	}
	for _, m := range merged {
		more, err := mappingValues(m)
		if err != nil {
			return nil, &placedError{m, "<< merges what is not a mapping", "write <<: *name of an anchor that marks a mapping"}
		}
		for _, v := range more {
			if name := v.Key.GetToken().Value; !seen[name] {
				seen[name] = true
				own = append(own, v)
			}
		}
	}
	return own, nil
}
