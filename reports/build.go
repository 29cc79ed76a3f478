package reports

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"relapse/replays"
	"relapse/replays/samples"
)

// ErrEmptyRun says that a run has no play to tell of: it is no input for a report.
var ErrEmptyRun = errors.New("the run holds no play")

// FromRun fills a report from a run's records, and from nothing else. A run without
// any is refused with [ErrEmptyRun].
func FromRun(run *replays.Run) (Report, error) {
	if len(run.Records) == 0 {
		why := ""
		if run.Matrix.Trouble != "" {
			why = ", since it ended early: " + run.Matrix.Trouble
		}
		return Report{}, fmt.Errorf("%s: %w that a report could tell of%s; play it anew: relapse verify %s", run.Verdict.Record, ErrEmptyRun, why, run.Matrix.Incident)
	}
	inc, err := run.Records[0].Incident()
	if err != nil {
		return Report{}, fmt.Errorf("read the incident of record %s: %w", run.Records[0].Dir, err)
	}
	r := Report{
		Incident: incidentInfo(inc), Verdict: run.Verdict, Modelled: inc.Modelled,
		Environment: environment(run), Command: command(run),
	}
	for _, record := range told(run) {
		record, err := replays.ReadRecord(record.Dir)
		if err != nil {
			return Report{}, err
		}
		timeline, err := timelineOf(inc, record)
		if err != nil {
			return Report{}, fmt.Errorf("record %s: %w", record.Dir, err)
		}
		r.Timelines = append(r.Timelines, timeline)
		excerpts, err := excerptsOf(record)
		if err != nil {
			return Report{}, fmt.Errorf("record %s: %w", record.Dir, err)
		}
		r.Logs = append(r.Logs, excerpts...)
	}
	return r, nil
}

// command is what shows the same again.
func command(run *replays.Run) string {
	if len(run.Matrix.Arms) == 1 {
		return fmt.Sprintf("relapse replay %s --arm %s --seed %d", run.Matrix.Incident, run.Matrix.Arms[0], run.Matrix.Seed)
	}
	return fmt.Sprintf("relapse verify %s --repeat %d --seed %d", run.Matrix.Incident, run.Matrix.Repeat, run.Matrix.Seed)
}

func incidentInfo(inc *replays.Incident) IncidentInfo {
	info := IncidentInfo{
		Name: inc.Name, Title: inc.Title, Story: inc.Story, Source: Source(inc.Source), Scale: Scale(inc.Scale),
		Topology: inc.Topology, Speed: inc.Speed, AlertRules: inc.RulesText(),
	}
	for _, group := range []struct {
		kind   string
		checks []replays.Check
	}{{replays.KindSymptom, inc.Symptoms}, {replays.KindObjective, inc.Objectives}, {replays.KindInvariant, inc.Invariants}} {
		for _, c := range group.checks {
			info.Checks = append(info.Checks, CheckInfo{
				ID: c.ID, Kind: group.kind, Says: c.Says, Fact: c.Fact, During: strings.Join(c.During, ", "),
				Query: strings.TrimSpace(c.Query), Documented: c.Fact != "",
			})
		}
	}
	for _, c := range inc.Causes {
		info.Causes = append(info.Causes, CauseInfo{Name: c.Name, Says: c.Value.Says, Necessary: c.Value.Necessary})
	}
	for _, f := range inc.Fixes {
		fix := FixInfo{
			Name: f.Name, Says: f.Value.Says, Documented: f.Value.Documented,
			Restores: f.Value.Restores, Cures: f.Value.Cures, Leaves: f.Value.Leaves,
		}
		for _, o := range f.Value.Change.Overlays {
			fix.Diff += inc.OverlayText(o)
		}
		for _, on := range f.Value.On {
			trigger, _ := inc.Triggers.Get(on.Name)
			fix.On = append(fix.On, ChallengeInfo{Name: on.Name, Says: trigger.Says, Holds: slices.Concat(on.Value.Restores, on.Value.Cures)})
		}
		for _, c := range f.Value.Challenges {
			holds := slices.Concat(c.Value.Holds, c.Value.Restores, c.Value.Cures)
			fix.Challenges = append(fix.Challenges, ChallengeInfo{Name: c.Name, Says: c.Value.Says, Holds: holds, Breaks: c.Value.Breaks})
		}
		info.Fixes = append(info.Fixes, fix)
	}
	for _, s := range inc.Sweeps {
		sweep := SweepInfo{Name: s.Name, Says: s.Value.Says}
		for _, step := range s.Value.Steps {
			sweep.Steps = append(sweep.Steps, StepInfo{Name: step.Name, Says: step.Says, Outage: *step.Outage})
		}
		info.Sweeps = append(info.Sweeps, sweep)
	}
	if d := inc.Ladder; d != nil {
		info.Ladder = &LadderInfo{Says: d.Says, Metrics: d.Metrics, Clean: d.Clean}
	}
	if c := inc.Class; c != nil {
		info.Class = &ClassInfo{Unfixed: c.Unfixed, Wait: c.Wait, WaitFor: c.WaitFor().Seconds()}
		if c.WaitAtLeast != nil {
			info.Class.WaitReason = c.WaitAtLeast.Reason
		}
	}
	return info
}

