package replays

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"relapse/faults"
	"relapse/replays/samples"
	"relapse/topologies"
)

// FileName is the name of the incident file in its folder.
const FileName = "incident.yaml"

// Load reads the incident in a folder, with its topology, its overlays and its
// alert rules, and checks all of it: what Load accepts can be planned in every
// arm. Errors about a file are a [*topologies.FileError], with the place, the
// line itself and what would be right.
//
// The topology is the folder of that name inside the incident's own, or one of
// the library.
func Load(fsys fs.FS, dir string) (*Incident, error) {
	file := path.Join(dir, FileName)
	src, err := fs.ReadFile(fsys, file)
	if err != nil {
		return nil, fmt.Errorf("read incident: %w", err)
	}
	l := &loader{fsys: fsys, dir: dir, file: displayPath(fsys, file), src: src}
	parsed, err := parser.ParseBytes(src, 0)
	if err != nil {
		return nil, l.place(err)
	}
	if len(parsed.Docs) == 0 || parsed.Docs[0].Body == nil {
		return nil, topologies.NewFileError(file, src, 1, 1, "the incident file is empty", "see `relapse show account-service` for one that is not")
	}
	l.root = parsed.Docs[0].Body
	if err := decodeStrict(l.root, &l.inc); err != nil {
		return nil, l.place(err)
	}
	l.inc.files = map[string][]byte{FileName: src}
	for _, step := range []func() error{
		l.required, l.topology, l.faults, l.phases, l.checks, l.arms, l.alerts, l.plans,
	} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	return &l.inc, nil
}

type loader struct {
	fsys fs.FS
	dir  string
	file string
	src  []byte
	root ast.Node
	inc  Incident
}

// place gives an error its line of the incident file.
func (l *loader) place(err error) error {
	var placed *placedError
	if errors.As(err, &placed) {
		return l.errorAt(placed.node, placed.problem, placed.hint)
	}
	var field *faults.FieldError
	var syntax yaml.Error
	if errors.As(err, &syntax) && !errors.As(err, &field) {
		line, column := 1, 1
		if t := syntax.GetToken(); t != nil {
			line, column = t.Position.Line, t.Position.Column
		}
		hint := ""
		var unknown *yaml.UnknownFieldError
		if errors.As(err, &unknown) {
			hint = "the fields of an incident file are described in CONTRIBUTING.md; `relapse show account-service` names one that uses them all"
		}
		return topologies.NewFileError(l.file, l.src, line, column, syntax.GetMessage(), hint)
	}
	return fmt.Errorf("%s: %w", l.file, err)
}

func (l *loader) errorAt(node ast.Node, problem, hint string) error {
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
	return topologies.NewFileError(l.file, l.src, line, column, problem, hint)
}

