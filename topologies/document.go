package topologies

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// document is one parsed compose file. compose-go reads the same bytes and
// decides what they mean; the tree kept here serves to say where things stand,
// which compose-go does not.
type document struct {
	file    string
	src     []byte
	root    ast.Node
	anchors map[string]ast.Node
}

func parseDocument(file string, src []byte) (*document, error) {
	if i := bytes.IndexFunc(src, func(r rune) bool { return r == utf8.RuneError }); i >= 0 {
		before := src[:i]
		line, column := bytes.Count(before, []byte("\n"))+1, utf8.RuneCount(before[bytes.LastIndexByte(before, '\n')+1:])+1
		return nil, NewFileError(file, src, line, column, "this is not UTF-8 text", "save the file as UTF-8")
	}
	parsed, err := parser.ParseBytes(src, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		return nil, YAMLError(file, src, err)
	}
	d := &document{file: file, src: src, anchors: map[string]ast.Node{}}
	for _, doc := range parsed.Docs {
		if doc.Body == nil {
			continue
		}
		if d.root != nil {
			return nil, d.fail(doc.Body, "a second yaml document begins here", "one compose file is one document: use an overlay")
		}
		d.root = doc.Body
	}
	if d.root == nil {
		return nil, NewFileError(file, src, 0, 0, "the file is empty", "a compose file begins with services:")
	}
	var first *FileError
	keep := func(err *FileError) {
		if first == nil {
			first = err
		}
	}
	ast.Walk(visitor(func(n ast.Node) {
		if first != nil {
			return
		}
		switch n := n.(type) {
		case *ast.MappingNode:
			lines := map[string]int{}
			for _, kv := range n.Values {
				key := keyText(kv.Key)
				if line, twice := lines[key]; twice && !kv.Key.IsMergeKey() {
					keep(d.fail(kv.Key, fmt.Sprintf("key %q is already set on line %d", key, line), "keep one of the two"))
				}
				lines[key], _ = position(kv.Key)
			}
		case *ast.AnchorNode:
			name := n.Name.GetToken().Value
			d.anchors[name] = n.Value
			// compose-go does not come back from an anchor that contains itself.
			ast.Walk(visitor(func(inner ast.Node) {
				if alias, ok := inner.(*ast.AliasNode); ok && alias.Value.GetToken().Value == name {
					keep(d.fail(alias, fmt.Sprintf("alias *%s stands inside its own anchor", name), "a value cannot contain itself"))
				}
			}), n.Value)
		case *ast.TagNode:
			// compose-go passes over one that it does not know.
			if tag := n.Start.Value; !slices.Contains(knownTags, tag) {
				keep(d.fail(n, fmt.Sprintf("unknown tag %s", tag), suggest(tag, knownTags)))
			}
		case *ast.AliasNode:
			// An anchor stands before its aliases, so it is known by now.
			if name := n.Value.GetToken().Value; d.anchors[name] == nil {
				keep(d.fail(n, fmt.Sprintf("alias *%s has no anchor before it", name), suggest(name, slices.Collect(maps.Keys(d.anchors)))))
			}
		}
	}), d.root)
	if first != nil {
		return nil, first
	}
	x := expansion{sizes: map[string]int{}}
	if x.walk(d.root); x.over != nil {
		return nil, d.fail(x.over, fmt.Sprintf("the aliases of this file stand for more than %d values", aliasBound), "write out what is meant")
	}
	return d, nil
}

// knownTags are those that mean something: compose-go's own, and the types of yaml.
var knownTags = []string{"!reset", "!override", "!!str", "!!int", "!!float", "!!bool", "!!null", "!!map", "!!seq"}

// aliasBound is how many values the aliases of a file may stand for: far more than
// anybody writes, and few enough that a file of aliases of aliases is refused before
// anything writes it out.
const aliasBound = 10_000

