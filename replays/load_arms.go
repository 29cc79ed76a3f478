package replays

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"

	"relapse/replays/samples"
)

// arms checks triggers, causes, fixes and challenges: every name in them must
// exist, and every list must be about something.
func (l *loader) arms() error {
	i := &l.inc
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
			}
		}
	}
	return nil
}

func (l *loader) change(c Change, keys ...any) error {
	at := func(more ...any) []any { return append(slices.Clone(keys), more...) }
	names := l.inc.Faults.Names()
	for n, o := range c.Overlays {
		if _, ok := l.inc.files[path.Join(l.inc.Topology, "overlays", o+".yaml")]; !ok {
			return l.known("overlay", o, l.overlays(), at("overlays", n)...)
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
	if c.empty() {
		return l.fail("this changes nothing", "name overlays, or faults to remove, replace or add, or traffic", keys...)
	}
	return nil
}

func (c Change) empty() bool {
	return len(c.Overlays)+len(c.Remove)+len(c.Replace)+len(c.Add)+len(c.Traffic) == 0
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
	for _, list := range []struct {
		field string
		ids   Names
		known []string
		what  string
	}{
		{"restores", p.Restores, objectives, "objective"},
		{"cures", p.Cures, symptoms, "symptom"},
		{"leaves", p.Leaves, append(slices.Clone(objectives), symptoms...), "objective or symptom"},
	} {
		for n, id := range list.ids {
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
	return nil
}

func (l *loader) alerts() error {
	a := l.inc.Alerts
	if a == nil {
		return nil
	}
	if a.Rules == "" {
		return l.fail("alerts name no rule file", "write rules: alerts.yaml", "alerts")
	}
	file := path.Join(l.dir, a.Rules)
	src, err := fs.ReadFile(l.fsys, file)
	if err != nil {
		return l.fail(fmt.Sprintf("alert rules cannot be read: %v", err), "name a Prometheus rule file beside this one", "alerts", "rules")
	}
	l.inc.files[a.Rules] = src
	l.inc.rules, err = samples.ParseRules(src)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
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
// starts too.
func (l *loader) plans() error {
	for _, arm := range l.inc.Arms() {
		if _, err := l.inc.Plan(arm, 1); err != nil {
			var target *targetError
			if errors.As(err, &target) {
				keys := []any{"faults", target.fault, target.field, target.index}
				return l.fail(fmt.Sprintf("arm %s: %s", arm, target.problem), target.hint, keys...)
			}
			return err
		}
	}
	return nil
}
