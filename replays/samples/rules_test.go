package samples_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"relapse/replays/samples"
)

// outage is 20 s of two nodes: errors on a from 4 s to 9 s, a down from 5 s to
// 8 s and once more at 15 s for one scrape, b down from 6 s to 6.5 s. The values
// are by series name as a rule file would select it.
func outage() map[string][]float64 {
	out := map[string][]float64{}
	var errs, requests float64
	for i := range 81 {
		at := float64(i) / 4
		requests += 10
		if at > 4 && at <= 9 {
			errs += 5
		}
		is := func(down bool) float64 {
			if down {
				return 0
			}
			return 1
		}
		add := func(name string, v float64) { out[name] = append(out[name], v) }
		add(`requests_total{node="a"}`, requests)
		add(`requests_total{node="b"}`, requests)
		add(`errors_total{node="a"}`, errs)
		add(`errors_total{node="b"}`, 0)
		add(`up{node="a"}`, is(at >= 5 && at < 8 || at == 15))
		add(`up{node="b"}`, is(at >= 6 && at < 6.5))
	}
	return out
}

func outageStore() *samples.Store {
	s := samples.NewStore()
	for series, values := range outage() {
		name, rest, _ := strings.Cut(series, "{")
		node := strings.TrimSuffix(strings.TrimPrefix(rest, `node="`), `"}`)
		for i, v := range values {
			// promtool counts its time from 1970.
			s.Append(name, map[string]string{"node": node}, time.UnixMilli(int64(i)*250), v)
		}
	}
	return s
}

