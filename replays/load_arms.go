package replays

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"relapse/topologies"
)

// arms checks triggers, causes, fixes and challenges: every name in them must
// exist, and every list must be about something.
func (l *loader) arms() error {
	i := &l.inc
	if u := i.Unfixed; u != nil {
		if u.Says == "" {
			return l.fail("unfixed does not say what is wrong with the system", "write says: in one sentence", keyOf("unfixed"))
		}
		if u.Change.empty() {
			return l.fail("unfixed changes nothing", "say what is wrong with the system: change: {overlays: [as-first-built]}; or leave unfixed out, where faults bring it about", keyOf("unfixed"))
		}
		if err := l.change(u.Change, "unfixed", "change"); err != nil {
			return err
		}
	}
	for _, t := range i.Triggers {
		if err := l.change(t.Value.Change, "triggers", t.Name, "change"); err != nil {
			return err
		}
		for n, id := range t.Value.Lacks {
			if err := l.known("symptom", id, checkIDs(i.Symptoms), "triggers", t.Name, "lacks", n); err != nil {
				return err
			}
		}
	}
	for _, c := range i.Causes {
		if err := l.change(c.Value.Without, "causes", c.Name, "without"); err != nil {
			return err
		}
		if err := l.promise(c.Value.Promise, "causes", c.Name); err != nil {
			return err
		}
	}
	if err := l.combine(); err != nil {
		return err
	}
	if err := l.sweeps(); err != nil {
		return err
	}
	for _, f := range i.Fixes {
		at := []any{"fixes", f.Name}
		if err := l.change(f.Value.Change, append(at, "change")...); err != nil {
			return err
		}
		if len(f.Value.Restores)+len(f.Value.Cures) == 0 {
			return l.fail(fmt.Sprintf("fix %s neither restores nor cures anything", f.Name), "say which objectives hold and which symptoms are gone: restores: […], cures: […]", "fixes", keyOf(f.Name))
		}
		if err := l.promise(f.Value.Promise, at...); err != nil {
			return err
		}
		for _, on := range f.Value.On {
			if err := l.known("trigger", on.Name, i.Triggers.Names(), append(at, "on", keyOf(on.Name))...); err != nil {
				return err
			}
			if err := l.promise(on.Value, append(at, "on", on.Name)...); err != nil {
				return err
			}
			if on.Value.empty() {
				return l.fail(fmt.Sprintf("fix %s promises nothing on %s", f.Name, on.Name), "list what it restores, cures and leaves there", append(at, "on", keyOf(on.Name))...)
			}
		}
		for _, c := range f.Value.Challenges {
			at := append(slices.Clone(at), "challenges", c.Name)
			if err := l.change(c.Value.Change, append(at, "change")...); err != nil {
				return err
			}
			if err := l.promise(c.Value.Promise, at...); err != nil {
				return err
			}
			all := append(checkIDs(i.Objectives), checkIDs(i.Symptoms)...)
			for n, id := range c.Value.Holds {
				if err := l.known("check", id, all, append(at, "holds", n)...); err != nil {
					return err
				}
				if slices.Contains(c.Value.Leaves, id) {
					return l.fail(fmt.Sprintf("%s is said to hold and to be left", id), "keep it in one list", append(at, "holds", n)...)
				}
				if slices.Contains(c.Value.Breaks, id) {
					return l.fail(fmt.Sprintf("%s is said to hold and to break", id), "keep it in one list", append(at, "holds", n)...)
				}
			}
		}
	}
	return nil
}