func environment(run *replays.Run) Environment {
	e := run.Records[0].Environment
	out := Environment{
		Run: filepath.Base(run.Verdict.Record), Tool: e.Tool.Version, Commit: e.Tool.Commit, Dirty: e.Tool.Dirty,
		Date: run.Matrix.Started, Command: strings.Join(e.Command, " "), Seed: run.Matrix.Seed,
		Machine: Machine{
			OS: e.Machine.OS, Kernel: e.Machine.Kernel, CPUs: e.Machine.CPUs, MemoryBytes: int64(e.Machine.Memory),
			Engine: e.Machine.Engine, Cgroup: cgroupText(e.Machine),
		},
	}
	for _, i := range e.Images {
		image := Image{Ref: i.Ref, Source: i.Source, Digest: i.Digest}
		for program, version := range i.Versions {
			image.Versions = append(image.Versions, program+" "+version)
		}
		slices.Sort(image.Versions)
		out.Images = append(out.Images, image)
	}
	for _, r := range run.Matrix.Resumed {
		out.Resumed = append(out.Resumed, Resumption{At: r.At, After: r.After, Tool: r.Tool.Version, Commit: r.Tool.Commit, Dirty: r.Tool.Dirty})
	}
	return out
}

// told picks the plays whose course is drawn: the first of the healthy arm and
// of each un-fixed one, which are what a reader compares; of a run without
// them, the first play.
func told(run *replays.Run) []*replays.Record {
	var out []*replays.Record
	seen := map[string]bool{}
	for _, r := range run.Records {
		plain := r.Plan.Role == replays.RoleHealthy || r.Plan.Role == replays.RoleUnfixed
		if plain && !seen[r.Plan.Arm] {
			seen[r.Plan.Arm] = true
			out = append(out, r)
		}
	}
	if len(out) == 0 {
		out = run.Records[:1]
	}
	return out
}

