package samples

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	promvalue "github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/template"
)

// Rules is an ordinary Prometheus rule file.
type Rules struct{ groups []rulefmt.RuleGroup }

// AlertState is what an alert is in; one that is inactive has no span.
type AlertState string

const (
	Pending AlertState = "pending" // its expression matches, but not yet for as long as `for` wants
	Firing  AlertState = "firing"
)

// AlertSpan is a stretch in which one alert was in one state.
type AlertSpan struct {
	Alert  string
	Labels map[string]string // without alertname
	State  AlertState
	From   time.Time // the first evaluation that found it so
	To     time.Time // the first one that found it otherwise, or the end
	Open   bool      // whether it was still so at the end
}

// RuleError is a mistake in one rule.
type RuleError struct {
	Group, Index int    // which group of the file, and which of its rules, from 0
	Rule         string // its name
	Problem      string
	Expression   *QueryError // where the mistake is in the rule's expression
	err          error
}

func (e *RuleError) Error() string { return e.err.Error() }

// Unwrap gives Prometheus' own error.
func (e *RuleError) Unwrap() error { return e.err }

func newRuleError(groups *rulefmt.RuleGroups, err error) error {
	in, ok := errors.AsType[*rulefmt.Error](err)
	if !ok {
		return err
	}
	e := &RuleError{Index: in.Rule - 1, Rule: in.RuleName, Problem: in.Error(), err: err}
	e.Group = slices.IndexFunc(groups.Groups, func(g rulefmt.RuleGroup) bool { return g.Name == in.Group })
	if cause := errors.Unwrap(&in.Err); cause != nil {
		e.Problem = cause.Error()
	}
	if all, ok := errors.AsType[parser.ParseErrors](err); ok && len(all) > 0 {
		q := Query{expr: all[0].Query}
		e.Expression, _ = errors.AsType[*QueryError](q.refuse(int(all[0].PositionRange.Start), all[0].Err.Error(),
			"an alert's expression is PromQL that gives a series for each thing that is wrong"))
	}
	return e
}

// CheckDuration says what is wrong with a duration as rule files write it.
func CheckDuration(text string) error {
	if _, err := model.ParseDuration(text); err != nil {
		return fmt.Errorf("duration %q: %w", text, err)
	}
	return nil
}

// ParseRules reads a rule file as Prometheus would. Errors say line and column,
// where Prometheus says them; all that were found are joined, those of single
// rules as a *[RuleError].
func ParseRules(src []byte) (*Rules, error) {
	groups, errs := rulefmt.Parse(src, false, model.UTF8Validation, promqlParser(), slog.New(slog.DiscardHandler))
	if len(errs) > 0 {
		for i, err := range errs {
			errs[i] = newRuleError(groups, err)
		}
		return nil, errors.Join(errs...)
	}
	r := &Rules{groups: groups.Groups}
	for _, g := range r.groups {
		if len(g.Rules) > 0 {
			return r, nil
		}
	}
	return nil, errors.New("1:1: no rules: want groups with at least one rule")
}

