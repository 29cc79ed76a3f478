package replays

import (
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
)

// shape compares a file's node with the Go type that it is decoded into, ahead
// of the decoder: that one knows its Go types but neither the words nor the
// units of an incident file, and gives some mistakes no place at all. what
// names the node for the reader.
func shape(node ast.Node, t reflect.Type, what string) error {
	refuse := func(problem, hint string) error {
		return &placedError{node, fmt.Sprintf("%s %s", what, problem), hint}
	}
	if _, null := node.(*ast.NullNode); null {
		if t == reflect.TypeFor[Rate]() {
			return refuse("has no rate", rateHint)
		}
		return nil // as if the line were not there
	}
	if o, ok := reflect.Zero(t).Interface().(interface{ element() reflect.Type }); ok {
		return shapeEntries(node, what, o.element())
	}
	switch t {
	case reflect.TypeFor[time.Duration]():
		if !scalar(node) {
			return refuse("is not a duration", durationHint)
		}
		text := node.GetToken().Value
		if _, err := time.ParseDuration(text); err != nil {
			return refuse(fmt.Sprintf("%q is not a duration", text), durationHint)
		}
		return nil
	case reflect.TypeFor[Names]():
		if scalar(node) {
			return nil
		}
	}
	if t == reflect.TypeFor[FaultSpec]() && scalar(node) {
		return refuse("is not a fault", "write {kind: latency, …}; `relapse faults` lists the kinds with their parameters")
	}
	if t != reflect.TypeFor[Names]() && reflect.PointerTo(t).Implements(reflect.TypeFor[yaml.NodeUnmarshaler]()) {
		return nil // reads itself, and places its own errors
	}
	switch t.Kind() {
	case reflect.Pointer:
		return shape(node, t.Elem(), what)
	case reflect.Struct:
		return shapeStruct(node, t, what)
	case reflect.Map:
		return shapeEntries(node, what, t.Elem())
	case reflect.Slice:
		s, ok := node.(*ast.SequenceNode)
		if !ok {
			return refuse("is not a list", fmt.Sprintf("write %s: […], or lines below it that begin with -", what))
		}
		for _, v := range s.Values {
			if err := shape(v, t.Elem(), "an entry of "+what); err != nil {
				return err
			}
		}
	case reflect.Bool:
		if _, ok := node.(*ast.BoolNode); !ok {
			return refuse("is neither true nor false", "write true or false")
		}
	case reflect.Int:
		if _, ok := node.(*ast.IntegerNode); !ok {
			return refuse("is not a whole number", "write a number such as 1")
		}
	case reflect.Float64:
		switch node.(type) {
		case *ast.IntegerNode, *ast.FloatNode:
		default:
			return refuse("is not a number", "write a number such as 1 or 0.5")
		}
	case reflect.String:
		if !scalar(node) {
			return refuse("is not a text", "write one text; put it in quotes where it holds : or # or begins with [ or {")
		}
	}
	return nil
}

const durationHint = "write a number and ms, s, m or h: 100ms, 1.5s"

// element tells shape what an Ordered mapping holds.
func (Ordered[T]) element() reflect.Type { return reflect.TypeFor[T]() }

func scalar(node ast.Node) bool {
	switch node.(type) {
	case *ast.MappingNode, *ast.MappingValueNode, *ast.SequenceNode:
		return false
	}
	return true
}

func shapeEntries(node ast.Node, what string, element reflect.Type) error {
	values, err := mappingValues(node)
	if err != nil {
		return &placedError{node, what + " is not a mapping", "write name: … lines below it"}
	}
	for _, v := range values {
		if err := shape(v.Value, element, v.Key.GetToken().Value); err != nil {
			return err
		}
	}
	return nil
}

func shapeStruct(node ast.Node, t reflect.Type, what string) error {
	fields := map[string]reflect.Type{}
	var names []string
	var collect func(t reflect.Type)
	collect = func(t reflect.Type) {
		for i := range t.NumField() {
			name, options, _ := strings.Cut(t.Field(i).Tag.Get("yaml"), ",")
			switch {
			case options == "inline":
				collect(t.Field(i).Type)
			case name != "":
				fields[name] = t.Field(i).Type
				names = append(names, name)
			}
		}
	}
	collect(t)
	values, err := mappingValues(node)
	if err != nil {
		return &placedError{node, what + " is not a mapping", "it has the fields " + strings.Join(names, ", ")}
	}
	for _, v := range values {
		name := v.Key.GetToken().Value
		field, ok := fields[name]
		if !ok {
			return &placedError{v.Key, fmt.Sprintf("unknown field %q", name), near(name, names)}
		}
		if err := shape(v.Value, field, name); err != nil {
			return err
		}
	}
	return nil
}