// expansion counts what a file's aliases stand for.
type expansion struct {
	sizes   map[string]int // of the anchors so far, aliases written out
	size    int            // values so far
	aliases int            // those that come by an alias
	over    *ast.AliasNode // the first one that stands for too many
}

func (x *expansion) walk(n ast.Node) {
	if x.over != nil {
		return
	}
	x.size++
	switch n := n.(type) {
	case *ast.AnchorNode:
		before := x.size
		x.walk(n.Value)
		x.sizes[n.Name.GetToken().Value] = x.size - before
	case *ast.AliasNode:
		size := x.sizes[n.Value.GetToken().Value]
		x.size += size
		if x.aliases += size; x.aliases > aliasBound {
			x.over = n
		}
	case *ast.TagNode:
		x.walk(n.Value)
	case *ast.MappingNode:
		for _, kv := range n.Values {
			x.walk(kv.Value)
		}
	case *ast.MappingValueNode:
		x.walk(n.Value)
	case *ast.SequenceNode:
		for _, v := range n.Values {
			x.walk(v)
		}
	}
}

// visitor makes a function into an [ast.Visitor] of every node.
type visitor func(ast.Node)

func (v visitor) Visit(n ast.Node) ast.Visitor { v(n); return v }

func (d *document) fail(n ast.Node, problem, hint string) *FileError {
	return NodeError(d.file, d.src, n, problem, hint)
}

// value is a node with the path that leads to it.
type value struct {
	doc  *document
	path string
	key  ast.Node // the key or list item it stands under
	node ast.Node // aliases, anchors and tags taken off
	tag  string   // "!reset" or "!override", which compose-go acts on
}

func (d *document) value(path string, key, node ast.Node) value {
	v := value{doc: d, path: path, key: key, node: node}
	for range 16 { // an alias to an alias; more than a few deep is a loop
		switch n := v.node.(type) {
		case *ast.AnchorNode:
			v.node = n.Value
		case *ast.AliasNode:
			v.node = d.anchors[n.Value.GetToken().Value]
		case *ast.TagNode:
			v.tag, v.node = n.Start.Value, n.Value
		default:
			return v
		}
	}
	return v
}

// fail is an error at the value itself; failKey is one at its key.
func (v value) fail(problem, hint string) *FileError {
	at := v.node
	if line, _ := position(at); line == 0 {
		at = v.key
	}
	return v.doc.fail(at, v.path+": "+problem, hint)
}

func (v value) failKey(problem, hint string) *FileError {
	return v.doc.fail(v.key, v.path+": "+problem, hint)
}

// field is one key of a mapping with its value.
type field struct {
	name string
	value
}

// fields gives a mapping's fields in the order written, those that come through
// a merge key (<<) last and only where the mapping itself does not set them.
func (v value) fields() ([]field, bool) { return v.fieldsWithin(8) }

func (v value) fieldsWithin(depth int) ([]field, bool) {
	m, ok := v.node.(*ast.MappingNode)
	if !ok || depth == 0 {
		return nil, false
	}
	var own, merged []field
	seen := map[string]bool{}
	for _, kv := range m.Values {
		if kv.Key.IsMergeKey() {
			from := v.doc.value(v.path, kv.Key, kv.Value)
			sources := []value{from}
			if items, ok := from.items(); ok {
				sources = items
			}
			for _, s := range sources {
				more, ok := s.fieldsWithin(depth - 1)
				if !ok {
					return nil, false
				}
				for i := range more {
					more[i].path = v.path + strings.TrimPrefix(more[i].path, s.path)
				}
				merged = append(merged, more...)
			}
			continue
		}
		name := keyText(kv.Key)
		seen[name] = true
		own = append(own, field{name, v.doc.value(join(v.path, name), kv.Key, kv.Value)})
	}
	for _, f := range merged {
		if !seen[f.name] {
			seen[f.name] = true
			own = append(own, f)
		}
	}
	return own, true
}