func timelineOf(inc *replays.Incident, r *replays.Record) (Timeline, error) {
	t := Timeline{Arm: r.Plan.Arm}
	for _, p := range r.Plan.Phases {
		t.Phases = append(t.Phases, Span{p.Name, p.Start, p.End})
	}
	verdict := replays.JudgePlay(r)
	for n, f := range verdict.Faults {
		if r.Plan.Faults[n].Condition || f.InjectedAt == nil {
			continue
		}
		span := Span{Name: f.Name, From: *f.InjectedAt, To: r.Plan.Length()}
		if f.UndoneAt != nil {
			span.To = *f.UndoneAt
		}
		t.Faults = append(t.Faults, span)
	}
	origin, ok := r.Origin()
	if !ok {
		return t, nil // it never began: there is nothing to draw
	}
	since := func(at time.Time) float64 { return math.Round(at.Sub(origin).Seconds()*1000) / 1000 }
	end := origin.Add(time.Duration(r.Plan.Length() * float64(time.Second)))
	for _, c := range inc.Charts {
		curves, err := r.Samples.Curves(c.Query, origin, end, samples.Period)
		if err != nil {
			return t, fmt.Errorf("chart %s: %w", c.Name, err)
		}
		for n, curve := range curves {
			s := Series{Name: c.Name, Unit: c.Unit, Step: c.Step}
			if n > 0 {
				s.Name = fmt.Sprintf("%s (%d)", c.Name, n+1)
			}
			for _, p := range curve.Points {
				s.Points = append(s.Points, Point{since(p.At), p.Value})
			}
			t.Series = append(t.Series, s)
		}
	}
	if r.Rules != nil {
		spans, err := r.Rules.Evaluate(r.Samples, origin, end, samples.Period)
		if err != nil {
			return t, fmt.Errorf("alert rules: %w", err)
		}
		for _, s := range spans {
			if s.State == samples.Firing {
				t.Alerts = append(t.Alerts, Span{s.Alert, since(s.From), since(s.To)})
			}
		}
	}
	for _, e := range r.Events {
		switch e.Event {
		case replays.EventNodeDead, replays.EventNodeRestarted, replays.EventTrouble:
			t.Events = append(t.Events, Event{since(e.At), strings.TrimSpace(e.Node + " " + e.Detail)})
		}
	}
	return t, nil
}

// excerptLines is how many kinds of line of a node's log are shown.
const excerptLines = 4

// noticeable lines are those in which a program complains.
var noticeable = regexp.MustCompile(`(?i)\b(alert|crit|emerg|error|warn(ing)?|fatal|panic|DOWN|fail(ed|ure)?|timed out|no server available)\b`)

// variable parts of a log line: what differs between two of the same kind.
var variable = regexp.MustCompile(`\d+`)

// excerptsOf shows what each node complained of most: the first line of each
// kind, with the number of its like.
func excerptsOf(r *replays.Record) ([]LogExcerpt, error) {
	var out []LogExcerpt
	logs := r.Logs()
	for _, node := range slices.Sorted(maps.Keys(logs)) {
		lines, total, err := complaints(logs[node])
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if len(lines) > 0 {
			out = append(out, LogExcerpt{Node: node, Arm: r.Plan.Arm, Says: fmt.Sprintf("%d complaints, most frequent kinds first", total), Lines: lines})
		}
	}
	return out, nil
}

func complaints(path string) (lines []string, total int, err error) {
	f, err := replays.OpenRegular(path)
	if err != nil {
		return nil, 0, err
	}
	defer f.Close()
	type kind struct {
		first string
		count int
	}
	found := map[string]*kind{}
	scanner := bufio.NewScanner(f)
	scanner.Buffer(nil, 1<<20)
	for scanner.Scan() {
		line := strings.TrimSpace(scanner.Text())
		if !noticeable.MatchString(line) {
			continue
		}
		total++
		key := variable.ReplaceAllString(line, "0")
		if found[key] == nil {
			found[key] = &kind{first: line}
		}
		found[key].count++
	}
	var all []*kind
	for _, k := range found {
		all = append(all, k)
	}
	slices.SortFunc(all, func(a, b *kind) int { return cmp.Or(b.count-a.count, strings.Compare(a.first, b.first)) })
	for _, k := range all[:min(len(all), excerptLines)] {
		lines = append(lines, fmt.Sprintf("%d× %s", k.count, k.first))
	}
	if err := scanner.Err(); err != nil {
		return nil, 0, fmt.Errorf("%s: %w: %w; take the log away, or play it anew", path, replays.ErrDamaged, err)
	}
	return lines, total, nil
}

func cgroupText(m replays.Machine) string {
	if m.CPUWeight <= 1 {
		return m.Cgroup
	}
	return fmt.Sprintf("%s, the nodes together weigh as %d processes", m.Cgroup, m.CPUWeight)
}
