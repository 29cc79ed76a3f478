package replays

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"unicode"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"relapse/faults"
	"relapse/replays/samples"
	"relapse/topologies"
)

// source is a parsed file that errors can point into.
type source struct {
	file string // as people would open it
	src  []byte
	root ast.Node
}

// parse reads the file's yaml; what names the file for the reader, and
// beginning is a line that it may begin with.
func (s *source) parse(what, beginning string) error {
	parsed, err := parser.ParseBytes(s.src, 0)
	if err != nil {
		return s.place(err)
	}
	for n, doc := range parsed.Docs {
		if n > 0 && doc.Body != nil {
			return s.errorAt(doc.Body, what+" is one document, and here begins a second", "give it a file of its own, and leave out the --- line")
		}
	}
	if len(parsed.Docs) == 0 || parsed.Docs[0].Body == nil || parsed.Docs[0].Body.Type() == ast.CommentType {
		return topologies.NewFileError(s.file, s.src, 1, 1, "the file is empty: "+what+" is expected here", "begin with a line such as "+beginning)
	}
	if s.root, err = resolveAnchors(parsed.Docs[0].Body); err != nil {
		return s.place(err)
	}
	if _, err := mappingValues(s.root); err != nil || scalar(s.root) {
		return s.errorAt(s.root, what+" is a mapping of fields to values", "begin with a line such as "+beginning)
	}
	return nil
}

// decode reads the file into a struct, strictly.
func (s *source) decode(into any) error {
	if err := shape(s.root, reflect.TypeOf(into).Elem(), "the file"); err != nil {
		return s.place(err)
	}
	if err := decodeStrict(s.root, into); err != nil {
		return s.place(err)
	}
	return nil
}

// place gives an error its line of the file.
func (s *source) place(err error) error {
	var placed *placedError
	if errors.As(err, &placed) {
		return s.errorAt(placed.node, placed.problem, placed.hint)
	}
	var syntax yaml.Error
	if !errors.As(err, &syntax) {
		return fmt.Errorf("%s: %w", s.file, err)
	}
	hint := ""
	var unknown *yaml.UnknownFieldError
	var kind *yaml.SyntaxError
	var twice *yaml.DuplicateKeyError
	switch {
	case errors.As(err, &unknown):
		hint = fieldsHint
	case errors.As(err, &twice):
		hint = "keep one of the two"
	case errors.As(err, &kind):
		hint = "look at this line and the ones before: indent with spaces, close quotes and brackets, put a space behind each colon, write each key once"
	}
	line, column := 1, 1
	if t := syntax.GetToken(); t != nil && t.Position != nil {
		line, column = t.Position.Line, t.Position.Column
	}
	return topologies.NewFileError(s.file, s.src, line, column, syntax.GetMessage(), hint)
}

const fieldsHint = "CONTRIBUTING.md describes the fields of an incident file, and replays/account-service/incident.yaml uses most of them"

// placeField places what is wrong with a fault's parameter.
func (s *source) placeField(err error, fault string) error {
	var field *faults.FieldError
	if !errors.As(err, &field) {
		return s.place(err)
	}
	keys := []any{"faults", fault, field.Field}
	if child(find(s.root, "faults", fault), field.Field) == nil {
		keys = []any{"faults", keyOf(fault)}
	}
	return s.fail(fmt.Sprintf("fault %s: %s %s", fault, field.Field, field.Problem), field.Hint, keys...)
}

func (s *source) errorAt(node ast.Node, problem, hint string) error {
	line, column := 1, 1
	if node != nil && node.GetToken() != nil {
		t := node.GetToken()
		// A mapping's own token is its first colon; people look for its first key.
		if m, ok := node.(*ast.MappingNode); ok && !m.IsFlowStyle && len(m.Values) > 0 {
			t = m.Values[0].Key.GetToken()
		}
		if m, ok := node.(*ast.MappingValueNode); ok {
			t = m.Key.GetToken()
		}
		line, column = t.Position.Line, t.Position.Column
	}
	return topologies.NewFileError(s.file, s.src, line, column, problem, hint)
}

