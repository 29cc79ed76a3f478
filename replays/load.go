package replays

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"

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
	src, err := topologies.ReadText(fsys, file, displayPath(fsys, file))
	if bad := (*topologies.FileError)(nil); errors.As(err, &bad) {
		return nil, err
	}
	if err != nil {
		return nil, fmt.Errorf("read incident: %w", err)
	}
	l := &loader{fsys: fsys, dir: dir, source: source{file: displayPath(fsys, file), src: src}}
	if err := l.parse("an incident file", "incident: account-service"); err != nil {
		return nil, err
	}
	if err := l.decode(&l.inc); err != nil {
		return nil, err
	}
	l.inc.files = map[string][]byte{FileName: src}
	for _, step := range []func() error{
		l.ladderPhases, l.required, l.names, l.topology, l.faults, l.phases, l.checks, l.charts, l.class, l.arms, l.ladder, l.alerts, l.plans,
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
	source
	inc Incident
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
	if child(l.root, "speed") == nil {
		i.Speed = 1
	}
	if !(i.Speed > 0) {
		return l.fail("speed must be above zero", "speed: 1 plays documented seconds as they were, 60 a documented minute in a second", "speed")
	}
	if i.Speed > mostSpeed {
		return l.fail(fmt.Sprintf("speed %g is more than %g", i.Speed, mostSpeed), "speed: 60 plays a documented minute in a second, 86400 a documented day", "speed")
	}
	return nil
}

// mostSpeed has more than a week pass in a second; above it somebody mistyped.
const mostSpeed = 1e6