func (l *loader) change(c Change, keys ...any) error {
	at := func(more ...any) []any { return append(slices.Clone(keys), more...) }
	names := l.inc.Faults.Names()
	for n, o := range c.Overlays {
		if err := l.overlay(o, at("overlays", n)...); err != nil {
			return err
		}
	}
	for n, f := range c.Remove {
		if err := l.known("fault", f, names, at("remove", n)...); err != nil {
			return err
		}
	}
	for from, to := range c.Replace {
		if err := l.known("fault", from, names, at("replace", keyOf(from))...); err != nil {
			return err
		}
		if err := l.known("fault", to, names, at("replace", from)...); err != nil {
			return err
		}
	}
	for phase, added := range c.Add {
		if err := l.known("phase", phase, l.inc.phaseNames(), at("add", keyOf(phase))...); err != nil {
			return err
		}
		for n, f := range added {
			if err := l.known("fault", f, names, at("add", phase, n)...); err != nil {
				return err
			}
		}
	}
	if err := l.traffic(c.Traffic, at("traffic")...); err != nil {
		return err
	}
	if c.Load != nil && !(*c.Load > 0 && *c.Load <= mostLoad) {
		return l.fail(fmt.Sprintf("load: %v times as many players", *c.Load), fmt.Sprintf("write a factor above 0 and up to %d, such as 0.5 for half of them", mostLoad), at("load")...)
	}
	if c.empty() {
		return l.fail(fmt.Sprintf("%v changes nothing", keys[len(keys)-2]), "name overlays, or faults to remove, replace or add, or traffic", keys...)
	}
	return nil
}

// mostLoad is more than any test of load needs; above it somebody mistyped.
const mostLoad = 100

func (c Change) empty() bool {
	return len(c.Overlays)+len(c.Remove)+len(c.Replace)+len(c.Add)+len(c.Traffic) == 0 && c.Load == nil
}

func (l *loader) overlay(name string, keys ...any) error {
	// By its text, since a path would be taken from wherever it leads.
	if _, ok := l.inc.files[l.inc.Topology+"/overlays/"+name+".yaml"]; ok && !strings.Contains(name, "/") {
		return nil
	}
	return l.known("overlay", name, l.overlays(), keys...)
}

func (l *loader) overlays() []string {
	var out []string
	for name := range l.inc.files {
		if dir, file := path.Split(name); dir == l.inc.Topology+"/overlays/" {
			out = append(out, file[:len(file)-len(path.Ext(file))])
		}
	}
	slices.Sort(out)
	return out
}

func (l *loader) promise(p Promise, keys ...any) error {
	objectives, symptoms := checkIDs(l.inc.Objectives), checkIDs(l.inc.Symptoms)
	invariants := checkIDs(l.inc.Invariants)
	for _, list := range []struct {
		field string
		ids   Names
		known []string
		what  string
	}{
		{"restores", p.Restores, objectives, "objective"},
		{"cures", p.Cures, symptoms, "symptom"},
		{"leaves", p.Leaves, append(slices.Clone(objectives), symptoms...), "objective or symptom"},
		{"breaks", p.Breaks, append(slices.Clone(invariants), objectives...), "invariant or objective"},
	} {
		for n, id := range list.ids {
			if slices.Contains(slices.Concat(objectives, symptoms), id) && !slices.Contains(list.known, id) {
				return l.fail(fmt.Sprintf("%s is no %s", id, list.what), "list objectives under restores, symptoms under cures", append(slices.Clone(keys), list.field, n)...)
			}
			if err := l.known(list.what, id, list.known, append(slices.Clone(keys), list.field, n)...); err != nil {
				return err
			}
		}
	}
	for n, id := range p.Leaves {
		if slices.Contains(p.Restores, id) || slices.Contains(p.Cures, id) {
			return l.fail(fmt.Sprintf("%s is said to be left and not to be left", id), "keep it in one list", append(slices.Clone(keys), "leaves", n)...)
		}
	}
	for n, id := range p.Breaks {
		if slices.Contains(p.Restores, id) || slices.Contains(p.Leaves, id) {
			return l.fail(fmt.Sprintf("%s is said to break and is in another list", id), "keep it in one list", append(slices.Clone(keys), "breaks", n)...)
		}
	}
	return l.classes(p.Class, append(slices.Clone(keys), "class")...)
}