// fail is an error at a path of keys and indexes; the last one that exists
// gives the place. A path that ends in "key" (a type of its own) means the key
// rather than the value.
func (l *loader) fail(problem, hint string, keys ...any) error {
	return l.errorAt(find(l.root, keys...), problem, hint)
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
func (l *loader) known(what, name string, names []string, keys ...any) error {
	if slices.Contains(names, name) {
		return nil
	}
	hint := fmt.Sprintf("there is none of that kind in this incident: declare %s first", name)
	if near := topologies.Nearest(name, names); near != "" {
		hint = fmt.Sprintf("did you mean %s?", near)
	} else if len(names) > 0 {
		hint = "there are: " + strings.Join(names, ", ")
	}
	return l.fail(fmt.Sprintf("unknown %s %q", what, name), hint, keys...)
}

func (l *loader) required() error {
	i := &l.inc
	for _, r := range []struct {
		field string
		empty bool
		hint  string
	}{
		{"incident", i.Name == "", "give it a name, as its folder has: incident: account-service"},
		{"title", i.Title == "", "say in one line what happened"},
		{"source", i.Source.Publisher == "", "say where it is documented: source: {publisher: …, date: …, document: …}"},
		{"topology", i.Topology == "", "name a folder beside this file or a topology of the library"},
		{"phases", len(i.Phases) == 0, "list at least one: phases: [{name: healthy, lasts: 4s}]"},
		{"traffic", len(i.Traffic) == 0, "say what players ask for: traffic: {players: {login: 40/s}}"},
		{"symptoms", len(i.Symptoms) == 0, "list at least one: without a symptom nothing can be reproduced"},
		{"objectives", len(i.Objectives) == 0, "list at least one: without an objective nothing can be broken"},
	} {
		if r.empty {
			return l.fail(fmt.Sprintf("%s is missing", r.field), r.hint, r.field)
		}
	}
	if i.Speed == 0 {
		i.Speed = 1
	}
	if i.Speed < 0 {
		return l.fail("speed must be above zero", "speed: 1 plays documented seconds as they were", "speed")
	}
	return nil
}

// topology loads the topology as the incident starts from it and keeps its
// files for the record.
func (l *loader) topology() error {
	fsys, dir, err := l.topologyFolder()
	if err != nil {
		return err
	}
	err = fs.WalkDir(fsys, dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := fs.ReadFile(fsys, p)
		if err == nil {
			l.inc.files[path.Join(l.inc.Topology, strings.TrimPrefix(p, dir+"/"))] = content
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("read topology %s: %w", l.inc.Topology, err)
	}
	l.inc.topologies = map[string]loadedOverlay{}
	l.inc.topologyFS, l.inc.topologyDir = fsys, dir
	_, err = l.inc.topologyWith(nil)
	return err
}

func (l *loader) topologyFolder() (fs.FS, string, error) {
	name := l.inc.Topology
	if beside := path.Join(l.dir, name); fs.ValidPath(beside) {
		if _, err := fs.Stat(l.fsys, path.Join(beside, "compose.yaml")); err == nil {
			return l.fsys, beside, nil
		}
	}
	if err := l.known("topology", name, topologies.Names(), "topology"); err != nil {
		return nil, "", err
	}
	return topologies.Library(), name, nil
}

// topologyWith loads the topology under some overlays, once for each set.
func (i *Incident) topologyWith(overlays []string) (*topologies.Topology, error) {
	key := strings.Join(overlays, "\n")
	if known, ok := i.topologies[key]; ok {
		return known.topology, known.err
	}
	t, err := topologies.Load(context.Background(), i.topologyFS, i.topologyDir, overlays...)
	i.topologies[key] = loadedOverlay{t, err}
	return t, err
}

func (l *loader) faults() error {
	for n, f := range l.inc.Faults {
		at := []any{"faults", f.Name}
		fields, err := mappingValues(f.Value.node)
		if err != nil {
			return l.place(err)
		}
		spec := &l.inc.Faults[n].Value
		parameters := ast.Mapping(f.Value.node.GetToken(), true)
		for _, v := range fields {
			switch v.Key.GetToken().Value {
			case "kind":
				spec.Kind = v.Value.GetToken().Value
			case "says":
				spec.Says = v.Value.GetToken().Value
			default:
				parameters.Values = append(parameters.Values, v)
			}
		}
		var kinds []string
		for _, k := range faults.Kinds() {
			kinds = append(kinds, k.Name)
		}
		if spec.Kind == "" {
			return l.fail(fmt.Sprintf("fault %s has no kind", f.Name), "write kind: one of "+strings.Join(kinds, ", "), "faults", keyOf(f.Name))
		}
		if err := l.known("fault kind", spec.Kind, kinds, append(at, "kind")...); err != nil {
			return err
		}
		spec.Fault, err = faults.Decode(spec.Kind, parameters)
		if err == nil {
			err = spec.Fault.Validate()
		}
		var field *faults.FieldError
		switch {
		case errors.As(err, &field):
			keys := append(at, field.Field)
			if child(find(l.root, at...), field.Field) == nil {
				keys = []any{"faults", keyOf(f.Name)}
			}
			return l.fail(fmt.Sprintf("fault %s: %s %s", f.Name, field.Field, field.Problem), field.Hint, keys...)
		case err != nil:
			return l.place(err)
		}
	}
	return nil
}

func (l *loader) phases() error {
	i := &l.inc
	names := i.Faults.Names()
	var seen []string
	for n, p := range i.Phases {
		switch {
		case p.Name == "":
			return l.fail("a phase has no name", "write {name: healthy, lasts: 4s}", "phases", n)
		case slices.Contains(seen, p.Name):
			return l.fail(fmt.Sprintf("phase %s is there twice", p.Name), "give each phase a name of its own", "phases", n, "name")
		case p.Lasts <= 0:
			return l.fail(fmt.Sprintf("phase %s lasts no time", p.Name), "write lasts: 4s", "phases", n, "lasts")
		case p.settle() < 0 || p.settle() >= p.Lasts:
			return l.fail(fmt.Sprintf("phase %s settles for %s of its %s", p.Name, p.settle(), p.Lasts), "settle for less than the phase lasts", "phases", n, "settle")
		}
		seen = append(seen, p.Name)
		for k, f := range p.Faults {
			if err := l.known("fault", f, names, "phases", n, "faults", k); err != nil {
				return err
			}
		}
		if err := l.traffic(p.Traffic, "phases", n, "traffic"); err != nil {
			return err
		}
	}
	for k, f := range i.Conditions {
		if err := l.known("fault", f, names, "conditions", k); err != nil {
			return err
		}
	}
	return l.traffic(i.Traffic, "traffic")
}

// traffic checks nodes and operations against the topology's load generators.
func (l *loader) traffic(t Traffic, keys ...any) error {
	topology, err := l.inc.topologyWith(nil)
	if err != nil {
		return err
	}
	var generators []string
	for _, n := range topology.Nodes {
		if len(n.Operations) > 0 {
			generators = append(generators, n.Name)
		}
	}
	for node, rates := range t {
		if err := l.known("load generator", node, generators, append(keys, keyOf(node))...); err != nil {
			return err
		}
		n, _ := topology.Node(node)
		for op := range rates {
			if err := l.known("operation", op, n.Operations, append(keys, node, keyOf(op))...); err != nil {
				return err
			}
		}
	}
	return nil
}

func (l *loader) checks() error {
	var seen []string
	for _, group := range []struct {
		field  string
		checks []Check
	}{{"symptoms", l.inc.Symptoms}, {"objectives", l.inc.Objectives}, {"invariants", l.inc.Invariants}} {
		for n := range group.checks {
			c := &group.checks[n]
			switch {
			case c.ID == "":
				return l.fail("a check has no id", "write id: login-works, or the fact's number", group.field, n)
			case slices.Contains(seen, c.ID):
				return l.fail(fmt.Sprintf("check %s is there twice", c.ID), "give each check an id of its own", group.field, n, "id")
			case c.Says == "":
				return l.fail(fmt.Sprintf("check %s says nothing", c.ID), "say in one sentence what is seen when it holds", group.field, n)
			case len(c.During) == 0:
				return l.fail(fmt.Sprintf("check %s has no phase", c.ID), "write during: stall", group.field, n)
			case c.Query == "":
				return l.fail(fmt.Sprintf("check %s has no query", c.ID), "write query: a PromQL comparison", group.field, n)
			}
			seen = append(seen, c.ID)
			for k, p := range c.During {
				if err := l.known("phase", p, l.inc.phaseNames(), group.field, n, "during", k); err != nil {
					return err
				}
				phase := l.inc.phase(p)
				if c.Holds.Within > phase.Lasts {
					return l.fail(fmt.Sprintf("check %s may hold %s after the start of %s, which lasts %s", c.ID, c.Holds.Within, p, phase.Lasts), "stay inside the phase", group.field, n, "holds")
				}
				if c.Settle != nil && (*c.Settle < 0 || *c.Settle >= phase.Lasts) {
					return l.fail(fmt.Sprintf("check %s settles for %s in %s, which lasts %s", c.ID, *c.Settle, p, phase.Lasts), "stay inside the phase", group.field, n, "settle")
				}
			}
			query, err := samples.ParseQuery(c.Query)
			if err != nil {
				return l.queryError(err, c.ID, group.field, n, "query")
			}
			c.query = query
		}
	}
	return nil
}

func (l *loader) queryError(err error, id string, keys ...any) error {
	var bad *samples.QueryError
	if !errors.As(err, &bad) {
		return l.fail(fmt.Sprintf("check %s: %v", id, err), "", keys...)
	}
	node := find(l.root, keys...)
	t := node.GetToken()
	line, column := t.Position.Line, t.Position.Column
	if raw := strings.TrimLeft(t.Origin, " "); strings.HasPrefix(raw, "'") || strings.HasPrefix(raw, `"`) {
		column++
	}
	// A query over several lines starts on another line than its token.
	if _, block := node.(*ast.LiteralNode); !block {
		column += bad.Column - 1
	}
	return topologies.NewFileError(l.file, l.src, line, column, fmt.Sprintf("check %s: %s", id, bad.Problem), bad.Hint)
}

func (i *Incident) phaseNames() []string {
	out := make([]string, len(i.Phases))
	for n, p := range i.Phases {
		out[n] = p.Name
	}
	return out
}

func (i *Incident) phase(name string) Phase {
	for _, p := range i.Phases {
		if p.Name == name {
			return p
		}
	}
	return Phase{}
}

func checkIDs(checks []Check) []string {
	out := make([]string, len(checks))
	for n, c := range checks {
		out[n] = c.ID
	}
	return out
}
