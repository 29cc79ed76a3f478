package faults

import (
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"

	"relapse/topologies"
)

// Decode reads a fault's parameters, a mapping without the kind itself. It is
// strict: a parameter that the kind does not have is an error. Errors about the
// yaml carry their place as a [yaml.Error]; a value that cannot be read is a
// [FieldError] as well. An unknown kind is an [*UnknownKindError].
//
// Decode does not call Validate, so that a caller can tell what cannot be read
// from what makes no sense.
func Decode(kind string, node ast.Node) (Fault, error) {
	k, err := lookup(kind)
	if err != nil {
		return nil, err
	}
	fault := k.make()
	values, err := entries(node)
	if err != nil {
		return nil, fmt.Errorf("fault of kind %s: %w", kind, err)
	}
	known := map[string]parameter{}
	var names []string
	for _, p := range parameters(fault) {
		known[p.name] = p
		names = append(names, p.name)
	}
	for _, v := range values {
		key := v.Key.GetToken()
		p, ok := known[key.Value]
		if !ok {
			return nil, unknownParameter(kind, key, names)
		}
		if err := p.decode(v.Value); err != nil {
			return nil, err
		}
	}
	return fault, nil
}

func entries(node ast.Node) ([]*ast.MappingValueNode, error) {
	switch n := node.(type) {
	case nil, *ast.NullNode:
		return nil, nil
	case *ast.MappingNode:
		return n.Values, nil
	case *ast.MappingValueNode:
		return []*ast.MappingValueNode{n}, nil
	case *ast.AnchorNode:
		return entries(n.Value)
	}
	return nil, &yaml.SyntaxError{Message: "parameters are a mapping of names to values", Token: node.GetToken()}
}

func unknownParameter(kind string, key *token.Token, names []string) error {
	message := fmt.Sprintf("unknown field %q of kind %s: ", key.Value, kind)
	if near := topologies.Nearest(key.Value, names); near != "" {
		message += fmt.Sprintf("did you mean %s?", near)
	} else {
		message += "it has " + strings.Join(names, ", ")
	}
	return &yaml.UnknownFieldError{Message: message, Token: key}
}

// parameter is one yaml-tagged field of a kind's struct.
type parameter struct {
	name  string
	doc   string // struct tag doc, for the reference
	value reflect.Value
}

// parameters walks the struct that a fault points to, and what it embeds.
func parameters(f Fault) []parameter {
	var out []parameter
	var walk func(v reflect.Value)
	walk = func(v reflect.Value) {
		for i := range v.NumField() {
			field := v.Type().Field(i)
			name, options, _ := strings.Cut(field.Tag.Get("yaml"), ",")
			switch {
			case options == "inline":
				walk(v.Field(i))
			case name != "":
				out = append(out, parameter{name, field.Tag.Get("doc"), v.Field(i)})
			}
		}
	}
	walk(reflect.ValueOf(f).Elem())
	return out
}

func (p parameter) decode(node ast.Node) error {
	into := p.value.Addr().Interface()
	var err error
	switch v := into.(type) {
	case *time.Duration:
		*v, err = parseDuration(node.GetToken().Value)
	case *int:
		// The yaml library would cut 2.5 down to 2.
		*v, err = strconv.Atoi(node.GetToken().Value)
	default:
		err = yaml.NodeToValue(node, into, yaml.Strict())
	}
	if err == nil {
		return nil
	}
	field := &FieldError{Field: p.name, Problem: fmt.Sprintf("cannot be read from %s", node)}
	var unit *UnitError
	if errors.As(err, &unit) {
		field.Problem, field.Hint = fmt.Sprintf("%q %s", unit.Text, unit.Problem), unit.Hint
	} else {
		field.Hint = "write " + p.wants()
	}
	return &placedFieldError{FieldError: field, at: node.GetToken()}
}

// wants describes the values of a parameter.
func (p parameter) wants() string {
	switch p.value.Interface().(type) {
	case time.Duration:
		return "a duration"
	case Rate:
		return "a rate"
	case Percent:
		return "a percentage"
	case Size:
		return "a size"
	case []string:
		return "a list of names"
	case [][]string:
		return "two lists of names"
	}
	switch p.value.Kind() {
	case reflect.Bool:
		return "true or false"
	case reflect.Int, reflect.Int64:
		return "a whole number"
	case reflect.Float64:
		return "a number"
	}
	return "a name"
}

// placedFieldError is a [FieldError] that knows its place in the file, which
// makes it a [yaml.Error].
type placedFieldError struct {
	*FieldError
	at *token.Token
}

func (e *placedFieldError) Unwrap() error          { return e.FieldError }
func (e *placedFieldError) GetToken() *token.Token { return e.at }
func (e *placedFieldError) GetMessage() string     { return e.FieldError.Error() }

// FormatError writes the error with the lines around it.
func (e *placedFieldError) FormatError(colored, inclSource bool) string {
	return yaml.FormatErrorWithToken(e.GetMessage(), e.at, colored, inclSource)
}

// patternError checks a list of patterns for something to match.
func patternError(field, example string, patterns []string, wellFormed func(string) bool) error {
	if len(patterns) == 0 {
		return &FieldError{field, "is missing", fmt.Sprintf("write %s: [%s]", field, example)}
	}
	for _, p := range patterns {
		if !wellFormed(p) {
			return &FieldError{field, fmt.Sprintf("has the malformed pattern %q", p), fmt.Sprintf("write it like %s", example)}
		}
	}
	return nil
}