// fail is an error at a path of keys and indexes; the last one that exists
// gives the place. A path that ends in a [keyOf] means the key rather than the
// value.
func (s *source) fail(problem, hint string, keys ...any) error {
	return s.errorAt(find(s.root, keys...), problem, hint)
}

// keyOf in a path asks for the place of the key itself.
type keyOf string

func find(node ast.Node, keys ...any) ast.Node {
	for _, key := range keys {
		next := child(node, key)
		if next == nil {
			return node
		}
		node = next
	}
	return node
}

func child(node ast.Node, key any) ast.Node {
	switch k := key.(type) {
	case int:
		if s, ok := node.(*ast.SequenceNode); ok && k < len(s.Values) {
			return s.Values[k]
		}
	case string, keyOf:
		values, err := mappingValues(node)
		if err != nil {
			return nil
		}
		for _, v := range values {
			if v.Key.GetToken().Value != fmt.Sprint(k) {
				continue
			}
			if _, wantKey := key.(keyOf); wantKey {
				return v.Key
			}
			return v.Value
		}
	}
	return nil
}

// known checks a name against those that exist.
func (s *source) known(what, name string, names []string, keys ...any) error {
	if slices.Contains(names, name) {
		return nil
	}
	hint := fmt.Sprintf("there is none of that kind in this incident: declare %s first", name)
	if len(names) > 0 {
		hint = near(name, names)
	}
	return s.fail(fmt.Sprintf("unknown %s %q", what, name), hint, keys...)
}

func near(name string, known []string) string {
	if n := topologies.Nearest(name, known); n != "" {
		return fmt.Sprintf("did you mean %s?", n)
	}
	return "there are: " + strings.Join(known, ", ")
}

// queryError places what is wrong with an expression inside of it.
func (s *source) queryError(err error, what string, keys ...any) error {
	var bad *samples.QueryError
	if !errors.As(err, &bad) {
		return s.fail(fmt.Sprintf("%s: %v", what, err), "", keys...)
	}
	line, column := s.inside(find(s.root, keys...), bad.Column)
	return topologies.NewFileError(s.file, s.src, line, column, fmt.Sprintf("%s: %s", what, bad.Problem), bad.Hint)
}

// inside finds the place of a text's nth character, counted from 1. Quotes,
// escapes, folded lines and indentation make the text differ from how it is
// written, but never in the order of the characters that are not white space,
// which is what this follows.
func (s *source) inside(node ast.Node, n int) (line, column int) {
	text := []rune(node.GetToken().Value)
	t := node.GetToken()
	line, column = t.Position.Line, t.Position.Column
	switch block := node.(type) {
	case *ast.LiteralNode: // its own token is the | or > before the text
		text = []rune(block.Value.GetToken().Value)
		line, column = line+1, 1
	case *ast.StringNode:
		text = []rune(block.Value)
	}
	lines := strings.Split(string(s.src), "\n")
	if line > len(lines) {
		return line, column
	}
	rest := []rune(strings.Join(lines[line-1:], "\n"))
	at := min(column-1, len(rest))
	step := func() {
		if rest[at] == '\n' {
			line, column = line+1, 0
		}
		at, column = at+1, column+1
	}
	skip := func(wanted func(rune) bool) {
		for at < len(rest) && wanted(rest[at]) {
			step()
		}
	}
	found := 0 // characters of the text passed
	for {
		for found < len(text) && unicode.IsSpace(text[found]) && found+1 < n {
			found++
		}
		if found >= len(text) {
			return line, column // behind the last character
		}
		want := text[found]
		// Whatever stands between is quoting, escaping or white space.
		skip(func(r rune) bool { return r != want })
		if at >= len(rest) {
			return t.Position.Line, t.Position.Column
		}
		if found+1 >= n {
			return line, column
		}
		step()
		found++
	}
}
