package replays

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"relapse/replays/samples"
)

// ladder reads every metric at every moment of the steps, in their order, up to the
// first breach; nil where the plan has no ladder.
//
// The play itself goes on to its last phase. To end it at a breach, metrics would
// have to be evaluated on the machine that is measured and while it is, which is what
// they would then show; and in arms that have more to show than a ladder, what comes
// later would be missing. So the ladder is read from disk like all else, and what was
// played after its first breach counts for nothing of it.
func (j judge) ladder() *LadderVerdict {
	p := j.Plan.Ladder
	if p == nil {
		return nil
	}
	l := &LadderVerdict{Steps: []LadderStep{}}
	if p.Drifted != nil {
		l.Drift = p.Drift
	}
	gaps := j.gaps()
	var ignored []string
	for _, planned := range p.Steps {
		step := LadderStep{Step: planned.Phase, Players: planned.Players, Load: planned.Load, State: StepNotReached}
		switch {
		case l.Breach != nil:
			ignored = append(ignored, planned.Phase)
		case l.Unknown == "":
			j.climb(l, &step, gaps)
		}
		l.Steps = append(l.Steps, step)
	}
	if l.Breach != nil {
		l.Ignored = fmt.Sprintf("what was played after %.2f s", l.Breach.At)
		if len(ignored) > 0 {
			l.Ignored += ", with all of " + strings.Join(ignored, ", ")
		}
	}
	return l
}

// climb reads one step.
func (j judge) climb(l *LadderVerdict, step *LadderStep, gaps []sampleGap) {
	unknown := func(format string, args ...any) {
		step.State, l.Unknown = StepUnknown, fmt.Sprintf("step %s: %s", step.Step, fmt.Sprintf(format, args...))
	}
	phase, ok := j.Plan.Phase(step.Step)
	switch {
	case !ok:
		unknown("the plan has no such phase")
		return
	case len(j.Plan.Ladder.Metrics) == 0:
		unknown("there is no metric")
		return
	}
	until := min(phase.End, j.played())
	first, rig := firstGap(gaps, phase, until)
	nearest := (*LadderRoom)(nil)
	for _, id := range j.Plan.Ladder.Metrics {
		breach, room, err := j.metric(id, phase, until)
		if err != nil {
			unknown("metric %s: %v", id, err)
			return
		}
		if breach != nil && (first == nil || breach.At < first.At) {
			first, rig = breach, ""
		}
		if breach != nil && first == breach || first == nil && nearer(room, nearest) {
			nearest = room
		}
	}
	switch {
	case rig != "":
		unknown("%s", rig)
	case first != nil:
		first.Step, first.Into = phase.Name, thousandths(first.At-phase.Start)
		l.Breach, step.State = first, StepBreached
		if nearest != nil && nearest.Metric == first.Metric {
			step.Nearest = nearest
		}
	case until < phase.End:
		unknown("the play ended before it did%s", j.ending())
	default:
		l.Clean, step.State, step.Nearest = phase.Name, StepClean, nearest
	}
}

// nearer says whether a metric came nearer to its limit than another.
func nearer(a, b *LadderRoom) bool { return a != nil && (b == nil || a.Margin < b.Margin) }

// metric reads an objective at every moment of a step that has settled: its first
// breach, or how near it came to one.
func (j judge) metric(id string, phase PlannedPhase, until float64) (*Breach, *LadderRoom, error) {
	n := slices.IndexFunc(j.Plan.Checks, func(c PlannedCheck) bool { return c.ID == id && c.Kind == KindObjective })
	if n < 0 {
		return nil, nil, errors.New("the plan has no such objective")
	}
	c := j.Plan.Checks[n]
	q, err := samples.ParseQuery(c.Query)
	if err != nil {
		return nil, nil, fmt.Errorf("the query cannot be read: %w", err)
	}
	settle, ok := c.Settle[phase.Name]
	if !ok {
		settle = phase.Settle
	}
	// Not before all that the query's ranges read lies behind the settling time.
	from := phase.Start + settle + max(q.Spans(readOver), ladderEvery).Seconds()
	switch {
	case from > phase.End:
		return nil, nil, errors.New("the step leaves nothing to read")
	case from > until:
		return nil, nil, nil // the play ended before: the caller says so
	}
	results := q.Range(j.Samples, j.at(from), j.at(until), ladderEvery, readOver)
	results = append(results, q.Instant(j.Samples, j.at(until), readOver))
	var nearest *LadderRoom
	for _, r := range results {
		at := thousandths(r.At.Sub(j.origin).Seconds())
		room := roomOf(id, at, r)
		if r.State != samples.Held {
			return j.breach(id, at, q, r), room, nil
		}
		if nearer(room, nearest) && !equality(Finding{Want: r.Want}) {
			nearest = room
		}
	}
	return nil, nearest, nil
}

// roomOf is nil where the limit is not one number.
func roomOf(id string, at float64, r samples.Result) *LadderRoom {
	if r.Nearest == nil || r.Nearest.Margin == nil {
		return nil
	}
	return &LadderRoom{Metric: id, Node: r.Nearest.Labels["node"], At: at, Got: r.Nearest.Got, Want: r.Want, Margin: *r.Nearest.Margin}
}

func (j judge) breach(id string, at float64, q *samples.Query, r samples.Result) *Breach {
	b := &Breach{Metric: id, At: at, Got: r.Got, Want: r.Want, Missing: r.State == samples.NoData, Reason: r.Reason}
	if n := r.Nearest; n != nil {
		b.Node, b.Series = n.Labels["node"], labelText(n.Labels)
		if n.Got != "" {
			b.Got = n.Got
		}
	}
	if b.Node == "" {
		b.Of = q.Nodes(j.Samples)
	}
	if len(b.Of) == 1 {
		b.Node, b.Of = b.Of[0], nil
	}
	return b
}

// labelText writes labels as PromQL does, or nothing where there are none.
func labelText(labels map[string]string) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		parts = append(parts, fmt.Sprintf("%s=%q", name, labels[name]))
	}
	if len(parts) == 0 {
		return ""
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

// thousandths leaves out digits that no moment has.
func thousandths(v float64) float64 { return math.Round(v*1000) / 1000 }