func (l *loader) alerts() error {
	a := l.inc.Alerts
	if a == nil {
		return nil
	}
	if a.Rules == "" {
		return l.fail("alerts name no rule file", "write rules: alerts.yaml", "alerts")
	}
	if !inside(a.Rules) {
		return l.fail(fmt.Sprintf("alert rules at %s are in no file of the incident's folder", a.Rules), "name a Prometheus rule file beside this one, such as alerts.yaml", "alerts", "rules")
	}
	file := path.Join(l.dir, a.Rules)
	src, err := topologies.ReadText(l.fsys, file, displayPath(l.fsys, file))
	if bad := (*topologies.FileError)(nil); errors.As(err, &bad) {
		return err
	}
	if err != nil {
		return l.fail(fmt.Sprintf("alert rules cannot be read: %v", err), "name a Prometheus rule file beside this one", "alerts", "rules")
	}
	l.inc.files[a.Rules] = src
	rules := source{file: displayPath(l.fsys, file), src: src}
	if l.inc.rules, err = rules.alertRules(); err != nil {
		return err
	}
	for n, f := range a.Fire {
		if err := l.known("alert", f.Alert, l.inc.rules.Alerts(), "alerts", "fire", n, "alert"); err != nil {
			return err
		}
		if err := l.known("phase", f.During, l.inc.phaseNames(), "alerts", "fire", n, "during"); err != nil {
			return err
		}
		if p := l.inc.phase(f.During); f.Within < 0 || f.Within > p.Lasts {
			return l.fail(fmt.Sprintf("alert %s may fire %s after the start of %s, which lasts %s", f.Alert, f.Within, f.During, p.Lasts), "stay inside the phase", "alerts", "fire", n, "within")
		}
	}
	for n, p := range a.Silent {
		if err := l.known("phase", p, l.inc.phaseNames(), "alerts", "silent", n); err != nil {
			return err
		}
	}
	return nil
}