func evaluateFile(t *testing.T, s *samples.Store, to time.Duration) []samples.AlertSpan {
	t.Helper()
	src, err := os.ReadFile("testdata/alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	rules, err := samples.ParseRules(src)
	if err != nil {
		t.Fatal(err)
	}
	spans, err := rules.Evaluate(s, time.UnixMilli(0), time.UnixMilli(0).Add(to), samples.Period)
	if err != nil {
		t.Fatal(err)
	}
	return spans
}

func TestRules(t *testing.T) {
	var have []string
	for _, a := range evaluateFile(t, outageStore(), 15*time.Second) {
		have = append(have, fmt.Sprintf("%s %s %.2f-%.2f open=%v %v", a.Alert, a.State,
			float64(a.From.UnixMilli())/1000, float64(a.To.UnixMilli())/1000, a.Open, a.Labels))
	}
	want := []string{
		"HighErrors pending 4.25-5.25 open=false map[node:a severity:page team:sign-in]",
		"AtOnce firing 5.00-8.00 open=false map[node:a team:sign-in]",
		"NodeDown pending 5.00-5.50 open=false map[node:a team:sign-in where:a.local]",
		"HighErrors firing 5.25-10.00 open=false map[node:a severity:page team:sign-in]",
		"NodeDown firing 5.50-10.00 open=false map[node:a team:sign-in where:a.local]",
		"AtOnce firing 6.00-6.50 open=false map[node:b team:sign-in]",
		"NodeDown pending 6.00-6.50 open=false map[node:b team:sign-in where:b.local]",
		"Several firing 6.00-6.50 open=false map[team:sign-in]",
		"AtOnce firing 15.00-15.00 open=true map[node:a team:sign-in]",
		"NodeDown pending 15.00-15.00 open=true map[node:a team:sign-in where:a.local]",
	}
	if diff := cmp.Diff(want, have); diff != "" {
		t.Errorf("-want +have:\n%s", diff)
	}
}

// TestRulesPromtool has promtool say which alerts fire at every evaluation, and
// holds ours against it.
func TestRulesPromtool(t *testing.T) {
	tool := promtool(t)
	rules, err := filepath.Abs("testdata/alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	// Group labels came after Debian's promtool: there the rules carry them.
	src, err := os.ReadFile(rules)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	old := strings.Replace(string(src), "    labels: {team: sign-in}\n", "", 1)
	ruleFile := filepath.Join(dir, "alerts.yaml")
	if err := os.WriteFile(ruleFile, []byte(old), 0o644); err != nil {
		t.Fatal(err)
	}
	const length = 20 * time.Second
	spans := evaluateFile(t, outageStore(), length)

	var b strings.Builder
	fmt.Fprintf(&b, "rule_files: [%s]\nevaluation_interval: 250ms\ntests:\n  - interval: 250ms\n    input_series:\n", ruleFile)
	for series, values := range outage() {
		fmt.Fprintf(&b, "      - {series: '%s', values: '%s'}\n", series, strings.Trim(fmt.Sprint(values), "[]"))
	}
	b.WriteString("    alert_rule_test:\n")
	checks := 0
	for _, alert := range []string{"HighErrors", "NodeDown", "AtOnce", "Several"} {
		for at := time.Duration(0); at < length; at += samples.Period {
			fmt.Fprintf(&b, "      - {eval_time: %dms, alertname: %s, exp_alerts: [", at.Milliseconds(), alert)
			now := time.UnixMilli(at.Milliseconds())
			for _, s := range spans {
				if s.Alert == alert && s.State == samples.Firing && !now.Before(s.From) && now.Before(s.To) {
					checks++
					b.WriteString("{exp_labels: {")
					for k, v := range s.Labels {
						if k != "team" {
							fmt.Fprintf(&b, "%s: %q, ", k, v)
						}
					}
					b.WriteString("}}, ")
				}
			}
			b.WriteString("]}\n")
		}
	}
	if checks < 40 {
		t.Fatalf("only %d firing alerts to compare: the outage does not fire them", checks)
	}
	test := filepath.Join(dir, "test.yaml")
	if err := os.WriteFile(test, []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(tool, "test", "rules", test).CombinedOutput(); err != nil {
		t.Errorf("promtool disagrees: %v\n%s", err, out)
	}
}

func TestRulesInterval(t *testing.T) {
	rules, err := samples.ParseRules([]byte("groups:\n  - name: slow\n    interval: 2s\n    rules:\n      - {alert: Down, expr: up == 0}\n"))
	if err != nil {
		t.Fatal(err)
	}
	spans, err := rules.Evaluate(outageStore(), time.UnixMilli(0), time.UnixMilli(20000), samples.Period)
	if err != nil {
		t.Fatal(err)
	}
	// Of a's outage at 5-8 s only the evaluation at 6 s sees anything, and of the one at 15 s none.
	var have []string
	for _, s := range spans {
		have = append(have, fmt.Sprint(s.Labels["node"], s.From.UnixMilli(), s.To.UnixMilli()))
	}
	if diff := cmp.Diff([]string{"a6000 8000", "b6000 8000"}, have); diff != "" {
		t.Errorf("-want +have:\n%s", diff)
	}
}

func TestRulesLimit(t *testing.T) {
	rules, err := samples.ParseRules([]byte("groups:\n  - name: few\n    limit: 1\n    rules:\n      - {alert: Down, expr: up == 0}\n"))
	if err != nil {
		t.Fatal(err)
	}
	spans, err := rules.Evaluate(outageStore(), time.UnixMilli(0), time.UnixMilli(10000), samples.Period)
	if err == nil {
		t.Error("two alerts over a limit of one: want an error, got none")
	}
	var have []string
	for _, s := range spans {
		have = append(have, fmt.Sprint(s.From.UnixMilli(), "-", s.To.UnixMilli()))
	}
	if diff := cmp.Diff([]string{"5000-6000", "6500-8000"}, have); diff != "" {
		t.Errorf("-want +have:\n%s", diff)
	}
}

func TestRulesErrors(t *testing.T) {
	for _, tt := range []struct{ name, have, want string }{
		{"no rules", "groups: []\n",
			"1:1: no rules: want groups with at least one rule"},
		{"nothing", "",
			"1:1: no rules: want groups with at least one rule"},
		{"unknown field", "groups:\n  - name: g\n    rulez: []\n",
			"yaml: unmarshal errors:\n  line 3: field rulez not found in type rulefmt.RuleGroup"},
		{"expression", "groups:\n  - name: g\n    rules:\n      - alert: A\n        expr: sum(\n",
			`5:15: group "g", rule 1, "A": could not parse expression: 1:5: parse error: unclosed left parenthesis`},
		{"no expression", "groups:\n  - name: g\n    rules:\n      - alert: A\n",
			`0:0: group "g", rule 1, "A": field 'expr' must be set in rule`},
		{"both", "groups:\n  - name: g\n    rules:\n      - {alert: A, record: b, expr: up}\n",
			`4:28: 4:17: group "g", rule 1, "A": only one of 'record' and 'alert' must be set`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := samples.ParseRules([]byte(tt.have))
			if err == nil {
				t.Fatal("want an error, got none")
			}
			if diff := cmp.Diff(tt.want, err.Error()); diff != "" {
				t.Errorf("-want +have:\n%s", diff)
			}
		})
	}
}

func TestRulesEvaluateErrors(t *testing.T) {
	rules, err := samples.ParseRules([]byte("groups:\n  - name: g\n    rules:\n" +
		"      - {alert: Matching, expr: up == on() requests_total}\n" +
		"      - {record: twice, expr: 'label_replace(up, \"node\", \"x\", \"node\", \".*\")'}\n" +
		"      - {alert: Fine, expr: up == 0}\n"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"Fine", "Matching"}, rules.Alerts()); diff != "" {
		t.Errorf("names -want +have:\n%s", diff)
	}
	spans, err := rules.Evaluate(outageStore(), time.UnixMilli(0), time.UnixMilli(10000), samples.Period)
	if err == nil {
		t.Fatal("want an error, got none")
	}
	if all, ok := errors.AsType[interface {
		error
		Unwrap() []error
	}](err); !ok || len(all.Unwrap()) != 2 {
		t.Errorf("want two errors, one a rule, got %v", err)
	}
	if !slices.ContainsFunc(spans, func(s samples.AlertSpan) bool { return s.Alert == "Fine" }) {
		t.Errorf("the rule that can be evaluated gave nothing: %v", spans)
	}
	if _, err := rules.Evaluate(outageStore(), time.UnixMilli(0), time.UnixMilli(1), 0); err == nil {
		t.Error("a step of zero: want an error, got none")
	}
}

func TestRulesMissing(t *testing.T) {
	rules, err := samples.ParseRules([]byte("groups:\n  - name: g\n    rules:\n" +
		"      - {record: share, expr: up / nosuch_total}\n" +
		"      - {record: loop, expr: loop + share}\n" +
		"      - {alert: Plain, expr: up == 0}\n" +
		"      - {alert: Misspelt, expr: upp == 0 or down == 1}\n" +
		"      - {alert: Recorded, expr: share < 0.5}\n" +
		"      - {alert: Looping, expr: loop < 0.5}\n" +
		"      - {alert: OnAlerts, expr: 'ALERTS{alertname=\"Plain\"} == 1'}\n"))
	if err != nil {
		t.Fatal(err)
	}
	for alert, want := range map[string][]string{
		"Plain": nil, "Misspelt": {"down", "upp"}, "Recorded": {"nosuch_total"}, "Looping": {"nosuch_total"}, "OnAlerts": nil,
	} {
		if diff := cmp.Diff(want, rules.Missing(outageStore(), alert)); diff != "" {
			t.Errorf("%s (-want +have):\n%s", alert, diff)
		}
	}
}