// Alerts lists the names of the alerting rules, sorted.
func (r *Rules) Alerts() []string {
	var out []string
	for _, g := range r.groups {
		for _, rule := range g.Rules {
			if rule.Alert != "" {
				out = append(out, rule.Alert)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Missing gives the metrics that an alert reads, through recording rules too,
// and of which the store holds no series at all. Such an alert is silent
// whatever happens.
func (r *Rules) Missing(s *Store, alert string) []string {
	recorded := map[string][]string{"ALERTS": nil, "ALERTS_FOR_STATE": nil}
	var todo []string
	for _, g := range r.groups {
		for _, rule := range g.Rules {
			tree, err := promqlParser().ParseExpr(rule.Expr)
			if err != nil {
				continue // ParseRules refused it
			}
			if rule.Alert == alert {
				todo = append(todo, metricNames(tree)...)
			} else if rule.Record != "" {
				recorded[rule.Record] = append(recorded[rule.Record], metricNames(tree)...)
			}
		}
	}
	var measured []string
	for seen := map[string]bool{}; len(todo) > 0; {
		name := todo[0]
		todo = todo[1:]
		if seen[name] {
			continue
		}
		seen[name] = true
		if from, ok := recorded[name]; ok {
			todo = append(todo, from...)
		} else {
			measured = append(measured, name)
		}
	}
	return s.missing(measured)
}

// Evaluate runs the rules over the store at from and at every step up to to, in
// order of time, as Prometheus would have live: recording rules and ALERTS are
// seen by later rules, and nothing is written to the store. A group with an
// interval of its own is evaluated at that instead, from from on. Spans are in
// order of their beginning, then of name and labels. A rule that cannot be
// evaluated is an error, together with the spans of all others.
func (r *Rules) Evaluate(s *Store, from, to time.Time, step time.Duration) ([]AlertSpan, error) {
	if step < time.Millisecond {
		return nil, fmt.Errorf("evaluating rules: a step of %s: want at least a millisecond", step)
	}
	run := &ruleRun{data: layers{stores: []*Store{s, NewStore()}}, to: to}
	next := make([]time.Time, len(r.groups))
	for i := range next {
		next[i] = from
		run.groups = append(run.groups, newGroupRun(&r.groups[i]))
	}
	for {
		at := slices.MinFunc(next, time.Time.Compare)
		if at.After(to) {
			break
		}
		for i := range r.groups { // in the file's order, where several are due
			if !next[i].Equal(at) {
				continue
			}
			run.group(run.groups[i], at)
			if next[i] = at.Add(step); r.groups[i].Interval > 0 {
				next[i] = at.Add(time.Duration(r.groups[i].Interval))
			}
		}
	}
	return run.finish(), errors.Join(run.errs...)
}

// ruleRun is one evaluation of a rule file.
type ruleRun struct {
	data   layers // the store, and over it what the rules record
	to     time.Time
	groups []*groupRun
	spans  []AlertSpan
	errs   []error
}

type groupRun struct {
	*rulefmt.RuleGroup
	rules []*ruleState
}

// ruleState is what a rule remembers between two evaluations.
type ruleState struct {
	rulefmt.Rule
	labels   labels.Labels // of the group and of the rule
	active   map[string]*alert
	recorded map[string]labels.Labels // by the evaluation before
	failed   bool
}

// alert is one active instance of an alerting rule.
type alert struct {
	labels   labels.Labels
	state    AlertState
	since    time.Time // when it became active
	from     time.Time // when it came into its state
	keptFrom time.Time // since when only keep_firing_for holds it, or zero
}

func newGroupRun(g *rulefmt.RuleGroup) *groupRun {
	out := &groupRun{RuleGroup: g}
	for _, rule := range g.Rules {
		b := labels.NewBuilder(labels.FromMap(g.Labels))
		for k, v := range rule.Labels {
			b.Set(k, v)
		}
		out.rules = append(out.rules, &ruleState{Rule: rule, labels: b.Labels(), active: map[string]*alert{}})
	}
	return out
}

func (r *ruleRun) group(g *groupRun, at time.Time) {
	queried := at
	if g.QueryOffset != nil {
		queried = at.Add(-time.Duration(*g.QueryOffset))
	}
	for _, rule := range g.rules {
		var out promql.Vector
		in, err := r.vector(r.data, rule.Expr, queried)
		if err == nil && rule.Record != "" {
			out, err = record(rule, in)
		} else if err == nil {
			out, err = r.alert(rule, in, at)
		}
		if active := len(out); err == nil && g.Limit > 0 && active > g.Limit {
			// Prometheus forgets all alerts of such a rule, and records nothing.
			err = fmt.Errorf("%d results are over the group's limit of %d", active, g.Limit)
			for key, a := range rule.active {
				r.close(rule, a, at)
				delete(rule.active, key)
			}
		}
		if err != nil {
			if !rule.failed {
				rule.failed = true // once is enough
				r.errs = append(r.errs, fmt.Errorf("group %q, rule %q at %s: %w",
					g.Name, rule.Alert+rule.Record, at.Format("15:04:05.000"), err))
			}
			continue
		}
		r.store(rule, out, queried)
	}
}

func (r *ruleRun) vector(q storage.Queryable, expr string, at time.Time) (promql.Vector, error) {
	m, err := evaluate(q, expr, at, at, 0)
	if err != nil {
		return nil, err
	}
	v := make(promql.Vector, 0, len(m))
	for _, x := range m {
		v = append(v, promql.Sample{Metric: x.Metric, T: x.Floats[0].T, F: x.Floats[0].F})
	}
	return v, nil
}

var errSameLabels = errors.New("two results have the same labels")

// record gives the series that a recording rule makes of its expression.
func record(rule *ruleState, in promql.Vector) (promql.Vector, error) {
	seen := map[string]bool{}
	for i := range in {
		b := labels.NewBuilder(in[i].Metric)
		b.Set(labels.MetricName, rule.Record)
		rule.labels.Range(func(l labels.Label) { b.Set(l.Name, l.Value) })
		in[i].Metric = b.Labels()
		key := in[i].Metric.String()
		if seen[key] {
			return nil, fmt.Errorf("%w: %s", errSameLabels, key)
		}
		seen[key] = true
	}
	return in, nil
}

// store writes what a rule gave, and ends the series that it no longer gives,
// so that a later rule does not see them for as long as the lookback.
func (r *ruleRun) store(rule *ruleState, out promql.Vector, at time.Time) {
	overlay, t := r.data.stores[1], at.UnixMilli()
	now := make(map[string]labels.Labels, len(out))
	overlay.mu.Lock()
	defer overlay.mu.Unlock()
	for _, x := range out {
		now[x.Metric.String()] = x.Metric
		overlay.find(x.Metric).append(point{t, x.F})
	}
	for key, l := range rule.recorded {
		if _, ok := now[key]; !ok {
			overlay.find(l).append(point{t, math.Float64frombits(promvalue.StaleNaN)})
		}
	}
	rule.recorded = now
}

// alert moves a rule's alerts on and gives its ALERTS series. The order of the
// transitions is Prometheus': an alert whose `for` is zero fires at once, and
// keep_firing_for counts from the first evaluation that no longer matches.
func (r *ruleRun) alert(rule *ruleState, in promql.Vector, at time.Time) (promql.Vector, error) {
	matched := make(map[string]labels.Labels, len(in))
	for _, x := range in {
		l := r.alertLabels(rule, x, at)
		key := l.String()
		if _, ok := matched[key]; ok {
			return nil, fmt.Errorf("%w: %s", errSameLabels, key)
		}
		matched[key] = l
	}
	for key, l := range matched {
		if rule.active[key] == nil {
			rule.active[key] = &alert{labels: l, state: Pending, since: at, from: at}
		}
	}
	var out promql.Vector
	for key, a := range rule.active {
		if _, ok := matched[key]; ok {
			a.keptFrom = time.Time{}
		} else {
			if a.keptFrom.IsZero() {
				a.keptFrom = at
			}
			if a.state == Pending || at.Sub(a.keptFrom) >= time.Duration(rule.KeepFiringFor) {
				r.close(rule, a, at)
				delete(rule.active, key)
				continue
			}
		}
		if a.state == Pending && at.Sub(a.since) >= time.Duration(rule.For) {
			r.close(rule, a, at)
			a.state, a.from = Firing, at
		}
		b := labels.NewBuilder(a.labels)
		b.Set(labels.MetricName, "ALERTS")
		b.Set("alertstate", string(a.state))
		out = append(out, promql.Sample{Metric: b.Labels(), F: 1})
	}
	return out, nil
}

// alertLabels gives an alert's labels, templates filled in.
func (r *ruleRun) alertLabels(rule *ruleState, x promql.Sample, at time.Time) labels.Labels {
	data := template.AlertTemplateData(x.Metric.Map(), nil, "", x)
	query := func(_ context.Context, expr string, at time.Time) (promql.Vector, error) {
		return r.vector(r.data, expr, at)
	}
	b := labels.NewBuilder(x.Metric)
	b.Del(labels.MetricName)
	rule.labels.Range(func(l labels.Label) {
		text := l.Value
		if strings.Contains(text, "{{") {
			const variables = "{{$labels := .Labels}}{{$externalLabels := .ExternalLabels}}{{$externalURL := .ExternalURL}}{{$value := .Value}}"
			expanded, err := template.NewTemplateExpander(context.Background(), variables+text, "__alert_"+rule.Alert,
				data, model.TimeFromUnixNano(at.UnixNano()), query, nil, nil).Expand()
			if err != nil { // as Prometheus does: the alert matters more than its label
				expanded = fmt.Sprintf("<error expanding template: %s>", err)
			}
			text = expanded
		}
		b.Set(l.Name, text)
	})
	b.Set(labels.AlertName, rule.Alert)
	return b.Labels()
}

// close ends an alert's span. One that fires at once was never pending.
func (r *ruleRun) close(rule *ruleState, a *alert, at time.Time) {
	if !at.After(a.from) {
		return
	}
	l := nameless(a.labels)
	delete(l, labels.AlertName)
	r.spans = append(r.spans, AlertSpan{Alert: rule.Alert, Labels: l, State: a.state, From: a.from, To: at})
}

// finish ends what is still active, and sorts.
func (r *ruleRun) finish() []AlertSpan {
	for _, g := range r.groups {
		for _, rule := range g.rules {
			for _, a := range rule.active {
				l := nameless(a.labels)
				delete(l, labels.AlertName)
				r.spans = append(r.spans, AlertSpan{Alert: rule.Alert, Labels: l, State: a.state, From: a.from, To: r.to, Open: true})
			}
		}
	}
	slices.SortFunc(r.spans, func(a, b AlertSpan) int {
		if c := a.From.Compare(b.From); c != 0 {
			return c
		}
		if c := strings.Compare(a.Alert, b.Alert); c != 0 {
			return c
		}
		return labels.Compare(labels.FromMap(a.Labels), labels.FromMap(b.Labels))
	})
	return r.spans
}