// nameForm is what names of incidents, faults, phases, checks and arms are made
// of: they become names of folders, flags and anchors of pages.
var nameForm = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9._-]*$`)

// Bounds of names, so that the folders of plays, which are named by their arms, and
// arms by several names, can be made in any file system.
const (
	longestName = 100
	longestArm  = 200
)

func named(name string) bool { return nameForm.MatchString(name) && len(name) <= longestName }

// inside says whether a path leads to a file of the folder that it is relative to.
func inside(file string) bool {
	clean := path.Clean(file)
	return clean != "." && fs.ValidPath(clean)
}

var nameHint = fmt.Sprintf("use up to %d letters, digits, - . and _, and begin with a letter or digit", longestName)

func (l *loader) names() error {
	i := &l.inc
	check := func(what, name string, keys ...any) error {
		if named(name) {
			return nil
		}
		return l.fail(fmt.Sprintf("%q is no name for %s", name, what), nameHint, keys...)
	}
	errs := []error{check("an incident", i.Name, "incident"), check("a topology", i.Topology, "topology")}
	entries := func(what, field string, names []string) {
		for _, name := range names {
			errs = append(errs, check(what, name, field, keyOf(name)))
		}
	}
	entries("a fault", "faults", i.Faults.Names())
	entries("a trigger", "triggers", i.Triggers.Names())
	entries("a cause", "causes", i.Causes.Names())
	entries("a sweep", "sweeps", i.Sweeps.Names())
	entries("a fix", "fixes", i.Fixes.Names())
	for _, f := range i.Fixes {
		for _, name := range f.Value.Challenges.Names() {
			errs = append(errs, check("a challenge", name, "fixes", f.Name, "challenges", keyOf(name)))
		}
	}
	for n, p := range i.Phases {
		if p.Name != "" { // said better elsewhere
			errs = append(errs, check("a phase", p.Name, "phases", n, "name"))
		}
	}
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// maxTopologyFile bounds a file of a topology's folder: all of them go into every
// record.
const maxTopologyFile = 4 << 20

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
		// What a link leads to is what counts: a pipe would be waited for.
		info, err := fs.Stat(fsys, p)
		refuse := func(problem string) error {
			return topologies.NewFileError(displayPath(fsys, p), nil, 0, 0, problem, "a topology's folder holds what its nodes are configured with, and nothing else")
		}
		switch {
		case err != nil:
			return refuse(fmt.Sprintf("this leads to no file: %v", err))
		case !info.Mode().IsRegular() || info.Size() > maxTopologyFile:
			return refuse(fmt.Sprintf("this is no regular file of at most %d MiB", maxTopologyFile>>20))
		}
		content, err := fs.ReadFile(fsys, p)
		if err != nil {
			return err
		}
		// Kept without secrets from here on: whatever tells of the files has none.
		name := strings.TrimPrefix(p, dir+"/")
		content, err = topologies.MaskFile(name, displayPath(fsys, p), content)
		if err == nil {
			l.inc.files[path.Join(l.inc.Topology, name)] = content
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("read topology %s: %w", l.inc.Topology, err)
	}
	l.inc.topologies = map[string]loadedOverlay{}
	l.inc.topologyFS, l.inc.topologyDir = fsys, dir
	for n, name := range l.inc.Overlays {
		if err := l.overlay(name, "overlays", n); err != nil {
			return err
		}
		if slices.Contains(l.inc.Overlays[:n], name) {
			return l.fail(fmt.Sprintf("overlay %s is there twice", name), "name it once: overlays are applied in order, each once", "overlays", n)
		}
	}
	_, err = l.inc.topologyWith(l.inc.Overlays)
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
	key := overlayKey(overlays)
	if known, ok := i.topologies[key]; ok {
		return known.topology, known.err
	}
	t, err := topologies.Load(context.Background(), i.topologyFS, i.topologyDir, overlays...)
	i.topologies[key] = loadedOverlay{t, err}
	return t, err
}

func overlayKey(overlays []string) string { return strings.Join(overlays, "\n") }

func (l *loader) faults() error {
	for n, f := range l.inc.Faults {
		at := []any{"faults", f.Name}
		fields, err := mappingValues(f.Value.node)
		if err != nil {
			return l.place(err)
		}
		spec := &l.inc.Faults[n].Value
		var texts []string
		parameters := ast.Mapping(f.Value.node.GetToken(), true)
		for _, v := range fields {
			switch v.Key.GetToken().Value {
			case "kind":
				spec.Kind = v.Value.GetToken().Value
			case "says":
				spec.Says = v.Value.GetToken().Value
			default:
				parameters.Values = append(parameters.Values, v)
				texts = append(texts, strings.TrimSpace(v.String()))
			}
		}
		spec.Text = strings.Join(texts, ", ")
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
		if err != nil {
			return l.placeField(err, f.Name)
		}
	}
	return nil
}

// longestPhase refuses what can only be a mistake in the unit.
const longestPhase = time.Hour

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
		case p.Lasts > longestPhase:
			return l.fail(fmt.Sprintf("phase %s lasts %s, longer than %s", p.Name, p.Lasts, longestPhase), "an incident is cut down to what somebody waits for: seconds", "phases", n, "lasts")
		case p.settle() < 0 || p.settle() >= p.Lasts:
			return l.fail(fmt.Sprintf("phase %s settles for %s of its %s", p.Name, p.settle(), p.Lasts), "write a longer lasts: or a shorter settle:, which is 500ms where it is left out", "phases", n, "settle")
		}
		seen = append(seen, p.Name)
		for k, f := range p.Faults {
			if err := l.known("fault", f, names, "phases", n, "faults", k); err != nil {
				return err
			}
			if slices.Contains(p.Faults[:k], f) || slices.Contains(i.Conditions, f) {
				return l.fail(fmt.Sprintf("fault %s is held already during %s", f, p.Name), "name it once, here or under conditions", "phases", n, "faults", k)
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
	topology, err := l.inc.topologyWith(l.inc.Overlays)
	if err != nil {
		return err
	}
	for node, rates := range t {
		if err := l.known("load generator", node, generators(topology), append(keys, keyOf(node))...); err != nil {
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
			case !named(c.ID) || c.ID == outageCheck || c.ID == classCheck:
				return l.fail(fmt.Sprintf("%q is no id for a check", c.ID), "use letters, digits, - . and _, begin with a letter or digit, and leave outage and class to the judge", group.field, n, "id")
			case c.ID == ladderCheck || c.ID == driftCheck:
				return l.fail(fmt.Sprintf("%q is no id for a check", c.ID), "leave ladder and drift to the judge", group.field, n, "id")
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
				if slices.Contains(c.During[:k], p) {
					return l.fail(fmt.Sprintf("check %s names phase %s twice", c.ID, p), "name each phase once", group.field, n, "during", k)
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
				return l.queryError(err, "check "+c.ID, group.field, n, "query")
			}
			if back := query.LooksBack(readOver); c.Holds.Mode == HoldsEventually && c.Holds.Within < back {
				return l.fail(fmt.Sprintf("check %s may hold within %s, and reads the %s before each moment: none of them lies in the phase", c.ID, c.Holds.Within, back),
					fmt.Sprintf("write eventually within %s or more", back), group.field, n, "holds")
			}
			c.query = query
		}
	}
	return nil
}

// charts checks what reports draw.
func (l *loader) charts() error {
	for n, c := range l.inc.Charts {
		switch {
		case c.Name == "":
			return l.fail("a chart has no name", "say what it draws: name: Sign-ins that succeed", "charts", n)
		case c.Query == "":
			return l.fail(fmt.Sprintf("chart %q has no query", c.Name), "write query: PromQL that gives one series", "charts", n)
		}
		if err := samples.CheckCurve(c.Query); err != nil {
			return l.queryError(err, fmt.Sprintf("chart %q", c.Name), "charts", n, "query")
		}
	}
	return nil
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