// plans makes every arm's plan once, since what only an arm's own overlays
// decide (does a link pattern match there?) must be refused before anything
// starts too. A change that leaves the plan as it was is refused: its arm would
// prove nothing.
func (l *loader) plans() error {
	arms := l.inc.Arms()
	if err := l.inc.loadTopologies(arms); err != nil {
		return err
	}
	plans := map[string]*Plan{}
	held := map[string]bool{}
	for n, arm := range arms {
		if slices.Contains(arms[:n], arm) {
			field, hint := armField(arm)
			return l.fail(fmt.Sprintf("two arms are named %s", arm), hint, field)
		}
		if len(arm) > longestArm {
			field, hint := armField(arm)
			return l.fail(fmt.Sprintf("an arm is named %s…, %d characters in all", arm[:longestName], len(arm)), fmt.Sprintf("%s: with all that it is put together of it has %d at most", hint, longestArm), field)
		}
		plan, err := l.inc.Plan(arm, 1)
		var target *targetError
		switch {
		case errors.As(err, &target):
			keys := []any{"faults", target.fault, target.field, target.index}
			if child(find(l.root, "faults", target.fault), target.field) == nil {
				keys = []any{"faults", keyOf(target.fault)} // a value that is not given
			}
			return l.fail(fmt.Sprintf("arm %s: %s", arm, target.problem), target.hint, keys...)
		case err != nil:
			return err
		}
		if err := l.loadBound(plan); err != nil {
			return err
		}
		plans[arm] = plan
		for _, f := range plan.Faults {
			held[nameOf(f)] = true
		}
	}
	for _, f := range l.inc.Faults {
		if !held[f.Name] {
			return l.fail(fmt.Sprintf("fault %s is held in no arm", f.Name), "name it in a phase, under conditions or in a change, or take it out", "faults", keyOf(f.Name))
		}
	}
	same := func(before, after string, keys ...any) error {
		if !plans[before].playsLike(plans[after]) {
			return nil
		}
		return l.fail(fmt.Sprintf("%v changes nothing: arm %s plays as %s does", keys[len(keys)-2], after, before),
			"take away a fault that is held, or name an overlay that makes a difference", keys...)
	}
	if plans["healthy"].playsLike(plans["unfixed"]) {
		if l.inc.Unfixed != nil {
			return l.fail("unfixed plays as healthy does", "have its change make a difference", "unfixed", keyOf("change"))
		}
		return l.fail("no phase holds a fault: unfixed plays as healthy does", "name what triggers the incident: {name: stall, lasts: 6s, faults: [cache-stall]}", "phases")
	}
	var errs []error
	for _, t := range l.inc.Triggers.Names() {
		errs = append(errs, same("unfixed", "unfixed-on-"+t, "triggers", t, "change"))
	}
	for _, c := range l.inc.Causes.Names() {
		errs = append(errs, same("unfixed", "without-"+c, "causes", c, "without"))
	}
	for _, f := range l.inc.Fixes {
		errs = append(errs, same("unfixed", "fix-"+f.Name, "fixes", f.Name, "change"))
		for _, c := range f.Value.Challenges.Names() {
			errs = append(errs, same("fix-"+f.Name, "fix-"+f.Name+"-under-"+c, "fixes", f.Name, "challenges", c, "change"))
		}
	}
	errs = append(errs, l.combinationsDiffer(plans), l.stepsDiffer(plans), l.classLoad(plans, arms), l.ladderRises(plans))
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// loadBound refuses a plan with a rate that no load generator makes, as rates in
// the file are refused: changes multiply them.
func (l *loader) loadBound(p *Plan) error {
	for _, phase := range p.Phases {
		for _, node := range slices.Sorted(maps.Keys(phase.Traffic)) {
			for _, op := range slices.Sorted(maps.Keys(phase.Traffic[node])) {
				if rate := phase.Traffic[node][op] * p.arrivals(node, op, phase); rate > mostRate {
					return l.fail(fmt.Sprintf("arm %s asks %s for %g/s of %s in phase %s: no load generator makes more than %d/s", p.Arm, node, rate, op, phase.Name, mostRate),
						"lower the load of its changes, or the rate", "traffic")
				}
			}
		}
	}
	return nil
}

// armField is where an arm that is not named alone comes from, and what to
// rename there.
func armField(arm string) (field, hint string) {
	switch {
	case strings.HasPrefix(arm, "fix-"):
		return "fixes", "rename a fix or one of its challenges"
	case strings.HasPrefix(arm, "without-"):
		return "causes", "rename a cause: combine puts -and- between their names"
	}
	return "sweeps", "rename a sweep or one of its steps"
}

// playsLike says whether two plans do the same, whatever they promise.
func (p *Plan) playsLike(q *Plan) bool {
	a, b := *p.nodes, *q.nodes
	a.Overlays, b.Overlays = nil, nil
	return reflect.DeepEqual(a, b) && reflect.DeepEqual(p.Phases, q.Phases) && reflect.DeepEqual(p.Faults, q.Faults)
}

// loadTopologies loads the topologies of all arms at once, since each takes
// longer than all the rest of an incident's loading.
func (i *Incident) loadTopologies(arms []string) error {
	sets := map[string][]string{}
	for _, name := range arms {
		a, err := i.arm(name)
		if err != nil {
			return err
		}
		overlays := i.overlays(a)
		if _, known := i.topologies[overlayKey(overlays)]; !known {
			sets[overlayKey(overlays)] = overlays
		}
	}
	var mu sync.Mutex
	var group errgroup.Group
	group.SetLimit(runtime.GOMAXPROCS(0))
	for key, overlays := range sets {
		group.Go(func() error {
			t, err := topologies.Load(context.Background(), i.topologyFS, i.topologyDir, overlays...)
			mu.Lock()
			defer mu.Unlock()
			i.topologies[key] = loadedOverlay{t, err}
			return nil // told of with the arm that needs it
		})
	}
	return group.Wait()
}