// items gives a sequence's values.
func (v value) items() ([]value, bool) {
	s, ok := v.node.(*ast.SequenceNode)
	if !ok {
		return nil, false
	}
	out := make([]value, len(s.Values))
	for i, n := range s.Values {
		out[i] = v.doc.value(fmt.Sprintf("%s[%d]", v.path, i), n, n)
	}
	return out, true
}

// text gives a scalar as it is written; ok is false for lists, mappings and null.
func (v value) text() (string, bool) {
	switch n := v.node.(type) {
	case *ast.StringNode:
		return n.Value, true
	case *ast.LiteralNode:
		return n.Value.Value, true
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
		return n.GetToken().Value, true
	}
	return "", false
}

// null says whether nothing is written where a value could stand.
func (v value) null() bool {
	_, isNull := v.node.(*ast.NullNode)
	return isNull || v.node == nil
}

// kind names what is written, for an error message.
func (v value) kind() string {
	switch v.node.(type) {
	case *ast.MappingNode:
		return "a mapping"
	case *ast.SequenceNode:
		return "a list"
	case *ast.NullNode, nil:
		return "nothing"
	case *ast.BoolNode:
		return "a boolean"
	case *ast.IntegerNode, *ast.FloatNode:
		return "a number"
	}
	return "text"
}

func keyText(k ast.Node) string {
	if s, ok := k.(*ast.StringNode); ok {
		return s.Value
	}
	return k.GetToken().Value
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// find follows a path of keys. A list item is found by its text, by the name
// before its "=", or by its `source`, since merging moves items about.
func (d *document) find(path []string) (value, bool) {
	v := d.value("", d.root, d.root)
	for _, name := range path {
		next, ok := v.child(name)
		if !ok {
			return value{}, false
		}
		v = next
	}
	return v, true
}

func (v value) child(name string) (value, bool) {
	if fields, ok := v.fields(); ok {
		for _, f := range fields {
			if f.name == name {
				return f.value, true
			}
		}
		return value{}, false
	}
	items, ok := v.items()
	if !ok {
		text, isText := v.text() // a single text where a list may stand
		return v, isText && text == name
	}
	for _, item := range items {
		text, _ := item.text()
		before, _, _ := strings.Cut(text, "=")
		if text == name || before == name {
			return item, true
		}
		if source, ok := item.child("source"); ok {
			if text, _ := source.text(); text == name {
				return source, true
			}
		}
	}
	return value{}, false
}

// documents are a base file and its overlays, in the order applied.
type documents []*document

// fail gives an error at the place that decides about a path: the last file
// that sets it, or else sets what it is part of. The problem is put behind the
// path, whose parts are the keys that lead there.
func (ds documents) fail(path []string, problem, hint string) *FileError {
	return ds.failAt(path, problem, hint, func(v value) ast.Node {
		if _, isText := v.text(); isText {
			return v.node
		}
		return v.key
	})
}

// failKey is an error at the key of what the path leads to.
func (ds documents) failKey(path []string, problem, hint string) *FileError {
	return ds.failAt(path, problem, hint, func(v value) ast.Node { return v.key })
}

func (ds documents) failAt(path []string, problem, hint string, at func(value) ast.Node) *FileError {
	for n := len(path); n > 0; n-- {
		for _, d := range slices.Backward(ds) {
			v, ok := d.find(path[:n])
			if !ok {
				continue
			}
			place := v.key
			if n == len(path) {
				place = at(v)
			}
			shown := path
			if parent, ok := d.find(path[:n-1]); ok {
				if _, isList := parent.items(); isList {
					shown = path[:n-1] // the item is what the problem names
				}
			}
			return d.fail(place, strings.Join(shown, ".")+": "+problem, hint)
		}
	}
	if len(path) > 0 {
		problem = strings.Join(path, ".") + ": " + problem
	}
	return NewFileError(ds[0].file, ds[0].src, 0, 0, problem, hint)
}
